"""Code-switching: words and segments that are replaced, against cases checked by eye and explicit loops."""

import numpy as np
import pytest

from isogloss.text.corpora import Lexicon
from isogloss.text.switching import (
    AS_IT_IS,
    Switched,
    joined_dictionary,
    known_words,
    segment_draws,
    switch_words,
    word_chance,
)
from isogloss.text.words import spans

WORDS = joined_dictionary(
    [
        Lexicon("en", "nl", [("cat", "kat"), ("cat", "poes"), ("cat", "kat"), ("the", "de"), ("The", "het")]),
        Lexicon("en", "de", [("cat", "Katze"), ("sleeps", "schläft")]),
    ]
)


def all_of(text, dictionary=WORDS, **more):
    return switch_words(text, dictionary, language="en", share=1.0, chance=np.random.default_rng(0), **more)


def test_dictionaries_of_several_languages_are_joined_by_the_word_in_lower_case():
    assert WORDS == {
        "cat": {"nl": ["kat", "poes"], "de": ["Katze"]}, "the": {"nl": ["de", "het"]}, "sleeps": {"de": ["schläft"]}
    }  # fmt: skip


def test_only_known_words_change_and_everything_between_them_stays():
    one = {"cat": {"nl": ["kat"]}, "on": {"nl": ["op de"]}}
    found = all_of('  "Cat"-like,\ta concat on cats\n', one)
    assert found.text == '  "Kat"-like,\ta concat op de cats\n'
    assert found.edits == ((3, 6, 3), (23, 25, 5))
    assert all_of("no word of it", one) == Switched("no word of it")
    assert all_of("", one) == Switched("")


def test_nothing_changes_inside_a_kept_span_nor_in_a_word_that_reaches_into_it():
    one = {word: {"nl": ["x"]} for word in ("aa", "bb", "cc")}
    assert all_of("aa bb cc", one, kept=[(3, 5)]).text == "x bb x"
    assert all_of("aa bb cc", one, kept=[(4, 5)]).text == "x bb x"
    assert all_of("aa bb cc", one, kept=[(2, 3), (5, 6)]).text == "x x x", "borders of spans are no overlap"
    assert all_of("aa bb cc", one, kept=[(0, 1), (7, 8)]).text == "aa x cc"


def test_every_character_that_was_not_replaced_is_found_where_it_moved_to():
    text = "the cat: sleeps, the Cat does not; cats sleep"
    for seed in range(20):
        found = switch_words(text, WORDS, language="en", share=0.5, chance=np.random.default_rng(seed))
        gone = {place for start, end, _ in found.edits for place in range(start, end)}
        for place in sorted(set(range(len(text))) - gone):
            assert found.text[found.moved(place)] == text[place]
        assert found.moved(len(text)) == len(found.text)


def test_words_languages_and_translations_are_drawn_evenly_and_anew():
    text = "cat " * 6000
    found = switch_words(text, WORDS, language="en", share=0.25, chance=np.random.default_rng(1)).text.split()
    counts = {word: found.count(word) / len(found) for word in ("cat", "kat", "poes", "Katze")}
    assert counts["cat"] == pytest.approx(0.75, abs=0.03)
    assert counts["Katze"] == pytest.approx(0.125, abs=0.02), "half of the replaced: languages first"
    assert counts["kat"] == pytest.approx(0.0625, abs=0.02) and counts["poes"] == pytest.approx(0.0625, abs=0.02)


def test_a_share_of_none_changes_nothing_and_of_one_all():
    text = "the cat sleeps"
    none = switch_words(text, WORDS, language="en", share=0.0, chance=np.random.default_rng(0))
    assert none == Switched(text)
    assert len(all_of(text).edits) == 3


def test_known_words_are_those_of_the_usual_segmentation():
    text = "The well-known cat's cat"
    expected = [one for one in spans(text, "en") if text[slice(*one)].lower() in WORDS]
    assert known_words(text, WORDS, language="en") == expected == [(0, 3), (21, 24)]


def test_which_segment_is_switched_hangs_on_seed_epoch_and_number_alone():
    how = {"share": 0.5, "segments": 2, "others": 3}
    short, long = (segment_draws(3, 1, count=count, **how) for count in (5, 400))
    assert all(np.array_equal(one, other[:5]) for one, other in zip(short, long, strict=True))
    for other in (segment_draws(4, 1, count=400, **how), segment_draws(3, 2, count=400, **how)):
        assert not np.array_equal(long[0], other[0]) and not np.array_equal(long[1], other[1])
    assert word_chance(0, 1, 2).random() == word_chance(0, 1, 2).random()
    drawn = {word_chance(*place).random() for place in ((0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3))}
    assert len(drawn) == 4


def test_segments_and_others_are_as_likely_as_they_should_be():
    segment, other = segment_draws(0, 0, count=20_000, share=0.3, segments=2, others=4)
    assert (segment != AS_IT_IS).mean() == pytest.approx(0.3, abs=0.015)
    assert (segment == 0).mean() == pytest.approx(0.15, abs=0.01) and set(segment) == {AS_IT_IS, 0, 1}
    assert np.bincount(other[segment != AS_IT_IS]) / 6000 == pytest.approx([0.25] * 4, abs=0.03)
    assert np.all(segment_draws(0, 0, count=50, share=0.0, segments=2, others=1)[0] == AS_IT_IS)
    assert np.all(segment_draws(0, 0, count=50, share=1.0, segments=1, others=1)[0] == 0)
