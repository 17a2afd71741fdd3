"""Drawing with matplotlib: what depends on what is drawn, which files are written, and what they never draw."""

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import ft2font
from matplotlib.figure import Figure as Drawing
from report_runs import HOSTILE, WORDS, Shape, word_points, write_run

import isogloss.report
from isogloss.errors import InputError
from isogloss.figure import COLOURS, DARK, Figure, Line, Panel
from isogloss.report import draw_matplotlib, write_figures
from isogloss.report.draw_matplotlib import (
    CHANCE,
    FEWEST_FACTORS,
    MOST_FACTORS,
    choose_fonts,
    drawing,
    dress_factors,
    factor_ticks,
    script_of,
)
from isogloss.report.word_map import MOST_BYTES, choose_layers, word_map

PAGE = Path(isogloss.report.__file__).parent
LINES = [Line(name, [-1, 0, 1], [0.3, 0.4, 0.5], hue=number) for number, name in enumerate("abcde")]
PICTURE = Figure("p", "Title", "caption", [Panel("one", LINES, floor=0.1), Panel("two", LINES)], "y", xlabel="N")


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a picture and return the figure instead of saving it."""
    figures = []
    monkeypatch.setattr(draw_matplotlib, "save", lambda figure, *_: figures.append(figure) or [])

    def draw(picture):
        with drawing():
            draw_matplotlib.write_figure(picture, tmp_path)
            figures[-1].canvas.draw()
        return figures[-1]

    return draw


def test_many_curves_that_all_panels_share_have_one_legend_beside_them(drawn):
    figure = drawn(PICTURE)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*"abcde", "chance"]
    assert [axes.get_legend() for axes in figure.axes] == [None, None]
    few = replace(PICTURE, panels=[Panel("one", LINES[:2]), Panel("two", LINES[:2])])
    assert not drawn(few).legends and all(axes.get_legend() for axes in drawn(few).axes)
    four = [Panel(name, LINES[:4]) for name in ("one", "two", "three")]  # three abreast are small
    assert drawn(replace(PICTURE, panels=four)).legends and not drawn(replace(PICTURE, panels=four[:2])).legends
    other = replace(PICTURE, panels=[Panel("one", LINES), Panel("two", LINES[::-1])])
    assert not drawn(other).legends
    first, *rest = PICTURE.panels
    fewer = replace(PICTURE, panels=[replace(first, lines=first.lines[:2]), *rest])
    assert [text.get_text() for text in drawn(fewer).legends[0].get_texts()] == [*"abcde", "chance"]
    gap = replace(PICTURE, panels=[replace(first, lines=[*first.lines[:1], *first.lines[2:]]), *rest])
    assert not drawn(gap).legends, "its colours are others"


def test_a_single_panel_of_many_curves_keeps_its_width_beside_the_legend(drawn):
    many, few = (drawn(replace(PICTURE, panels=[Panel("", some, floor=0.1)])) for some in (LINES, LINES[:4]))
    assert many.legends and many.axes[0].get_legend() is None and few.axes[0].get_legend() and not few.legends
    wide, plain = (one.axes[0].get_window_extent().width for one in (many, few))
    assert wide > 0.9 * plain
    assert many.legends[0].get_window_extent().x0 > many.axes[0].get_window_extent().x1


def test_a_curve_has_its_colour_wherever_it_stands_and_a_mean_is_thick(drawn):
    lines = [LINES[3], replace(LINES[0], label="mean", thick=True), Line("dots", [0, 1], [0.2, 0.3], dots=True, hue=2)]
    axes = drawn(replace(PICTURE, panels=[Panel("one", lines)])).axes[0]
    first, mean, dots = axes.lines
    assert first.get_color() == COLOURS[3] and dots.get_markeredgecolor() == COLOURS[2]
    assert mean.get_color() == DARK and mean.get_linewidth() > first.get_linewidth()


def test_chance_that_differs_between_curves_is_drawn_in_the_colour_of_each(drawn):
    same = [replace(line, floor=[0.1, 0.1, 0.1]) for line in LINES[:2]]
    apart = [same[0], replace(same[1], floor=[0.7, 0.7, 0.7])]
    for lines, colours in ((same, {CHANCE}), (apart, set(COLOURS[:2]))):
        axes = drawn(replace(PICTURE, panels=[Panel("one", lines)])).axes[0]
        dashed = [one for one in axes.lines if len(one.get_xdata()) and one.get_linestyle() == "--"]
        assert {one.get_color() for one in dashed} == colours and len(dashed) == len(colours)
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [*"ab", "chance"]


def test_an_axis_of_whole_numbers_names_each_and_one_of_shares_does_not(drawn):
    shares = [Line("a", [0.1, 0.25], [1, 2], dots=True)]
    figure = drawn(replace(PICTURE, panels=[Panel("one", LINES[:1]), Panel("two", shares)]))
    labels = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes]
    assert {"-1", "0", "1"} <= set(labels[0]) and any("." in text for text in labels[1])
    assert [axes.get_xlabel() for axes in figure.axes] == ["N", "N"]


def test_numbers_of_steps_below_narrow_panels_do_not_run_into_each_other(drawn):
    steps = list(range(0, 7_501, 750))
    panels = [Panel(name, [Line("a", steps, [1.0] * len(steps))]) for name in ("one", "two")]
    figure = drawn(Figure("p", "Title", "caption", panels, "y"))
    for axes in figure.axes:
        left, right = axes.get_window_extent().x0, axes.get_window_extent().x1
        boxes = [one.get_window_extent() for one in axes.get_xticklabels()]
        shown = [box for box in boxes if left <= (box.x0 + box.x1) / 2 <= right]
        assert len(shown) >= 3
        assert all(first.x1 < second.x0 for first, second in zip(shown, shown[1:], strict=False))


def test_words_at_places_of_the_axis_stand_where_they_belong(drawn):
    ticks = {first: f"{first}-{first + 1}" for first in range(1, 12, 2)}
    panels = [Panel(name, [Line("a", list(ticks), [1.0] * len(ticks))]) for name in ("one", "two", "three")]
    figure = drawn(Figure("p", "Title", "caption", panels, "y", ticks=ticks))
    for axes in figure.axes:
        labels = axes.get_xticklabels()
        assert {one.get_position()[0]: one.get_text() for one in labels} == ticks
        boxes = [one.get_window_extent() for one in labels]
        assert all(first.x1 < second.x0 for first, second in zip(boxes, boxes[1:], strict=False))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((4.0, 13.5), [4, 5, 6, 8, 10]),  # one of 1, 2, 5 is not enough to read by
        ((10.5, 13.2), [10.5, 11, 11.5, 12, 12.5, 13]),
        ((2, 600), [2, 5, 10, 20, 50, 100, 200, 500]),
        ((0.5, 5e4), [1, 10, 100, 1000, 10000]),
    ],
)
def test_ticks_of_known_ranges(ends, expected):
    assert factor_ticks(*ends) == expected


def test_any_range_has_four_to_nine_round_ticks_inside():
    generator = np.random.default_rng(0)
    for _ in range(500):
        low = 10 ** generator.uniform(-2, 4)
        high = low * np.exp(10 ** generator.uniform(-2, 1.3))
        found = factor_ticks(low, high)
        assert FEWEST_FACTORS <= len(found) <= MOST_FACTORS, (low, high, found)
        assert all(low * (1 - 1e-6) <= one <= high * (1 + 1e-6) for one in found)
        assert sorted(set(found)) == found


def test_an_axis_has_them_and_no_others():
    axes = Drawing().subplots()
    axes.plot([0, 1, 2], [13.0, 10.7, 10.5])
    dress_factors(axes)
    axes.figure.canvas.draw()
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert len(shown) >= FEWEST_FACTORS and all(re.fullmatch(r"1[0-3](\.5)?", text) for text in shown)
    assert len(axes.yaxis.get_minorticklocs()) == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node on the path")
def test_the_page_chooses_the_same_factors():
    ranges = [(4.0, 13.5), (2, 600), (0.5, 5e4), (1200, 8e9), (3, 70)]
    functions = [
        re.search(rf"function {name}\(.*?\n}}\n", (PAGE / file).read_text(encoding="utf-8"), re.DOTALL)[0]
        for name, file in (("ticks", "page.js"), ("factorTicks", "charts.js"))
    ]
    script = (
        "const AXIS_STEPS = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];"
        + "".join(functions)
        + f"console.log(JSON.stringify({json.dumps(ranges)}.map((one) => factorTicks(...one))))"
    )
    shown = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout
    for ends, there in zip(ranges, json.loads(shown), strict=True):
        np.testing.assert_allclose(there, factor_ticks(*ends))


SMALL = Shape(languages=("en", "zh", "ar"), layers=4, meet=2.3, words=30, model="costs $5, not $6_x^2")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return write_figures(write_run(folder / "run", SMALL, hostile=True), folder / "run" / "figures")


def test_every_figure_is_written_as_png_and_svg(written):
    stems = {path.stem for path in written}
    assert stems == {
        "curve-retrieval", "curve-cka", "curve-word-agreement", "curve-aer", "curve-anisotropy",
        "heat-map", "language-matrix", "word-map", "word-map-layers", "layers",
    }  # fmt: skip
    assert all(path.stat().st_size > 1000 for path in written)
    assert {path.suffix for path in written if path.stem != "layers"} == {".png", ".svg"}
    assert not list(written[0].parent.glob("*.part"))


def test_svg_figures_are_well_formed_whatever_the_words(written):
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)


def test_the_animation_rests_at_each_layer_and_glides_between(written):
    from PIL import Image

    path = next(path for path in written if path.suffix == ".gif")
    assert path.stat().st_size < MOST_BYTES
    with Image.open(path) as gif:
        durations, pictures = [], []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
            pictures.append(np.asarray(gif.convert("RGB"), dtype="int16"))
    assert sum(duration >= 900 for duration in durations) == SMALL.layers + 1
    assert len(durations) == SMALL.layers * 8 + 1
    changed = [np.abs(a - b).sum() for a, b in zip(pictures, pictures[1:], strict=False)]
    assert min(changed) > 0


def test_no_setting_of_matplotlib_is_left_behind(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    write_figures(write_run(tmp_path / "run", Shape(languages=("en", "nl"), layers=2), points=False), tmp_path / "out")
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_scripts_without_a_font_are_named_and_not_drawn(monkeypatch):
    base = {draw_matplotlib.BASE_FONT: draw_matplotlib._installed()[draw_matplotlib.BASE_FONT]}
    monkeypatch.setattr(draw_matplotlib, "_installed", lambda: base)
    choice = choose_fonts(["book", "книга", "书", "किताब"])
    assert choice.families == [draw_matplotlib.BASE_FONT]
    assert choice.draws("книга")
    assert not choice.draws("书")
    assert choice.cannot["Chinese"] == "Chinese words not shown: no installed font has them."
    assert "Devanagari words not shown" in choice.cannot["Devanagari"]


def test_joined_scripts_need_a_matplotlib_that_shapes_text(monkeypatch):
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    choice = choose_fonts(["book", "كتاب"])
    assert not choice.draws("كتاب")
    assert "Arabic words not shown: this matplotlib cannot join" in choice.cannot["Arabic"]


def test_fonts_that_only_hold_boxes_are_never_chosen():
    assert not any(name.startswith("Last Resort") for name in draw_matplotlib._installed())


def test_no_box_is_drawn_for_the_words_of_the_map(recwarn):
    from isogloss.report.draw_matplotlib import drawing, new_figure
    from isogloss.report.word_map import _label, draw_map

    points = word_map(word_points(SMALL, hostile=True), SMALL.languages, title="x", centre="en")
    with drawing(points.words["word"]) as fonts:
        figure, axes = new_figure(6, 5)
        draw_map(axes, points, points.positions[2], size=9)
        _label(axes, points, fonts, points.positions[2])
        texts = [text.get_text() for text in axes.texts]
        figure.canvas.draw()
    assert texts
    assert all(fonts.draws(text) for text in texts)
    assert not [warning for warning in recwarn if "missing from font" in str(warning.message)]


@pytest.mark.parametrize(
    ("letter", "script"),
    [("a", "Latin"), ("ж", "Cyrillic"), ("书", "Chinese"), ("ك", "Arabic"), ("ん", "Japanese"), ("책", "Korean")]
    + [("ａ", "Latin"), ("5", ""), ("ª", ""), ("\ud800", "")],
)
def test_scripts_have_names_a_reader_knows(letter, script):
    assert script_of(letter) == script


def test_words_of_every_listed_script_are_kept_apart():
    assert {script_of(words[0][0]) for words in WORDS.values()} == {"Latin", "Cyrillic", "Chinese", "Arabic"}
    assert len(HOSTILE) > 5


def test_the_sheet_shows_the_first_the_best_and_the_last_layer():
    assert choose_layers(range(5), 2, most=6) == [0, 1, 2, 3, 4]
    for best in (0, 1, 11, 24):
        chosen = choose_layers(range(25), best, most=6)
        assert {0, best, 24} <= set(chosen)
        assert len(chosen) == 6


def test_a_missing_matplotlib_is_named_with_its_remedy(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'isogloss\[report\]'"):
        write_figures(run, tmp_path)


def test_shades_do_not_make_a_hair_look_like_a_gulf():
    from isogloss.report.draw_matplotlib import shade_range

    assert shade_range(0.2, 0.8) == (0.2, 0.8)
    low, high = shade_range(0.79, 0.80)
    assert high - low == pytest.approx(0.1)
    assert (low + high) / 2 == pytest.approx(0.795)
