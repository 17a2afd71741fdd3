"""The alignment benchmark runs whole at a tiny size, and its in-batch lines have nearly the same loss."""

import math

import pytest
from transformers import AutoTokenizer

from benchmarks import alignment
from tiny_drift import write_model


def test_every_line_trains_and_the_like_ones_agree(tmp_path, benchmark):
    pytest.importorskip("sentence_transformers")
    sizes = "--batch 8 --steps 3 --warm-up 1 --rounds 1 --queue 16"
    _, found = benchmark(alignment, f"--model {write_model(tmp_path / 'model')} {sizes}")
    queued, batched, other = found["rows"]
    assert queued["name"] == "isogloss, queue and TLM" and batched["name"] == "isogloss, in-batch"
    assert other["name"].startswith("sentence-transformers") and other["times"] == 1
    for one in (queued, batched):
        assert one["times"] == one["pairs_per_second"] / other["pairs_per_second"] > 0
    # Random weights know no translation: the right one is one of eight.
    assert abs(batched["loss"] - other["loss"]) < 0.3 and abs(batched["loss"] - math.log(8)) < 0.6
    assert batched["loss"] < queued["loss"] < math.inf  # sixteen others in the queue, seven in the batch


def test_made_up_sentences_are_as_long_as_told_and_translate_word_for_word(tiny):
    tokenizer = AutoTokenizer.from_pretrained(tiny("bert"))
    pairs = alignment.make_pairs(200, tokenizer, 0)
    sides = [[tokenizer(side)["input_ids"] for side in pair] for pair in pairs]
    assert all(12 <= len(side) <= 40 for pair in sides for side in pair)
    assert 18 < sum(len(first) for first, _ in sides) / 200 < 27
    known = {word: other for pair in pairs for word, other in zip(*(side.split() for side in pair), strict=True)}
    assert all(
        known[word] == other != word for pair in pairs for word, other in zip(*map(str.split, pair), strict=True)
    )
