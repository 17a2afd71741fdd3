"""Models kept while one is tuned: which, whole, once; and a task on each of them as curves over the steps."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import isogloss as ig
from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.recipes.drift import drift, read_corpora, tokenise_corpora
from isogloss.recipes.recipe import model_name
from isogloss.recipes.sweep import over_steps, saved_models, with_saved_models
from isogloss.runs import frame, read_facts, read_rows, row
from isogloss.runs.table import KEY
from isogloss.stack.load import load_language_model
from isogloss.text.masking import masking_of
from isogloss.training import loop
from isogloss.training.perplexities import perplexity_probe
from tiny_commands import command_line
from tiny_drift import given, words, write_tuning
from tiny_tasks import SMALL, write_sets

TRAININGS = ("freeze-0-seed-0", "freeze-0-seed-1", "last-1-seed-0", "last-1-seed-1")


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    return write_tuning(tmp_path_factory.mktemp("tuning"))


@pytest.fixture(scope="module")
def tuned(tuning, tmp_path_factory):
    """A run that kept a model every 4 of its 6 updates, of two plans and two seeds."""
    model, _, files = tuning
    out = tmp_path_factory.mktemp("run") / "tuned"
    drift(model, out=out, **given(files, plans="freeze:0,last:1", seeds=2, save_every=4, probe=2))
    return out


def weights(folder):
    return load_language_model(folder, device="cpu").language_model.state_dict()


def test_models_are_kept_at_multiples_only_with_head_and_tokenizer(tuned, tuning):
    found = sorted(path.relative_to(tuned / "models").as_posix() for path in (tuned / "models").glob("*/*"))
    assert found == [f"{training}/step-4" for training in TRAININGS]  # neither step 0 nor the last, 6
    begun = weights(tuning[0])
    for training in TRAININGS:
        folder = tuned / "models" / training / "step-4"
        told = json.loads((folder / "step.json").read_text())
        assert told["step"] == 4 and told["model"] == str(tuning[0]) and training.endswith(f"-seed-{told['seed']}")
        assert list(folder.glob("*.safetensors")) and not list(folder.glob("*.bin"))
        now = weights(folder)
        moved = {name for name in now if (now[name] != begun[name]).any()}
        assert any(name.startswith("cls.") for name in moved)
        assert any(".layer.0." in name for name in moved) == training.startswith("freeze")
        ig.load(folder, device="cpu").tokenizer("an")
    assert not list(tuned.rglob("*.part"))


def test_a_kept_model_is_the_one_whose_perplexity_was_read_at_its_step(tuned, tuning):
    """The best model of a training that ends at step 4 is tested; here the validation reading of step 4 is redone."""
    files, rows = tuning[2], read_rows(tuned)
    corpora = read_corpora({"qaa": files["qaa"]}, {}, share=0.1, batch=8)
    for training, plan in (("freeze-0-seed-1", "freeze:0"), ("last-1-seed-1", "last:1")):
        stack = load_language_model(tuned / "models" / training / "step-4", device="cpu")
        how = {"every": 1, "target": "qaa", "seed": 0, "device": stack.device, "masking": masking_of(stack.tokenizer)}
        again = list(perplexity_probe(stack.language_model, tokenise_corpora(stack, corpora[1:2]), **how).take())
        there = rows[(rows.plan == plan) & (rows.seed == 1) & (rows.step == 4) & (rows.measure == "perplexity")]
        there = there[(there.target == "qaa") & (there.data == "validation")]
        for unit in ("token", "word", "character"):
            one = next(each for each in again if each["unit"] == unit and each["target"] == "qaa")
            np.testing.assert_allclose(one["value"], float(there[there.unit == unit].value.iloc[0]), rtol=1e-6)


def test_a_resumed_run_writes_no_model_twice_and_the_same_ones(tuned, tuning, tmp_path, monkeypatch):
    model, _, files = tuning
    options = given(files, plans="freeze:0", seeds=2, save_every=4, probe=2, checkpoint=2)
    written = []
    monkeypatch.setattr(loop, "whole_folder", _counting(loop.whole_folder, written))

    def kill(stage, done, total):
        if len(written) == 2 and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(kill):
        drift(model, out=tmp_path / "run", **options)
    half = tmp_path / "run" / "models" / TRAININGS[1] / ".step-4.99999.part"
    half.mkdir()  # what a kill in the middle of writing leaves
    drift(model, out=tmp_path / "run", resume=True, **options)
    assert len(written) == len(set(written)) == 2 and not half.exists()
    for training in TRAININGS[:2]:
        one, other = (weights(run / "models" / training / "step-4") for run in (tuned, tmp_path / "run"))
        assert all(torch.equal(one[name], other[name]) for name in one)


def _counting(whole_folder, written):
    def counted(path):
        written.append(path)
        return whole_folder(path)

    return counted


@pytest.fixture(scope="module")
def scored(tuned, tmp_path_factory):
    """NLI on every model of the run, trained twice on each: the sweep's folder and table."""
    folder = tmp_path_factory.mktemp("sweep")
    sets = write_sets(folder / "data", "nli", count=12)
    out = folder / "run"
    table = ig.sweep("transfer", grid={"model": [str(tuned)]}, out=out, seeds=2, **sets, **{**SMALL, "epochs": 1})
    return out, table


