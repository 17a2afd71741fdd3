"""The verdict, the figures and the page of a training, on tables small enough to check by eye."""

import json
import re
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from browsing import NEEDED, visit, wait
from report_runs import HOSTILE, HOSTILE_NAME, Shape, write_run
from training_runs import Course, panels_of, training_rows, write_training

from isogloss.measures.statistics import Interval
from isogloss.report import verdict, write_figures, write_page
from isogloss.report.curves import Curve, average, digits
from isogloss.report.page import read_run, thin_rows
from isogloss.report.training_view import best_panel
from isogloss.runs import table


def reading(measure, step, value, *, margin=None, **rest):
    bounds = {} if margin is None else {"low": value - margin, "high": value + margin}
    return table.row(measure, value, step=step, **bounds, **rest)


def over(measure, values, **rest):
    return [reading(measure, 100 * place, value, **rest) for place, value in enumerate(values)]


def say(*curves):
    return verdict(table.frame([row for rows in curves for row in rows]), "pretrain")


def perplexity(values, language, *, margin=0.1, unit="character"):
    return over("perplexity", values, margin=margin, target=language, unit=unit, n=700)


def retrieval(step, values, *, target="nl", margin=0.02, floor=0.01, data="talk"):
    place = {"source": "en", "target": target, "method": "centred", "data": data, "n": 500, "floor": floor}
    return [reading("p@1", step, value, margin=margin, layer=layer, **place) for layer, value in enumerate(values)]


def test_the_loss_is_told_from_its_first_to_its_last_reading():
    lines = say(over("loss", [10.4, 5.0, 2.3119], unit="token", n=1234))
    assert lines == [
        "The training loss fell from 10.40 at step 0 to 2.312 nats a token at step 200 (n = 1,234 tokens)."
    ]


def test_one_reading_is_no_change():
    assert say(over("loss", [10.4], unit="token")) == ["The training loss is 10.40 nats a token at step 0."]


def test_perplexity_is_told_per_character_pooled_and_for_the_ends_of_the_list():
    rows = [perplexity([20, 10], "all"), perplexity([15, 5], "nl"), perplexity([90, 60], "zh")]
    rows.append(perplexity([900, 600], "nl", unit="token"))
    assert say(*rows) == [
        "Held-out perplexity per character fell from 20.00 [19.90, 20.10] at step 0 to 10.00 [9.900, 10.10] at step "
        "100, all languages pooled (n = 700 predicted tokens); it is lowest for Dutch (5.000 [4.900, 5.100]) and "
        "highest for Chinese (60.00 [59.90, 60.10])."
    ]


def test_languages_whose_intervals_meet_are_not_ranked():
    rows = [perplexity([20, 10], "all"), perplexity([20, 10.05], "nl"), perplexity([20, 10], "zh")]
    assert "lowest" not in say(*rows)[0]


def test_one_language_is_named():
    assert say(perplexity([20, 10], "nl"))[0].startswith("Held-out perplexity per character of Dutch fell from 20.00")


def test_languages_without_a_pooled_reading_are_averaged_and_called_so():
    assert ", average over 2 languages (n = 700" in say(perplexity([20, 10], "nl"), perplexity([40, 30], "ru"))[0]


def test_a_change_is_judged_on_the_same_text():
    """The intervals of the readings overlap widely: what they contain is which sentences were chosen."""
    hard = np.linspace(-0.2, 0.2, 20)  # by how much the rest is harder without each part of the text
    rows = []
    for step, value in ((0, 10.0), (100, 10.5)):
        parts = value * np.exp(hard + 0.001 * step * np.cos(np.arange(20)) / 100)
        rows.append(reading("perplexity", step, value, margin=3.0, target="nl", unit="character", n=700, parts=parts))
    (sentence, *_) = say(rows)
    assert "rose from 10.00 [7.000, 13.00] at step 0 to 10.50 [7.500, 13.50] at step 100" in sentence
    assert sentence.endswith(", a factor of 1.050 [1.043, 1.057] on the same text."), sentence
    assert "did not clearly change" in say([{**row, "parts": ""} for row in rows])[0]


