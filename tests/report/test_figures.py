"""The figures: which are written, what they never draw, and that they leave no settings behind."""

import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib import ft2font
from report_runs import HOSTILE, WORDS, Shape, word_points, write_run

from isogloss.errors import InputError
from isogloss.report import draw_matplotlib, write_figures
from isogloss.report.draw_matplotlib import choose_fonts, script_of
from isogloss.report.word_map import MOST_BYTES, choose_layers, word_map

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
