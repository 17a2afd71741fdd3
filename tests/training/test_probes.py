"""The retrieval probe against `isogloss map` and explicit loops over layers."""

import numpy as np
import pytest

import isogloss as ig
from isogloss.errors import InputError
from isogloss.training.probes import retrieval_probe
from tiny_models import TEXT


def values(readings, **where):
    """Values of the readings at these coordinates."""
    return [one["value"] for one in readings if all(one[name] == value for name, value in where.items())]


def bitext(rows=24, name="three"):
    draw = np.random.default_rng(0)
    words = sorted({word for line in TEXT for word in line.split()})

    texts = {language: [" ".join(draw.choice(words, 6)) for _ in range(rows)] for language in ("nl", "en", "de")}
    texts["en"][5] = texts["en"][3]  # a repeat: the right answer has a copy
    return ig.Bitext(tuple(ig.Corpus(language, lines) for language, lines in texts.items()), name=name)


def test_retrieval_at_every_layer_by_hand(tiny):
    stacks = {"en": ig.load(tiny("bert")), "nl": ig.load(tiny("bert")), "de": ig.load(tiny("roberta"))}
    parallel = bitext()
    readings = list(retrieval_probe(stacks.__getitem__, [parallel], every=5).take())
    x = {language: ig.vectors(stacks[language], parallel[language]) for language in parallel.languages}
    assert {one["layer"] for one in readings} == {0, 1, 2, 3}
    for layer in range(4):
        means = []
        for other in ("nl", "de"):
            keys = {"keys_x": parallel["en"].sentences, "keys_y": parallel[other].sentences}
            expected = ig.retrieval(x["en"][layer], x[other][layer], method="centred", **keys)["p@1"]
            (there,) = values(readings, measure="p@1", layer=layer, source="en", target=other)
            (back,) = values(readings, measure="p@1", layer=layer, source=other, target="en")
            assert (there + back) / 2 == pytest.approx(expected, abs=1e-12)
            means.append(expected)
        (mean,) = [one for one in readings if one["measure"] == "p@1_mean" and one["layer"] == layer]
        assert mean["value"] == pytest.approx(sum(means) / 2, abs=1e-12)
        assert mean["n"] == 24
    pairs = {(one["source"], one["target"]) for one in readings if one["measure"] == "p@1"}
    assert pairs == {("en", "nl"), ("nl", "en"), ("en", "de"), ("de", "en")}
    assert {(one["method"], one["unit"], one["data"]) for one in readings} == {("centred", "sentence", "three")}
    assert all(one["low"] <= one["value"] <= one["high"] for one in readings)
    chance = (22 * 1 + 2 * 2) / 24 / 24  # the two sentences that are alike have two right answers
    assert [one["floor"] for one in readings] == pytest.approx([chance] * len(readings))


def test_readings_are_named_as_the_map_names_its_rows(tiny):
    parallel = bitext()
    stack = ig.load(tiny("bert"))
    table = ig.map(stack, parallel, sample="all", pairs="all")
    rows = table[(table.method == "centred") & (table.unit == "sentence")]
    for one in retrieval_probe(lambda _: stack, [parallel], every=1).take():
        if one["measure"] == "p@1":
            same = rows[(rows.measure == "p@1") & (rows.layer == one["layer"]) & (rows.source == one["source"])]
            same = same[same.target == one["target"]]
            assert same.value.tolist() == [pytest.approx(one["value"])]
            for column in ("low", "high", "floor", "n", "data"):
                assert same[column].tolist() == [pytest.approx(one[column]) if column != "data" else one[column]]
    pair = ig.Bitext((parallel["en"], parallel["nl"]), name="pair")
    table = ig.map(stack, pair, sample="all")
    rows = table[(table.method == "centred") & (table.measure == "p@1_mean")].set_index("layer")
    for one in retrieval_probe(lambda _: stack, [pair], every=1).take():
        if one["measure"] == "p@1_mean":
            for column in ("value", "low", "high", "floor", "n"):
                assert rows.loc[one["layer"], column] == pytest.approx(one[column])


def test_retrieval_restores_the_mode(tiny):
    stack = ig.load(tiny("bert"))
    stack.model.train()
    taken = retrieval_probe(lambda _: stack, [bitext()], every=1)
    first = list(taken.take())
    assert list(taken.take()) == first
    assert all(module.training for module in stack.model.modules())


def test_texts_that_cannot_be_probed_are_refused():
    with pytest.raises(InputError, match="same name"):
        retrieval_probe(lambda _: None, [bitext(), bitext()], every=1)