def test_a_rise_from_the_lowest_of_many_readings_is_judged_as_the_largest_of_many():
    """On its own the rise is clear; the lowest of forty readings is as low by chance."""
    swing, rises = np.cos(np.arange(20)), []
    for count in (1, 40):
        rows = []
        for place in range(count + 2):
            value = 10.0 if place == 1 else 10.02 if place == count + 1 else 10.5
            parts = value * np.exp(0.0002 * swing * (place == 1))
            rows.append(reading("perplexity", place, value, margin=3.0, target="nl", unit="character", parts=parts))
        rises.append(say(rows)[1])
    assert rises[0].startswith("It rose for Dutch from step 1 on")
    assert rises[1] == "It rose, but not clearly, for Dutch (lowest at step 1)."


def test_a_very_small_factor_or_change_keeps_its_digits():
    swing, rows = np.cos(np.arange(20)), []
    for step, value in ((0, 40_000.0), (100, 9.0)):
        parts = value * np.exp(0.001 * swing * (step > 0))
        rows.append(reading("perplexity", step, value, margin=0.5, target="nl", unit="character", parts=parts))
    assert "a factor of 0.0002250 [0.0002235, 0.0002265] on the same text" in say(rows)[0], say(rows)
    rows = []
    for step, value in ((0, 0.5), (100, 0.5001)):
        parts = value + 0.00001 * swing * (step > 0)
        rows.append(reading("evenness", step, value, margin=0.1, target="nl", parts=parts))
    assert "a change of +0.0001 [" in say(rows)[0], say(rows)


def test_a_layer_that_was_chosen_among_many_needs_a_larger_change():
    """Of 13 layers the last reading's best is told; its rise is clear by itself, and not as the largest of 13."""
    swing = np.cos(np.arange(20))
    for layers, how in ((1, "rose"), (13, "did not clearly change")):
        rows = []
        for layer in range(layers):
            for step, value in ((0, 0.5), (100, 0.5 if layer else 0.53)):
                parts = value + 0.0033 * swing * (step > 0)
                rows.append(reading("evenness", step, value, margin=0.2, layer=layer, target="nl", parts=parts))
        assert say(rows)[0].startswith(f"Evenness at layer 0 {how}"), say(rows)


def test_retrieval_is_compared_on_the_same_sentences():
    rows = retrieval(0, [0.1, 0.50], margin=0.05) + retrieval(9, [0.1, 0.53], margin=0.05)
    assert "layer 1" in say(rows)[0] and ", not clearly different from 0.500 [0.450, 0.550] at step 0;" in say(rows)[0]
    hard = np.linspace(-0.01, 0.01, 20)
    for step, value in ((0, 0.50), (9, 0.53)):
        parts = value + hard + 0.001 * step * np.cos(np.arange(20)) / 9
        rows.append(reading("p@1_mean", step, value, margin=0.05, layer=1, method="centred", data="talk", parts=parts))
    said = ", up from 0.500 [0.450, 0.550] at step 0 (a change of +0.030 [+0.022, +0.038] on the same items);"
    assert said in say(rows)[0], say(rows)[0]


def test_a_rise_is_said_with_its_step_and_a_small_one_as_small():
    lines = say(perplexity([20, 9, 8], "all"), perplexity([20, 7, 8], "ru"), perplexity([20, 4, 4.1], "nl"))
    assert lines[1:] == [
        "It rose for Russian from step 100 on (7.000 [6.900, 7.100] then, 8.000 [7.900, 8.100] at the end).",
        "It rose, but not clearly, for Dutch (lowest at step 100).",
    ]


def test_a_change_smaller_than_the_interval_is_no_change():
    assert "did not clearly change: from 10.00" in say(perplexity([10, 9.9], "nl"))[0]


def test_the_best_layer_is_that_of_the_last_step_and_compared_with_the_first():
    lines = say(retrieval(0, [0.3, 0.05, 0.05]), retrieval(500, [0.1, 0.5, 0.2]))
    assert lines == [
        "Languages meet best at layer 1: at step 500 centred P@1 (finding a sentence's translation as its nearest "
        "neighbour) is 0.500 [0.480, 0.520], where chance gives 0.010, up from 0.050 [0.030, 0.070] at step 0; "
        "n = 500 sentences."
    ]


