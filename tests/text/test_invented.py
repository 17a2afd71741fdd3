"""Invented languages: same seed, same text; links join words that say the same."""

import pytest

from isogloss.errors import InputError
from isogloss.text import spans
from isogloss.text.invented import grammar, invented, invented_lexicon

KNOWN = ["kepa zodedil kik kepa lik detek.", "ka hawuhik kasunil pijojok."]


def test_the_same_seed_gives_the_same_bitext_and_another_seed_another():
    assert invented(sentences=20, seed=3) == invented(sentences=20, seed=3)
    assert invented(sentences=20, seed=3) != invented(sentences=20, seed=4)


def test_a_known_sentence():
    """Drawn once: a change here means every test that counts on the seed has changed."""
    assert [corpus.sentences[0] for corpus in invented(("qaa", "qab"), 1, seed=0)] == KNOWN


def test_more_sentences_only_add():
    assert list(invented(sentences=5)["qaa"]) == list(invented(sentences=9)["qaa"])[:5]


def test_a_language_is_the_same_in_every_bitext():
    assert invented(("qaa", "qab"), 5)["qab"] == invented(("qac", "qab", "qad"), 5)["qab"]


def test_words_are_what_the_default_segmentation_finds():
    for corpus in invented(("qaa", "qab", "qac", "qad"), 50):
        assert corpus.words == [spans(text, corpus.language) for text in corpus]


def test_links_join_words_of_the_same_concept():
    bitext = invented(("qaa", "qab", "qac"), 60, seed=1)
    assert list(bitext.links) == [("qaa", "qab"), ("qaa", "qac")]
    for (source, target), rows in bitext.links.items():
        translations = {*invented_lexicon(source, target, seed=1), (".", ".")}
        for row, links in enumerate(rows):
            assert len(links) >= 4
            for i, j in links:
                left, right = bitext[source].words[row][i], bitext[target].words[row][j]
                pair = (bitext[source].sentences[row][slice(*left)], bitext[target].sentences[row][slice(*right)])
                assert pair in translations


def test_orders_and_articles_differ_between_languages():
    grammars = [grammar(f"qa{letter}", 0) for letter in "abcdefghij"]
    assert len({each.order for each in grammars}) > 1
    assert {each.articles for each in grammars} == {True, False}
    assert all(len(set(each.words.values())) == len(each.words) for each in grammars)


def test_real_codes_are_accepted_and_unknown_ones_refused():
    assert invented(("en", "nl"), 2).languages == ("en", "nl")
    with pytest.raises(InputError, match="unknown language code 'bb'"):
        invented(("aa", "bb"), 2)
    with pytest.raises(InputError, match="the least"):
        invented(("qaa",), 2)
