"""Reading rows by their coordinates, judging claims, rows made of rows, and published values beside them."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isogloss.figure import Panel
from isogloss.measures.statistics import Estimate, Interval, two_way_mean
from isogloss.papers import results
from isogloss.papers.claims import Claim, Comparison, Contrast, NotMeasured, Side, above, all_of, below, differs, judge
from isogloss.papers.results import (
    Curves,
    Results,
    by_seed,
    changes,
    differences,
    final,
    mean_over,
    over_seeds,
    rows_at,
)
from isogloss.papers.tables import Captions, Published, read_published
from isogloss.runs.table import KEY, frame, row

NONE = Interval(1.0, math.nan, math.nan, 2)


def interval(low, high):
    return Interval((low + high) / 2, low, high, 3)


@pytest.mark.parametrize(
    ("low", "high", "over", "under", "apart"),
    [
        (1.0, 3.0, Side.HELD, Side.REFUTED, Side.HELD),
        (-3.0, -1.0, Side.REFUTED, Side.HELD, Side.HELD),
        (-1.0, 3.0, Side.OPEN, Side.OPEN, Side.OPEN),
    ],
)
def test_an_interval_lies_on_one_side_or_on_both(low, high, over, under, apart):
    found = interval(low, high)
    assert (above(found), below(found), differs(found)) == (over, under, apart)
    moved = interval(low + 5, high + 5)
    assert (above(moved, 5.0), below(moved, 5.0), differs(moved, 5.0)) == (over, under, apart)


def test_without_an_interval_nothing_is_judged():
    assert over_seeds([1.0, 3.0]).known is False
    assert above(NONE) is below(NONE) is differs(NONE) is None


def test_the_worst_of_several_judges():
    ranks = [Side.REFUTED, None, Side.OPEN, Side.HELD]
    for several in itertools.product(ranks, repeat=3):
        assert all_of(several) == ranks[min(map(ranks.index, several))]
    assert all_of([]) is None


def test_a_finding_whose_interval_reaches_over_is_not_held_and_says_that_it_is_open():
    held, against, over = (Contrast("w", Estimate(mean, 1.0)) for mean in (4.0, -4.0, 1.0))
    unknown = Contrast("w", Estimate(4.0, math.nan))
    for contrasts, verdict in (
        ([held, over], "not held, open"),
        ([against, over], "not held"),
        ([held, held], "held"),
        ([over, unknown], "not judged"),
    ):
        assert judge(Claim("n", "c", lambda _, given=contrasts: given), Results(frame([]))).verdict == verdict


def test_an_interval_over_seeds_is_students():
    values = [1.0, 2.0, 4.0]
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert over_seeds(values) == Interval(pytest.approx(7 / 3), pytest.approx(low), pytest.approx(high), 3)
    ratio = over_seeds({0: 1.0, 5: 2.0, 7: 4.0}, log=True)
    assert ratio.value == pytest.approx(2.0) and ratio.n == 3
    assert over_seeds([0.1, 0.9, 0.2]).clipped().low == 0.0


def test_a_claim_is_judged_by_its_contrasts_and_says_what_is_missing():
    def contrasts(results):
        values = results.values(measure="gap")
        if not values:
            raise NotMeasured("no gap was measured")
        yield Contrast("a gap of {}", values, above, 0.1)

    claim = Claim("gap", "There is a gap.", contrasts)
    rows = [row("gap", 0.2 + 0.01 * seed, seed=seed) for seed in range(3)]
    held = judge(claim, Results(frame(rows)))
    assert held.sentence == "held: There is a gap. Here: a gap of 0.210 [0.185, 0.235] (over seeds alone)."
    few = judge(claim, Results(frame(rows[:2])))
    assert few.sentence == (
        "not judged: There is a gap. Here: a gap of 0.205; intervals are not available from 2 seeds: 3 are the fewest."
    )
    assert judge(claim, Results(frame([row("other", 1.0)]))).measured == "no gap was measured"


def some_results():
    rows = [
        row("p@1", value, layer=layer, seed=seed, source="en", target=target, method="csls", floor=0.1)
        for layer, seed, target, value in [
            (0, 0, "nl", 0.1),
            (0, 1, "nl", 0.2),
            (0, 0, "de", 0.3),
            (0, 1, "de", 0.4),
            (8, 0, "nl", 0.5),
            (8, 1, "nl", 0.6),
            (8, 0, "de", 0.7),
            (9, 0, "nl", 0.9),
        ]
    ]
    rows.append(row("p@1", 0.55, layer=8, source="en", target="nl", method="csls"))  # a mean over seeds
    rows.append(row("cka", 0.5, layer=8, source="en", target="nl"))
    return Results(frame(rows))


def test_values_and_curves_are_read_by_coordinates():
    results = some_results()
    assert results.values(measure="p@1", layer=8, target="nl") == {0: 0.5, 1: 0.6}
    assert results.values(measure="p@1", layer=0, target=["nl", "de"]) == {0: pytest.approx(0.2), 1: pytest.approx(0.3)}
    assert results.values("floor", measure="p@1", layer=0, target="nl") == {0: 0.1, 1: 0.1}
    assert results.values(measure="p@1", layer=8, target="nl", seed=None) == {-1: 0.55}
    assert results.values(measure="cka") == {-1: 0.5}  # no row of it has a seed
    assert results.values(measure="p@1", method=None) == {} == results.values(measure="gap")
    assert results.distinct("target", measure="p@1") == ["nl", "de"]
    assert len(results.where(measure="p@1", layer=0)) == 4
    curves = results.curves("layer", measure="p@1", target="nl")
    assert curves.steps.tolist() == [0, 8] and curves.seeds == (0, 1)  # layer 9 has one seed alone
    assert curves.at(8) == {0: 0.5, 1: 0.6} and curves.at(0, 8) == {0: pytest.approx(0.3), 1: pytest.approx(0.4)}
    assert curves.at(9) == {} and results.curves("step", measure="p@1") is None


def test_layer_and_seed_zero_are_coordinates_like_any_other():
    assert some_results().values(measure="p@1", layer=0, seed=0, target="nl") == {0: 0.1}


def test_lines_of_curves_have_bands_from_three_seeds_on():
    curves = Curves(np.array([0.0, 1.0, 2.0]), np.array([[1.0, 2, 3], [3, 2, 3], [2, 2, 3]]), (0, 1, 2))
    line = curves.line("mean", until=1.0, thick=True)
    assert (line.steps, line.value, line.thick) == ([0.0, 1.0], [2.0, 2.0], True)
    assert line.low[0] == pytest.approx(over_seeds([1.0, 3.0, 2.0]).low)
    assert not Curves(curves.steps, curves.values[:2], (0, 1)).line("mean").low


def test_differences_are_by_seed():
    assert differences({0: 1.0, 1: 2.0}, {1: 0.5, 2: 9.0}) == {1: 1.5}
    assert differences({0: 1.0, 1: 2.0}, {-1: 4.0}, log=True) == {0: 0.25, 1: 0.5}


def test_rows_of_rows():
    rows = [
        row("accuracy", value, plan=plan, target=target, seed=seed, floor=0.3)
        for plan, shift in (("freeze:-1", 0.0), ("freeze:8", 0.1))
        for target, base in (("nl", 0.5), ("de", 0.7))
        for seed, value in enumerate(base + shift * (1 + off) for off in (-0.1, 0.0, 0.1))
    ]
    others = list(mean_over(rows, "target", target="others"))
    assert others[0] == pytest.approx(row("accuracy", 0.6, n=2, plan="freeze:-1", target="others", seed=0, floor=0.3))
    assert len(others) == 6
    apart = list(changes(rows, plan="freeze:-1"))
    assert [(each["measure"], each["unit"], each["plan"], each["target"]) for each in apart] == [
        ("change", "accuracy", "freeze:8", "nl"),
        ("change", "accuracy", "freeze:8", "de"),
    ]
    assert apart[0]["value"] == pytest.approx(0.1) and apart[0]["low"] == pytest.approx(
        over_seeds([0.09, 0.1, 0.11]).low
    )
    factor = next(changes(rows, plan="freeze:-1", measure="factor", log=True))
    assert factor["value"] == pytest.approx(over_seeds([0.59 / 0.5, 0.6 / 0.5, 0.61 / 0.5], log=True).value)


def test_rows_of_jobs_are_taken_when_trainings_are_finished_and_moved_to_other_coordinates():
    table = frame(
        [
            row("accuracy", 0.4, step=10, seed=0, target="nl"),
            row("accuracy", 0.5, seed=0, target="nl", data="nl_test", n=9, floor=0.3),
            row("accuracy", 0.6, seed=0, target="others"),
            row("accuracy", 0.5, target="nl"),
        ]
    )
    assert final(table).value.tolist() == [0.5]
    assert list(rows_at(final(table), ("target",), plan="both", seed=7)) == [
        row("accuracy", 0.5, target="nl", n=9, floor=0.3, plan="both", seed=7)
    ]


def test_a_published_value_stands_beside_the_rows_at_its_coordinates():
    line = {"measure": "accuracy", "value": "0.7", "plan": "freeze:8", "target": "de", "reference": "Table 1"}
    known = Published([line])
    mine = row("accuracy", 0.6, plan="freeze:8", target="de", seed=1)
    assert known.beside(mine)["published"] == 0.7
    for other in ({"target": "nl"}, {"plan": ""}, {"selection": "oracle"}, {"condition": "switch:0.5"}):
        assert "published" not in known.beside({**mine, **other}), other
    assert known.beside({**mine, "target": "qab"}, target="de") == {**mine, "target": "qab", "published": 0.7}
    assert known.value(reference="Table", target="de") == 0.7
    with pytest.raises(KeyError):
        known.value(target="nl")


@pytest.mark.parametrize(
    "path", sorted((Path(results.__file__).parent / "published").glob("*.csv")), ids=lambda path: path.stem
)
def test_every_published_number_has_a_reference_and_known_columns(path):
    for line in read_published(path.stem).lines:
        assert line["reference"] and math.isfinite(float(line["value"])), line
        assert set(line) <= {*KEY, "value", "spread", "reference"}


def test_a_comparison_has_intervals_over_seeds_and_over_pairs_of_languages():
    levels = {"a": {"fr": 0.5, "de": 0.6, "ru": 0.3}, "b": {"fr": 0.4, "de": 0.4, "ru": 0.3, "zh": 0.9}}
    rows = [
        row("accuracy", level + 0.01 * seed * (plan == "a"), plan=plan, source="en", target=target, seed=seed)
        for plan, targets in levels.items()
        for target, level in targets.items()
        for seed in range(3)
    ]
    found, sides = Results(frame(rows)), ({"plan": "a"}, {"plan": "b"})
    over_seeds_alone = Comparison("a above b", {"measure": "accuracy"}, *sides)
    (one,) = over_seeds_alone(found)
    assert one.values == pytest.approx({0: 0.1, 1: 0.11, 2: 0.12})
    low, high = stats.t.interval(0.95, 2, 11.0, stats.sem([10, 11, 12]))
    (judged,) = judge(Claim("", "", over_seeds_alone), found).contrasts
    assert judged.judged is Side.HELD and judged.words == (
        f"a above b by +11.0 [{low:+.1f}, {high:+.1f}] (over seeds alone) (47.7 less 36.7; fr +11.0, de +21.0, ru +1.0)"
    )  # zh has one side only
    both = Comparison("a above b", {"measure": "accuracy"}, *sides, over=("seeds", "pairs"))
    finding = judge(Claim("", "", both), found)
    pairs = finding.contrasts[1]
    low, high = stats.t.interval(0.95, 2, 11.0, stats.sem([11, 21, 1]))
    assert pairs.words == f"+11.0 [{low:+.1f}, {high:+.1f}] over 3 pairs" and pairs.judged is Side.OPEN
    assert finding.verdict == "not held, open"
    few = Comparison("", {"target": ("fr", "de")}, *sides, over=("pairs",), shares=False)
    (told,) = judge(Claim("", "", few), found).contrasts
    assert "+0.160 over 2 pairs, too few for an interval (0.560 less 0.400;" in told.words and told.judged is None
    assert not list(Comparison("", {"measure": "gap"}, *sides)(found))


def scored(random, plans, *, seeds=3, items=200, shared=1.0):
    """Rows of plans on the same items, of which some are harder for all: `plans` has the mean of each."""
    hard = shared * random.normal(size=items)
    for plan, level in plans.items():
        for seed in range(seeds):
            scores = level + hard + 0.3 * random.normal(size=items)
            without = [np.delete(scores, np.arange(part * 10, part * 10 + 10)).mean() for part in range(20)]
            reach = 1.96 * scores.std() / math.sqrt(items)
            mean = scores.mean()
            yield row("s", mean, low=mean - reach, high=mean + reach, parts=without, plan=plan, seed=seed)


def test_what_is_left_of_a_row_without_each_part_of_the_items():
    rows = list(scored(np.random.default_rng(0), {"a": 0.0, "b": 0.5}))
    found = Results(frame(rows))
    by_hand = np.array([[float(part) for part in entry["parts"].split()] for entry in rows[:3]])
    left = np.array([list(left.values(plan="a").values()) for left in found.left_out]).T
    assert left == pytest.approx(by_hand)
    claim = Claim("", "", lambda some: [Contrast("{}", some.values(plan="a"))])
    expected = two_way_mean(found.values(plan="a"), by_hand).interval()
    assert judge(claim, found).measured == f"{expected.share}"
    assert found.values(plan="a")[0] == rows[0]["value"]  # the rows themselves stay


def test_plans_on_the_same_items_are_compared_on_them():
    """With `parts` what is hard for both does not matter; with intervals alone they count as read on other items."""
    claim = Claim("", "", lambda some: [Contrast("{}", differences(some.values(plan="b"), some.values(plan="a")))])
    widths = {"parts": [], "intervals": [], "level": []}
    for seed in range(8):
        rows = list(scored(np.random.default_rng(seed), {"a": 0.0, "b": 0.5}))
        bare = [{name: cell for name, cell in entry.items() if name != "parts"} for entry in rows]
        level = Claim("", "", lambda some: [Contrast("{}", some.values(plan="a"))])
        for name, given, what in (("parts", rows, claim), ("intervals", bare, claim), ("level", bare, level)):
            (contrast,) = judge(what, Results(frame(given))).contrasts
            low, high = map(float, contrast.words.partition("[")[2].strip("]").split(", "))
            widths[name].append(high - low)
    half = {name: float(np.mean(width)) / 2 for name, width in widths.items()}
    assert half["parts"] < 0.35 * half["intervals"]
    alone = 1.96 * math.sqrt((1 + 0.3**2) / 200)  # of one plan, over items
    assert half["level"] == pytest.approx(1.1 * alone, rel=0.15)  # t with 19 degrees of freedom
    assert half["intervals"] == pytest.approx(math.sqrt(2) * half["level"], rel=0.2)


def test_several_contrasts_of_a_claim_are_corrected_together():
    rows = [row("s", 0.1 * number + 0.01 * seed, plan=str(number), seed=seed) for number in (1, 2) for seed in range(3)]
    claim = Claim("", "", lambda some: [Contrast("{}", some.values(plan=plan)) for plan in ("1", "2")])
    error, words = stats.sem([0.0, 0.01, 0.02]), [each.words for each in judge(claim, Results(frame(rows))).contrasts]
    for told, mean, level in zip(words, (0.11, 0.21), (0.95, 0.975), strict=True):  # the smaller p value comes first
        low, high = stats.t.interval(level, 2, mean, error)
        assert told == f"{mean:.3f} [{low:.3f}, {high:.3f}] (over seeds alone)"


def test_means_of_rows_have_the_means_of_their_parts_and_of_the_ends_of_their_intervals():
    rows = [row("s", 0.5 + shift, low=0.4, high=0.7, parts=[0.5 + shift] * 20, target=str(shift)) for shift in (0, 0.2)]
    (mean,) = mean_over(rows, "target", target="others")
    assert (mean["low"], mean["high"], mean["over"]) == (pytest.approx(0.4), pytest.approx(0.7), "items")
    assert [float(part) for part in mean["parts"].split()] == pytest.approx([0.6] * 20)


def test_words_of_tables_and_figures_are_filled_in():
    words = Captions(
        {
            "shared": "Means of it.",
            "table": {"title": "In {language}", "notes": ["{shared}", "Of {language}."]},
            "figure": {"title": "By layer", "caption": "{model}: {shared}", "xlabel": "layer", "log": True},
        }
    )
    assert words.table("table", "And more.", language="nl") == {
        "title": "In nl",
        "notes": ["Means of it.", "Of nl.", "And more."],
        "corner": "",
    }
    assert words.table("figure", model="mini")["notes"] == ["mini: Means of it."]  # a figure as a table
    (figure,) = words.figure("figure-1", [Panel("", [])], like="figure", model="mini")
    assert (figure.name, figure.caption, figure.xlabel, figure.log) == ("figure-1", "mini: Means of it.", "layer", True)
    assert words.figure("figure", [], model="mini") == []  # nothing was drawn


def test_ratios_over_several_languages_have_a_geometric_mean():
    cells = {("before", "nl"): 2.0, ("before", "de"): 5.0, ("after", "nl"): 4.0, ("after", "de"): 40.0}
    rows = [row("perplexity", value, plan=plan, target=target, seed=0) for (plan, target), value in cells.items()]
    at = {"measure": "perplexity", "plan": "after", "target": ["nl", "de"], "base": {"plan": "before"}}
    assert Results(frame(rows)).values(**at, log=True) == pytest.approx({0: 4.0})  # of 2 and 8
    assert Results(frame(rows)).values(**at) == pytest.approx({0: 18.5})  # of 2 and 35
    assert by_seed([{0: 1.0, 1: 2.0}, {1: 4.0}], min) == {1: 2.0}