def test_where_the_best_layer_stood_still_the_last_one_is_told_too():
    lines = say(retrieval(0, [0.3, 0.05, 0.05]), retrieval(500, [0.3, 0.05, 0.2]))
    assert "not clearly different from 0.300" in lines[0] and lines[1:] == [
        "At layer 2, the last one read, it is 0.200 [0.180, 0.220], up from 0.050 [0.030, 0.070] at step 0."
    ]


def test_where_languages_meet_is_told_first_and_so_is_what_a_sweep_tells_of_a_job():
    lines = say(over("loss", [5.0, 2.0], unit="token"), retrieval(0, [0.1, 0.1]), retrieval(100, [0.1, 0.5]))
    assert lines[0].startswith("Languages meet best at layer 1: at step 100") and "The training loss" in lines[1]


def test_the_run_s_own_mean_gives_the_interval_and_the_directions_give_who_is_near():
    rows = [*retrieval(500, [0.1, 0.6]), *retrieval(500, [0.1, 0.2], target="zh")]
    mean = [{**row, "measure": "p@1_mean", "source": "", "target": "", "value": value, "low": value - 0.001}
            for row, value in zip(rows, (0.1, 0.4), strict=False)]  # fmt: skip
    lines = say(rows, mean)
    assert "0.400 [0.399, 0.620]" in lines[0]
    assert "average over 2 directions, n = 500 sentences each" in lines[0]
    assert lines[1].startswith("At layer 1, Dutch (0.600 [0.580, 0.620]) is closest to English and Chinese (0.2")


def test_chance_and_ties_at_the_last_step_are_said():
    assert say(retrieval(9, [0.01, 0.02]))[0].startswith("At step 9 no layer is better than chance: at layer 1")
    assert say(retrieval(9, [0.5, 0.51]))[0].startswith(
        "Languages meet best at layer 1 (no layer stands out): at step 9"
    )
    assert "(layers 1 and 2 cannot be told apart)" in say(retrieval(9, [0.1, 0.5, 0.51]))[0]


def test_steps_are_never_taken_for_repeated_curves():
    text = " ".join(verdict(table.frame(training_rows(Course())), "pretrain"))
    assert "repeated" not in text
    assert "average over 6 directions, n = 500 sentences each" in text


def test_a_measure_nobody_named_is_told_too():
    lines = say(over("evenness", [0.4, 0.6], margin=0.05, target="nl"), over("evenness", [0.4, 0.8], target="ru"))
    assert lines == ["Evenness rose from 0.4000 at step 0 to 0.7000 at step 100, average over 2 curves."]


def test_rows_without_a_step_keep_their_own_verdict_after_it():
    frame = table.frame([*over("loss", [3.0, 2.0]), *({**row, "step": None} for row in retrieval(0, [0.1, 0.5]))])
    lines = verdict(frame, "pretrain")
    assert lines[0].startswith("The training loss fell")
    assert lines[1].startswith("The languages meet most closely at layer 1")


def test_each_model_of_a_frame_has_its_own_sentences():
    rows = [{**row, "model": model} for model in ("one", "two") for row in over("loss", [3.0, 2.0])]
    assert [line.split(" ")[0] for line in say(rows)] == ["one:", "two:"]


@pytest.mark.parametrize(("value", "text"), [(2.31, "2.310"), (12345.6, "12,350"), (0.0, "0"), (9.9999, "10.00")])
def test_four_digits_count(value, text):
    assert digits(value) == text


def test_panels_average_directions_data_and_seeds_but_not_units():
    rows = table.frame(training_rows(Course()))
    found = panels_of(rows)
    assert [(panel.measure, panel.unit) for panel in found[:4]] == [
        ("loss", "token"), ("perplexity", "character"), ("perplexity", "word"), ("perplexity", "token"),
    ]  # fmt: skip
    retrieved = [panel for panel in found if panel.measure == "p@1"]
    assert [panel.layer for panel in retrieved] == list(range(7))
    best = best_panel(retrieved)
    assert best.layer == 4
    assert [line.code for line in best.lines] == ["all", "nl", "ru", "zh"]
    own = rows[(rows["measure"] == "p@1") & (rows["layer"] == 4)]
    russian = own[(own["source"] == "ru") | (own["target"] == "ru")].groupby("step")["value"].mean()
    assert np.allclose(best.lines[2].line("").value, russian)
    mean = rows[(rows["measure"] == "p@1_mean") & (rows["layer"] == 4)].sort_values("step")
    assert best.lead.line("").low == tuple(mean["low"])


