"""The page in a real browser: it moves, answers, stays silent on the network, and never runs a word of a corpus."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest
from browsing import NEEDED, visit, wait
from report_runs import HOSTILE, WORDS, Shape, write_run
from training_runs import write_training

from isogloss.report import write_page
from isogloss.report.page import read_run
from isogloss.runs import table

pytestmark = NEEDED


@pytest.fixture(scope="module")
def page(run, tmp_path_factory) -> Path:
    return write_page([run], tmp_path_factory.mktemp("page") / "report.html", figures=False)


@pytest.fixture
def browser(driver, page):
    return visit(driver, page)


def places(driver):
    return driver.execute_script(
        "return [...document.querySelectorAll('.word-map .point')].map((point) => point.getAttribute('transform'))"
    )


def at_rest(driver):
    wait(driver, lambda: not driver.execute_script("return document.querySelector('.word-map.moving')"))
    return places(driver)


def slide(driver, layer):
    driver.execute_script(
        "const slider = document.querySelector('#layer-slider'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input', { bubbles: true }))",
        layer,
    )


def layer_shown(driver):
    return driver.execute_script("return document.querySelector('.readout strong').textContent")


def point_at(driver, selector):
    """Bring a point into view and move a real mouse onto it."""
    from selenium.webdriver.common.action_chains import ActionChains

    target = driver.find_element("css selector", selector)
    driver.execute_script("document.querySelector('.word-map').scrollIntoView({ block: 'center' })")
    time.sleep(0.4)
    ActionChains(driver).move_to_element(target).perform()


def overlaps(driver, selector):
    """Pairs of texts that cover each other."""
    return driver.execute_script(
        "const boxes = [...document.querySelectorAll(arguments[0])].map((node) => [node.textContent,"
        " node.getBoundingClientRect()]);"
        "const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4"
        " && b.top < a.bottom - 4;"
        "return boxes.flatMap(([one, a], at) => boxes.slice(at + 1).filter(([, b]) => meet(a, b))"
        ".map(([other]) => [one, other]))",
        selector,
    )


def test_the_slider_moves_the_points_smoothly(browser):
    before = at_rest(browser)
    assert layer_shown(browser) == "8"
    slide(browser, 0)
    time.sleep(0.25)
    underway = places(browser)
    after = at_rest(browser)
    assert layer_shown(browser) == "0"
    assert before != after
    assert underway not in (before, after)
    slide(browser, 8)
    assert at_rest(browser) == before


def test_labels_never_cover_each_other(browser):
    for layer in (8, 0, 5):
        slide(browser, layer)
        at_rest(browser)
        assert len(browser.find_elements("css selector", ".word-map .labels text")) >= 10
        assert overlaps(browser, ".word-map .labels text") == []


def test_arrow_keys_go_one_layer_on_and_back(browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key, layer in ((Keys.ARROW_RIGHT, "9"), (Keys.ARROW_LEFT, "8"), (Keys.ARROW_LEFT, "7")):
        ActionChains(browser).send_keys(key).perform()
        assert layer_shown(browser) == layer
    at_rest(browser)


def test_play_runs_through_the_layers_and_pause_stops_it(browser):
    play = browser.find_element("id", "play")
    browser.execute_script("arguments[0].click()", play)
    wait(browser, lambda: layer_shown(browser) == "10")
    browser.execute_script("arguments[0].click()", play)
    assert play.get_attribute("aria-label") == "play through the layers"
    stopped = at_rest(browser)
    time.sleep(1.0)
    assert places(browser) == stopped


def test_hovering_a_point_shows_the_word_and_its_translations(browser):
    at_rest(browser)
    data = browser.execute_script("return JSON.parse(document.getElementById('data').textContent).runs[0].map")
    # The outermost point: no other lies on top of it.
    reach = [abs(x) + abs(y) for x, y in zip(data["x"][8], data["y"][8], strict=True)]
    index = reach.index(max(reach))
    point_at(browser, f".word-map .point[data-index='{index}']")
    wait(browser, lambda: browser.find_element("class name", "tooltip").is_displayed())
    text = browser.find_element("class name", "tooltip").text
    group = [at for at, pair in enumerate(data["pair"]) if pair == data["pair"][index]]
    assert len(group) == len(WORDS)
    assert all(data["word"][at] in text for at in group)
    assert "Dutch" in text
    assert "translated as" in text


def test_a_search_marks_the_word_and_its_translations(browser):
    box = browser.find_element("id", "word-search")
    box.send_keys("книга")
    wait(browser, lambda: len(browser.find_elements("css selector", ".strong-point")) == len(WORDS))
    labels = {node.text for node in browser.find_elements("css selector", ".word-map .focus text")}
    assert {"book", "boek", "книга", "书", "كتاب"} <= labels
    assert not browser.find_elements("css selector", ".word-map .labels text")
    assert overlaps(browser, ".word-map .focus text") == []
    box.clear()
    box.send_keys("no such thing")
    wait(browser, lambda: "no such word" in browser.find_element("class name", "results").text)


def test_the_legend_hides_and_shows_a_language(browser):
    button = browser.find_element("css selector", ".language[data-code='zh']")
    hidden = ".point[data-language='zh'][display='none']"
    button.click()
    assert len(browser.find_elements("css selector", hidden)) == 90
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert not browser.find_elements("css selector", hidden)


def test_every_section_is_filled(browser):
    titles = [node.text for node in browser.find_elements("css selector", ".panel h3")]
    for name in ("Retrieval P@1", "CKA", "Word agreement", "Alignment error rate", "Anisotropy"):
        assert any(title.startswith(name) for title in titles)
    assert browser.find_elements("css selector", ".panel[data-figure='curve-retrieval'] .band")
    assert browser.find_elements("css selector", ".panel[data-figure='curve-retrieval'] .floor")
    assert browser.find_elements("css selector", ".panel[data-figure='curve-aer'] .reference")
    assert len(browser.find_elements("css selector", "#heat-map .cell")) == 4 * 13
    assert len(browser.find_elements("css selector", "#matrix .cell")) == 5 * 5
    chosen = browser.find_element("id", "matrix-layer").get_attribute("value")
    assert chosen == "8"


def test_a_pair_can_be_chosen_for_the_curves(browser):
    line = ".panel[data-figure='curve-cka'] .line"
    before = browser.find_element("css selector", line).get_attribute("d")
    select = browser.find_element("css selector", "#curves select")
    browser.execute_script("arguments[0].selectedIndex = 3; arguments[0].dispatchEvent(new Event('change'))", select)
    assert browser.find_element("css selector", line).get_attribute("d") != before
    assert len(browser.find_elements("css selector", ".panel[data-figure='curve-anisotropy'] .line")) == 2


def test_the_table_sorts_filters_and_downloads(browser, run, downloads):
    browser.find_element("id", "row-filter").send_keys("csls nl")
    browser.execute_script("document.querySelector('#rows [data-column=value]').click()")
    values = [float(cell.text) for cell in browser.find_elements("css selector", "#rows tbody td:nth-child(2)")]
    assert values == sorted(values, reverse=True)
    browser.execute_script("document.getElementById('download-csv').click()")
    path = downloads / "rows.csv"
    wait(browser, path.exists)
    found = pd.read_csv(path)
    rows = read_run(run).rows
    wanted = rows[(rows["method"] == "csls") & ((rows["source"] == "nl") | (rows["target"] == "nl"))]
    assert len(found) == len(wanted)
    assert found["value"].is_monotonic_decreasing
    key = ["measure", "layer", "source", "target"]
    both = found.merge(wanted, on=key, suffixes=("", "_run"))
    assert len(both) == len(found)
    for name in ("value", "low", "high", "floor"):
        assert (both[name] - both[f"{name}_run"]).abs().max() < 1e-6
    assert set(found["model"]) == {"made-up-encoder"}


def test_nothing_is_asked_of_the_network_and_the_console_is_silent(browser, page):
    slide(browser, 3)
    at_rest(browser)
    addresses = {
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        for message in [json.loads(entry["message"])["message"]]
        if message["method"] == "Network.requestWillBeSent"
    }
    assert {address for address in addresses if not address.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert browser.get_log("browser") == []


def test_the_policy_stops_scripts_and_requests_that_are_not_the_page_s(browser):
    browser.execute_script(
        "window.stopped = []; document.addEventListener('securitypolicyviolation', (event) =>"
        " window.stopped.push(event.effectiveDirective));"
        "const image = new Image(); image.src = 'https://example.org/x.png'; document.body.append(image);"
        "const script = document.createElement('script'); script.textContent = 'window.intruder = 1';"
        "document.body.append(script);"
    )
    wait(browser, lambda: len(browser.execute_script("return window.stopped")) >= 2)
    assert browser.execute_script("return window.intruder") is None


def test_hostile_words_stay_words(driver, hostile_run, tmp_path):
    from selenium.common.exceptions import NoAlertPresentException

    browser = visit(driver, write_page([hostile_run], tmp_path / "report.html", figures=False))
    assert browser.execute_script("return document.scripts.length") == 2
    box = browser.find_element("id", "word-search")
    for word in ("<script>alert(1)</script>", "<b>x</b>", "&amp;"):
        assert word in HOSTILE
        box.clear()
        box.send_keys(word)
        wait(browser, lambda: browser.find_elements("css selector", ".word-map .focus text"))
        texts = browser.execute_script(
            "const nodes = document.querySelectorAll('.word-map .focus text, .result span');"
            "return [...nodes].map((node) => node.textContent)"
        )
        assert any(text.startswith(word[:20]) for text in texts)
    for _ in range(2):
        slide(browser, 2)
        at_rest(browser)
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert browser.execute_script("return window.broken") is None
    assert not browser.execute_script("return document.querySelector('main img, main b, main script')")
    assert browser.get_log("browser") == []


def test_several_runs_share_curves_and_take_turns_on_the_map(driver, run, tmp_path):
    other = write_run(tmp_path / "other", Shape(languages=("en", "fi"), layers=6, meet=3, words=40, model="smaller"))
    browser = visit(driver, write_page([run, other], tmp_path / "report.html", figures=False))
    lines = ".panel[data-figure='curve-cka'] .line"
    assert len(browser.find_elements("css selector", lines)) == 2
    assert len(browser.find_elements("css selector", ".verdict")) == 2
    assert len(places(browser)) == 5 * 90
    browser.execute_script(
        "const menu = document.querySelector('.map-side select');"
        "menu.value = '1'; menu.dispatchEvent(new Event('change'))"
    )
    assert len(places(browser)) == 2 * 40
    assert browser.find_element("id", "layer-slider").get_attribute("max") == "6"
    assert browser.get_log("browser") == []


def test_pairs_on_several_data_sets_can_be_averaged_apart(driver, tmp_path):
    shape = Shape(languages=("en", "nl", "fi"), layers=4, meet=2.2)
    folder = write_run(tmp_path / "run", shape, points=False)
    one, two = read_run(folder).rows, read_run(folder).rows.assign(data="<i>second</i>")
    two["value"] = two["value"] / 2
    pd.concat([one, two]).to_parquet(folder / "rows.parquet")
    browser = visit(driver, write_page([folder], tmp_path / "report.html", figures=False))
    heights = []
    for index in (0, 1, 2):
        browser.execute_script(
            "const menu = document.querySelector('#curves select'); menu.selectedIndex = arguments[0];"
            "menu.dispatchEvent(new Event('change'))",
            index,
        )
        words = browser.find_element("css selector", ".panel[data-figure='curve-cka'] figcaption").text
        heights.append(browser.find_element("css selector", ".panel[data-figure='curve-cka'] .line").get_attribute("d"))
        assert f"Average over {(6, 3, 3)[index]} language pairs" in words
    assert len(set(heights)) == 3
    assert "the average over language pairs, <i>second</i> only" in browser.page_source.replace("&lt;", "<").replace(
        "&gt;", ">"
    )
    assert browser.get_log("browser") == []


@pytest.mark.skipif(not shutil.which("fc-list"), reason="needs fc-list to know which fonts there are")
def test_a_script_the_browser_cannot_draw_is_named(driver, tmp_path, monkeypatch):
    monkeypatch.setitem(WORDS, "vai", ["ꕉꕜ", "ꖏꖦ", "ꔀꔁ"])
    folder = write_run(tmp_path / "run", Shape(languages=("en", "vai"), layers=2, meet=1, words=12))
    browser = visit(driver, write_page([folder], tmp_path / "report.html", figures=False))
    listed = subprocess.run(["fc-list", ":charset=a549"], capture_output=True, text=True).stdout.strip()
    note = browser.find_element("css selector", ".map-side p").text
    assert ("no font for Vai" in note) == (not listed)
    assert "Latin" not in note


def test_a_run_without_points_or_intervals_makes_a_quiet_page(driver, tmp_path):
    folder = write_run(tmp_path / "run", Shape(languages=("en", "nl"), layers=3), points=False)
    frame = read_run(folder).rows
    frame[["low", "high", "floor"]] = float("nan")
    frame[frame["measure"] == "p@1"].to_parquet(folder / "rows.parquet")
    browser = visit(driver, write_page([folder], tmp_path / "report.html", figures=False))
    assert "no word map" in browser.find_element("id", "word-map").text
    assert len(browser.find_elements("css selector", ".panel")) == 1
    assert browser.get_log("browser") == []


def test_a_curve_of_one_point_is_a_dot(driver, tmp_path):
    rows = [
        table.row("accuracy", 0.4, n=60, step=4, plan=plan, model="m", task="nli", source="en", target="de")
        for plan in ("freeze:-1", "freeze:0")
    ]
    folder = write_training(tmp_path / "run")
    table.frame(rows).to_parquet(folder / "rows.parquet")
    browser = visit(driver, write_page([folder], tmp_path / "report.html", figures=False))
    assert len(browser.find_elements("css selector", "circle.only")) == 4, "both plans, together and apart"
    assert browser.get_log("browser") == []
