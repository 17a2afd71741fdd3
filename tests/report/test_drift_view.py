"""The report of a drift run: a line a plan with bands over seeds, and a verdict that says what the rows support."""

import json
import re

import numpy as np
import pytest
from browsing import NEEDED, visit
from training_runs import panels_of

from isogloss.measures.statistics import Interval, mean_over_seeds
from isogloss.report import verdict, write_figures, write_page
from isogloss.report.curves import Curve, RunFolder
from isogloss.report.drift_view import _listing, unfinished
from isogloss.report.page import read_run
from isogloss.report.training_view import best_panel
from isogloss.runs import table

STEPS = (0, 100, 200)
WOBBLE = (1.0, 1.02, 0.97)  # a factor for each seed, from the first update on
# Perplexity per token at each step: Dutch falls, French rises most.
COURSE = {"nl": (12.0, 8.0, 6.0), "en": (6.0, 7.0, 9.0), "fr": (6.0, 9.0, 24.0), "others": (6.0, 8.0, 15.0)}


def drift_rows(plans=("freeze:0", "last:1"), seeds=3, margin=0.02):
    """The rows of a run as `isogloss drift` leaves them, three layers deep, the second plan half as strong."""
    found = []
    for place, plan in enumerate(plans):
        for seed in range(seeds):
            found += training(plan, seed, strength=1 / (1 + place), margin=margin)
        for unit, value in (("token", 90.0), ("character", 110.0)):
            over = {"low": value - 20, "high": value + 20} if seeds > 1 else {}
            about = {"unit": unit, "target": "nl", **plan_of(plan), "model": "multi", "n": seeds, **over}
            found.append(table.row("balance_step", value + 10, **about))
            if plan == "freeze:0" and unit == "token":
                found.append(table.row("crossing_step", value, **about))
    for model, data, value in (("multi", "test", 13.0), ("own", "validation", 9.0), ("own", "test", 10.0)):
        for unit in ("token", "character"):
            bounds = {"low": value - 1, "high": value + 1, "n": 300}
            about = {"model": model, "data": data, "target": "nl", "unit": unit, "plan": "untuned", "seed": 0}
            found.append(table.row("perplexity", value, **about, **bounds))
    return found


def plan_of(name):
    """The columns of a training, of which the plan may stand before a condition."""
    plan, _, condition = name.partition(" ")
    return {"plan": plan, "condition": condition}


def drift_verdict(rows):
    return verdict(rows, "drift")


def training(plan, seed, *, strength, margin):
    place = {"model": "multi", "seed": seed, **plan_of(plan)}
    found = []
    for at, step in enumerate(STEPS):
        wobble = WOBBLE[seed] if step else 1.0
        for target, values in COURSE.items():
            value = values[0] * (values[at] / values[0]) ** strength * wobble
            data = {"nl": "validation", "others": "en.txt+fr.txt"}.get(target, f"{target}.txt")
            for unit in ("token", "character"):
                bounds = {"low": value * (1 - margin), "high": value * (1 + margin), "n": 400}
                found.append(
                    table.row("perplexity", value, target=target, data=data, unit=unit, step=step, **bounds, **place)
                )
        if step:
            found.append(table.row("loss", 3.0 - at * strength, n=90, unit="token", data="train", step=step, **place))
        for layer in range(4):
            moved = 0.0 if layer == 0 else layer * at * strength * wobble
            for other, base in (("start", 0.0), ("own", 30.0)):
                for data, items in (("validation", 500), ("validation, first 16", 90)):
                    about = {"layer": layer, "other_layer": layer, "other_model": other, "unit": "word", "data": data}
                    value = base + moved
                    bounds = {"low": value * 0.95, "high": value * 1.05, "n": items}
                    found.append(table.row("l2_drift", value, step=step, **about, **bounds, **place))
                about["data"] = "validation"
                value = 0.5 - 0.1 * at * strength * layer / 3
                bounds = {"low": value - 0.02, "high": value + 0.02, "floor": 0.0, "n": 500}
                found.append(table.row("cka", value, step=step, **about, **bounds, **place))
            value = 0.2 + 0.1 * layer - 0.05 * at * strength
            about = {"layer": layer, "unit": "sentence", "data": "talks", "step": step, "n": 200, "floor": 0.005}
            own = {**place, "method": "centred", "low": value - 0.03, "high": value + 0.03}
            for source, target in (("en", "nl"), ("nl", "en")):
                found.append(table.row("p@1", value, source=source, target=target, **about, **own))
            found.append(table.row("p@1_mean", value, **about, **own))
    best = {"data": "test", "target": "nl", "step": 200, "low": 5.0, "high": 9.0, "n": 300}
    for unit in ("token", "character"):
        found.append(table.row("perplexity", 6.5 * WOBBLE[seed] / strength, unit=unit, **best, **place))
    return found


