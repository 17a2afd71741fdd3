"""The benchmarks of dictionary induction and of word types run whole at a tiny size; both ways find the same words."""

import subprocess
import sys
from pathlib import Path

import torch
from benchmarks.csls import blocked, dense, vocabularies

ROOT = Path(__file__).parents[2]


def lines(*words):
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]


def test_both_ways_find_the_same_words():
    x, y, gold = vocabularies(600, 100, 90, torch.device("cpu"))
    assert 0.2 < blocked(x, y, gold) == dense(x, y, gold) < 1


def test_a_table_has_a_line_for_each_way():
    found = lines("benchmarks.csls", "--items", "1200", "--dense", "1000", "--width", "20", "--words", "50")
    assert [(one[0], one[1]) for one in found[2:]] == [
        ("induction, in blocks", "1,000"), ("induction, dense", "1,000"), ("induction, in blocks", "1,200"),
    ]  # fmt: skip
    assert found[2][4] == found[3][4]


def test_type_vectors_of_two_texts(tiny):
    found = lines("benchmarks.wordtypes", "--small", "20", "--large", "60", "--model", tiny("bert"))
    assert [one[0] for one in found[2:]] == ["20", "60"]
    assert 0 < int(found[2][4].replace(",", "")) < int(found[3][4].replace(",", ""))