def test_a_measure_of_single_languages_by_layer_names_no_centre():
    rows = [reading("anisotropy", step, 0.1, layer=layer, source=code, n=50)
            for step in (0, 1) for layer in (0, 1) for code in ("en", "nl", "ru")]  # fmt: skip
    found = panels_of(table.frame(rows))
    assert {panel.centre for panel in found} == {""}
    assert [line.code for line in found[0].lines] == ["all", "en", "nl", "ru"]
    assert {panel.centre for panel in panels_of(table.frame(training_rows(Course()))) if panel.layer == 2} == {"en"}


def test_an_average_holds_only_curves_read_at_the_same_steps():
    def curve(steps, value):
        return Curve("x", {step: Interval(value, value, value, 9, value) for step in steps})

    mean = average([curve((0, 1, 2), 1.0), curve((0, 1, 2), 3.0), curve((0, 1), 50.0)])
    assert ([reading.value for reading in mean.readings.values()], mean.members) == ([2.0, 2.0, 2.0], 2)
    assert curve(tuple(range(1000)), 1.0).thin(most=5).at == (0, 250, 500, 749, 999)
    assert not mean.apart(0, 1)


def test_a_reading_taken_twice_counts_once():
    rows = [reading("loss", 5, 9.0), reading("loss", 5, 4.0), reading("loss", 10, 3.0)]
    (line,) = panels_of(table.frame(rows))[0].lines
    assert [one.value for one in line.readings.values()] == [4.0, 3.0]


def test_pooled_text_is_no_language(tmp_path):
    assert read_run(write_training(tmp_path / "run")).languages == ["en", "nl", "ru", "zh"]


def test_the_figures_of_a_training_are_written_and_no_others(tmp_path):
    written = write_figures(write_training(tmp_path / "run", hostile=True), tmp_path / "figures")
    assert {path.stem for path in written} == {
        "steps-loss", "steps-perplexity", "steps-retrieval", "steps-layers-retrieval",
    }  # fmt: skip
    assert {path.suffix for path in written} == {".png", ".svg"}
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)


def test_an_infinite_perplexity_is_drawn_as_a_gap(tmp_path):
    folder = write_training(tmp_path / "run", Course(languages=("en", "nl"), layers=1, steps=200, every=100))
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.loc[(rows["measure"] == "perplexity") & (rows["step"] == 0), ["value", "high"]] = float("inf")
    rows.to_parquet(folder / "rows.parquet")
    assert len(write_figures(folder, tmp_path / "figures")) == 8
    assert "from infinite" in " ".join(verdict(rows, "pretrain"))


def test_what_was_trained_does_not_change_what_is_said_of_retrieval():
    plain = [*retrieval(0, [0.1, 0.2]), *retrieval(100, [0.2, 0.6])]
    named = [{**one, "plan": "tlm+queue"} for one in plain]
    assert say(plain) == say(named) and "Languages meet best at layer 1" in " ".join(say(named))


def test_a_loss_of_pairs_is_told_apart_from_that_of_tokens():
    both = [over("loss", values, unit=unit, n=9) for unit, values in {"token": [3, 2], "pair": [5, 4]}.items()]
    assert [sentence.split(" at")[0] for sentence in say(*both)] == [
        "The training loss fell from 3.000", "The training loss of sentences fell from 5.000"
    ]  # fmt: skip
    titles = [panel.about.title for panel in panels_of(table.frame([one for rows in both for one in rows]))]
    assert titles == ["Training loss", "Training loss of sentences"]


FIGURES = {"loss": "steps-loss", "perplexity": "steps-perplexity", "p@1": "steps-retrieval"}


def page_of(*folders, out):
    return write_page(folders, out / "report.html", figures=False).read_text(encoding="utf-8")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_a_training_page_has_its_own_sections_and_none_of_a_map_s(training, tmp_path):
    page = page_of(training, out=tmp_path)
    sections = re.findall(r'<section id="([^"]*)"', page)
    assert sections == ["verdict", "training", "step-grid", "rows", "made"]
    assert re.findall(r'<li><a href="#([^"]*)"', page) == sections
    assert "isogloss training" in page
    assert "The training loss fell from" in page
    assert "Text: text." in page


