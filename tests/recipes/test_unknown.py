"""Words that a tokenizer has no pieces for are told of, where there are many."""

import pytest
from benchmarks.invented import invented

import isogloss as ig
from isogloss.recipes.recipe import tokenizer_notes
from isogloss.runs import read_facts
from isogloss.text.corpora import Bitext, Corpus
from tiny_alignment import SMALL
from tiny_drift import given, write_model, write_tuning

STRANGE = "ሰላም ነው።"  # the tokenizer has the letters of invented languages only


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


def strange(sentences):
    """Two languages of which the second has words in letters that the model has not."""
    first, second = invented(("qaa", "qab"), sentences=sentences, seed=1)
    return Bitext((first, Corpus("qab", [f"{STRANGE} {one}" for one in second])), name="talk")


def test_a_text_is_told_of_by_its_share_and_one_below_a_twentieth_is_not(model):
    tokenizer = ig.load(model).tokenizer
    word = strange(1)["qaa"].sentences[0]
    tokens = len(tokenizer(word, add_special_tokens=False)["input_ids"])
    some = Corpus("qab", [word] * 20 + ["ሰ"] * tokens, name="some.txt")  # one of 21
    assert tokenizer_notes(tokenizer, [some]) == []
    many = Corpus("qab", [word] + ["ሰ"] * tokens, name="many.txt")
    assert tokenizer_notes(tokenizer, [many, Corpus("qab", [])]) == [
        "50% of the tokens of many.txt (qab) are unknown to the model's tokenizer: to the model such words are all "
        "one, and what is measured on them says little"
    ]
    tokenizer.unk_token = None
    assert tokenizer_notes(tokenizer, [many]) == []


def test_a_map_and_an_alignment_and_a_tuning_say_so(model, tmp_path):
    text = strange(60)
    ig.map(model, text, out=tmp_path / "map", device="cpu", points=0)
    ig.align(model, train_bitext=text, out=tmp_path / "align", **SMALL | {"steps": 1})
    (tmp_path / "qab.txt").write_text("\n".join(text["qab"].sentences), encoding="utf-8")
    tuned, _, files = write_tuning(tmp_path / "tuning")
    ig.drift(tuned, out=tmp_path / "drift", **given({**files, "qab": tmp_path / "qab.txt"}))
    for run in ("map", "align", "drift"):
        notes = [one for one in read_facts(tmp_path / run)["notes"] if "unknown to the model's tokenizer" in one]
        assert len(notes) == 1 and "qab" in notes[0], run
