"""The benchmark of `isogloss map` runs whole at a tiny size."""

from types import SimpleNamespace

import torch

from benchmarks import map as mapping


def test_it_maps_without_the_blocks_and_has_its_line(tiny, capsys, monkeypatch):
    monkeypatch.setattr(mapping, "KNOWN", 60)
    given = SimpleNamespace(sentences=40, languages=3, model=tiny("bert"), threads=torch.get_num_threads())
    mapping.measure(given)
    cells = [cell.strip() for cell in capsys.readouterr().out.strip("|\n ").split("|")]
    assert cells[:2] == ["40", "3"]
    # Of each of two pairs and four layers: CKA, P@1, P@5, P@10 and MRR both ways by three methods, and words both ways.
    assert int(cells[2]) >= 2 * 4 * (1 + 2 * 3 * 4 + 2)
    assert float(cells[3]) > 0 and mapping.SPENT["lookup"] > 0


def test_the_text_is_parallel_and_each_language_has_words_of_its_own():
    one, other = mapping.text(5, 2)
    assert (one.language, other.language) == ("qaa", "qab")
    for first, second in zip(one.sentences, other.sentences, strict=True):
        assert len(first.split()) == len(second.split()) == mapping.WORDS and first != second