def write_drift(folder, **how):
    folder.mkdir()
    table.frame(drift_rows(**how)).to_parquet(folder / "rows.parquet")
    record = {"command": "drift", "model": "multi", "seed": 0, "depth": 3, "status": "finished", "notes": []}
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def panel_of(found, measure, variant, unit="token", layer=None):
    return next(one for one in found if (one.measure, one.kind, one.unit, one.layer) == (measure, variant, unit, layer))


def test_plans_are_lines_and_seeds_a_band():
    found = panels_of(table.frame(drift_rows()))
    dutch = panel_of(found, "perplexity", "Dutch, by plan")
    assert [line.code for line in dutch.lines] == ["freeze:0", "last:1"] and dutch.lead is None
    for line, strength in zip(dutch.lines, (1, 0.5), strict=True):
        values = np.array([
            [12 * (value / 12) ** strength * (wobble if at else 1) for at, value in enumerate(COURSE["nl"])]
            for wobble in WOBBLE
        ])  # fmt: skip
        expected = [mean_over_seeds(column, scale="log") for column in values.T]
        assert line.at == STEPS and line.seeds == 3
        drawn = line.line("")
        for side in ("value", "low", "high"):
            assert getattr(drawn, side) == pytest.approx([getattr(mean, side) for mean in expected])
    others = panel_of(found, "perplexity", "other languages, by plan")
    assert others.lines[0].last.value > others.lines[1].last.value
    loss = panel_of(found, "loss", "")
    assert [line.code for line in loss.lines] == ["freeze:0", "last:1"]


def test_each_plan_has_its_languages_and_no_average_of_both_sides():
    found = panels_of(table.frame(drift_rows()))
    own = panel_of(found, "perplexity", "last:1", unit="character")
    assert [line.code for line in own.lines] == ["nl", "en", "fr", "others"] and own.lead is None
    assert own.lines[0].at == STEPS  # the test is no part of the curve


def test_distances_to_each_model_on_each_text_have_panels_of_their_own():
    found = panels_of(table.frame(drift_rows()))
    places = {one.kind for one in found if one.measure == "l2_drift"}
    first = "on validation, first 16"
    assert places == {"to start", "to own", f"to start {first}", f"to own {first}"}
    moved = [one for one in found if (one.measure, one.kind) == ("l2_drift", "to start")]
    assert [one.layer for one in moved] == [0, 1, 2, 3]
    assert [line.code for line in moved[3].lines] == ["freeze:0", "last:1"]
    assert moved[3].lines[1].last.value == pytest.approx(3 * 2 * 0.5 * np.mean(WOBBLE))
    assert min(moved[3].lines[0].line("").low) >= 0
    assert best_panel(moved).layer == 3
    retrieval = [one for one in found if one.measure == "p@1"]
    assert {one.kind for one in retrieval} == {"centred"} and len(retrieval) == 4
    assert [line.code for line in retrieval[0].lines] == ["freeze:0", "last:1"]


def test_one_plan_is_shown_as_a_training_is():
    found = panels_of(table.frame(drift_rows(plans=("last:1",), seeds=1)))
    assert [one.kind for one in found if one.measure == "perplexity"] == ["last:1", "last:1"]
    moved = panel_of(found, "l2_drift", "last:1, to start", unit="word", layer=3)
    assert moved.lead is not None and moved.lead.seeds == 1
    assert panel_of(found, "p@1", "last:1 centred", unit="sentence", layer=0).lead is not None


def test_the_verdict_of_one_plan_and_seed():
    said = drift_verdict(table.frame(drift_rows(plans=("freeze:0",), seeds=1)))
    assert said == [
        "Tuning on Dutch lowered its perplexity per token from 12.00 [11.76, 12.24] at step 0 to 6.000 [5.880, 6.120] "
        "at step 200; that of the other languages, pooled, rose from 6.000 [5.880, 6.120] to 15.00 [14.70, 15.30] "
        "(French most, from 6.000 [5.880, 6.120] to 24.00 [23.52, 24.48]).",
        "The two curves cross at step 90 per token and do not cross per character; gain and loss balance best at step "
        "100 per token and step 120 per character.",
        "On the test the best model has a perplexity per token of 6.500 [5.000, 9.000], against 13.00 [12.00, 14.00] "
        "before.",
        "On the test the best model has a perplexity per character of 6.500 [5.000, 9.000], against 10.00 [9.000, "
        "11.00] of the native model own.",
        "Layer 3 moved most (L2 6.000 [5.700, 6.300] from its start), layer 1 least (2.000 [1.900, 2.100]); layer 0 "
        "did not move.",
        "CKA of layer 3 with the native model own began at 0.500 [0.480, 0.520] and fell to 0.300 [0.280, 0.320].",
        "Centred P@1 at layer 3, the best at the start, began at 0.5000 [0.4700, 0.5300] and fell to 0.4000 [0.3700, "
        "0.4300].",
    ]  # fmt: skip


