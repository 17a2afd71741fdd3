"""`isogloss transfer`: what it reports is what its models said; kill and resume; targets with models of their own."""

import importlib
import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

import isogloss as ig
from isogloss.cli import app
from isogloss.progress import listening
from isogloss.recipes import task_sets
from isogloss.runs import read_facts, read_rows
from isogloss.stack.load import load
from isogloss.tasks import TASKS, frozen_prefix
from isogloss.tasks.model import TaskModel, predict
from isogloss.tasks.task import join_items
from tiny_stitching import turned_model
from tiny_tasks import SMALL, write_sets, write_task
from tiny_training import interrupted

transfer_module = importlib.import_module("isogloss.recipes.transfer")  # its name in the package is the recipe's


def finals(table, plan="freeze:-1", selection="", seed=0):
    """Rows of the chosen model."""
    same = (table.plan == plan) & (table.selection == selection) & (table.seed == seed)
    return table[table.step.isna() & same]


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
    table = ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 6, "rate": "1e-3,1e-2"})
    curve = table[table.step.notna() & (table.measure == "span_f1")]
    dev = curve[(curve.target == "qaa") & (curve.data == "dev-qaa")]
    best = dev[dev.value == dev.value.max()].sort_values("step").iloc[0]
    assert len(dev) == 12 and best.value > 0.2
    rows = finals(table)
    for target in ("qaa", "qab"):
        one = value(rows, "span_f1", target)
        there = curve[(curve.settings == best.settings) & (curve.step == best.step) & (curve.data == f"test-{target}")]
        assert one.value == there.iloc[0].value and one.n == there.iloc[0].n
        assert one.low <= one.value <= one.high
        assert 0 <= one.floor < 1 and one.floor == there.iloc[0].floor
        assert value(rows, "chosen_step", target).value == best.step
        assert json.loads(best.settings) == {"rate": value(rows, "chosen_rate", target).value}
    source, target = (value(rows, "span_f1", one).value for one in ("qaa", "qab"))
    gap = value(rows, "gap", "qab")
    assert gap.value == pytest.approx(source - target) and gap.unit == "span_f1" and gap.low <= gap.value <= gap.high
    assert value(rows, "relative_gap", "qab").value == pytest.approx((source - target) / source)
    assert value(rows, "span_f1", "others").value == pytest.approx(target)
    assert set(rows.source) == {"qaa"} and set(rows.task) == {"ner"}


def test_the_model_is_loaded_once_however_many_trainings_there_are(tiny, sets):
    loaded = []
    with listening(lambda *told: loaded.append(told) if told[0].startswith("loading") else None):
        ig.transfer(tiny("bert"), **sets, **{**SMALL, "plans": "freeze:1,reinit:1", "seeds": 2})
    assert [done for _, done, _ in loaded] == [0, 1]


def test_the_oracle_is_chosen_on_each_targets_own_dev_and_reported_apart(tiny, sets):
    table = ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 6, "rate": "1e-2"})
    curve = table[table.step.notna() & (table.measure == "span_f1") & (table.target == "qab")]
    dev, test = (curve[curve.data == name].set_index("step").value for name in ("dev-qab", "test-qab"))
    step = dev[dev == dev.max()].index.min()
    rows = finals(table, selection="oracle")
    assert value(rows, "chosen_step", "qab").value == step
    assert value(rows, "span_f1", "qab").value == test[step]
    only = {**sets, "dev": {"qaa": sets["dev"]["qaa"]}}
    assert finals(ig.transfer(tiny("bert"), **only, **SMALL), selection="oracle").empty


def test_several_plans_and_seeds_have_means_with_intervals(tiny, sets):
    table = ig.transfer(tiny("bert"), **sets, **SMALL, plans="freeze:2,reinit:2-3+freeze:0", seeds=3)
    means = table[table.step.isna() & table.seed.isna()]
    plans = ("freeze:2", "reinit:2-3+freeze:0")
    assert set(zip(means.plan, means.selection, strict=True)) == {
        (plan, end) for plan in plans for end in ("", "oracle")
    }
    assert set(means.over) - {""} == {"seeds"} and means[means.over == ""].low.isna().all()
    for plan in plans:
        each = [value(finals(table, plan, seed=seed), "span_f1", "qab").value for seed in range(3)]
        mean = value(means, "span_f1", "qab", plan=plan, selection="")
        assert mean.value == pytest.approx(np.mean(each)) and mean.n == 3
        floors = [value(finals(table, plan, seed=seed), "span_f1", "qab").floor for seed in range(3)]
        assert mean.floor == pytest.approx(np.mean(floors))


