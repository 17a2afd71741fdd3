"""Every registered measure keeps what it declares: range, direction, invariances. A new one is tested by existing."""

import math
from types import SimpleNamespace

import pytest
import torch

from isogloss.measures.registry import INVARIANCES, MEASURES, ROW_MEASURES, describe, direction, measure

PAIRS = [name for name, entry in MEASURES.items() if entry.takes == "pair"]
SPACES = [name for name, entry in MEASURES.items() if entry.takes == "space"]
SHAPES = [(12, 3), (40, 8), (30, 64)]


def test_rows_are_of_pairs_or_of_directions():
    undirected = ("cka", "cka_biased", "mexa", "anc", "separability")
    assert all(describe(name).undirected for name in undirected)
    assert not any(describe(name).undirected for name in ("p@1", "p@20", "mrr_mean", "xsim", "word_agreement", "aer"))


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def rotation(d, seed=7):
    return torch.linalg.qr(draw(d, d, seed)).Q


def related(n=60, d=8):
    """Two spaces with something in common, off the origin, so that no measure sits at the end of its range."""
    x = draw(n, d, 1) + 0.5
    return x, 0.6 * x + 0.8 * draw(n, d, 2) + 0.2


def changed(name, x, y):
    """The arguments after the change that must not matter."""
    d = x.shape[1]
    order = torch.randperm(x.shape[0], generator=torch.Generator().manual_seed(3))
    offset = torch.linspace(-3, 5, d, dtype=x.dtype)
    return {
        "rotation": lambda: (x @ rotation(d), y),
        "scale": lambda: (2.5 * x, y),
        "shift": lambda: (x + offset, y),
        "joint rotation": lambda: (x @ rotation(d), y @ rotation(d)),
        "joint shift": lambda: (x + offset, y + offset),
        "permutation of items": lambda: (x[order], y[order]),
        "symmetric": lambda: (y, x),
    }[name]()


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_range_is_kept_on_random_pairs(name, shape, dtype):
    low, high = MEASURES[name].range
    for seed in range(4):
        x = draw(*shape, seed, dtype)
        for y in (draw(*shape, seed + 100, dtype), x, -x, x + 1e-3 * draw(*shape, seed + 200, dtype)):
            value = MEASURES[name].function(x, y)
            assert isinstance(value, float)
            assert low - 1e-9 <= value <= high + 1e-9


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_range_is_kept_on_random_spaces(name, shape):
    low, high = MEASURES[name].range
    for x in (draw(*shape, 1), draw(*shape, 2) + 10, torch.ones(shape)):
        assert low - 1e-9 <= MEASURES[name].function(x) <= high + 1e-9


@pytest.mark.parametrize(
    ("name", "invariance"),
    [(name, each) for name in PAIRS for each in sorted(MEASURES[name].invariances)],
)
def test_declared_invariance_holds_for_pairs(name, invariance):
    x, y = related()
    before, after = (MEASURES[name].function(*each) for each in ((x, y), changed(invariance, x, y)))
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "invariance"),
    [(name, each) for name in SPACES for each in sorted(MEASURES[name].invariances)],
)
def test_declared_invariance_holds_for_spaces(name, invariance):
    x, y = related()
    before, after = (MEASURES[name].function(each) for each in (x, changed(invariance, x, y)[0]))
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


# Undeclared invariances are checked too: a measure that turns out blind to something must say so.
@pytest.mark.parametrize(
    ("name", "invariance"),
    [
        (name, each)
        for name in PAIRS
        for each in sorted({"rotation", "scale", "shift", "symmetric"} - MEASURES[name].invariances)
    ],
)
def test_what_is_not_declared_does_change_the_value(name, invariance):
    x, y = related()
    before, after = (MEASURES[name].function(*each) for each in ((x, y), changed(invariance, x, y)))
    assert abs(after - before) > 1e-6


@pytest.mark.parametrize("name", [name for name in PAIRS if MEASURES[name].higher_is_better is not None])
def test_a_perfect_pair_scores_better_than_a_shuffled_one(name):
    x, _ = related()
    order = torch.randperm(x.shape[0], generator=torch.Generator().manual_seed(5))
    perfect, shuffled = (MEASURES[name].function(x, y) for y in (x.clone(), x[order]))
    assert (perfect > shuffled) if MEASURES[name].higher_is_better else (perfect < shuffled)


