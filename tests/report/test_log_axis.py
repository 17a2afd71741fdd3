"""Ticks of axes that count in factors: enough of them to read a curve by, round, and inside, whatever the range."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import isogloss.report
from isogloss.report.logaxis import FEWEST, MOST, dress_factors, factor_ticks

PAGE = Path(isogloss.report.__file__).parent


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((4.0, 13.5), [4, 5, 6, 8, 10]),  # one of 1, 2, 5 is not enough to read by
        ((10.5, 13.2), [10.5, 11, 11.5, 12, 12.5, 13]),
        ((2, 600), [2, 5, 10, 20, 50, 100, 200, 500]),
        ((0.5, 5e4), [1, 10, 100, 1000, 10000]),
        ((0, 5), []),
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
        assert FEWEST <= len(found) <= MOST, (low, high, found)
        assert all(low * (1 - 1e-6) <= one <= high * (1 + 1e-6) for one in found)
        assert sorted(set(found)) == found


def test_an_axis_has_them_and_no_others():
    axes = Figure().subplots()
    axes.plot([0, 1, 2], [13.0, 10.7, 10.5])
    dress_factors(axes)
    axes.figure.canvas.draw()
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert len(shown) >= FEWEST and all(re.fullmatch(r"1[0-3](\.5)?", text) for text in shown)
    assert len(axes.yaxis.get_minorticklocs()) == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node on the path")
def test_the_page_chooses_the_same_factors():
    ranges = [(4.0, 13.5), (2, 600), (0.5, 5e4), (1200, 8e9), (3, 70)]
    functions = [
        re.search(rf"function {name}\(.*?\n}}\n", (PAGE / file).read_text(encoding="utf-8"), re.DOTALL)[0]
        for name, file in (("ticks", "dom.js"), ("factorTicks", "stepdrawing.js"))
    ]
    script = "".join(functions) + f"console.log(JSON.stringify({json.dumps(ranges)}.map((one) => factorTicks(...one))))"
    shown = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True).stdout
    for ends, there in zip(ranges, json.loads(shown), strict=True):
        np.testing.assert_allclose(there, factor_ticks(*ends))