@pytest.mark.parametrize("plan", ["freeze:2", "reinit:1-1+freeze:1", "unfreeze:1/epoch+freeze:1"])
def test_frozen_layers_that_are_computed_once_change_no_score(plan, tiny, sets):
    tables = [
        ig.transfer(tiny("modernbert"), **sets, **{**SMALL, "rate": "1e-2"}, plans=plan, cache=cache, seeds=2)
        for cache in (True, False)
    ]
    assert np.allclose(tables[0].value, tables[1].value, atol=1e-4, equal_nan=True)


def test_without_room_in_memory_training_reads_a_file_and_tests_their_text(tiny, sets, tmp_path, monkeypatch):
    given = {**sets, **SMALL, "rate": "1e-2", "plans": "freeze:2"}
    usual = ig.transfer(tiny("bert"), **given)
    monkeypatch.setattr(frozen_prefix, "free_bytes", lambda device: 0.0)
    files, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(
        frozen_prefix, "read_prefix", lambda *a, **k: (real(*a, **k), files.extend(k["file"].parent.iterdir()))[0]
    )
    table = ig.transfer(tiny("bert"), **given, out=tmp_path / "run")
    assert [file.name for file in files] == ["cut-2-float32.states"]
    assert not (tmp_path / "run" / "scratch").exists()
    assert np.allclose(table.value, usual.value, atol=1e-4, equal_nan=True)


def test_dropout_in_frozen_layers_leaves_nothing_to_keep_of_the_training_text(tiny, sets, monkeypatch):
    given = {**sets, **SMALL, "plans": "freeze:2"}
    seen, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(frozen_prefix, "read_prefix", lambda *a, **k: seen.append(k.get("file")) or real(*a, **k))
    tables = [ig.transfer(tiny("bert"), **given, frozen_dropout=dropout) for dropout in (True, False)]
    assert [file is None for file in seen] == [True] * 4 + [False] + [True] * 4
    losses = [table[table.measure == "loss"].value.tolist() for table in tables]
    assert losses[0] != losses[1]


def test_states_of_frozen_layers_are_read_once_for_all_seeds_and_rates(tiny, sets, monkeypatch):
    seen = []
    real = frozen_prefix.read_prefix
    monkeypatch.setattr(frozen_prefix, "read_prefix", lambda *a, **k: seen.append(a[2]) or real(*a, **k))
    ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 1, "rate": "1e-3,2e-3"}, plans="freeze:1,freeze:2", seeds=2)
    assert seen == [1] * 5 + [2] * 5


@pytest.mark.parametrize("after", [1, 4, 7, 11])
def test_a_run_that_was_killed_goes_on_to_the_same_rows(after, tiny, sets, tmp_path, monkeypatch):
    given = {**sets, **SMALL, "plans": "freeze:1,freeze:-1", "checkpoint": 2, "epochs": 2}
    whole = ig.transfer(tiny("bert"), **given, out=tmp_path / "whole")
    with interrupted(monkeypatch, after=after):
        ig.transfer(tiny("bert"), **given, out=tmp_path / "killed")
    again = ig.transfer(tiny("bert"), **given, out=tmp_path / "killed", resume=True)
    order = ["measure", "target", "data", "plan", "selection", "step", "seed"]
    one, other = (table.sort_values(order).reset_index(drop=True) for table in (whole, again))
    assert one.equals(other)
    assert not list((tmp_path / "killed" / "checkpoints").glob("*/step-*"))


def test_code_of_options_that_are_not_given_is_not_visited(tiny, sets, monkeypatch):
    unvisited = ("add_translations", "read_switching", "dictionary_note", "switched_items")
    own = [(transfer_module, name) for name in ("_read_target_models", "compare_languages", "stream")]
    for module, name in [*((task_sets, name) for name in unvisited), *own]:
        assert callable(getattr(module, name))
        monkeypatch.setattr(module, name, None)
    assert len(ig.transfer(tiny("bert"), **sets, **{**SMALL, "epochs": 1}, plans="freeze:1"))


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
    assert notes == ["another-name (qaa) is also trained on: its scores show what the model has memorised"]


