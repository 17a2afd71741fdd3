"""CKA and retrieval over layers: against scipy on curves written down, averaged over what is not asked for."""

import numpy as np
import pytest
from scipy import stats

import isogloss as ig
from isogloss.errors import InputError
from isogloss.papers.likeness import likeness_and_retrieval
from isogloss.runs.table import frame, row
from isogloss.text.invented import invented

WAY = "procrustes+iterative inductive cosine"
ALIKE = {"fr": [0.65, 0.71, 0.70, 0.70, 0.64, 0.59], "zh": [0.60, 0.67, 0.65, 0.64, 0.60, 0.56]}
FOUND = {"fr": [0.50, 0.61, 0.55, 0.57, 0.41, 0.35], "zh": [0.20, 0.28, 0.27, 0.22, 0.21, 0.12]}


def rows(seeds=(0, 1)):
    """Rows as rotate leaves them: one of CKA, two directions of P@1; values of seeds lie around those above."""
    found = []
    for target, seed in ((target, seed) for target in ALIKE for seed in seeds):
        move = 0.01 * (seed - np.mean(seeds))
        for layer, (alike, hit) in enumerate(zip(ALIKE[target], FOUND[target], strict=True)):
            at = {"layer": layer, "seed": seed, "model": "en", "other_model": target}
            ends = {"source": "en", "target": target}
            found.append(row("cka", alike + move, variant="train", **at, **ends))
            found.append(row("cka", 0.1 * layer, variant="test", **at, **ends))
            found.append(row("p@1", hit + 0.05, variant=WAY, **at, **ends))
            found.append(row("p@1", hit - 0.05, variant=WAY, **at, source=target, target="en"))
            found.append(row("p@1", 0.5, variant="raw cosine", **at, **ends))
    return frame(found)


def test_each_pair_is_what_scipy_says_and_pairs_are_pooled_within():
    found = likeness_and_retrieval(rows())
    for target in ALIKE:
        one = found["en", target]
        assert one.value == pytest.approx(stats.pearsonr(ALIKE[target], FOUND[target]).statistic, abs=1e-12)
        assert one.low <= one.value <= one.high and one.n == 6
    inner = [np.concatenate([np.subtract(one, np.mean(one)) for one in curves.values()]) for curves in (ALIKE, FOUND)]
    assert found[None].value == pytest.approx(stats.pearsonr(*inner).statistic, abs=1e-12)
    ranks = likeness_and_retrieval(rows(), kind="spearman", text="test")
    assert ranks["en", "fr"].value == pytest.approx(stats.spearmanr(range(6), FOUND["fr"]).statistic)


def test_layers_without_both_are_left_out_and_nothing_to_correlate_is_said():
    some = rows()
    some = some[~((some.measure == "cka") & (some.layer == 2) & (some.target == "zh"))]
    assert likeness_and_retrieval(some)["en", "fr"].n == 5
    with pytest.raises(InputError, match="no two layers have both cka of the train text and P@1 of 'ridge cosine'"):
        likeness_and_retrieval(some, way="ridge cosine")


def test_rows_of_a_run_can_be_given(tiny):
    text = invented(("qaa", "qab"), sentences=60, seed=2)
    table = ig.rotate(tiny("bert"), text.take(range(20)), train=text.take(range(20, 60)), random=True, device="cpu")
    found = likeness_and_retrieval(table)
    assert set(found) == {("qaa", "qab"), None} and found[None].n == 4
