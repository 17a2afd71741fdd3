"""What every recipe promises: it is a command with the shared options, and one seed gives one table."""

import inspect
from pathlib import Path

import pandas as pd
import pytest
from benchmarks.invented import invented
from typer.testing import CliRunner

import isogloss as ig
from isogloss.cli import app, recipe_command
from isogloss.recipes.recipe import RECIPES, Work, find_recipe
from isogloss.runs import read_facts, read_rows
from isogloss.training.loop import Training
from tiny_alignment import SMALL as SMALL_ALIGNMENT
from tiny_commands import flags
from tiny_drift import given, write_model, write_tuning
from tiny_models import TEXT, tiny_language_model, tiny_tokenizer
from tiny_pretraining import SMALL, write_lexicons, write_texts
from tiny_stitching import SMALL as SMALL_STITCHING, parallel_text, turned_model, write_stitching
from tiny_tasks import SMALL as SMALL_TRANSFER, write_sets

ROOT = Path(__file__).parents[2] / "results"
RESULTS = {path.parent for name in ("rows.csv", "rows.parquet") for path in ROOT.rglob(name)}
SHARED = {"out", "seed", "device", "dtype", "resume", "quiet"}


def small_map(tiny, folder):
    return (ig.load(tiny("bert")), invented(("qaa", "qab"), sentences=24, seed=5)), {"sample": 12, "points": 0}


def small_tokens(tiny, folder):
    return (tiny("bert"), invented(("qaa", "qab"), sentences=24, seed=5)), {"sample": 12}


def small_lens(tiny, folder):
    tiny_language_model("gpt2").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    en, nl = ig.Corpus("en", TEXT), ig.Corpus("nl", [*TEXT[4:], *TEXT[:4]])
    words = ig.Lexicon("en", "nl", [("cat", "stoel"), ("bread", "wij"), ("garden", "slaapt"), ("man", "op")])
    return (folder, en, nl), {"lexicon": [words], "sample": 5, "prompts": 4, "layers": "0,3"}


def small_pretraining(tiny, folder):
    return (), {"text": write_texts(folder), **SMALL, "steps": 2, "warm_up": 0.5}


def small_drift(tiny, folder):
    model, _, files = write_tuning(folder)
    return (str(model),), given(files, epochs=1, plans="last:1")


def small_transfer(tiny, folder):
    return (tiny("bert"),), {**write_sets(folder, "ner"), **SMALL_TRANSFER, "plans": "freeze:1"}


def small_lexicon(tiny, folder):
    files = write_texts(folder)
    train, test = write_lexicons(folder)
    options = {"train_lexicon": [str(train)], "test_lexicon": [str(test)], "sample": 60, "min_count": 1}
    return (tiny("bert"),), {"text": files, **options, "layers": "0,2", "device": "cpu"}


def small_rotation(tiny, folder):
    text = invented(("qaa", "qab"), sentences=60, seed=5)
    options = {"train_bitext": text.take(range(20, 60)), "train_sample": 20, "layers": "0,2", "device": "cpu"}
    return (tiny("bert"), text.take(range(20))), options


def small_alignment(tiny, folder):
    options = {**SMALL_ALIGNMENT, "steps": 2, "warm_up": 0.25}
    options["train_bitext"] = invented(("qaa", "qab"), sentences=120, seed=5)
    return (str(write_model(folder / "model")),), options


def small_stitching(tiny, folder):
    other, _ = turned_model(tiny("bert"), folder / "turned")
    options = {**write_stitching(folder, count=8), **SMALL_STITCHING, "epochs": 1, "other": other, "layers": "1"}
    return (tiny("bert"), parallel_text(12)), options


