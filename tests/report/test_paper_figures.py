"""Figures of papers: colours, legends and axes that hang on what is drawn."""

from dataclasses import replace

import pytest

from isogloss.figure import Figure, Line, Panel
from isogloss.report import paperfigures
from isogloss.report.languages import COLOURS
from isogloss.report.look import DARK, drawing

LINES = [Line(name, [-1, 0, 1], [0.3, 0.4, 0.5], hue=number) for number, name in enumerate("abcde")]
PICTURE = Figure("p", "Title", "caption", [Panel("one", LINES, floor=0.1), Panel("two", LINES)], "y", xlabel="N")


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw a picture and return the figure instead of saving it."""
    figures = []
    monkeypatch.setattr(paperfigures, "save", lambda figure, *_: figures.append(figure) or [])

    def draw(picture):
        with drawing():
            paperfigures.write_picture(picture, tmp_path)
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


def test_an_axis_of_whole_numbers_names_each_and_one_of_shares_does_not(drawn):
    shares = [Line("a", [0.1, 0.25], [1, 2], dots=True)]
    figure = drawn(replace(PICTURE, panels=[Panel("one", LINES[:1]), Panel("two", shares)]))
    labels = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes]
    assert {"-1", "0", "1"} <= set(labels[0]) and any("." in text for text in labels[1])
    assert [axes.get_xlabel() for axes in figure.axes] == ["N", "N"]
