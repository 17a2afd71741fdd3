"""Words as spans of characters, and subwords sent to the words they share characters with."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from isogloss.errors import InputError
from isogloss.text.batches import encode, word_of_tokens
from isogloss.text.corpora import Corpus
from isogloss.text.words import script_of, spans
from tiny_models import sentencepiece_tokenizer


def words(text, language):
    return [text[start:end] for start, end in spans(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "I don't know.", "I|don't|know|."),
        ("en", "well-known (U.S.)", "well|-|known|(|U|.|S|.|)"),
        ("en", "3.14, 1,000.5 ...", "3.14|,|1,000.5|.|.|."),
        ("en", "'quoted' dogs' x_y", "'|quoted|'|dogs|'|x|_|y"),
        ("fr", "L'eau d’aujourd'hui, qu'il", "L'|eau|d’|aujourd'hui|,|qu'|il"),
        ("it", "dell'acqua c'è", "dell'|acqua|c'|è"),
        ("ca", "l'home col·legi", "l'|home|col·legi"),
        ("nl", "'s avonds foto's zo'n 'test'", "'s|avonds|foto's|zo'n|'|test|'"),
        ("de", "Straße geht's?", "Straße|geht's|?"),
        ("zh", "我喜欢猫。Hello世界2024年", "我|喜|欢|猫|。|Hello|世|界|2024|年"),
        ("ja", "私はコーヒーを飲みました。", "私|は|コーヒー|を|飲|みました|。"),
        ("th", "สวัสดีครับ ฉัน", "สวัสดีครับ|ฉัน"),
        ("hi", "मैं हिन्दी में हूँ।", "मैं|हिन्दी|में|हूँ|।"),
        ("ar", "كَتَبَ، الوَلَدُ؟", "كَتَبَ|،|الوَلَدُ|؟"),
        ("fa", "می‌خواهم", "می‌خواهم"),
        ("he", "צה״ל", "צה״ל"),
        ("ko", "안녕하세요, 세계", "안녕하세요|,|세계"),
        ("ru", "Пошёл-ка №5", "Пошёл|-|ка|№|5"),
        ("en", "cafe\u0301 a\u200bb", "cafe\u0301|a|b"),
        ("en", "👩\u200d👩\u200d👧 👍🏽", "👩\u200d👩\u200d👧|👍🏽"),
        ("en", "", ""),
        ("en", " \t\u00a0", ""),
    ],
)
def test_words_of(language, text, expected):
    assert words(text, language) == (expected.split("|") if expected else [])


def test_marks_of_repetition_and_of_length_have_the_script_they_stand_in():
    assert [script_of(letter) for letter in "々ー\uff70書ネ"] == [
        "Chinese",
        "Japanese",
        "Japanese",
        "Chinese",
        "Japanese",
    ]


def test_an_unknown_language_is_refused():
    with pytest.raises(InputError, match="unknown language code 'xx'"):
        spans("text", "xx")


ANY_TEXT = st.text(max_size=60) | st.text("ab'’-·.,1 \u0301\u200d猫ねネ👍ि", max_size=60)


@given(ANY_TEXT, st.sampled_from(["en", "fr", "nl", "zh", "ja", "ar", "ca"]))
def test_every_visible_character_is_in_exactly_one_word(text, language):
    found = spans(text, language)
    assert all(start < end for start, end in found)
    assert all(left[1] <= right[0] for left, right in zip(found, found[1:], strict=False))
    covered = {place for start, end in found for place in range(start, end)}
    for place, character in enumerate(text):
        ignored = unicodedata.category(character) in ("Cc", "Cf") or "\U000e0000" <= character <= "\U000e007f"  # tags
        if not character.isspace() and not ignored:
            assert place in covered
        if character.isspace():
            assert place not in covered


@given(st.text("abcçé 12,.", max_size=40))
def test_words_do_not_depend_on_what_follows_a_space(text):
    assert words(text + " next", "en") == [*words(text, "en"), "next"]


def reference_owner(token, word_spans):
    """The rule as it is written: most shared characters, the first on a tie, -1 for none."""
    shared = [min(token[1], end) - max(token[0], start) for start, end in word_spans]
    return shared.index(max(shared)) if shared and max(shared) > 0 and token[0] < token[1] else -1


def test_special_tokens_and_spaces_have_no_word():
    assert word_of_tokens([(0, 0), (0, 2), (2, 5), (5, 6), (6, 8), (0, 0)], [(0, 5), (6, 8)]) == [
        -1,
        0,
        0,
        -1,
        1,
        -1,
    ]


def test_a_bare_space_of_sentencepiece_belongs_to_no_word_that_has_another_piece():
    """XLM-R's tokenizer gives it the offsets of the character after it."""
    tokenizer = sentencepiece_tokenizer(["▁", "中国", "人", "▁cat", "s"])
    corpus = Corpus("zh", ["中国 cats ▁ 人"], [[(0, 2), (3, 7), (8, 9), (10, 11)]])
    batch = encode(tokenizer, corpus, [0], max_length=32, words=True)
    pieces = tokenizer.convert_ids_to_tokens(batch.ids.tolist())
    assert pieces == ["<s>", "▁", "中国", "▁cat", "s", "▁", "▁", "人", "</s>"]
    assert batch.words.tolist() == [-1, -1, 0, 1, 1, 2, -1, 3, -1]
    cut = encode(tokenizer, corpus, [0], max_length=8, words=True)  # only the space of the last word is left
    assert cut.words.tolist()[-2:] == [-1, -1]


