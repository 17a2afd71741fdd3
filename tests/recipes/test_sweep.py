"""`isogloss sweep`: every job as if it were run alone, one table, and nothing lost when one fails or all are killed."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isogloss as ig
import tiny_alignment
from isogloss.progress import listening
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import find_recipe
from isogloss.recipes.sweep import (
    check_jobs,
    collect,
    coordinates_text,
    grid_jobs,
    joined_rows,
    read_grid,
)
from isogloss.runs import read_facts, read_rows
from isogloss.runs.run import start
from isogloss.runs.table import row, settings_of
from isogloss.training.loop import Training
from tiny_commands import command_line
from tiny_drift import write_model
from tiny_tasks import SMALL, write_sets

TRANSFER = find_recipe("transfer")
QUICK = {**SMALL, "epochs": 1}


@pytest.fixture
def given(tiny, tmp_path):
    sets = write_sets(tmp_path / "data", "pos", count=8)
    plain = {name: {key: str(file) for key, file in sets[name].items()} for name in ("train", "dev", "test")}
    return {"model": tiny("bert"), "task": "pos", **plain, **QUICK}


def test_jobs_give_the_rows_they_give_alone_in_one_table(given, tmp_path):
    news = []
    grid = {"plans": ["freeze:1", "freeze:-1"], "seed": [0, 1, 2]}
    out = tmp_path / "run"
    with listening(lambda *each: news.append(each)):
        table = ig.sweep("transfer", grid=grid, out=out, **given)
    assert ("jobs", 6, 6) in news and ("checking the grid", 4, 4) in news
    pd.testing.assert_frame_equal(table, read_rows(out))
    assert len(list((out / "jobs").glob("*/run.json"))) == 6
    model, options = given["model"], {name: value for name, value in given.items() if name != "model"}
    alone = ig.transfer(model, plans="freeze:1", seed=2, **options)
    here = table[(table.seed == 2) & (table.plan == "freeze:1")]
    pd.testing.assert_frame_equal(here.reset_index(drop=True), alone.reset_index(drop=True))
    together = ig.transfer(model, plans="freeze:1,freeze:-1", seeds=3, **options)
    order = ["measure", "target", "data", "plan", "selection", "step", "seed"]
    swept, called = (each.sort_values(order).reset_index(drop=True) for each in (table, together))
    pd.testing.assert_frame_equal(swept, called)  # the means over seeds, too
    facts = read_facts(out)
    assert facts["status"] == "finished" and facts["command"] == "sweep"
    assert facts["arguments"]["recipe"] == "transfer" and facts["arguments"]["grid"] == grid
    assert set(facts["jobs"]["hashes"]) == set(facts["jobs"]["finished"])


def test_an_argument_without_a_column_stands_in_the_settings(given, tmp_path):
    del given["epochs"]
    table = ig.sweep("transfer", grid=["epochs=1,2"], out=tmp_path / "run", **given)
    assert set(table.settings) == {'{"epochs": 1}', '{"epochs": 2}'} and set(table.plan) == {"freeze:-1"}
    assert set(table.selection) == {"", "oracle"}
    results = table[table.step.isna() & (table.measure == "accuracy") & (table.target == "qab")]
    assert not results.duplicated(["settings", "selection", "data", "seed"]).any()


GRIDS = [
    (["seed=0..2"], {"seed": [0, 1, 2]}),
    (["plans=freeze:-1..1"], {"plans": ["freeze:-1", "freeze:0", "freeze:1"]}),
    (["plans=freeze:0,freeze:1;last:1"], {"plans": ["freeze:0,freeze:1", "last:1"]}),
    (["warm-up=0,0.1"], {"warm_up": [0.0, 0.1]}),
    (["cache=yes,no"], {"cache": [True, False]}),
    (["train=en=../a/1.tsv,nl=b.tsv"], {"train": ["en=../a/1.tsv", "nl=b.tsv"]}),
    (["test=en=a nl=b;en=c"], {"test": [["en=a", "nl=b"], ["en=c"]]}),
    ({"seed": range(2), "rate": "1e-3,2e-3"}, {"seed": [0, 1], "rate": ["1e-3", "2e-3"]}),
    (["model=mini,./mine"], {"model": ["mini", "./mine"]}),
    (["bitext=a.txt b.txt;c.tsv"], {"bitext": [["a.txt", "b.txt"], ["c.tsv"]]}),
    (["languages=en,nl;en,de"], {"languages": ["en,nl", "en,de"]}),
]


@pytest.mark.parametrize(("given_as", "values"), GRIDS)
def test_values_of_a_grid(given_as, values):
    assert read_grid(given_as, TRANSFER) == values


def test_an_argument_that_is_given_several_times_is_a_list_whatever_else_it_may_be():
    assert read_grid(["text=qaa=a.txt qab=b.txt;texts"], find_recipe("pretrain")) == {
        "text": [["qaa=a.txt", "qab=b.txt"], ["texts"]]
    }


def test_every_value_of_a_grid_is_checked_once_and_every_combination_run():
    grid = {"plans": ["a", "b", "c"], "epochs": [1, 2], "seed": [0, 1, 2]}
    options = dict.fromkeys(("task", "train", "dev", "test"), "x")
    jobs = grid_jobs(TRANSFER, grid, options, folder=Path("out"))
    assert len({json.dumps(job.coordinates) for job in jobs}) == len({job.folder for job in jobs}) == 18
    chosen = []
    recipe = replace(TRANSFER, check=lambda *_, **given: chosen.append({name: given[name] for name in grid}))
    check_jobs(recipe, jobs)
    assert len(chosen) == 1 + 2 + 1 + 2
    for name, values in grid.items():
        assert {coordinates[name] for coordinates in chosen} == set(values)
    assert jobs[0].options["model"] == "mini" and jobs[0].name == "plans-a-epochs-1-seed-0"


def test_files_are_called_by_their_names_unless_those_are_the_same(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.tsv").touch()
    (tmp_path / "two.tsv").touch()
    same = [f"en={tmp_path}/a/one.tsv", f"en={tmp_path}/b/one.tsv"]
    other = [f"en={tmp_path}/a/one.tsv", f"en={tmp_path}/two.tsv"]
    assert coordinates_text({"train": other[0]}, {"train": other}) == "train:en=one.tsv"
    assert coordinates_text({"train": same[0]}, {"train": same}) == f"train:{same[0]}"
    assert coordinates_text({"plans": "unfreeze:4/500"}, {"plans": ["unfreeze:4/500"]}) == "plans:unfreeze:4/500"


MISTAKES = [
    ({"grid": ["sed=0,1"]}, "--grid sed: transfer has no such argument; did you mean seed?"),
    ({"grid": ["seed"]}, "--grid 'seed' names no argument"),
    ({"grid": []}, "a sweep needs a grid"),
    ({"grid": None}, "a sweep needs a grid"),
    ({"grid": ["seed=0,,1"]}, "--grid seed=0,,1 has an empty value"),
    ({"grid": {"seed": []}}, "--grid seed has no value"),
    ({"grid": ["seed=4..0"]}, "--grid seed: 4..0 runs backwards; write 0..4"),
    ({"grid": ["seed=0,x"]}, "--grid seed: 'x' is not a whole number"),
    ({"grid": ["cache=maybe"]}, "--grid cache: 'maybe' is not yes or no"),
    ({"grid": ["seed=0,1,0"]}, "--grid seed has 0 twice; the same job would run twice"),
    ({"grid": ["seed=0", "seed=1"]}, "--grid has seed twice"),
    ({"grid": ["batch=2,4"]}, "--batch is given both as an option and in --grid"),
    ({"grid": ["seed=0..2"], "seeds": 2}, "--seeds 2 adds the seeds after each --grid seed"),
    ({"grid": ["seed=0"], "colour": 1}, "option colour: transfer has no such argument"),
    ({"grid": ["plans=freeze:0,freeze:9"]}, "the plan freeze:9 asks for 9 blocks in freeze, but the model has 3"),
    ({"grid": ["warm-up=0,2"]}, "not 2.0 (with warm_up 2.0; no job was started)"),
    ({"grid": ["seed=0"], "parallel": 0}, "--parallel must be at least 1"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_a_mistake_in_the_grid_is_one_sentence_before_any_job_starts(change, sentence, given, tmp_path):
    with pytest.raises(ig.InputError, match=re.escape(sentence)):
        ig.sweep("transfer", out=tmp_path / "run", **{**given, **change})
    assert not (tmp_path / "run").exists()


def test_unknown_recipes_and_what_a_recipe_needs(given, tmp_path):
    with pytest.raises(ig.InputError, match="there is no recipe 'chess'; there is map, lexicon, rotate, stitch, drift"):
        ig.sweep("chess", grid=["seed=0"], out=tmp_path / "run")
    del given["task"]
    with pytest.raises(ig.InputError, match="transfer needs --task; give it, or its values in --grid"):
        ig.sweep("transfer", grid=["seed=0"], out=tmp_path / "run", **given)


@pytest.mark.parametrize(("device", "count", "turns"), [("auto", 2, 2), ("cuda", 2, 2), ("cpu", 2, 0), ("auto", 1, 0)])
def test_several_gpus_take_turns(given, tmp_path, monkeypatch, device, count, turns):
    asked = {}
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.setattr("isogloss.recipes.sweep.check_jobs", lambda *_: None)
    monkeypatch.setattr("isogloss.recipes.sweep.run_jobs", lambda _, **how: asked.update(how))
    ig.sweep("transfer", grid={"seed": [0, 1]}, out=tmp_path / "run", **{**given, "device": device})
    assert asked == {"parallel": max(1, turns), "gpus": turns, "executor": None}


def test_a_job_that_fails_stops_none_of_the_others_and_resuming_runs_what_is_left(given, tmp_path, monkeypatch):
    out, grid = tmp_path / "run", {"seed": [0, 1, 2]}
    given = {**given, "epochs": 3}  # six updates, a checkpoint after three
    real, count = Training.update, Counter()

    def update(self):
        count[self.settings.seed] += 1
        if self.settings.seed == 1 and count[1] == 5:
            raise RuntimeError("the machine gave way")
        real(self)

    monkeypatch.setattr(Training, "update", update)
    with pytest.raises(ig.InputError, match=r"1 of 3 jobs failed, seed-1 first: RuntimeError: the machine gave way"):
        ig.sweep("transfer", grid=grid, out=out, **given)
    assert set(read_rows(out).seed.dropna()) == {0, 2}
    facts = read_facts(out)
    assert (
        facts["status"] == "running" and "1 of 3 jobs are not finished and are missing here: seed-1" in facts["notes"]
    )
    assert "Traceback" in (out / "jobs" / "seed-1.log").read_text()
    with pytest.raises(ig.InputError, match="already holds a run"):
        ig.sweep("transfer", grid=grid, out=out, **given)
    with pytest.raises(ig.InputError, match="begun differently"):
        ig.sweep("transfer", grid={"seed": [0, 1]}, out=out, resume=True, **given)
    begun = {path: path.stat().st_mtime_ns for path in (out / "jobs").glob("seed-[02]/*")}
    table = ig.sweep("transfer", grid=grid, out=out, resume=True, **given)
    assert begun == {path: path.stat().st_mtime_ns for path in begun}
    assert count == {0: 6, 1: 5 + 3, 2: 6}  # the job that was stopped went on from its checkpoint
    whole = ig.sweep("transfer", grid=grid, out=tmp_path / "whole", **given)
    pd.testing.assert_frame_equal(table, whole)
    assert read_facts(out)["status"] == "finished" and not read_facts(out)["notes"]


def finished(folder, name, rows, **coordinates):
    with start(folder / name, {"command": "map", "arguments": {}, "seed": 0, "model": "m", "hashes": {}}) as run:
        run.append(rows)
        run.finish()
    return Job(name, "map", {"model": "m"}, folder / name, coordinates)


def test_rows_that_are_the_same_in_several_jobs_are_there_once_and_others_are_told_apart(tmp_path):
    grid = {"sample": [10, 20], "seed": [0, 1]}
    jobs = []
    for sample in grid["sample"]:
        for seed in grid["seed"]:
            rows = [row("cka", sample + seed, layer=1, method="debiased", seed=seed)]
            rows += [row("duplicates", 7.0), row("truncated", float(seed))]
            jobs.append(finished(tmp_path, f"{sample}-{seed}", rows, sample=sample, seed=seed))
    rows = joined_rows(jobs, grid)

    def told_apart(measure):
        return [(settings_of(entry), entry["value"]) for entry in rows if entry["measure"] == measure]

    both = [(sample, seed) for sample in (10, 20) for seed in (0, 1)]
    assert told_apart("cka") == [({"sample": sample}, sample + seed) for sample, seed in both]
    assert told_apart("duplicates") == [({"sample": sample}, 7.0) for sample in (10, 20)]
    assert told_apart("truncated") == [({"sample": sample, "seed": seed}, seed) for sample, seed in both]


def test_a_number_that_was_written_as_text_is_a_number_in_the_settings(tmp_path):
    grid = {"rate": ["1e-3", "2e-3"], "train": ["en=a.tsv", "en=b.tsv"]}
    place = {"rate": "1e-3", "train": "en=a.tsv"}
    (entry,) = joined_rows([finished(tmp_path, "job", [row("gap", 0.5, settings={"part": "a"})], **place)], grid)
    assert settings_of(entry) == {"part": "a", "rate": 0.001, "train": "en=a.tsv"}


def test_rows_of_one_rate_keep_it_where_a_job_has_several(tmp_path):
    grid = {"rate": ["1e-3,2e-3", "2e-3,4e-3"]}
    jobs = []
    for rates in grid["rate"]:
        rows = [row("loss", 100 * rate, step=1, settings={"rate": rate}) for rate in map(float, rates.split(","))]
        jobs.append(finished(tmp_path, rates, [*rows, row("gap", 0.5)], rate=rates))
    rates = [(entry["measure"], settings_of(entry)["rate"]) for entry in joined_rows(jobs, grid)]
    chosen = [("gap", rate) for rate in grid["rate"]]
    assert rates == [("loss", 0.001), ("loss", 0.002), chosen[0], ("loss", 0.004), chosen[1]]


def test_jobs_with_rows_that_have_no_value_are_one_table_too(tmp_path):
    jobs = []
    for seed, value in enumerate((np.nan, 0.25)):
        rows = [row("relative_gap", value, seed=seed), row("gap", 0.5 + seed, seed=seed)]
        jobs.append(finished(tmp_path, str(seed), rows, seed=seed))
    with start(tmp_path / "sweep", {"command": "sweep", "arguments": {}, "seed": 0, "model": "m", "hashes": {}}) as run:
        collect(run, jobs, {"seed": [0, 1]})
        run.finish()
    table = read_rows(tmp_path / "sweep")
    assert table[table.measure == "relative_gap"].value.tolist() == pytest.approx([np.nan, 0.25], nan_ok=True)
    assert table[table.measure == "gap"].value.tolist() == [0.5, 1.5, 1.0]


def test_jobs_as_processes_and_the_command(given, tmp_path, monkeypatch, capsys):
    words = ["sweep", "transfer", given["model"], "--task", "pos", "--device", "cpu", "--quiet", "--batch", 4]
    words += ["--train", f"qaa={given['train']['qaa']}", "--epochs", 1, "--rate", "1e-3", "--out", tmp_path / "run"]
    for part in ("dev", "test"):
        for language, path in given[part].items():
            words += [f"--{part}", f"{language}={path}"]
    words += ["--grid", "plans=freeze:0,freeze:2"]
    run = command_line(monkeypatch, capsys)
    code, shown, _ = run(*words, "--dry-run")
    assert code == 0 and shown.startswith("2 jobs:\n") and shown.count("--plans freeze:") == 2
    code, shown, _ = run("sweep", "map", "--grid", "seed=0,1", "--dry-run")
    assert code == 0 and "\nisogloss map mini\nwith\n" in shown, "the grid alone, without defaults"
    code, shown, _ = run("sweep", "map", "--help")
    assert " --grid seed=0..4" in " ".join(shown.split()) and ">>>" not in shown
    assert not (tmp_path / "run").exists()
    code, shown, told = run(*words, "--parallel", 2)
    assert code == 0, told
    assert "freeze:0: accuracy " in shown and "freeze:2: accuracy " in shown
    table = read_rows(tmp_path / "run")
    assert set(table.plan) >= {"freeze:0", "freeze:2"}
    code, _, told = run(*words[:-1], "plans=freeze:0,freeze:9", "--out", tmp_path / "other")
    assert code == 2 and told.startswith("isogloss: the plan freeze:9") and told.count("\n") == 1
    code, _, told = run("sweep", "chess")
    assert code == 2 and "No such command 'chess'; there is map, lexicon, " in told


def test_a_sweep_of_trainings_ends_with_what_its_jobs_have_moved(tmp_path, monkeypatch, capsys):
    model, train = write_model(tmp_path / "tiny"), tiny_alignment.write_pairs(tmp_path)
    words = tiny_alignment.words(model, train, out=tmp_path / "run")
    code, shown, told = command_line(monkeypatch, capsys)("sweep", "align", *words, "--grid", "seed=0..1", "--quiet")
    assert code == 0, told
    lines = [line for line in shown.splitlines() if line]
    assert lines[0].startswith("seed-0: ") and lines[1].startswith("seed-1: ")
    assert lines[2].startswith("Mean P@1 at layer ") and "tlm+queue from " in lines[2] and "2 seeds" in lines[2]


def test_maps_can_be_swept_over_models_and_text_is_read_from_files(tiny, tmp_path):
    (tmp_path / "text.tsv").write_text("en\tnl\n" + "".join(f"the cat {n}\tde kat {n}\n" for n in range(8)))
    models = [tiny("bert"), tiny("roberta")]
    options = {
        "bitext": str(tmp_path / "text.tsv"),
        "languages": "en,nl",
        "points": 0,
        "layers": "0,3",
        "device": "cpu",
    }
    table = ig.sweep("map", grid={"model": models}, out=tmp_path / "run", **options)
    assert set(table.model) == {"bert", "roberta"} and set(table.layer.dropna()) == {0, 3}
    assert len(table[table.measure == "p@1_mean"]) == 2 * 2 * 3