# What each recipe is given here: a new one adds a line.
ARGUMENTS = {
    "map": small_map,
    "tokens": small_tokens,
    "lens": small_lens,
    "pretrain": small_pretraining,
    "drift": small_drift,
    "transfer": small_transfer,
    "lexicon": small_lexicon,
    "rotate": small_rotation,
    "align": small_alignment,
    "stitch": small_stitching,
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_command_with_the_shared_options_and_an_example(name):
    command = recipe_command(name)
    options = {parameter.name for parameter in command.params}
    assert options >= SHARED
    assert set(inspect.signature(find_recipe(name).call).parameters) - {"bitext"} <= options
    assert f"Example: isogloss {name}" in command.help
    assert all(parameter.help for parameter in command.params), "every option says what it is for"


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_called_from_python_and_as_a_job(name):
    recipe = find_recipe(name)
    parameters = inspect.signature(recipe.call).parameters
    assert {"out", "resume"} <= set(parameters)
    assert next(iter(parameters)) == next(iter(recipe.parameters)) == ("text" if name == "pretrain" else "model")
    assert ("bitext" in recipe.parameters) is ("bitext" in parameters)
    assert getattr(ig, name).recipe is recipe and inspect.signature(getattr(ig, name)).parameters == parameters


@pytest.mark.parametrize("name", RECIPES)
def test_one_seed_gives_one_table(name, tiny, tmp_path):
    given, options = ARGUMENTS[name](tiny, tmp_path)
    recipe = find_recipe(name)
    assert isinstance(recipe.check(*given, **options), Work), "checking does no work"
    tables = [recipe.call(*given, **options, seed=seed) for seed in (3, 3, 4)]
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)
    assert not tables[0].value.equals(tables[2].value)
    assert set(tables[0].seed.dropna()) == {3}
    every_interval_says_what_it_is_over(tables[0])


def every_interval_says_what_it_is_over(table):
    has = table["low"].notna() | table["high"].notna()
    assert set(table.loc[has, "over"]) <= {"seeds", "items", "both"}, table[has & (table["over"] == "")]
    assert set(table.loc[~has, "over"]) <= {""}


@pytest.mark.parametrize("folder", sorted(RESULTS), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_intervals_of_the_results_of_the_repository_say_what_they_are_over(folder):
    every_interval_says_what_it_is_over(read_rows(folder))


class Stopped(Exception):
    """A run that was stopped in the middle."""


@pytest.mark.parametrize("name", ["transfer", "stitch"])
@pytest.mark.parametrize("first", ["command", "python"])
def test_a_run_begun_by_the_command_is_resumed_from_python_and_the_other_way_round(
    first, name, tiny, tmp_path, monkeypatch
):
    (model, *texts), options = ARGUMENTS[name](tiny, tmp_path)
    options["epochs"] = 3
    words = {**options, **{part: [f"{key}={path}" for key, path in options[part].items()] for part in ("dev", "test")}}
    words["train"] = [f"{key}={path}" for key, path in options["train"].items()]
    if texts:
        files = [tmp_path / f"text.{corpus.language}" for corpus in texts[0]]
        for file, corpus in zip(files, texts[0], strict=True):
            file.write_text("\n".join(corpus.sentences) + "\n", encoding="utf-8")
        texts = ig.read_bitext(*files, languages=texts[0].languages)
        words |= {"bitext": files, "languages": ",".join(texts.languages)}
        texts = [texts]

    def run(by, folder, **how):
        if by == "python":
            find_recipe(name).call(model, *texts, **options, out=folder, **how)
        else:
            flagged = flags({**words, "out": folder, "quiet": True, **how})
            result = CliRunner().invoke(app, [name, str(model), *flagged])
            if isinstance(result.exception, Stopped):
                raise result.exception
        return read_rows(folder)

    whole = run(first, tmp_path / "whole")
    updates, update = [], Training.update

    def stopping(self):
        updates.append(1)
        if len(updates) == 2:
            raise Stopped
        update(self)

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(Training, "update", stopping)
        run(first, tmp_path / "run")
    assert read_facts(tmp_path / "run")["status"] == "running"
    resumed = run("python" if first == "command" else "command", tmp_path / "run", resume=True)
    assert read_facts(tmp_path / "run")["status"] == "finished"
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