def test_isotropic_vectors_are_better_than_a_narrow_cone():
    wide, narrow = draw(50, 6, 1), draw(50, 6, 1) + 10
    entry = MEASURES["anisotropy"]
    assert not entry.higher_is_better
    assert entry.function(wide) < entry.function(narrow)


@pytest.mark.parametrize("name", ["accuracy", "span_f1", "uas", "las", "exact_match", "answer_f1"])
def test_scores_of_tasks_declare_that_higher_is_better_and_keep_it(name):
    """The gold answer scores the top of the range, a wrong one the bottom."""
    tree = SimpleNamespace(heads=(0, 1), relations=("root", "obj"), tags=("VERB", "NOUN"))
    wrong_tree = SimpleNamespace(heads=(2, 0), relations=("x", "y"), tags=("VERB", "NOUN"))
    gold, right, wrong = {
        "accuracy": (["a", "b"], ["a", "b"], ["b", "a"]),
        "span_f1": ([["B-X", "O"]], [["B-X", "O"]], [["O", "B-X"]]),
        "uas": ([tree], [tree], [wrong_tree]),
        "las": ([tree], [tree], [wrong_tree]),
        "exact_match": (["Paris"], "Paris", "London"),
        "answer_f1": (["Paris"], "Paris", "London"),
    }[name]
    entry = MEASURES[name]
    assert entry.higher_is_better
    assert entry.function(gold, right) == entry.range[1] == 1.0
    assert entry.function(gold, wrong) == entry.range[0] == 0.0


@pytest.mark.parametrize("name", [*PAIRS, *SPACES])
def test_facts_are_complete(name):
    entry = MEASURES[name]
    assert entry.name == name
    assert entry.range[0] < entry.range[1]
    assert entry.invariances <= INVARIANCES
    assert not math.isnan(entry.range[0])


@pytest.mark.parametrize("name", [*MEASURES, *ROW_MEASURES])
def test_every_measure_of_a_table_has_a_title_and_an_explanation(name):
    facts = describe(name)
    assert facts.name == name and facts.known
    assert facts.title and facts.title != name and facts.explanation.endswith((".", "?"))
    assert facts.range[0] < facts.range[1]
    assert facts.axis is None or facts.range[0] <= facts.axis[0] < facts.axis[1] <= facts.range[1]
    if name in MEASURES and facts.better != "neither":
        assert (facts.better == "higher") is MEASURES[name].higher_is_better is direction(name)


def test_derived_names_are_described_by_their_parts():
    assert describe("p@3").title == "Retrieval P@3" and describe("p@3").better == "higher"
    assert describe("l2_drift_mean").range == describe("l2_drift").range
    assert describe("p@1_mean").title == "Retrieval P@1, mean" and "pairs of" in describe("cka_mean").explanation
    assert (describe("p@1_behind").range, describe("cka_behind").range) == ((-1.0, 1.0), (-2.0, 2.0))
    assert (describe("mrr_mean").title, describe("mrr_mean").axis) == ("Mean reciprocal rank, mean", None)
    assert describe("mrr_behind").better == "lower"
    assert direction("p@1_mean") is True and direction("perplexity_mean") is False and direction("gap") is None
    for name in ("p@x", "p@0", "unheard", "unheard_mean", "_mean", "mean"):
        assert not describe(name).known and describe(name).title == name and describe(name).better == "neither"


def test_same_input_gives_the_same_number_to_the_bit():
    x, y = related()
    for name in PAIRS:
        assert MEASURES[name].function(x, y) == MEASURES[name].function(x.clone(), y.clone())


def test_arguments_are_left_as_they_were():
    x, y = related()
    copies = x.clone(), y.clone()
    for name in PAIRS:
        MEASURES[name].function(x, y)
    assert torch.equal(x, copies[0])
    assert torch.equal(y, copies[1])


def test_a_name_is_given_once_and_the_function_stays_plain():
    def answer(x, y):
        return 42.0

    try:
        declared = measure("test only", higher_is_better=True, range=(0.0, 50.0), takes="other")(answer)
        assert declared is answer
        with pytest.raises(ValueError, match="already registered"):
            measure("test only", higher_is_better=True, range=(0.0, 1.0))(math.hypot)
    finally:
        del MEASURES["test only"]
    with pytest.raises(ValueError, match="unknown invariances"):
        measure("odd", range=(0.0, 1.0), invariances=("mood",))(answer)
