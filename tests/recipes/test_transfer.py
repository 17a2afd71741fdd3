"""`isogloss transfer`: what it reports is what its models said, and a run that was killed goes on to the same rows."""

import json

import numpy as np
import pytest

import isogloss as ig
from isogloss.cli import app
from isogloss.measures.scores import Score, f1
from isogloss.recipes.steps import taskfitting
from isogloss.recipes.steps.taskscores import keep_scores, kept_scores
from isogloss.runs import read_facts, read_rows
from isogloss.runs.table import mean_rows, row
from isogloss.stack.load import load
from isogloss.training import frozen_prefix
from tiny_tasks import SMALL, write_sets, write_task
from tiny_training import interrupted


def finals(table, variant="freeze:-1", seed=0):
    return table[table.step.isna() & (table.variant == variant) & (table.seed == seed)]


def value(rows, measure, target, **where):
    found = rows[(rows.measure == measure) & (rows.target == target)]
    for name, one in where.items():
        found = found[found[name] == one]
    assert len(found) == 1, (measure, target, len(found))
    return found.iloc[0]


@pytest.fixture
def sets(tmp_path):
    return write_sets(tmp_path / "data", "ner", count=16)


def test_the_model_is_chosen_on_source_dev_and_gaps_are_source_less_target(tiny, sets):
    table = ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 6, "rates": "1e-3,1e-2"})
    curve = table[table.step.notna() & (table.measure == "span_f1")]
    dev = curve[(curve.target == "qaa") & (curve.data == "dev-qaa")]
    best = dev[dev.value == dev.value.max()].sort_values("step").iloc[0]
    assert len(dev) == 12 and best.value > 0.2
    rows = finals(table)
    for target in ("qaa", "qab"):
        one = value(rows, "span_f1", target)
        there = curve[(curve.variant == best.variant) & (curve.step == best.step) & (curve.data == f"test-{target}")]
        assert one.value == there.iloc[0].value and one.n == there.iloc[0].n
        assert one.low <= one.value <= one.high
        assert 0 <= one.floor < 1 and one.floor == there.iloc[0].floor
        assert value(rows, "chosen_step", target).value == best.step
        assert best.variant == f"freeze:-1 rate:{value(rows, 'chosen_rate', target).value:g}"
    source, target = (value(rows, "span_f1", one).value for one in ("qaa", "qab"))
    gap = value(rows, "gap", "qab")
    assert gap.value == pytest.approx(source - target) and gap.unit == "span_f1" and gap.low <= gap.value <= gap.high
    assert value(rows, "relative_gap", "qab").value == pytest.approx((source - target) / source)
    assert value(rows, "span_f1", "others").value == pytest.approx(target)
    assert set(rows.source) == {"qaa"} and set(rows.task) == {"ner"}


def test_the_oracle_is_chosen_on_each_targets_own_dev_and_reported_apart(tiny, sets):
    table = ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 6, "rates": "1e-2"})
    curve = table[table.step.notna() & (table.measure == "span_f1") & (table.target == "qab")]
    dev, test = (curve[curve.data == name].set_index("step").value for name in ("dev-qab", "test-qab"))
    step = dev[dev == dev.max()].index.min()
    rows = finals(table, "freeze:-1 oracle")
    assert value(rows, "chosen_step", "qab").value == step
    assert value(rows, "span_f1", "qab").value == test[step]
    only = {**sets, "dev": {"qaa": sets["dev"]["qaa"]}}
    assert finals(ig.transfer(tiny("bert"), **only, **SMALL), "freeze:-1 oracle").empty


