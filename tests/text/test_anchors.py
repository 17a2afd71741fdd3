"""Extra anchors: words of the text replaced by translations from a dictionary."""

import math
import random
from itertools import count, islice

import pytest

from isogloss.errors import InputError
from isogloss.text.switching import add_anchors, read_dictionaries
from isogloss.text.words import spans


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
    assert all(new in (old, "x") for a, b in zip(lines, after, strict=True)
               for old, new in zip(a.split(), b.split(), strict=True))  # fmt: skip


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


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"probability": 1.5}, {"most": -1}])
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(InputError, match="extra anchors need a batch"):
        add_anchors("en", [], dictionaries={}, seed=0, **wrong)


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