def test_scores_of_kept_models_are_curves_over_the_steps_of_the_tuning(scored, tuned, tuning):
    out, table = scored
    facts = read_facts(out)
    assert len(facts["jobs"]["finished"]) == 5  # the model itself once, and four that were kept
    assert set(table.model) == {"multi"} and set(table.step) == {0, 4} and set(table.seed) == {0, 1}
    assert set(table.plan) == {"freeze:-1"} and set(table.condition) == {"freeze:0", "last:1"}
    assert set(table.selection) == {"", "oracle"}
    assert not table.duplicated(list(KEY)).any()
    # Every value is the mean over the two trainings of the job on that very model.
    own = table[(table.measure == "accuracy") & (table.target == "qab") & (table.selection == "")]
    assert len(own) == 8 and (own.n == 2).all()
    for one in own.itertuples():
        training = f"{one.condition.replace(':', '-')}-seed-{one.seed}"
        model = str(tuned / "models" / training / "step-4") if one.step else str(tuning[0])
        jobs = [path.parent for path in (out / "jobs").glob("*/run.json")]
        rows = read_rows(next(job for job in jobs if read_facts(job)["arguments"]["model"] == model))
        singles = rows[(rows.measure == "accuracy") & (rows.target == "qab") & rows.step.isna() & rows.seed.notna()]
        singles = singles[(singles.plan == "freeze:-1") & (singles.selection == "")]
        np.testing.assert_allclose(one.value, singles.value.mean(), rtol=1e-12)
        assert len(singles) == 2 and not (one.value < one.low or one.high < one.value)  # NaN where both are equal


def test_the_report_draws_them_by_plan_and_language(scored, tmp_path):
    from isogloss.report import verdict, write_figures
    from isogloss.report.curves import RunFolder
    from isogloss.report.training_view import panels

    _, table = scored
    drawn = panels(RunFolder(scored[0], {}, table))
    by_plan, *plans = [panel for panel in drawn if panel.measure == "accuracy"]
    assert [line.code for line in by_plan.lines] == ["freeze:-1 freeze:0", "freeze:-1 last:1"]
    own = table[(table.measure == "accuracy") & (table.target == "others") & (table.selection == "")]
    own = own[(own.plan == "freeze:-1") & (own.condition == "last:1")]
    means = own.groupby("step").value.mean()
    np.testing.assert_allclose(by_plan.lines[1].line("").value, means.to_numpy())
    assert [[line.code for line in panel.lines] for panel in plans] == [["others", "qaa", "qab"]] * 2
    assert all(panel.lines[0].leads and panel.lines[0].seeds == 2 for panel in plans)
    told = verdict(table, "transfer")
    assert len(told) == 2 and told[0].startswith("freeze:-1 freeze:0: nli accuracy ") and "at step 4" in told[0]
    assert "over 2 seeds of the tuning" in told[0]
    names = {path.name for path in write_figures(scored[0], tmp_path)}
    assert {"steps-accuracy-other-languages--by-plan.png", "steps-accuracy-freeze--1-freeze-0.svg"} <= names


