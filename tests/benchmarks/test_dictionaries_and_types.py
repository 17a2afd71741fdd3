"""The benchmarks of dictionary induction and of word types run at a tiny size; both ways find the same words."""

from types import SimpleNamespace

import pytest
import torch

from benchmarks import csls, wordtypes


def cells(line):
    return [cell.strip() for cell in line.strip("|\n ").split("|")]


def test_every_way_finds_the_same_words_and_has_its_line(capsys):
    given = SimpleNamespace(items=600, width=100, words=90, threads=torch.get_num_threads(), repeat=1, device="cpu")
    x, y, gold = csls.vocabularies(600, 100, 90, torch.device("cpu"))
    assert 0.2 < csls.blocked(x, y, gold) == csls.dense(x, y, gold) < 1
    for way in csls.WAYS:
        csls.measure(way, given)
    found = [cells(line) for line in capsys.readouterr().out.splitlines()]
    assert [one[:2] for one in found] == [[way, "600"] for way in csls.WAYS]
    assert found[0][4] == found[1][4] and found[2][4] == found[3][4]


def test_a_larger_text_has_more_types(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(wordtypes, "KNOWN", 900)
    monkeypatch.setattr(wordtypes, "KEPT", 600)
    for count in (5, 60):
        wordtypes.measure(SimpleNamespace(sentences=count, model=tiny("bert"), device="cpu", folder=tmp_path))
    small, large = (cells(line) for line in capsys.readouterr().out.splitlines())
    assert (small[0], large[0]) == ("5", "60") and 0 < int(small[4]) < int(large[4]) <= 600
    disk = 3 * 4 * 600 * 4 * 32 / 2**20  # means and sums of four layers, 32 wide
    assert float(small[3]) == float(large[3]) == pytest.approx(disk, abs=1) and not list(tmp_path.iterdir())