def test_several_plans_and_seeds_have_means_with_intervals(tiny, sets):
    table = ig.transfer(tiny("bert"), **sets, **SMALL, plans="freeze:2,reinit:2-3+freeze:0", seeds=3)
    means = table[table.step.isna() & table.seed.isna()]
    plans = ("freeze:2", "reinit:2-3+freeze:0")
    assert set(means.variant) == {f"{plan}{end}" for plan in plans for end in ("", " oracle")}
    for plan in plans:
        each = [value(finals(table, plan, seed), "span_f1", "qab").value for seed in range(3)]
        mean = value(means, "span_f1", "qab", variant=plan)
        assert mean.value == pytest.approx(np.mean(each)) and mean.n == 3
        floors = [value(finals(table, plan, seed), "span_f1", "qab").floor for seed in range(3)]
        assert mean.floor == pytest.approx(np.mean(floors))


@pytest.mark.parametrize("plan", ["freeze:2", "reinit:1-1+freeze:1", "unfreeze:1/epoch+freeze:1"])
def test_frozen_layers_that_are_computed_once_change_no_score(plan, tiny, sets):
    tables = [
        ig.transfer(tiny("modernbert"), **sets, **{**SMALL, "rates": "1e-2"}, plans=plan, cache=cache, seeds=2)
        for cache in (True, False)
    ]
    assert np.allclose(tables[0].value, tables[1].value, atol=1e-4, equal_nan=True)


def test_without_room_in_memory_training_reads_a_file_and_tests_their_text(tiny, sets, tmp_path, monkeypatch):
    given = {**sets, **SMALL, "rates": "1e-2", "plans": "freeze:2"}
    usual = ig.transfer(tiny("bert"), **given)
    monkeypatch.setattr(frozen_prefix, "_free_memory", lambda: 0.0)
    files, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(
        taskfitting, "read_prefix", lambda *a, **k: (real(*a, **k), files.append(k["file"].stat().st_size))[0]
    )
    table = ig.transfer(tiny("bert"), **given, out=tmp_path / "run")
    assert len(files) == 1 and files[0] > 0
    assert not (tmp_path / "run" / "scratch").exists()
    assert np.allclose(table.value, usual.value, atol=1e-4, equal_nan=True)


def test_dropout_in_frozen_layers_leaves_nothing_to_keep_of_the_training_text(tiny, sets, monkeypatch):
    given = {**sets, **SMALL, "plans": "freeze:2"}
    seen, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(taskfitting, "read_prefix", lambda *a, **k: seen.append(k["file"]) or real(*a, **k))
    tables = [ig.transfer(tiny("bert"), **given, frozen_dropout=dropout) for dropout in (True, False)]
    assert [file is None for file in seen] == [True] * 4 + [False] + [True] * 4
    losses = [table[table.measure == "loss"].value.tolist() for table in tables]
    assert losses[0] != losses[1]


def test_states_of_frozen_layers_are_read_once_for_all_seeds_and_rates(tiny, sets, monkeypatch):
    seen = []
    real = taskfitting.read_prefix
    monkeypatch.setattr(taskfitting, "read_prefix", lambda *a, **k: seen.append(a[2]) or real(*a, **k))
    ig.transfer(
        tiny("bert"), **sets, **{**SMALL, "epochs": 1, "rates": "1e-3,2e-3"}, plans="freeze:1,freeze:2", seeds=2
    )
    assert seen == [1] * 5 + [2] * 5


@pytest.mark.parametrize("after", [1, 4, 7, 11])
def test_a_run_that_was_killed_goes_on_to_the_same_rows(after, tiny, sets, tmp_path, monkeypatch):
    given = {**sets, **SMALL, "plans": "freeze:1,freeze:-1", "checkpoint": 2, "epochs": 2}
    whole = ig.transfer(tiny("bert"), **given, out=tmp_path / "whole")
    with interrupted(monkeypatch, after=after):
        ig.transfer(tiny("bert"), **given, out=tmp_path / "killed")
    again = ig.transfer(tiny("bert"), **given, out=tmp_path / "killed", resume=True)
    order = ["measure", "target", "data", "variant", "step", "seed"]
    one, other = (table.sort_values(order).reset_index(drop=True) for table in (whole, again))
    assert one.equals(other)
    assert not list((tmp_path / "killed" / "checkpoints").glob("*/step-*"))