def test_a_leading_space_in_the_offsets_changes_nothing():
    assert word_of_tokens([(0, 3), (3, 7), (7, 8)], [(0, 3), (4, 7), (7, 8)]) == [0, 1, 2]


def test_a_token_over_two_words_goes_to_the_larger_part_and_on_a_tie_to_the_first():
    assert word_of_tokens([(0, 5)], [(0, 2), (2, 5)]) == [1]
    assert word_of_tokens([(0, 4)], [(0, 2), (2, 4)]) == [0]


def test_bytes_of_one_character_share_its_word():
    assert word_of_tokens([(0, 1), (0, 1), (0, 1), (1, 2)], [(0, 1), (1, 2)]) == [0, 0, 0, 1]


def test_words_that_share_a_span_leave_their_tokens_to_the_first():
    assert word_of_tokens([(0, 3), (4, 8)], [(0, 3), (0, 3), (4, 8)]) == [0, 2]


def test_tokens_of_a_pair_start_over():
    assert word_of_tokens([(0, 2), (3, 5), (0, 0), (0, 2), (3, 5)], [(0, 2), (3, 5)]) == [0, 1, -1, 0, 1]


def test_no_words_no_owner():
    assert word_of_tokens([(0, 2)], []) == [-1]


def test_models_with_different_tokenizers_are_compared_through_characters():
    """Position by position, `playing` of one tokenizer would meet `the` of the other."""
    text = "unbelievably playing the game"
    words_there = spans(text, "en")
    wordpiece = [(0, 0), (0, 2), (2, 7), (7, 12), (13, 17), (17, 20), (21, 24), (25, 29), (0, 0)]
    byte_level = [(0, 12), (12, 20), (20, 24), (24, 29)]
    assert word_of_tokens(wordpiece, words_there) == [-1, 0, 0, 0, 1, 1, 2, 3, -1]
    assert word_of_tokens(byte_level, words_there) == [0, 1, 2, 3]


CUTS = st.lists(st.integers(0, 40), max_size=16)


@given(CUTS, CUTS, st.booleans())
def test_the_linear_merge_equals_the_quadratic_rule(token_cuts, word_cuts, sort_tokens):
    tokens = list(zip(token_cuts[::2], token_cuts[1::2], strict=False))
    tokens = sorted(tokens) if sort_tokens else tokens
    ordered = sorted(word_cuts)
    word_spans = [pair for pair in zip(ordered[::2], ordered[1::2], strict=False) if pair[0] < pair[1]]
    assert word_of_tokens(tokens, word_spans) == [reference_owner(token, word_spans) for token in tokens]
