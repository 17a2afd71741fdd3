"""Code-switching: words and segments that are replaced, against cases checked by eye and explicit loops."""

import math
import random
from itertools import count, islice

import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.text.corpora import Lexicon
from isogloss.text.switching import (
    AS_IT_IS,
    Switched,
    add_anchors,
    joined_dictionary,
    known_words,
    read_dictionaries,
    segment_draws,
    switch_words,
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
        "cat": {"nl": ["kat", "poes"], "de": ["Katze"]},
        "the": {"nl": ["de", "het"]},
        "sleeps": {"de": ["schläft"]},
    }


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


def test_segments_and_others_are_as_likely_as_they_should_be():
    segment, other = segment_draws(0, 0, count=20_000, share=0.3, segments=2, others=4)
    assert (segment != AS_IT_IS).mean() == pytest.approx(0.3, abs=0.015)
    assert (segment == 0).mean() == pytest.approx(0.15, abs=0.01) and set(segment) == {AS_IT_IS, 0, 1}
    assert np.bincount(other[segment != AS_IT_IS]) / 6000 == pytest.approx([0.25] * 4, abs=0.03)
    assert np.all(segment_draws(0, 0, count=50, share=0.0, segments=2, others=1)[0] == AS_IT_IS)
    assert np.all(segment_draws(0, 0, count=50, share=1.0, segments=1, others=1)[0] == 0)


# Extra anchors


def put(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def all_replaced(language, text, dictionary, **options):
    everything = {"probability": 1, "most": 1, "seed": 0, **options}
    return "\n".join(add_anchors(language, text.split("\n"), dictionaries={language: dictionary}, **everything))


ENGLISH = {"cat": ["chat"], "the": ["le"], "sleeps": ["dort"], "mat": ["tapis"], "ice": ["glace"], "a": ["un"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat sleeps", "le chat dort"),
        ("  «The cat»,\tsleeps...  (on the mat)!", "  «Le chat»,\tdort...  (on le tapis)!"),
        ("THE CAT The Cat tHE cAt", "LE CHAT Le Chat le chat"),
        ("A cat, A CAT", "Un chat, Un CHAT"),
        ("cats catfish concat the-cat", "cats catfish concat le-chat"),
        ("nothing here", "nothing here"),
        ("", ""),
    ],
)
def test_every_dictionary_word_is_replaced_and_the_rest_stays(text, expected):
    assert all_replaced("en", text, ENGLISH) == expected


def test_what_is_no_replacement():
    dictionary = {"cat": ["cat"], "dog": ["Dog", "chien"], "undersell": ["vendre à perte"], "ice cream": ["glace"]}
    assert all_replaced("en", "cat Cat dog Dog undersell ice cream", dictionary) == (
        "cat Cat chien Chien undersell ice cream"
    )


def test_the_longest_dictionary_word_is_taken():
    dictionary = {"well": ["bien"], "known": ["su"], "well-known": ["connu"], "x-ray": ["radio"]}
    assert all_replaced("en", "Well-known, well - known, well-worn x-ray well", dictionary) == (
        "Connu, bien - su, bien-worn radio bien"
    )


def test_words_that_share_an_apostrophe_do_not_grow_together():
    dictionary = {"l'": ["the"], "eau": ["water"]}
    assert all_replaced("fr", "L'eau, l'air, leau", dictionary) == "The water, the air, leau"


CHINESE = {
    "北京": ["Beijing"],
    "北京大学": ["university"],
    "猫": ["cat"],
    "喜欢": ["like"],
    "我": ["I"],
    "年": ["year"],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学在北京。", "university在Beijing。"),
        ("我喜欢猫,猫", "I like cat,cat"),
        ("他喜 欢北 京", "他喜 欢北 京"),
        ("2024年", "2024 year"),
        ("我北京大Hello", "I Beijing大Hello"),
        ("野猫 猫我 我他 他我他 他北京我喜欢", "野猫 猫我 我他 他我他 他Beijing I like"),
        ("猫 我,猫", "cat I,cat"),
    ],
)
def test_chinese_words_are_the_longest_matches(text, expected):
    assert all_replaced("zh", text, CHINESE) == expected


def test_an_ideograph_needs_no_space_beside_it():
    assert all_replaced("en", "The cat.", {"cat": ["猫"]}) == "The 猫."
    assert all_replaced("zh", "他喜欢狗", {"喜欢": ["喜歡"]}) == "他喜歡狗"


VOCABULARY = [f"word{chr(97 + number)}" for number in range(20)]


