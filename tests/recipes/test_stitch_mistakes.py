"""`isogloss stitch`: options, text, words and models that cannot be used, and what it says of them."""

import pytest

import isogloss as ig
from isogloss.errors import InputError
from isogloss.recipes import execute, stitch_job
from isogloss.runs import read_facts
from tiny_stitching import SMALL, parallel_text, write_stitching


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"layers": "0,7"}, "has layers 0 to 3; --layers asks for 7"),
        ({"way": "raw"}, "--way is one map that is fitted"),
        ({"restore": "back"}, "--restore takes normalised or recentred or raw, not 'back'"),
        ({"pool": "last"}, "--pool takes first or mean, not 'last'"),
        ({"fresh": 0}, "--fresh must be at least 1, not 0"),
        ({"task": "chess"}, "--task 'chess' is not known"),
    ],
)
def test_options_that_cannot_be_used(planted, tmp_path, changed, sentence):
    options = {**write_stitching(tmp_path), **SMALL, **changed}
    with pytest.raises(InputError, match=sentence):
        stitch_job(planted[0], parallel_text(), other=planted[1], **options)


def test_text_that_cannot_be_used(planted, tmp_path):
    first, other, _ = planted
    given = {**write_stitching(tmp_path), **SMALL}
    with pytest.raises(InputError, match="--bitext is missing: parallel text of qaa and qab"):
        stitch_job(first, other=other, **given)
    strange = ig.Bitext((ig.Corpus("qaa", ["a"]), ig.Corpus("qac", ["b"])))
    with pytest.raises(InputError, match="no parallel text of qaa and qab; it has qaa-qac"):
        stitch_job(first, strange, other=other, **given)
    alone = {**given, "test": {"qaa": given["test"]["qaa"]}}
    with pytest.raises(InputError, match="sets of one language besides qaa, the one that is stitched; it has none"):
        stitch_job(first, parallel_text(), other=other, **alone)
    oracle = {**given, "dev": {**given["dev"], "qab": given["train"]["qaa"]}}
    with pytest.raises(InputError, match="--dev takes examples of qaa only"):
        stitch_job(first, parallel_text(), other=other, **oracle)
    bad = tmp_path / "bad.tsv"
    bad.write_text("cat\tO\ncat\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.tsv:2"):
        stitch_job(first, parallel_text(), other=other, **{**given, "train": {"qaa": bad}})


def test_words_that_cannot_be_paired(planted, tmp_path):
    first, other, _ = planted
    given = {**write_stitching(tmp_path), **SMALL}
    same = ig.Bitext((ig.Corpus("qaa", ["a b"]), ig.Corpus("qab", ["a b"])), {("qaa", "qab"): [[(0, 0), (1, 1)]]})
    job = stitch_job(first, same, other=other, **given)
    with pytest.raises(InputError, match="has no pair of words to learn a map from"):
        execute(job, command="stitch", arguments={}, seed=0, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    beyond = ig.Bitext((ig.Corpus("qaa", ["a b"]), ig.Corpus("qab", ["x y"])), {("qaa", "qab"): [[(0, 5)]]})
    with pytest.raises(InputError, match="sentence 1: a link points at word 5 of a sentence of 2 words"):
        ig.stitch(first, beyond, other=other, **given)


def test_models_that_cannot_be_stitched(planted, tiny, tmp_path):
    given = {**write_stitching(tmp_path), **SMALL}
    with pytest.raises(InputError, match="is 384 wide and .* 32; layers of one cannot stand on"):
        stitch_job("mini", parallel_text(), other=planted[1], **given)
    with pytest.raises(InputError, match="is a decoder; stitch cuts encoders"):
        stitch_job(planted[0], parallel_text(), other=tiny("gpt2"), **given)


def test_few_pairs_are_told(planted, tmp_path):
    first, other, _ = planted
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "1", "pairs": 8}
    ig.stitch(first, parallel_text(), other=other, out=tmp_path / "run", **options)
    assert any("8 pairs for 32 directions" in note for note in read_facts(tmp_path / "run")["notes"])
