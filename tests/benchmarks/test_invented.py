"""Invented languages: same seed, same text; links join words that say the same."""

import pytest
from benchmarks.invented import entities, grammar, invented, invented_data, invented_lexicon, treebank

from isogloss.errors import InputError
from isogloss.papers.paper import INVENTED
from isogloss.text.catalog import check
from isogloss.text.readers.conll import read_tagged, read_trees
from isogloss.text.readers.examples import read_pairs, read_questions
from isogloss.text.words import spans

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


@pytest.mark.parametrize("language", ["qaa", "qab", "qac", "qad", "qae", "qaf"])
def test_treebanks_are_trees_whose_nouns_do_what_the_grammar_says(tmp_path, language):
    speech = grammar(language, 1)
    bank = treebank(invented((language, "qaz"), 60, seed=1)[language].sentences, speech)
    (tmp_path / "trees.conllu").write_text(bank, encoding="utf-8")
    trees = read_trees(tmp_path / "trees.conllu")  # which checks roots and circles
    assert len(trees) == 60
    for tree in trees:
        order = [relation for relation in tree.relations if relation in ("nsubj", "root", "obj")]
        letters = {"nsubj": "s", "root": "v", "obj": "o"}
        assert "".join(letters[relation] for relation in order) == speech.order
        for head, relation in zip(tree.heads, tree.relations, strict=True):
            if relation in ("det", "amod"):
                assert tree.tags[head - 1] == "NOUN"


def test_entities_are_nouns(tmp_path):
    tags = entities(invented(("qaa", "qab"), 30, seed=1)["qaa"].sentences, grammar("qaa", 1))
    (tmp_path / "tags.tsv").write_text(tags, encoding="utf-8")
    found = read_tagged(tmp_path / "tags.tsv")
    assert len(found) == 30 and {tag for sentence in found for tag in sentence.tags} == {"O", "B-PER", "B-LOC"}


def test_the_data_sets_of_the_package_are_the_invented_ones():
    files = {str(path.relative_to(INVENTED)): path for path in INVENTED.rglob("*") if path.is_file()}
    assert {name: path.read_text(encoding="utf-8") for name, path in files.items()} == invented_data()


def test_a_folder_of_data_sets_is_one_that_the_readers_accept_and_says_the_same_in_every_language():
    report = check(INVENTED)
    assert not report.problems and not report.unchecked
    sets = [read_pairs(INVENTED / "xnli" / f"test-{code}.tsv") for code in ("qaa", "qab", "qac")]
    labels = [[pair.label for pair in pairs] for pairs in sets]
    assert labels[0] == labels[1] == labels[2] and {labels[0].count(label) for label in labels[0]} == {20}
    questions = [read_questions(INVENTED / "xquad" / f"xquad.{code}.json") for code in ("qaa", "qab")]
    assert len(questions[0]) == len(questions[1]) == 20
    words = dict(invented_lexicon("qaa", "qab", seed=1))
    assert all(words[asked.answers[0]] in other.context for asked, other in zip(*questions, strict=True))