def test_the_verdict_of_several_plans_names_them_and_counts_seeds():
    said = drift_verdict(table.frame(drift_rows()))
    text = "\n".join(said)
    assert "Tuning on Dutch by last:1 lowered" in text and text.count("(means of 3 seeds)") == 2
    assert (
        "The two curves by freeze:0 cross at step 90 [70, 110] (3 seeds) per token and do not cross per character"
        in text
    )
    assert "The two curves by last:1 do not cross; gain and loss" in text
    tests = next(line for line in said if line.startswith("On the test the best models have a perplexity per token"))
    assert tests.index("by freeze:0") < tests.index("by last:1")
    assert "Layer 3 moved most by last:1" in text
    assert "at layer 3, the best at the start, began at 0.5000" in text


def test_what_the_text_cannot_tell_apart_is_no_change():
    said = drift_verdict(table.frame(drift_rows(margin=0.9)))
    assert said[0].startswith("Tuning on Dutch by freeze:0 did not clearly change its perplexity per token: from 12.00")
    assert "did not clearly change: from" in said[0] and "most" not in said[0]


def test_a_fall_at_the_layer_that_was_best_at_the_start_is_judged_as_one_of_many():
    """Of thirteen layers one is best at the start by chance, and falls back."""
    swing, readings = 0.0033 * np.cos(np.arange(20)), {}
    for step, value in ((0, 0.53), (200, 0.5)):
        readings[step] = Interval(value, value - 0.2, value + 0.2, parts=tuple(value + swing * (step > 0)))
    course = Curve("p@1_mean", readings, own={0: readings}, layer=3)
    for among, how in ((1, "and fell to"), (13, "and is not clearly different at")):
        (said,) = _listing("P@1 at layer 3", {"freeze:0": {3: course}}, 3, {"freeze:0": ""}, among=among)
        assert how in said


def test_a_run_without_other_languages_has_nothing_to_cross():
    rows = table.frame(drift_rows(plans=("freeze:0",), seeds=1))
    alone = rows[
        ~rows["target"].isin(["en", "fr", "others"]) & ~rows["measure"].isin(["crossing_step", "balance_step"])
    ]
    said = drift_verdict(alone)
    assert said[0].endswith("to 6.000 [5.880, 6.120] at step 200.")
    assert not any("curves" in line for line in said)


def test_the_page_and_figures_of_a_drift_run(tmp_path):
    folder = write_drift(tmp_path / "run")
    page = write_page([folder], tmp_path / "report.html", figures=False).read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    figures = {figure["name"]: figure for figure in data["runs"][0]["figures"]}
    titles = [figure["title"] for figure in figures.values() if figure.get("section") == "training"]
    assert titles[:4] == [
        "Training loss", "Held-out perplexity (Dutch, by plan)", "Held-out perplexity (other languages, by plan)",
        "Held-out perplexity (freeze:0)",
    ]  # fmt: skip
    assert "L2 distance (to start)" in titles and "CKA (to own)" in titles
    assert figures["steps-cka-to-own"]["words"].startswith("How similarly the two models")
    assert read_run(folder).languages == ["nl", "en", "fr"]
    moved = figures["steps-l2-drift-to-start"]
    assert moved["chosen"]["Layer"] == "3"
    best = next(panel for panel in moved["panels"] if panel["choice"] == moved["chosen"])
    assert best["note"].startswith("Bands: intervals over 3 seeds. n = 500 words")
    assert all(line.get("band", True) for line in best["lines"])
    assert "12.00 → 5.979" in page and "perplexity of other languages" in page
    assert "Tuning on Dutch by freeze:0 lowered" in page
    rows = table.frame(drift_rows())
    rows[rows["measure"].isin(["loss", "perplexity"]) & (rows["unit"] == "token")].to_parquet(folder / "rows.parquet")
    drawn = {path.name for path in write_figures(folder, tmp_path / "figures") if path.suffix == ".png"}
    assert {"steps-loss.png", "steps-perplexity-freeze-0.png", "steps-perplexity-last-1.png"} <= drawn and len(
        drawn
    ) == 5


