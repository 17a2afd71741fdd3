"""The page of a training: what it holds, and how it answers in a real browser."""

import json
import re
import time

import numpy as np
import pandas as pd
import pytest
from browsing import NEEDED, visit, wait
from report_runs import HOSTILE, HOSTILE_NAME, Shape, write_run
from training_runs import Course, training_rows, write_training

from isogloss.report import write_page
from isogloss.report.page import read_run, thin_rows
from isogloss.runs import table

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
