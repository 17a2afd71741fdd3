"""What every recipe promises: it is a command with the shared options, and one seed gives one table."""

import inspect

import pandas as pd
import pytest
import typer

import isogloss as ig
from isogloss.cli import RECIPES, app
from isogloss.recipes import execute
from isogloss.recipes.recipe import find_recipe
from isogloss.text.invented import invented
from tiny_alignment import SMALL as SMALL_ALIGNMENT
from tiny_drift import given, write_model, write_tuning
from tiny_pretraining import SMALL, write_lexicons, write_texts
from tiny_stitching import SMALL as SMALL_STITCHING
from tiny_stitching import parallel_text, turned_model, write_stitching
from tiny_tasks import SMALL as SMALL_TRANSFER
from tiny_tasks import write_sets

SHARED = {"out", "seed", "device", "dtype", "resume", "quiet"}


def small_map(tiny, folder):
    return (ig.load(tiny("bert")), invented(("qaa", "qab"), sentences=24, seed=5)), {"pool": 12, "points": 0}


def small_pretraining(tiny, folder):
    bitext = invented(("qaa", "qab"), sentences=12, seed=5)
    return (bitext,), {"text": write_texts(folder), **SMALL, "steps": 2}


def small_drift(tiny, folder):
    model, _, files = write_tuning(folder)
    return (str(model),), given(files, epochs=1, plans="last:1")


def small_transfer(tiny, folder):
    return (tiny("bert"),), {**write_sets(folder, "ner"), **SMALL_TRANSFER, "plans": "freeze:1"}


def small_lexicon(tiny, folder):
    files = write_texts(folder)
    train, test = write_lexicons(folder)
    options = {
        "train": [str(train)],
        "test": [str(test)],
        "sentences": 60,
        "least": 1,
        "layers": "0,2",
        "device": "cpu",
    }
    return (tiny("bert"),), {"text": files, **options}


def small_rotation(tiny, folder):
    text = invented(("qaa", "qab"), sentences=60, seed=5)
    options = {"train": text.take(range(20, 60)), "pairs": 20, "layers": "0,2", "device": "cpu"}
    return (tiny("bert"), text.take(range(20))), options


def small_alignment(tiny, folder):
    options = {"train": invented(("qaa", "qab"), sentences=120, seed=5), **SMALL_ALIGNMENT, "steps": 2}
    return (str(write_model(folder / "model")),), options


def small_stitching(tiny, folder):
    other, _ = turned_model(tiny("bert"), folder / "turned")
    options = {**write_stitching(folder, count=8), **SMALL_STITCHING, "epochs": 1, "other": other, "layers": "1"}
    return (tiny("bert"), parallel_text(12)), options


# What each recipe is given here: a new one adds a line.
ARGUMENTS = {
    "map": small_map,
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
    command = typer.main.get_command(app).commands[name]
    options = {parameter.name for parameter in command.params}
    assert options >= SHARED
    assert set(inspect.signature(RECIPES[name]).parameters) - {"bitext"} <= options
    assert f"Example: isogloss {name}" in command.help
    assert all(parameter.help for parameter in command.params), "every option says what it is for"


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_called_from_python_and_as_a_job(name):
    recipe = find_recipe(name)
    parameters = inspect.signature(recipe.call).parameters
    assert {"out", "resume", "progress"} <= set(parameters)
    assert next(iter(parameters)) == recipe.first and recipe.first in recipe.parameters
    assert recipe.takes_bitext is ("bitext" in parameters)


@pytest.mark.parametrize("name", RECIPES)
def test_one_seed_gives_one_table(name, tiny, tmp_path):
    given, options = ARGUMENTS[name](tiny, tmp_path)
    tables = []
    for seed in (3, 3, 4):
        job = RECIPES[name](*given, **options, seed=seed)
        tables.append(execute(job, command=name, arguments={}, seed=seed))
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)
    assert not tables[0].value.equals(tables[2].value)
    assert set(tables[0].seed.dropna()) == {3}
