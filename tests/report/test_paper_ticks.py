"""Numbers below an axis are told apart, also where they are long."""

from isogloss.figure import Figure, Line, Panel
from isogloss.report import paperfigures
from isogloss.report.look import drawing


def test_numbers_of_steps_below_narrow_panels_do_not_run_into_each_other(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(paperfigures, "save", lambda figure, *_: figures.append(figure) or [])
    steps = list(range(0, 7_501, 750))
    panels = [Panel(name, [Line("a", steps, [1.0] * len(steps))]) for name in ("one", "two")]
    with drawing():
        paperfigures.write_picture(Figure("p", "Title", "caption", panels, "y"), tmp_path)
        figures[0].canvas.draw()
        for axes in figures[0].axes:
            left, right = axes.get_window_extent().x0, axes.get_window_extent().x1
            boxes = [one.get_window_extent() for one in axes.get_xticklabels()]
            shown = [box for box in boxes if left <= (box.x0 + box.x1) / 2 <= right]
            assert len(shown) >= 3
            assert all(first.x1 < second.x0 for first, second in zip(shown, shown[1:], strict=False))


def test_words_at_places_of_the_axis_stand_where_they_belong(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(paperfigures, "save", lambda figure, *_: figures.append(figure) or [])
    ticks = {first: f"{first}-{first + 1}" for first in range(1, 12, 2)}
    panels = [Panel(name, [Line("a", list(ticks), [1.0] * len(ticks))]) for name in ("one", "two", "three")]
    with drawing():
        paperfigures.write_picture(Figure("p", "Title", "caption", panels, "y", ticks=ticks), tmp_path)
        figures[0].canvas.draw()
        for axes in figures[0].axes:
            labels = axes.get_xticklabels()
            assert {one.get_position()[0]: one.get_text() for one in labels} == ticks
            boxes = [one.get_window_extent() for one in labels]
            assert all(first.x1 < second.x0 for first, second in zip(boxes, boxes[1:], strict=False))
