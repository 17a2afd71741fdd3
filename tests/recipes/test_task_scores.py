"""Intervals of what a target loses, for translations and for other texts; counts in files; means over seeds."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from isogloss.measures.scores import Score, f1
from isogloss.recipes.task_scores import ScoredModel, read_scores, result_rows, save_scores
from isogloss.runs.table import mean_rows, row
from isogloss.tasks import TASKS
from isogloss.tasks.task import Task

TASK = TASKS["nli"]


@dataclass(frozen=True)
class Sets:
    source: str
    dev: dict
    tests: list
    source_test: int = 0
    task: Task = TASK


def score(right, floor=0.3):
    return {"accuracy": Score(np.stack([right, np.ones(len(right))], 1).astype(float), floor=floor)}


def rows_of(*tests):
    """Result rows of one model whose answers to these test sets are right or wrong; the first is the source's."""
    names = [SimpleNamespace(language=f"l{number}", name="test") for number in range(len(tests))]
    sets = Sets("l0", {"l0": None}, names)
    model = ScoredModel(
        1e-3, 5, [score(np.ones(3)), *(score(one, 0.3 + number / 100) for number, one in enumerate(tests))]
    )
    return result_rows([model], sets, {"model": "m", "plan": "freeze:-1", "seed": 0})


def gap(rows, target="l1", measure="gap"):
    (one,) = [each for each in rows if each["measure"] == measure and each["target"] == target]
    return one


def width(one):
    return one["high"] - one["low"]


def drawn(n, seed, share=0.7):
    return np.random.default_rng(seed).random(n) < share


def error(*samples):
    """Width of a normal 95% interval of a difference of independent means."""
    return 2 * 1.96 * np.sqrt(sum(one.var() / len(one) for one in samples))


def test_translations_that_are_hard_together_have_a_narrow_gap():
    source = drawn(2000, 0)
    target = source & (np.arange(2000) % 20 > 0)  # the same answers, but one in twenty is wrong besides
    one = gap(rows_of(source, target))
    assert one["value"] == pytest.approx(np.mean(source) - np.mean(target))
    assert one["low"] < one["value"] < one["high"]
    differences = source.astype(float) - target
    assert width(one) == pytest.approx(2 * 1.96 * differences.std() / np.sqrt(2000), rel=0.15)
    assert width(one) < 0.5 * error(source, target)
    same = gap(rows_of(source, source))
    assert (same["value"], same["low"], same["high"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("size", [2000, 700])
def test_unrelated_texts_have_the_gap_of_independent_samples(size):
    source, target = drawn(2000, 0), drawn(size, 1, 0.5)
    one = gap(rows_of(source, target))
    assert width(one) == pytest.approx(error(source, target), rel=0.15)


def test_the_relative_gap_is_a_share_of_the_source_and_others_are_a_mean():
    source, near, far = drawn(1000, 0), drawn(1000, 1, 0.6), drawn(400, 2, 0.4)
    rows = rows_of(source, near, far)
    relative, plain = gap(rows, measure="relative_gap"), gap(rows)
    assert relative["value"] == pytest.approx(plain["value"] / source.mean())
    assert relative["low"] < relative["value"] < relative["high"]
    (mean,) = [one for one in rows if one["target"] == "others" and one["measure"] == "accuracy"]
    assert mean["value"] == pytest.approx((near.mean() + far.mean()) / 2)
    assert width(mean) == pytest.approx(error(near, far) / 2, rel=0.15)
    assert mean["floor"] == pytest.approx(0.315)


@pytest.mark.parametrize("dev", [("l0", "l1"), ("l0", "l1", "l2")])
def test_the_oracles_gap_is_that_of_one_model_and_its_mean_is_over_all_targets(dev):
    """One model is best for the source, another for both targets, in which the source loses two points of ten."""
    tests = [SimpleNamespace(language=f"l{number}", name="test") for number in range(3)]
    points = {1: (9, 5, 5), 2: (7, 6, 6)}  # right answers of ten in each language, by step
    scores = {step: [score(np.arange(10) < right) for right in rights] for step, rights in points.items()}
    models = [ScoredModel(1e-3, step, [*each[: len(dev)], *each]) for step, each in scores.items()]
    rows = result_rows(models, Sets("l0", dict.fromkeys(dev), tests), {"model": "m"})
    for selection, expected in (("", 0.4), ("oracle", 0.1)):
        chosen = [each for each in rows if each.get("selection", "") == selection]
        assert gap(chosen)["value"] == pytest.approx(expected)
        means = [each["value"] for each in chosen if each["measure"] == "gap" and each["target"] == "others"]
        assert means == pytest.approx([] if selection and len(dev) < 3 else [expected])


def test_of_a_source_without_a_right_answer_no_share_is_lost():
    one = gap(rows_of(np.zeros(20), np.ones(20)), measure="relative_gap")
    assert np.isnan(one["value"]), "and not minus infinity, of which no mean over seeds can be made"


def test_every_score_has_its_floor():
    rows = rows_of(drawn(50, 0), drawn(50, 1))
    assert [one["floor"] for one in rows if one["measure"] == "accuracy"] == [0.3, 0.31, 0.31]


def test_counts_come_back_from_their_file(tmp_path):
    scores = [{"a": Score(np.array([[1, 2], [3, 4]]))}, {"a": Score(np.eye(3), f1, 0.25), "b": Score(np.ones((1, 2)))}]
    save_scores(tmp_path / "x", 1, scores)
    for one, other in zip(scores, read_scores(tmp_path / "x" / "counts" / "0000001.npz"), strict=True):
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