def test_bad_rows_are_skipped_counted_and_told(tiny, sets, tmp_path):
    path = sets["test"]["qab"]
    path.write_text(path.read_text() + "the\tO\ncat\tB-NEW\n\nthe\tO\tO\n\n", encoding="utf-8")
    with pytest.raises(ig.InputError, match=r"test-qab\.tsv:\d+: the tag 'B-NEW' is not one of"):
        ig.transfer(tiny("bert"), **sets, **SMALL, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    table = ig.transfer(tiny("bert"), **sets, **SMALL, skip_bad=True, out=tmp_path / "run")
    assert value(table, "skipped", "qab").value == 2
    notes = read_facts(tmp_path / "run")["notes"]
    assert any("2 bad rows of test-qab (qab) left out, the first:" in note for note in notes)


def test_a_test_set_that_is_trained_on_is_told(tiny, sets, tmp_path):
    learned = tmp_path / "another-name.tsv"
    learned.write_bytes(sets["train"]["qaa"].read_bytes())
    ig.transfer(tiny("bert"), **{**sets, "test": {**sets["test"], "qaa": learned}}, **SMALL, out=tmp_path / "run")
    notes = read_facts(tmp_path / "run")["notes"]
    assert notes == ["another-name (qaa) is trained on, too: its scores say what was learned by heart"]


def test_the_best_model_is_kept_where_that_is_asked_for(tiny, sets, tmp_path):
    ig.transfer(tiny("bert"), **sets, **SMALL, keep=True, out=tmp_path / "run")
    (folder,) = (tmp_path / "run" / "checkpoints").glob("*/best")
    assert load(folder, device="cpu").cuts == range(4)
    assert json.loads((folder / "task.json").read_text())["labels"][0] == "O"
    assert (folder / "head.safetensors").is_file()
    ig.transfer(tiny("bert"), **sets, **SMALL, out=tmp_path / "bare")
    assert not list((tmp_path / "bare" / "checkpoints").glob("*/best"))


@pytest.mark.parametrize("name", ["nli", "pos"])
def test_other_tasks_run_and_words_behind_the_models_length_are_told(name, tiny, tmp_path):
    given = write_sets(tmp_path / "data", name)
    if name == "pos":
        with given["test"]["qab"].open("a") as file:
            file.writelines("\t".join([str(n), "cat", "_", "NOUN", *["_"] * 6]) + "\n" for n in range(1, 9))
    table = ig.transfer(tiny("bert"), **given, **SMALL, length=8, out=tmp_path / "run")
    assert value(finals(table), "accuracy", "qab").n == (12 if name == "nli" else 80)
    notes = read_facts(tmp_path / "run")["notes"]
    told = "2 of 80 answers of test-qab (qab) are beyond the model's length or have no token"
    assert any(note.startswith(told) for note in notes) is (name == "pos")


def test_counts_come_back_from_their_file(tmp_path):
    scores = [{"a": Score(np.array([[1, 2], [3, 4]]))}, {"a": Score(np.eye(3), f1, 0.25), "b": Score(np.ones((1, 2)))}]
    keep_scores(tmp_path / "x" / "1.npz", scores)
    for one, other in zip(scores, kept_scores(tmp_path / "x" / "1.npz"), strict=True):
        assert {name: (s.value, s.ratio, str(s.floor)) for name, s in one.items()} == {
            name: (s.value, s.ratio, str(s.floor)) for name, s in other.items()
        }


def test_means_over_seeds_stay_within_the_range_of_their_measure():
    rows = [row("accuracy", one, target="nl", seed=seed) for seed, one in enumerate((0.2, 1.0))]
    assert (mean_rows(rows)[0]["low"], mean_rows(rows)[0]["high"]) == (0.0, 1.0)


def test_what_has_no_value_in_a_seed_has_no_mean():
    rows = [row("relative_gap", one, target="nl", seed=seed) for seed, one in enumerate((0.2, np.nan, 0.4))]
    assert mean_rows(rows) == []
    assert mean_rows(rows[::2])[0]["value"] == pytest.approx(0.3)


def test_the_command_tells_what_is_left_elsewhere(tiny, sets, tmp_path):
    from typer.testing import CliRunner

    words = ["transfer", tiny("bert"), "--task", "ner", "--train", f"qaa={sets['train']['qaa']}"]
    for part in ("dev", "test"):
        for language, path in sets[part].items():
            words += [f"--{part}", f"{language}={path}"]
    words += [
        "--epochs",
        "1",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
        "--plans",
        "freeze:0,last:1",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "freeze:0: span_f1 " in result.output
    assert "in the others, where chance gives" in result.output and ", a gap of" in result.output
    assert (tmp_path / "run" / "report.html").is_file()
    assert len(read_rows(tmp_path / "run"))


MISTAKES = [
    ({"task": "chess"}, "--task 'chess' is not known; choose nli, pos, ner"),
    ({"plans": "freeze:9"}, "the plan freeze:9 asks for 9 blocks in freeze"),
    ({"rates": "fast"}, "--rates takes numbers with commas"),
    ({"rates": "1e-3,0.001"}, "--rates has a rate twice"),
    ({"rates": "0"}, "--rates must be above 0, not 0"),
    ({"rates": "1e-3,-1"}, "--rates must be above 0, not 1e-3,-1"),
    ({"rates": "inf"}, "--rates must be above 0, not inf"),
    ({"epochs": 0}, "--epochs must be at least 1"),
    ({"batch": 0}, "--batch must be at least 1"),
    ({"seeds": 0}, "--seeds must be at least 1"),
    ({"warm_up": 1.5}, "--warm-up must be from 0 to below 1"),
    ({"length": 3}, "--length must be at least 8"),
    ({"dtype": "float16"}, "does not train stably"),
    ({"states": "here", "cache": False}, "--states is where states of frozen layers are kept"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_no_folder(change, sentence, tiny, sets, tmp_path):
    with pytest.raises(ig.InputError, match=sentence.replace("(", r"\(")):
        ig.transfer(tiny("bert"), **{**sets, **SMALL, **change}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sets_that_do_not_fit_together_are_refused(tiny, sets, tmp_path):
    def sentence(**change):
        with pytest.raises(ig.InputError) as error:
            ig.transfer(tiny("bert"), **{**sets, **SMALL, **change})
        return str(error.value)

    path = sets["test"]["qab"]
    assert "--dev has no set of qaa" in sentence(dev={"qab": path})
    assert "--test has no set of qaa" in sentence(test={"qab": path})
    assert "--dev has a set of qac, which --test has not" in sentence(dev={**sets["dev"], "qac": path})
    assert "--train is one language" in sentence(train={"qaa": path, "qab": path})
    assert "two sets of qab are called test-qab" in sentence(test=[f"qaa={sets['test']['qaa']}", *[f"qab={path}"] * 2])
    assert "does not exist" in sentence(test={**sets["test"], "qab": tmp_path / "none.tsv"})
    empty = tmp_path / "empty.tsv"
    empty.write_text("\n")
    assert "has no sentence with tags" in sentence(test={**sets["test"], "qab": empty})
    nli = write_task(tmp_path, "nli", count=3)
    nli.write_text(nli.read_text() + "a\tb\tmaybe\n")
    assert "nli.tsv:4: the label 'maybe' is not one of entailment" in sentence(
        task="nli", train={"qaa": nli}, dev={"qaa": nli}, test={"qaa": nli}
    )
    assert "is a decoder; transfer trains encoders" in _decoder(tiny, sets)


def _decoder(tiny, sets):
    with pytest.raises(ig.InputError) as error:
        ig.transfer(tiny("gpt2"), **sets, **SMALL)
    return str(error.value)