def test_a_map_page_holds_nothing_of_a_training(run, tmp_path):
    page = page_of(run, out=tmp_path)
    assert "isogloss map</p>" in page
    assert 'id="training"' not in page
    assert {figure["section"] for figure in data_of(page)["runs"][0]["figures"]} == {"curves", "heat-map", "matrix"}


def test_a_training_without_layers_needs_no_grid(tmp_path):
    folder = write_training(tmp_path / "run")
    rows = pd.read_parquet(folder / "rows.parquet")
    rows[rows["layer"].isna()].to_parquet(folder / "rows.parquet")
    page = page_of(folder, out=tmp_path)
    assert 'id="step-grid"' not in page
    assert "Layer 0 is" not in page
    assert '<div class="card verdict">' in page


def test_the_page_s_lines_are_the_rows(training, tmp_path):
    run = data_of(page_of(training, out=tmp_path))["runs"][0]
    charts = {figure["name"]: figure for figure in run["figures"] if figure["section"] == "training"}
    assert [chart["title"] for chart in charts.values()] == [
        "Training loss", "Held-out perplexity", "Retrieval P@1 (centred)",
    ]  # fmt: skip
    rows = read_run(training).rows
    chosen = next(panel for panel in charts["steps-perplexity"]["panels"] if panel["choice"]["Per"] == "word")
    dutch = run["curves"][next(line for line in chosen["lines"] if line["code"] == "nl")["c"]]
    own = rows[(rows["measure"] == "perplexity") & (rows["target"] == "nl") & (rows["unit"] == "word")]
    assert run["steps"][dutch["steps"]] == own["step"].tolist()
    assert np.allclose(dutch["value"], own["value"], rtol=1e-4)
    assert charts["steps-retrieval"]["chosen"]["Layer"] == "4"


def test_many_steps_are_thinned_and_the_last_one_stays(tmp_path):
    folder = write_training(tmp_path / "run", Course(steps=20_000, every=100, layers=12))
    data = data_of(page_of(folder, out=tmp_path))
    steps, figures = data["runs"][0]["steps"], data["runs"][0]["figures"]
    assert {len(own) for own in steps} == {201, 400, 80}
    assert all(own[-1] == 20_000 for own in steps)
    panels = [panel for figure in figures if figure["section"] == "training" for panel in figure["panels"]]
    notes = {panel["note"] for panel in panels if panel["choice"].get("Layer") == "0"}
    assert notes and all("Drawn: 80 of 201 readings" in note for note in notes)


def test_rows_of_many_steps_keep_the_last(tmp_path):
    rows = table.frame(training_rows(Course()))
    kept, left_out = thin_rows(rows, most=400)
    assert len(kept) <= 400
    assert left_out[0].endswith("steps")
    for measure in ("loss", "perplexity", "p@1"):
        assert kept.loc[kept["measure"] == measure, "step"].max() == 1000


def point(driver, selector, share):
    """Move a real mouse to a share of the width of a chart."""
    from selenium.webdriver.common.action_chains import ActionChains

    target = driver.find_element("css selector", selector)
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", target)
    time.sleep(0.3)
    across = int((share - 0.5) * target.size["width"])
    ActionChains(driver).move_to_element_with_offset(target, across, 0).perform()
    wait(driver, lambda: driver.find_element("class name", "tooltip").is_displayed())
    return driver.find_element("class name", "tooltip").text


def codes(driver, measure):
    lines = driver.find_elements("css selector", f".panel[data-figure='{FIGURES[measure]}'] .line")
    return {line.get_attribute("data-code") for line in lines}


def choose(driver, measure, choice, value):
    driver.execute_script(
        "const menu = document.querySelector(`.panel[data-figure='${arguments[0]}'] [data-choice=${arguments[1]}]`);"
        "menu.value = arguments[2]; menu.dispatchEvent(new Event('change'))",
        FIGURES[measure], choice, value,
    )  # fmt: skip