def test_a_change_is_told_only_where_intervals_over_seeds_and_examples_part():
    from isogloss.report import verdict

    rows = []
    for seed, step, (home, near, far) in [
        (s, t, v) for s in (0, 1, 2) for t, v in ((0, (0.7, 0.6, 0.5)), (9, (0.7, 0.55, 0.3)))
    ]:
        at = {
            "model": "m",
            "task": "nli",
            "source": "en",
            "plan": "freeze:-1",
            "condition": "last:1",
            "seed": seed,
            "step": step,
        }
        scores = {"en": home, "de": near, "zh": far, "others": (near + far) / 2}
        for target, value in scores.items():
            value += 0.001 * seed * (step > 0)
            rows.append(row("accuracy", value, low=value - 0.04, high=value + 0.04, n=100, target=target, **at))
        rows.append(row("gap", home - scores["others"], target="others", unit="accuracy", **at))
    (told,) = verdict(frame(rows), "transfer")
    assert "fell in the others (from 0.550 [0.510, 0.590] at step 0 to 0.426 [" in told
    assert "did not clearly change in English" in told
    assert "It clearly changed in Chinese (0.500" in told and "German" not in told  # 0.6 to 0.55 is within examples


def test_the_same_from_the_command_line(tuning, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    code, _, told = run("drift", *words(tuning[0], tuning[2], save_every=3, native=None), "--out", "tuned", "--quiet")
    assert code == 0, told
    sets = write_sets(Path("data"), "nli", count=6)
    shown = ["--task", "nli", "--train", f"qaa={sets['train']['qaa']}", "--dev", f"qaa={sets['dev']['qaa']}"]
    for language, path in sets["test"].items():
        shown += ["--test", f"{language}={path}"]
    code, _, told = run(
        "sweep",
        "transfer",
        "--grid",
        "model=tuned",
        *shown,
        "--epochs",
        1,
        "--batch",
        4,
        "--device",
        "cpu",
        "--out",
        "scored",
        "--quiet",
    )
    assert code == 0, told
    rows = read_rows("scored")
    assert sorted(set(rows.step)) == [0, 3, 6]


def test_a_run_that_kept_nothing_is_refused_in_a_sentence(tmp_path, tuned):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"command": "drift"}')
    with pytest.raises(InputError, match="has no saved models; run drift again with --save-every N"):
        with_saved_models([str(tmp_path / "run")])
    assert with_saved_models(["mini", str(tmp_path)]) == ["mini", str(tmp_path)]
    assert len(with_saved_models([str(tuned), str(tuned)])) == 5
    with pytest.raises(InputError, match="is no model, but the folders checkpoints/.* and 5 more in it are"):
        ig.load(tuned)
    shutil.copytree(tuned / "models" / TRAININGS[0] / "step-4", tmp_path / "run" / "model")
    with pytest.raises(InputError, match=f"{tmp_path.name} is no model, but .*run/model is one: give that"):
        ig.load(tmp_path)
    assert ig.load(tmp_path / "run").fingerprint == ig.load(tmp_path / "run" / "model").fingerprint
    assert model_name(tuned / "models" / TRAININGS[0] / "step-4") == f"tuned/{TRAININGS[0]}/step-4"


def test_rows_of_other_models_stay_and_equal_plans_of_two_runs_are_told_apart(tuned, tmp_path):
    other = tmp_path / "second"
    shutil.copytree(tuned / "models" / TRAININGS[0], other / "models" / TRAININGS[0])
    kept = [str(one["path"]) for one in (*saved_models(tuned)[:1], *saved_models(other))]
    begun = saved_models(tuned)[0]["model"]
    named = [Path(begun).name, f"tuned/{TRAININGS[0]}/step-4"]
    rows = [row("p@1", value, model=name, layer=1) for value, name in zip((0.1, 0.2), named, strict=True)]
    rows.append(row("p@1", 0.3, model="else", layer=1))
    rows.append(row("loss", 9.0, model=named[1], step=1))  # a reading inside a job
    found = pd.DataFrame(over_steps(rows, [begun, *kept, "else"]))
    curve = found[found.plan == "tuned freeze:0"]
    assert dict(zip(curve.step, curve.value, strict=True)) == {0: 0.1, 4: 0.2}
    assert set(found[found.plan == "second freeze:0"].step) == {0}
    assert found[found.model == "else"].value.tolist() == [0.3] and (found.measure == "p@1").all()
