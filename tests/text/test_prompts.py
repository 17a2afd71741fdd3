"""Prompts from dictionaries: what they say, what they leave out, and that a seed gives one set."""

import pytest

from isogloss.errors import InputError
from isogloss.text.corpora import Corpus, Lexicon
from isogloss.text.prompts import Prompting, gaps, meanings, translations

FRENCH = Lexicon("en", "fr", [("flower", "fleur"), ("book", "livre"), ("cat", "chat"), ("cat", "chatte")])
CHINESE = Lexicon("zh", "en", [("花", "flower"), ("书", "book"), ("猫", "cat"), ("水", "water")])
KNOWN = meanings([FRENCH, CHINESE], "en")


def how(**more):
    return Prompting(**{"pivot": "en", "most": 9, "shots": 1, "seed": 0, "askable": lambda words: True, **more})


def test_meanings_join_dictionaries_through_the_pivot():
    assert KNOWN["cat"] == {"en": ["cat"], "fr": ["chat", "chatte"], "zh": ["猫"]}
    assert KNOWN["water"] == {"en": ["water"], "zh": ["水"]}
    with pytest.raises(InputError, match="the dictionary of en and fr has no words of the pivot language zh"):
        meanings([FRENCH], "zh")


def test_a_translation_is_asked_for_after_answered_ones():
    made = translations(KNOWN, "fr", "zh", how(most=2))
    assert (made.task, made.source, made.target, len(made.prompts)) == ("translation", "fr", "zh", 2)
    for prompt in made.prompts:
        example, asked = prompt.text.split("\n")
        word, answer = prompt.words["fr"][0], prompt.words["zh"][0]
        assert asked == f'Français: "{word}" - 中文: "' and answer not in prompt.text
        assert example in {f'Français: "{w["fr"][0]}" - 中文: "{w["zh"][0]}"' for w in KNOWN.values() if "fr" in w}
        assert list(prompt.words) == ["zh", "en", "fr"]
    assert {prompt.words["en"][0] for prompt in translations(KNOWN, "fr", "zh", how()).prompts} == {
        "flower", "book", "cat",
    }, "water has no French"  # fmt: skip


def test_from_the_pivot_itself_two_languages_are_asked_about():
    assert list(translations(KNOWN, "en", "fr", how()).prompts[0].words) == ["fr", "en"]


def test_a_seed_gives_one_set():
    one, again, other = (translations(KNOWN, "fr", "zh", how(seed=seed)) for seed in (0, 0, 5))
    assert one == again and one != other


def test_what_cannot_be_told_apart_is_left_out():
    made = translations(KNOWN, "fr", "zh", how(askable=lambda words: words["en"] != ["flower"]))
    assert {prompt.words["fr"][0] for prompt in made.prompts} == {"livre", "chat"}


def test_gaps_stand_where_the_word_was():
    corpus = Corpus("fr", ["Le chat dort.", "Un chat mange.", "Voici un Livre rouge."])
    made = gaps(KNOWN, corpus, how(shots=0))
    assert {prompt.text: prompt.words for prompt in made.prompts} == {
        'Le ___ dort. ___: "': {"fr": ["chat"], "en": ["cat"]},
        'Voici un ___ rouge. ___: "': {"fr": ["Livre"], "en": ["book"]},
    }
    assert (made.source, made.target, made.task) == ("fr", "fr", "cloze")
    with_example = gaps(KNOWN, corpus, how(shots=3)).prompts[0]
    assert with_example.text.count("\n") == with_example.shots == 1, "one other is all there is"


def test_no_example_gives_the_answer_away():
    two = meanings(
        [Lexicon("en", "fr", [("book", "livre"), ("pound", "livre"), ("cat", "chat"), ("dog", "chien")])], "en"
    )
    for prompt in translations(two, "en", "fr", how(shots=3)).prompts:
        assert not any(word in prompt.text for word in prompt.words["fr"]) and "\n" in prompt.text
    backwards = translations(two, "fr", "en", how(shots=3)).prompts
    assert sorted(prompt.words["fr"][0] for prompt in backwards) == ["chat", "chien", "livre"], "one item a line"
    sentences = ["Un chat et un chien.", "Le livre, le livre !", "Voici un livre.", "Ton chien dort."]
    for prompt in gaps(two, Corpus("fr", sentences), how(shots=3)).prompts:
        assert prompt.words["fr"][0] not in prompt.text and "le livre" not in prompt.text
