"""Published numbers against the paper, and tables, figures and findings on rows made by hand."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isogloss.errors import InputError
from isogloss.figure import Table, as_text
from isogloss.papers import hussain2020 as paper
from isogloss.papers.claims import Side, all_of, judge
from isogloss.papers.hussain2020 import PUBLISHED, since_lowest
from isogloss.papers.paper import Request, find, names, summary
from isogloss.papers.results import Curves, Results, over_seeds
from isogloss.recipes.drift import read_corpora, split
from isogloss.runs import read_rows
from isogloss.runs.table import frame, row
from isogloss.text.corpora import Corpus
from tiny_reproduction import HELD, changed

PAPER = find("hussain2020")
STEPS = (0, 500, 1000, 1500, 2000, 2500, 3000)  # three epochs of 1,000
ORDER = {paper.ALL: 5.0, paper.GRADUAL: 6.0, paper.LAST_6: 7.0, paper.LAST_3: 8.0, paper.LAST_1: 9.0}


def settled(block, share):
    """A distance that moves by 1, and after the first epoch by a share of that; its level hangs on the block."""
    return [10 + block + moved for moved in (0, 0.5, 1 - share, 1, 1, 1, 1)]


def made(seeds=3, tests=ORDER, own=(20, 10, 8, 6, 5, 4, 4), others=(10, 12, 14, 16, 18, 20, 22), native=3.0, rest=0.1,
         noise=0.01):  # fmt: skip
    """Rows of a reproduction in which everything is as the paper says, unless told otherwise."""
    rows = []
    for plan, test in tests.items():
        for seed in range(seeds):
            place = {"model": "m", "plan": plan, "seed": seed}
            wobble = [0 if step == 0 else noise * math.sin(1 + seed * 3 + step) for step in STEPS]
            for step, here, there, off in zip(STEPS, own, others, wobble, strict=True):
                for unit, power in (("token", 1.0), ("character", 0.3)):
                    at = {**place, "unit": unit, "step": step}
                    rows.append(row("perplexity", (here + off) ** power, data="validation", target="nl", **at))
                    rows.append(row("perplexity", (there + off) ** power, data="x.txt", target="others", **at))
            for block in (*range(1, 13), 0):
                for step, value, off in zip(STEPS, settled(block, rest), wobble, strict=True):
                    at = {**place, "layer": block, "step": step, "other_model": "native"}
                    rows.append(row("l2_drift", value + 0.01 * math.sin(off), data="validation", **at))
            score = test * (1 + 0.1 * noise * seed)
            for unit, value in (("token", score), ("character", score**0.3)):
                rows.append(row("perplexity", value, data="test", target="nl", step=2000, unit=unit, **place))
    for model, value in (("m", 15.0), ("native", 30.0)):
        at = {"model": model, "plan": "untuned", "seed": 0, "data": "test", "target": "nl"}
        rows.append(row("perplexity", value, unit="token", **at))
        rows.append(row("perplexity", native if model == "native" else value**0.3, unit="character", **at))
    return frame(rows)


def judged(rows):
    return {one.name: HELD[one.verdict] for one in PAPER.findings(Results(rows))}


ALL_HELD = dict.fromkeys(
    ["null", "forgetting", "falls", "crossing", "all layers best", "gradual second", "then last 6, 3, 1", "native",
     "settles", "levels", "last layer"], True,
)  # fmt: skip


def test_the_registry_knows_the_paper():
    assert "hussain2020" in names()
    assert all(find(name).name == name for name in names())


def test_published_numbers_are_those_of_the_paper():
    first = {(int(line["step"]), line["target"]): line for line in PUBLISHED.where(reference="Table 1")}
    assert {at: (float(line["value"]), float(line["spread"])) for at, line in first.items()} == {
        (1, "tuned"): (11.54, 1.28),
        (1, "others"): (6.08, 0.33),
        (501, "tuned"): (7.76, 0.86),
        (501, "others"): (10.39, 0.69),
        (1501, "tuned"): (5.56, 0.56),
        (1501, "others"): (22.45, 1.60),
    }
    tests = {line["plan"]: line["value"] for line in PUBLISHED.where(measure="perplexity", data="test")}
    assert tests == {
        "last:12": "7.342",
        "last:6": "9.045",
        "last:3": "14.159",
        "last:1": "16.110",
        "unfreeze:4/epoch": "8.950",
        "untuned": "23.547",
    }
    # The paper's own columns agree: the perplexity is that of the loss.
    losses = {line["plan"]: float(line["value"]) for line in PUBLISHED.where(measure="loss")}
    assert all(abs(math.exp(losses[plan]) - float(value)) < 0.01 * float(value) for plan, value in tests.items())
    top = PUBLISHED.where(measure="l2_drift", layer=12)
    assert {(line["plan"], line["step"]): float(line["value"]) for line in top} == {
        ("last:12", "first"): 27.66,
        ("last:12", "last"): 28.60,
        ("unfreeze:4/epoch", "first"): 26.89,
        ("unfreeze:4/epoch", "last"): 27.83,
        ("last:6", "first"): 26.79,
        ("last:6", "last"): 27.36,
        ("last:1", "first"): 27.12,
        ("last:1", "last"): 27.93,
    }
    for plan in ("last:12", "unfreeze:4/epoch", "last:6", "last:1"):
        blocks = {int(line["layer"]) for line in PUBLISHED.where(measure="l2_drift", plan=plan)}
        assert blocks == {1, 4, 6, 8, 9, 10, 11, 12}


def test_the_results_of_the_repository_give_their_summary():
    folder = Path(__file__).parents[2] / "results" / "hussain2020"
    made_again = "\n\n".join(summary(PAPER, read_rows(folder))) + "\n"
    assert made_again == (folder / "summary.txt").read_text(encoding="utf-8")


def test_everything_as_the_paper_says_is_held():
    assert judged(made()) == ALL_HELD
    crossed = next(one for one in PAPER.findings(Results(made())) if one.name == "crossing")
    # Between 0 and 500, in logarithms: 20 against 10, then 10 against 12.
    apart = math.log(20 / 10) / (math.log(20 / 10) - math.log(10 / 12))
    assert f"they cross so in 3 of 3 seeds, at step {500 * apart:.0f} [" in crossed.measured


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"others": (10,) * 7, "own": (20, 10, 9, 9, 9, 9, 9), "noise": 0.5}, {"null", "forgetting"}),
        ({"own": (8, 10, 11, 12, 13, 14, 15)}, {"falls", "crossing"}),
        ({"own": (9, 8, 7, 6, 5, 4, 4)}, {"crossing"}),  # below the others from the first
        ({"own": (60, 50, 40, 40, 35, 35, 30)}, {"crossing"}),  # above them to the last
        ({"tests": {**ORDER, paper.LAST_3: 4.0}}, {"all layers best", "gradual second", "then last 6, 3, 1"}),
        ({"tests": {**ORDER, paper.GRADUAL: 7.5}}, {"gradual second"}),
        ({"tests": {**ORDER, paper.LAST_1: 7.5}}, {"then last 6, 3, 1"}),
        ({"native": 1.2}, {"native"}),
        ({"rest": 0.9}, {"last layer"}),  # still moves in the second epoch, no longer in the third
    ],
)
def test_what_is_otherwise_is_not_held(changes, fails):
    found = judged(made(**changes))
    assert {name for name, held in found.items() if held is False} == fails
    assert None not in found.values()


FALL = (13, 10.7, 10.6, 10.5, 10.6, 10.6, 10.6)  # as a model does that first gets used to the form of the text


def told(rows, name):
    return next(one for one in PAPER.findings(Results(rows)) if one.name == name)


def test_a_fall_rejects_the_null_hypothesis_and_is_no_forgetting():
    rows = made(others=FALL, noise=0.02)
    null, forgetting = told(rows, "null"), told(rows, "forgetting")
    assert HELD[null.verdict] is True and "that of the others fell from 13.0 to 10.6, a factor of 0.8" in null.measured
    assert ": a fall, where the paper sees a rise" in null.measured
    assert HELD[forgetting.verdict] is False and "from step 0 it fell by a factor of 0.8" in forgetting.measured
    rise = told(made(), "null").measured
    assert "rose from 10.0 to 22.0" in rise and "a fall" not in rise


def test_a_rise_after_a_fall_is_seen_from_the_lowest_point_and_is_not_a_rise_from_the_start():
    rows = made(others=(13, 10, 9, 9.5, 10, 11, 12), noise=0.02)
    found = told(rows, "forgetting")
    assert [one.judged is Side.HELD for one in found.contrasts] == [False, True] and HELD[found.verdict] is False
    assert "from its lowest point (step 1,000) to the end it rose by a factor of 1.33" in found.measured
    fewer = told(made(others=(13, 10, 9, 9.5, 10, 11, 12), seeds=2), "forgetting")
    assert [one.judged for one in fewer.contrasts] == [None, None]
    assert "it fell by a factor of 0.923;" in fewer.measured and "it rose by a factor of 1.333;" in fewer.measured


def test_noise_alone_is_no_rise_from_the_lowest_point():
    """Own lowest points are below the end by construction; those that other seeds choose are not."""
    generator = np.random.default_rng(0)
    steps = np.arange(20.0)
    chosen, own = [], []
    for _ in range(300):
        values = np.exp(0.05 * generator.standard_normal((3, 20)))
        ratios, at = since_lowest(Curves(steps, values, (0, 1, 2)))
        for seed in range(3):  # the same by hand
            others = [values[one] for one in range(3) if one != seed]
            lowest = min(range(20), key=lambda step: others[0][step] * others[1][step])
            assert at[seed] == steps[lowest] and ratios[seed] == values[seed, -1] / values[seed, lowest]
        chosen.append(np.log(ratios).mean())
        own.append(np.log(values[:, -1] / values.min(axis=1)).mean())
    assert abs(np.mean(chosen)) < 0.005 and np.mean(own) > 0.05
    alone, at = since_lowest(Curves(steps[:3], np.array([[4.0, 2.0, 3.0]]), (0,)))
    assert alone.tolist() == [1.5] and at.tolist() == [1.0]


def test_curves_that_do_not_cross_say_where_they_lie_and_which_way_they_went():
    found = told(made(own=(5, 4.6, 4.4, 4.3, 4.2, 4.2, 4.2), others=FALL), "crossing")
    assert HELD[found.verdict] is False
    course = "what is tuned on begins below (5.00 against 13.0) and ends below (4.20 against 10.6)"
    ratio = "its ratio to the others is 0.385 [0.385, 0.385] (over seeds alone) at first; 0.396 ["
    assert f"per token they cross so in 0 of 3 seeds: {course}; {ratio}" in found.measured
    assert "per character they cross so in 0 of 3 seeds" in found.measured
    turned = told(made(own=(5, 6, 8, 12, 13, 14, 15), others=FALL), "crossing")
    assert HELD[turned.verdict] is False and "the other way round in 3" in turned.measured


def test_the_table_of_others_has_every_plan_and_language():
    rows = made(others=FALL, noise=0.0)
    single = rows[rows.target == "others"].assign(target="de", data="de.txt")
    third = PAPER.tables(Results(pd.concat([rows, single], ignore_index=True)))[2]
    lines = {line[0]: line[1:] for line in third.rows}
    assert list(lines) == [*paper.PLANS.values(), "all 12 layers, German"]
    assert third.columns[1:3] == ["step 0", "step 500"]
    expected = ["13.0", "10.7", "1,500", "10.6", "0.815 [0.815, 0.815]", "1.010 [1.010, 1.010]"]
    assert lines["last layer"] == lines["all 12 layers, German"] == expected


def test_levels_that_do_not_differ_and_blocks_that_go_on_moving_are_not_held():
    rows = made()
    far = rows.measure == "l2_drift"
    rows.loc[far, "value"] = 10 + 0.001 * rows.loc[far, "step"].astype(float) * (
        1 + rows.loc[far, "seed"].astype(float)
    )
    found = judged(rows)
    assert (found["settles"], found["levels"]) == (False, False)
    words = told(rows, "settles").measured
    assert all(re.search(rf"block {block} 1\.581 \[0\.\d+, \d", words) for block in range(1, 13)), words


def test_blocks_without_a_difference_do_not_settle_at_different_levels(monkeypatch):
    """The highest of twelve blocks is above the lowest in every seed; the ones that other seeds choose need not be."""
    generator, empty, verdicts = np.random.default_rng(0), Results(frame([])), []
    for _ in range(100):
        ends = 10 + generator.normal(size=(12, 3, 1))
        curves = {block: Curves(np.array([0.0]), values, (0, 1, 2)) for block, values in enumerate(ends, 1)}
        monkeypatch.setattr(paper, "_distances", lambda *_, curves=curves: curves)
        verdicts.append(judge(paper.levels, empty).verdict)
    assert verdicts.count("held") <= 8


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_judge_nothing_and_say_so(seeds):
    rows = made(seeds=seeds)
    assert set(judged(rows).values()) == {None}
    for one in PAPER.findings(Results(rows)):
        assert one.verdict == "not judged" and "[" not in one.measured, one
        assert f"intervals are not available from {seeds} seed" in one.measured
    assert "[" not in "".join(as_text(table) for table in PAPER.tables(Results(rows)))
    assert all(
        not line.low for picture in PAPER.figures(Results(rows)) for panel in picture.panels for line in panel.lines
    )


def test_plans_that_were_not_run_leave_findings_open():
    rows = made(tests={paper.LAST_1: 9.0})
    found = judged(rows)
    assert {name for name, held in found.items() if held is not None} == {"native", "last layer"}
    assert all(one.measured for one in PAPER.findings(Results(rows)))
    without = rows[(rows.other_model == "") & (rows.model != "native")]
    assert set(judged(without).values()) == {None}
    assert [picture.name for picture in PAPER.figures(Results(without))] == []


def test_a_model_is_not_native_beside_itself():
    """Regression: `--native` with the tuned model divided by its distance of 0 to itself."""
    rows = made()
    away = rows.other_model == "native"
    rows.loc[away & (rows.step == 0), "value"] = 0.0
    rows = rows[rows.model != "native"].assign(other_model=rows.other_model.replace("native", "m"))
    about_native = {"native", "settles", "levels", "last layer"}
    assert judged(rows) == {name: None if name in about_native else held for name, held in ALL_HELD.items()}


def test_tables_show_published_beside_measured():
    first, second, _ = PAPER.tables(Results(made(noise=0.0)))
    assert first.title == "Table 1: perplexity per token while all layers are tuned on Dutch"
    lines = {line[0]: line for line in first.rows}
    assert lines["0"] == ["0", "11.54 ± 1.28", "20.0", "6.08 ± 0.33", "10.0"]
    assert lines["500"] == ["500", "7.76 ± 0.86", "10.0", "10.39 ± 0.69", "12.0"]
    assert lines["1,500"] == ["1,500", "5.56 ± 0.56", "6.00", "22.45 ± 1.60", "16.0"]
    assert lines["3,000"] == ["3,000", "–", "4.00", "–", "22.0"]
    trained = {line[0]: line[1:] for line in second.rows}
    assert trained["all 12 layers"][:2] == ["7.342", "5.00 [5.00, 5.00]"]
    assert trained["native model, not tuned"] == ["23.547", "30.0", "3.00"]
    assert trained["tuned model, before"][:2] == ["–", "15.0"]


def test_a_step_that_was_not_read_is_a_dash():
    rows = made()
    first = PAPER.tables(Results(rows[(rows.step != 500) | rows.step.isna()]))[0]
    assert first.rows[1][2] == "–"


def test_figures_are_those_of_the_paper():
    drawn = {picture.name: picture for picture in PAPER.figures(Results(made()))}
    assert list(drawn) == [f"figure-{name}" for name in ("1", "2", "3", "a1", "a2", "a3", "a4")]
    blocks = {name: [panel.title.split()[1] for panel in picture.panels] for name, picture in drawn.items()}
    assert blocks["figure-1"] == ["1", "8", "11", "12"] and blocks["figure-3"] == ["11", "12"]
    assert blocks["figure-a3"] == [str(block) for block in range(1, 13)]
    assert drawn["figure-a3"].panels[0].title == "block 1  (paper: 30.64 → 30.29)"
    early, whole = drawn["figure-2"].panels
    assert max(early.lines[0].steps) == 1500 and max(whole.lines[0].steps) == 3000
    dots = next(line for line in early.lines if line.label == "Dutch, published")
    assert dict(zip(dots.steps, dots.value, strict=True))[250] == 4.13 and max(dots.steps) == 1500
    np.testing.assert_allclose(whole.lines[1].value[-1], 22, rtol=1e-2)


def test_what_attention_adds_is_in_no_figure_and_judges_nothing():
    rows = made()
    added = rows[rows.measure == "l2_drift"].assign(method="attention", value=100.0)
    both = Results(frame([*rows.to_dict("records"), *added.to_dict("records")]))
    assert PAPER.figures(both) == PAPER.figures(Results(rows))
    found, before = (PAPER.findings(each) for each in (both, Results(rows)))
    assert [each.sentence for each in found] == [each.sentence for each in before]
    line = PUBLISHED.where(measure="l2_drift")[0]
    assert PUBLISHED.at(**line) == float(line["value"]) and PUBLISHED.at(**line, method="attention") is None


def test_a_finding_is_held_when_all_its_contrasts_are():
    assert all_of([Side.HELD] * 2) is Side.HELD and all_of([Side.HELD, Side.REFUTED, None]) is Side.REFUTED
    assert all_of([Side.HELD, None]) is None and all_of([]) is None
    low, high = over_seeds([1.0, 2.0, 3.0]).low, over_seeds([1.0, 2.0, 3.0]).high
    assert abs((high - low) / 2 - 4.302653 / math.sqrt(3)) < 1e-5  # t of two degrees of freedom


def test_text_to_tune_on_is_split_as_drift_does(tmp_path):
    lines = [f"zin nummer {number} ." for number in range(50)]
    (tmp_path / "nl.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    scale = changed(paper.SCALES["mini"], others=(), text=str(tmp_path / "nl.txt"))
    texts = paper._contents(scale, tmp_path)
    assert texts["nl.txt"].splitlines() == lines
    corpora = read_corpora({"nl": tmp_path / "nl.txt"}, {}, share=0.1, batch=8)
    assert texts["native.txt"].splitlines() == list(corpora[0])  # it learns from what is tuned on
    assert "native.txt" not in paper._contents(changed(scale, native="bertje"), tmp_path)


def test_premises_are_read_once_each_from_the_data_folder(tmp_path):
    (tmp_path / "xnli").mkdir()
    text = "".join(f"{one}\thypothesis\tneutral\n" * 3 for one in "abcd")
    (tmp_path / "xnli" / "dev-en.tsv").write_text(text, encoding="utf-8")
    (tmp_path / "drift").mkdir()
    (tmp_path / "drift" / "nl.txt").write_text("a\n", encoding="utf-8")

    def premises(language, count):
        scale = changed(paper.SCALES["mini"], others=(language,), watched=count, native="bertje")
        return paper._contents(scale, tmp_path)[f"{language}.txt"].splitlines()

    assert premises("en", 9) == ["a", "b", "c", "d"]
    assert len(premises("en", 2)) == 2
    with pytest.raises(ValueError, match=r"dev-de\.tsv is missing"):
        premises("de", 9)


def test_tables_line_up():
    table = Table("T", ["step", "x"], [["1", "10.5"], ["1,500", "–"]], ["note"])
    assert as_text(table).splitlines() == ["T", "step      x", "1      10.5", "1,500     –", "note"]


def test_corpora_keep_their_language():
    assert split(Corpus("nl", [str(one) for one in range(30)]), 0.1)[2].language == "nl"


def test_effects_over_seeds_by_hand():
    def reading(condition, seed, step, value, data="validation", plan="last:1"):
        place = {"target": "nl", "data": data, "unit": "token", "model": "m", "plan": plan, "condition": condition}
        return row("perplexity", value, seed=seed, step=step, **place)

    worse = "legacy:worst"
    rows = [reading("", seed, step, 8.0) for seed in (0, 1) for step in (0, 10)]
    rows += [reading(worse, 0, 0, 8.0), reading(worse, 0, 10, 32.0), reading(worse, 1, 0, 16.0)]  # seed 1 was cut off
    rows += [reading(condition, 0, step, value, "test") for condition, step, value in (("", 10, 4.0), (worse, 0, 8.0))]
    rows.append(reading(worse, 0, 0, 8.0, plan="last:2"))  # never run without
    found = list(paper.effect_rows(frame(rows)))
    assert {(one["plan"], one["condition"]) for one in found} == {("last:1", worse)}
    shift, stray, test = found
    two = np.log(2)
    assert (shift["measure"], stray["measure"], test["data"]) == ("legacy_shift", "legacy_stray", "test")
    assert shift["value"] == pytest.approx(two) and shift["low"] == pytest.approx(shift["high"]) and shift["n"] == 2
    assert stray["value"] == pytest.approx(two / 2)  # log 1 and log 4 in seed 0, one reading in seed 1
    assert test["value"] == pytest.approx(two) and "low" not in test and test["n"] == 1


def test_what_each_defect_does_is_told_and_drawn():
    rows = made(tests={paper.ALL: 5.0, paper.LAST_1: 9.0})
    spoilt = {}
    for name in ("redrawn", "worst"):
        own = rows[(rows.plan == paper.ALL) & (rows.measure.isin(["perplexity", "l2_drift"]))].copy()
        own["condition"] = f"legacy:{name}"
        spoilt[name] = own
    noisy = (spoilt["redrawn"].measure == "perplexity") & (spoilt["redrawn"].data != "test")
    factors = spoilt["redrawn"].step.map(lambda step: 1.2 if step == 500 else 1.0)
    spoilt["redrawn"].loc[noisy, "value"] *= factors[noisy].astype(float)
    tests = spoilt["worst"].data == "test"
    spoilt["worst"].loc[tests, "value"] *= 2
    spoilt["worst"].loc[tests, "step"] = 0
    whole = pd.concat([rows, *spoilt.values()], ignore_index=True)
    effects = frame(paper.effect_rows(whole))
    results = Results(pd.concat([whole, effects], ignore_index=True))
    table = PAPER.tables(results)[-1]
    assert [line[0] for line in table.rows] == ["redrawn, all 12 layers", "worst, all 12 layers"]
    logs = [0, math.log(1.2), 0, 0, 0, 0, 0]
    shift, stray = (f"{100 * math.expm1(value):+.1f}" for value in (np.mean(logs), np.std(logs)))
    for cell, value in zip(table.rows[0][1:], (shift, stray, shift, stray, "+0.0", "+0.0"), strict=True):
        assert cell.split()[0] == value
    assert table.rows[1][1].split()[0] == "+0.0" and table.rows[1][5].split()[0] == "+100.0"
    figure = PAPER.figures(results)[-1]
    assert figure.name == "legacy-last-12" and figure.columns == 3
    assert [panel.title for panel in figure.panels] == [
        f"{name}: {what}" for name in ("redrawn", "worst") for what in ("Dutch", "other languages", "L2 by layer")
    ]
    assert [len(panel.lines) for panel in figure.panels] == [2, 2, 2] * 2
    assert PAPER.figures(Results(rows))[-1].name != "legacy-last-12" and len(PAPER.tables(Results(rows))) == 3


def test_jobs_with_defects_stand_beside_those_without(tmp_path):
    request = Request("smoke", tmp_path, seeds=1)
    jobs = PAPER.plan(request, legacy="each").jobs
    assert len(jobs) == 8 * len(PAPER.plan(request).jobs)
    assert {job.coordinates.get("legacy") for job in jobs} == {None, *paper.DEFECTS, "all"}
    some = {job.name: job.options for job in PAPER.plan(request, legacy="worst,redrawn").jobs}
    options = some["last-1-seed-0-legacy-redrawn-worst"]
    assert options["redraw_masks"] and options["keep_worst"] and options["condition"] == "legacy:redrawn,worst"
    with pytest.raises(InputError, match="--legacy 'no-seed' is not known; choose no-mask, two-batches"):
        PAPER.plan(request, legacy="no-seed")
