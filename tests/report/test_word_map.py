"""The word map's points: what scaling and turning keep."""

import numpy as np
import pandas as pd
from report_runs import Shape, word_points

from isogloss.report.word_map import EDGE, WIDE, word_map


def triangle(turn=0.0, size=1.0, mirror=False):
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return size * (corners * ([-1, 1] if mirror else [1, 1])) @ spin.T + 7.0


def points_of(*layers):
    return pd.DataFrame(
        [
            (layer, "en", f"word{pair}", pair, x, y)
            for layer, corners in enumerate(layers)
            for pair, (x, y) in enumerate(corners)
        ],
        columns=["layer", "language", "word", "pair", "x", "y"],
    )


def test_a_turned_mirrored_and_grown_layer_does_not_move():
    drawn = word_map(points_of(triangle(), triangle(turn=2.0, size=30.0), triangle(turn=1.0, mirror=True)))
    assert np.allclose(drawn.positions[0], drawn.positions[1])
    assert np.allclose(drawn.positions[0], drawn.positions[2])


def test_shapes_are_never_bent():
    drawn = word_map(points_of(triangle(turn=0.7)))
    x = drawn.positions[0]
    sides = sorted(np.linalg.norm(x[a] - x[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert np.allclose(np.array(sides) / sides[0], [1.0, 4 / 3, 5 / 3])


def test_everything_stays_in_the_frame():
    data = word_points(Shape())
    data.loc[5, ["x", "y"]] = 1e6
    x = np.stack(list(word_map(data).positions.values()))
    assert np.abs(x[..., 0]).max() <= WIDE + EDGE + 1e-9
    assert np.abs(x[..., 1]).max() <= 1 + EDGE + 1e-9
    assert x.std() > 0.2


def test_points_that_are_all_the_same_do_not_divide_by_zero():
    assert np.isfinite(word_map(points_of(np.ones((3, 2)))).positions[0]).all()