@pytest.mark.parametrize("plan", ["freeze:-1", "lora:2"])
def test_the_best_model_is_kept_where_that_is_asked_for(plan, tiny, sets, tmp_path):
    ig.transfer(tiny("bert"), **sets, **SMALL, plans=plan, save_models=True, out=tmp_path / "run")
    (folder,) = (tmp_path / "run" / "checkpoints").glob("*/best")
    assert load(folder, device="cpu").cuts == range(4)
    known = load_file(f"{tiny('bert')}/model.safetensors")
    assert load_file(folder / "model.safetensors").keys() == known.keys(), "adapters are merged"
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
    assert "in the others, which is not clearly above chance, " in result.output and ", a gap of" in result.output
    assert (tmp_path / "run" / "report.html").is_file()
    assert len(read_rows(tmp_path / "run"))


MISTAKES = [
    ({"task": "chess"}, "--task 'chess' is not known; choose nli, nli-mean, parsing, qa, pos, ner"),
    ({"plans": "freeze:9"}, "the plan freeze:9 asks for 9 blocks in freeze"),
    ({"rate": "fast"}, "--rate takes different numbers above 0"),
    ({"rate": "1e-3,0.001"}, "separated by commas, as in 2e-5,5e-5, not '1e-3,0.001'"),
    ({"rate": "0"}, "--rate takes different numbers above 0"),
    ({"rate": "1e-3,-1"}, "not '1e-3,-1'"),
    ({"rate": "inf"}, "not 'inf'"),
    ({"epochs": 0}, "--epochs must be at least 1"),
    ({"batch": 0}, "--batch must be at least 1"),
    ({"seeds": 0}, "--seeds must be at least 1"),
    ({"warm_up": 1.5}, "--warm-up must be from 0 to below 1"),
    ({"length": 3}, "--length must be at least 8"),
    ({"dtype": "float16"}, "does not train stably"),
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
    assert "--dev has a set of qac, but --test has none" in sentence(dev={**sets["dev"], "qac": path})
    assert "--dev and --test name the same file of qaa" in sentence(test={**sets["test"], "qaa": sets["dev"]["qaa"]})
    assert "--train takes one language" in sentence(train={"qaa": path, "qab": path})
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
    with pytest.raises(ig.InputError, match="is an encoder-decoder; transfer trains encoders and decoders"):
        ig.transfer(tiny("t5"), **sets, **SMALL)


# --- target languages with a model of their own ----------------------------------------------------------------------

OPTIONS = {**SMALL, "epochs": 3, "rate": "2e-2"}


@pytest.fixture
def source_dev(sets):
    """The sets without an oracle."""
    return {**sets, "dev": {"qaa": sets["dev"]["qaa"]}}


def other_model(folder, into):
    """A model of the same shape with other weights and another alphabet."""
    path, _ = turned_model(folder, into)
    model = AutoModel.from_pretrained(path)
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
            weight.add_(0.1 * noise)
    model.save_pretrained(path)
    return path


def scored(table, target):
    rows = table[table.step.isna() & (table.measure == "span_f1") & (table.target == target)]
    return float(rows.value.iloc[0])


@pytest.mark.parametrize("frozen", [0, 1])
def test_the_target_is_scored_as_a_model_put_together_by_hand(tiny, source_dev, tmp_path, frozen):
    first = tiny("bert")
    own = other_model(first, tmp_path / "own")
    table = ig.transfer(
        first,
        **source_dev,
        **OPTIONS,
        target_models={"qab": own},
        plans=f"freeze:{frozen}",
        save_models=True,
        out=tmp_path / "run",
    )
    (best,) = (tmp_path / "run" / "checkpoints").glob("*/best")
    trained, mine = AutoModel.from_pretrained(best), AutoModel.from_pretrained(own)
    trained.embeddings.load_state_dict(mine.embeddings.state_dict())
    for block in range(frozen):
        trained.encoder.layer[block].load_state_dict(mine.encoder.layer[block].state_dict())
    trained.save_pretrained(tmp_path / "both")
    load(own, device="cpu").tokenizer.save_pretrained(tmp_path / "both")
    task = TASKS["ner"]
    labels = task.labels(task.read(source_dev["train"]["qaa"], "qaa"))
    examples = task.read(source_dev["test"]["qab"], "qab", labels=labels)
    model = TaskModel(load(tmp_path / "both", device="cpu"), task, labels, seed=0)
    model.head.load_state_dict(load_file(best / "head.safetensors"))
    items = join_items(task.encode(examples, labels, tokenizer=model.stack.tokenizer, length=64))
    said = predict(model, examples, items)
    assert scored(table, "qab") == pytest.approx(task.score(examples, said, "qab")["span_f1"].value)
    alone = ig.transfer(first, **source_dev, **OPTIONS, plans=f"freeze:{frozen}")
    assert scored(alone, "qaa") == scored(table, "qaa") > 0  # the source has nothing to do with it
    assert scored(alone, "qab") != scored(table, "qab")


@pytest.mark.parametrize("plan", ["freeze:-1", "freeze:2"])
def test_a_model_of_its_own_that_is_the_same_changes_nothing(tiny, source_dev, plan):
    first = tiny("bert")
    one, other = (
        ig.transfer(first, **source_dev, **OPTIONS, plans=plan, target_models=own) for own in (None, {"qab": first})
    )
    rows = [table[table.measure == "span_f1"].value.to_list() for table in (one, other)]
    assert rows[0] == pytest.approx(rows[1]) and max(rows[0]) > 0


def test_with_nothing_frozen_only_the_tokenizer_is_its_own(tiny, source_dev, tmp_path):
    first = tiny("bert")
    own, _ = turned_model(first, tmp_path / "own")
    table = ig.transfer(first, **source_dev, **OPTIONS, target_models=[f"qab={own}"])
    assert scored(table, "qaa") > 0 and set(table.target) >= {"qaa", "qab"}


def test_target_models_that_cannot_be_used_are_one_sentence(tiny, source_dev, tmp_path):
    first = tiny("bert")
    wide = AutoModel.from_pretrained(first)
    wide.resize_token_embeddings(wide.config.vocab_size + 8)
    wide.save_pretrained(tmp_path / "larger")
    load(first, device="cpu").tokenizer.save_pretrained(tmp_path / "larger")
    text = ig.Bitext((ig.Corpus("qaa", ["a", "b"]), ig.Corpus("qab", ["c", "d"])))
    for options, part in (
        (
            {"target_models": {"qac": first}},
            "--target-models qac: give a language of --test other than",
        ),
        ({"target_models": {"qaa": first}}, "--target-models qaa: give a language of --test"),
        ({"target_models": {"qab": tmp_path}}, "is no model"),
        (
            {"target_models": {"qab": tiny("distilbert")}, "plans": "reinit:1-1+freeze:1"},
            "freeze:1 changes frozen layers",
        ),
        ({"target_models": {"qab": first}, "plans": "unfreeze:1/epoch"}, "changes frozen layers"),
        ({"target_models": {"qab": tmp_path / "larger"}}, "different embeddings must be frozen"),
    ):
        with pytest.raises(ig.InputError, match=re.escape(part)):
            ig.transfer(first, **{**source_dev, **OPTIONS, **options})
    pairs = write_sets(tmp_path / "pairs", "nli")
    with pytest.raises(
        ig.InputError,
        match="--test other than those trained on, qaa, qab",
    ):
        ig.transfer(first, **pairs, **OPTIONS, target_models={"qab": first}, translated={"qab": pairs["train"]["qaa"]})
    with pytest.raises(ig.InputError, match="--bitext compares languages in one model"):
        ig.transfer(first, text, **source_dev, **OPTIONS, target_models={"qab": first})


@pytest.mark.parametrize(("task", "family"), [("nli", "llama"), ("ner", "llama"), ("pos", "gpt2")])
def test_a_decoder_learns_a_task_at_the_end_of_what_it_reads(task, family, tiny, tmp_path):
    given = write_sets(tmp_path / "data", task, count=16)
    how = {**SMALL, "epochs": 6, "rate": "1e-2", "plans": "freeze:1,lora:4+freeze:0"}
    tables = [ig.transfer(tiny(family), **given, **how, cache=cache) for cache in (True, False)]
    assert np.allclose(tables[0].value, tables[1].value, atol=1e-3, equal_nan=True)
    for plan in ("freeze:1", "freeze:0+lora:4"):
        losses = tables[0][(tables[0].measure == "loss") & (tables[0].plan == plan)].sort_values("step").value.tolist()
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("task", ["parsing", "qa"])
def test_tasks_that_read_a_first_token_are_for_encoders(task, tiny, tmp_path):
    given = write_sets(tmp_path / "data", task)
    with pytest.raises(ig.InputError, match=f"whose first token attends to no other, and --task {task} needs"):
        ig.transfer(tiny("llama"), **given, **SMALL)


def test_plans_in_one_run_are_as_each_by_itself(tiny, sets):
    """What one training does to its copy of the model, the next does not see."""
    how = {**sets, **SMALL, "rate": "1e-2"}
    both = ig.transfer(tiny("bert"), **how, plans="reinit:1-2,lora:2,freeze:0")
    for plan in ("lora:2", "freeze:0"):
        alone = ig.transfer(tiny("bert"), **how, plans=plan)
        values = (table[table.plan == plan].value.to_numpy() for table in (both, alone))
        np.testing.assert_array_equal(*values)