@pytest.mark.browser
@pytest.mark.skipif(*NEEDED[1].args, **NEEDED[1].kwargs)
class TestInABrowser:
    """Curves, menus and readings."""

    @pytest.fixture
    def page(self, driver, training, tmp_path):
        return visit(driver, write_page([training], tmp_path / "report.html", figures=False))

    def test_curves_bands_and_shades_are_there(self, page):
        assert codes(page, "loss") == {"all"}
        assert codes(page, "perplexity") == {"all", "en", "nl", "ru", "zh"}
        assert codes(page, "p@1") == {"all", "nl", "ru", "zh"}
        assert len(page.find_elements("css selector", ".panel[data-figure='steps-perplexity'] .band")) == 5
        assert len(page.find_elements("css selector", ".panel[data-figure='steps-retrieval'] .band")) == 1
        assert len(page.find_elements("css selector", ".panel[data-figure='steps-retrieval'] .floor")) == 1
        assert len(page.find_elements("css selector", "#step-grid .cell")) == 7 * 11
        assert page.get_log("browser") == []

    def test_hovering_shows_the_values_of_a_step(self, page):
        text = point(page, ".panel[data-figure='steps-perplexity'] svg.panel-figure", 0.99)
        assert "Held-out perplexity, step 1,000" in text
        assert "Russian\n16.2" in text
        assert "[15.7, 16.7]" in text
        assert "n = 3,000" in text
        lines = page.find_elements("css selector", ".panel .cursor")
        assert {line.get_attribute("visibility") for line in lines} == {"visible"}
        text = point(page, ".panel[data-figure='steps-retrieval'] svg.panel-figure", 0.55)
        assert "step 500" in text
        assert "chance 0.002" in text
        page.execute_script("document.querySelector('#step-grid').scrollIntoView()")
        assert "layer 6, step 0" in point(page, "#step-grid .cell", 0.5)

    def test_unit_and_layer_are_chosen(self, page):
        line = ".panel[data-figure='{}'] .line[data-code='nl']"
        for measure, choice, value in (("perplexity", "Per", "word"), ("p@1", "Layer", "0")):
            before = page.find_element("css selector", line.format(FIGURES[measure])).get_attribute("d")
            choose(page, measure, choice, value)
            assert page.find_element("css selector", line.format(FIGURES[measure])).get_attribute("d") != before
        assert page.get_log("browser") == []

    def test_hostile_text_stays_text(self, driver, tmp_path):
        folder = write_training(tmp_path / "run", hostile=True)
        written = write_page([folder], tmp_path / "report.html", figures=False)
        text = written.read_text(encoding="utf-8")
        assert text.count("<script") == text.count("</script>") == 2
        assert "<img" not in text
        page = visit(driver, written)
        assert page.find_element("css selector", "h1").text == HOSTILE_NAME
        assert HOSTILE[0] in page.find_element("class name", "subject").text
        assert page.execute_script("return window.broken") is None
        assert not page.execute_script("return document.querySelector('main img, main b, main script')")
        assert page.get_log("browser") == []

    def test_several_trainings_share_each_chart(self, driver, training, tmp_path):
        other = write_training(tmp_path / "other", Course(languages=("en", "nl"), layers=3, best=2, steps=600))
        page = visit(driver, write_page([training, other], tmp_path / "report.html", figures=False))
        for measure in ("loss", "perplexity", "p@1"):
            lines = page.find_elements("css selector", f".panel[data-figure='{FIGURES[measure]}'] .line")
            assert len({line.get_attribute("stroke") for line in lines}) == len(lines) == 2
        legend = page.find_element("css selector", ".panel[data-figure='steps-retrieval'] .panel-legend").text
        assert "made-up-bert (training), layer 4" in legend
        assert "made-up-bert (other), layer 2" in legend
        choose(page, "perplexity", "Line", "zh")
        assert codes(page, "perplexity") == {"zh"}
        assert len(page.find_elements("css selector", ".panel[data-figure='steps-perplexity'] .line")) == 1
        assert len(page.find_elements("css selector", "#step-grid option")) == 2
        assert page.get_log("browser") == []

    def test_a_map_and_a_training_share_a_page(self, driver, training, tmp_path):
        mapped = write_run(tmp_path / "map", Shape(languages=("en", "nl"), layers=3, words=12))
        page = visit(driver, write_page([mapped, training], tmp_path / "report.html", figures=False))
        assert codes(page, "perplexity") == {"all", "en", "nl", "ru", "zh"}
        assert page.find_elements("css selector", "#curves .panel[data-figure='curve-cka'] .line")
        assert page.find_elements("css selector", ".word-map .point")
        assert page.get_log("browser") == []
