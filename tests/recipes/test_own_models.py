"""Targets with parts of a model of their own: what is tested is those parts below, and what was trained above."""

import re

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

import isogloss as ig
from isogloss.stack.load import load
from isogloss.tasks import TASKS
from isogloss.tasks.model import answers, predict, task_model
from isogloss.tasks.task import join_items
from tiny_stitching import turned_model
from tiny_tasks import SMALL, write_sets

OPTIONS = {**SMALL, "epochs": 3, "rates": "2e-2"}


@pytest.fixture
def sets(tmp_path):
    found = write_sets(tmp_path / "data", "ner", count=16)
    return {**found, "dev": {"qaa": found["dev"]["qaa"]}}


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
def test_the_target_is_scored_as_a_model_put_together_by_hand(tiny, sets, tmp_path, frozen):
    first = tiny("bert")
    own = other_model(first, tmp_path / "own")
    table = ig.transfer(first, **sets, **OPTIONS, own={"qab": own}, plans=f"freeze:{frozen}", keep=True,
                        out=tmp_path / "run")  # fmt: skip
    (best,) = (tmp_path / "run" / "checkpoints").glob("*/best")
    trained, mine = AutoModel.from_pretrained(best), AutoModel.from_pretrained(own)
    trained.embeddings.load_state_dict(mine.embeddings.state_dict())
    for block in range(frozen):
        trained.encoder.layer[block].load_state_dict(mine.encoder.layer[block].state_dict())
    trained.save_pretrained(tmp_path / "both")
    load(own, device="cpu").tokenizer.save_pretrained(tmp_path / "both")
    task = TASKS["ner"]
    labels = task.labels(task.read(sets["train"]["qaa"], "qaa"))
    examples = task.read(sets["test"]["qab"], "qab", labels=labels)
    model = task_model(load(tmp_path / "both", device="cpu"), task, labels, seed=0)
    model.head.load_state_dict(load_file(best / "head.safetensors"))
    items = join_items(task.encode(examples, labels, tokenizer=model.stack.tokenizer, length=64))
    said = answers(task, examples, items, predict(model, items), labels)
    assert scored(table, "qab") == pytest.approx(task.score(examples, said, "qab")["span_f1"].value)
    alone = ig.transfer(first, **sets, **OPTIONS, plans=f"freeze:{frozen}")
    assert scored(alone, "qaa") == scored(table, "qaa") > 0  # the source has nothing to do with it
    assert scored(alone, "qab") != scored(table, "qab")


@pytest.mark.parametrize("plan", ["freeze:-1", "freeze:2"])
def test_a_model_of_its_own_that_is_the_same_changes_nothing(tiny, sets, plan):
    first = tiny("bert")
    one, other = (ig.transfer(first, **sets, **OPTIONS, plans=plan, own=own) for own in (None, {"qab": first}))
    rows = [table[table.measure == "span_f1"].value.to_list() for table in (one, other)]
    assert rows[0] == pytest.approx(rows[1]) and max(rows[0]) > 0


def test_with_nothing_frozen_only_the_tokenizer_is_its_own(tiny, sets, tmp_path):
    first = tiny("bert")
    own, _ = turned_model(first, tmp_path / "own")
    table = ig.transfer(first, **sets, **OPTIONS, own=[f"qab={own}"])
    assert scored(table, "qaa") > 0 and set(table.target) >= {"qaa", "qab"}


def test_what_cannot_be_used_is_one_sentence(tiny, sets, tmp_path):
    first = tiny("bert")
    wide = AutoModel.from_pretrained(first)
    wide.resize_token_embeddings(wide.config.vocab_size + 8)
    wide.save_pretrained(tmp_path / "larger")
    load(first, device="cpu").tokenizer.save_pretrained(tmp_path / "larger")
    text = ig.Bitext((ig.Corpus("qaa", ["a", "b"]), ig.Corpus("qab", ["c", "d"])))
    for options, part in (
        ({"own": {"qac": first}}, "--own qac: it is for a language of --test other than qaa"),
        ({"own": {"qaa": first}}, "--own qaa: it is for a language of --test"),
        ({"own": {"qab": tmp_path}}, "is no model"),
        ({"own": {"qab": tiny("distilbert")}, "plans": "reinit:1-1+freeze:1"}, "freeze:1 changes frozen layers"),
        ({"own": {"qab": first}, "plans": "unfreeze:1/epoch"}, "changes frozen layers"),
        ({"own": {"qab": tmp_path / "larger"}}, "with embeddings of its own they must be frozen"),
    ):
        with pytest.raises(ig.InputError, match=re.escape(part)):
            ig.transfer(first, **{**sets, **OPTIONS, **options})
    pairs = write_sets(tmp_path / "pairs", "nli")
    with pytest.raises(ig.InputError, match="--own qab is only tested"):
        ig.transfer(first, **pairs, **OPTIONS, own={"qab": first}, translated={"qab": pairs["train"]["qaa"]})
    with pytest.raises(ig.InputError, match="--bitext compares languages in one model"):
        ig.transfer(first, text, **sets, **OPTIONS, own={"qab": first})