def test_a_curve_of_one_seed_keeps_the_interval_of_its_text():
    found = panels_of(table.frame(drift_rows(seeds=1)))
    line = panel_of(found, "perplexity", "Dutch, by plan").lines[0]
    assert line.first.low == pytest.approx(12 * 0.98) and line.last.known


def cut_off(rows):
    """The rows as a kill leaves them: of last:1 one seed is done, one was at step 100, one has not begun."""
    kept = []
    for one in rows:
        plan, seed, step = one["plan"], one.get("seed"), one.get("step")
        last = plan == "last:1" and (seed == 2 or (seed == 1 and (step > 100 or one["data"] == "test")))
        if step is not None and not last:
            kept.append(one)
    return kept


def test_a_run_that_was_cut_off_says_what_is_there(tmp_path):
    folder = write_drift(tmp_path / "run")
    table.frame(cut_off(drift_rows())).to_parquet(folder / "rows.parquet")
    record = json.loads((folder / "run.json").read_text())
    asked = {"plans": "freeze:0, last:1,last:2", "seeds": 3, "seed": 0, "condition": ""}
    (folder / "run.json").write_text(json.dumps({**record, "status": "running", "arguments": asked}))
    run = read_run(folder)
    assert unfinished(run) == [
        "This run is not finished: 4 of 9 trainings are done.",
        "last:1, seed 1 was read at step 100 last and is left out of the means below.",
        "Not begun: last:1 (seed 2) and last:2 (seeds 0, 1 and 2).",
        "Crossing, balance and models that were not tuned are worked out when all are done.",
    ]
    said = drift_verdict(run.rows)
    assert "(means of 3 seeds)" in said[0] and "by freeze:0" in said[0]
    assert "by last:1" in said[1] and "at step 200" in said[1] and "means of" not in said[1]
    assert not any("cross" in line for line in said), "what was not worked out is not said to be absent"
    line = next(
        one for one in panel_of(panels_of(run.rows), "perplexity", "Dutch, by plan").lines if one.code == "last:1"
    )
    assert line.at == STEPS and line.seeds == 1
    page = write_page([folder], tmp_path / "report.html", figures=False).read_text(encoding="utf-8")
    assert "This run is not finished: 4 of 9 trainings are done." in page
    finished = RunFolder(folder, record, table.frame(drift_rows()))
    assert unfinished(finished) == []


def test_the_only_training_of_a_plan_is_shown_as_far_as_it_came(tmp_path):
    rows = [
        one for one in drift_rows(plans=("last:1",), seeds=1) if one.get("step", 999) < 200 and one["data"] != "test"
    ]
    record = {"command": "drift", "status": "running", "arguments": {"plans": "last:1"}}
    found = unfinished(RunFolder(tmp_path, record, table.frame(rows)))
    assert found[:2] == [
        "This run is not finished: 0 of 1 trainings are done.",
        "last:1, seed 0 was read at step 100 last and all that is known of this plan is from before.",
    ]
    assert "at step 100" in drift_verdict(table.frame(rows))[0]


def test_seeds_that_stopped_apart_are_averaged_as_far_as_all_went():
    rows = [one for one in drift_rows(plans=("last:1",)) if not (one.get("seed") == 2 and one.get("step") == 200)]
    rows += [one for one in drift_rows(plans=("last:1",)) if one.get("seed") == 2 and one.get("data") == "test"]
    dutch = panel_of(panels_of(table.frame(rows)), "perplexity", "last:1")
    assert dutch.lines[0].at == STEPS[:2] and dutch.lines[0].seeds == 3
    assert (
        "at step 100" in drift_verdict(table.frame(rows))[0]
        and "(means of 3 seeds)" in drift_verdict(table.frame(rows))[0]
    )


@pytest.mark.browser
@pytest.mark.skipif(*NEEDED[1].args, **NEEDED[1].kwargs)
def test_plans_and_their_grids_are_there_in_a_browser(driver, tmp_path):
    page = visit(driver, write_page([write_drift(tmp_path / "run")], tmp_path / "report.html", figures=False))
    panel = page.find_element("css selector", ".panel[data-figure='steps-l2-drift-to-start']")
    lines = panel.find_elements("css selector", ".line")
    assert {line.get_attribute("data-code") for line in lines} == {"freeze:0", "last:1"}
    assert len(panel.find_elements("css selector", ".band")) == 2
    assert "3 (highest)" in panel.text
    choices = [one.text for one in page.find_elements("css selector", "#step-grid option")]
    assert "L2 distance (to start), last:1" in choices and len(choices) == 2 * 7
    assert len(page.find_elements("css selector", "#step-grid .cell")) == 4 * 3
    assert page.get_log("browser") == []