def sentences(seed, paragraphs, known=VOCABULARY[:5], words=40):
    """Random words, a quarter of which (in expectation) a dictionary of `known` has."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(VOCABULARY, k=words)) for _ in range(paragraphs)], {word: ["x"] for word in known}


def replaced(before, after):
    return sum(one.split().count("x") for one in after), sum(len(one.split()) for one in before)


def test_three_of_ten_dictionary_words_are_replaced():
    lines, dictionary = sentences(1, 1000)
    after = list(add_anchors("en", lines, dictionaries={"en": dictionary}, seed=3))
    there = sum(word in dictionary for line in lines for word in line.split())
    done, _ = replaced(lines, after)
    assert abs(done - 0.3 * there) < 4 * math.sqrt(there * 0.3 * 0.7)
    assert all(
        new in (old, "x")
        for a, b in zip(lines, after, strict=True)
        for old, new in zip(a.split(), b.split(), strict=True)
    )


def test_never_more_than_the_share_of_a_batch():
    lines, dictionary = sentences(2, 70, known=VOCABULARY)
    after = list(add_anchors("en", lines, dictionaries={"en": dictionary}, seed=0, batch=16))
    assert len(after) == len(lines)
    shares = []
    for start in range(0, 70, 16):
        done, words = replaced(lines[start : start + 16], after[start : start + 16])
        assert done == int(0.15 * words)
        shares += [line.split().count("x") for line in after[start : start + 16]]
    assert len(set(shares)) > 3, "the cap is for the batch, not for each paragraph"


def test_punctuation_marks_are_words_of_the_batch():
    line = "a , b . " * 25
    assert len(spans(line, "en")) == 100
    (after,) = add_anchors(
        "en", [line], dictionaries={"en": {"a": ["x"], "b": ["x"]}}, seed=0, probability=1, most=0.29
    )
    assert after.count("x") == 29


def test_one_of_several_translations_is_drawn_uniformly():
    lines = ["cat " * 30] * 100
    done = " ".join(add_anchors("en", lines, dictionaries={"en": {"cat": ["x", "y", "z"]}}, seed=0, most=1)).split()
    drawn = [done.count(one) for one in "xyz"]
    assert all(abs(one - sum(drawn) / 3) < 4 * math.sqrt(sum(drawn) * 2 / 9) for one in drawn)


def test_the_same_seed_gives_the_same_anchors_and_another_does_not():
    lines, dictionary = sentences(4, 40)

    def made(language="en", some=lines, seed=5):
        return list(add_anchors(language, some, dictionaries={"en": dictionary, "nl": dictionary}, seed=seed, batch=8))

    random.seed(1)
    state = random.getstate()
    first = made()
    assert random.getstate() == state
    assert first == made() == made("eng")
    assert first != made(seed=6)
    assert first != made("nl")
    assert first[:16] == made(some=lines[:16])


def test_a_language_without_a_dictionary_passes_unchanged():
    lines = ["Le chat  dort.", "  "]
    for dictionaries in ({}, {"en": ENGLISH}, {"fr": {}}):
        assert list(add_anchors("fr", lines, dictionaries=dictionaries, seed=0)) == lines


def test_only_a_batch_is_read_ahead():
    asked = []
    lines = (asked.append(number) or "the cat" for number in count())
    assert len(list(islice(add_anchors("en", lines, dictionaries={"en": ENGLISH}, seed=0, batch=8), 9))) == 9
    assert len(asked) == 16


def test_a_file_serves_both_languages_and_files_add_up(tmp_path):
    french = put(tmp_path / "en-fr.txt", "cat chat\ncat chatte\nCat chat\nhouse maison\nice cream\tglace\n")
    russian = put(tmp_path / "words.txt", "cat кот\n")
    found = read_dictionaries([f"en-fr={french}", f"eng-rus={russian}", f"fr-en={french}"])
    assert found == {
        "en": {"cat": ["chat", "chatte", "кот"], "house": ["maison"], "ice cream": ["glace"]},
        "fr": {"chat": ["cat", "Cat"], "chatte": ["cat"], "maison": ["house"], "glace": ["ice cream"]},
        "ru": {"кот": ["cat"]},
    }
    options = {"dictionaries": found, "seed": 0, "probability": 1, "most": 1}
    assert list(add_anchors("fr", ["La maison, la glace"], **options)) == ["La house, la glace"]
    assert list(add_anchors("en", ["House of ice cream"], **options)) == ["Maison of ice cream"]
    assert read_dictionaries([]) == {}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("en-fr", "SOURCE-TARGET=FILE, .* not 'en-fr'"),
        ("en=FILE", "SOURCE-TARGET=FILE, .* not 'en="),
        ("en-fr=", "SOURCE-TARGET=FILE"),
        ("en-fr=nowhere.txt", "--lexicon en-fr=nowhere.txt: .*nowhere.txt"),
        ("en-xx=FILE", "--lexicon en-xx=.*unknown language code 'xx'"),
        ("en-eng=FILE", "--lexicon en-eng=.*two different languages"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, entry, says):
    path = put(tmp_path / "dict.txt", "cat chat\n")
    with pytest.raises(InputError, match=says):
        read_dictionaries([entry.replace("FILE", str(path))])
