"""Dictionaries of MUSE and tables of words; Pharaoh links, and the project's own hand-linked tables."""

import pytest
from hypothesis import given, strategies as st

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.readers.dictionaries import attach_links, embedded, parse_cell, read_lexicon, read_linked, read_links
from isogloss.text.readers.parallel import read_bitext


def put(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def test_muse_pairs_with_spaces_or_tabs_and_several_translations(tmp_path):
    path = put(tmp_path / "dict.txt", "the die\nthe der\ncat\tKatze\nice cream\tEis\nthe die\n")
    lexicon = read_lexicon(path, "en", "deu")
    assert (lexicon.source, lexicon.target, lexicon.name) == ("en", "de", "dict.txt")
    assert list(lexicon) == [("the", "die"), ("the", "der"), ("cat", "Katze"), ("ice cream", "Eis")]


def test_a_translation_may_have_several_words(tmp_path):
    path = put(tmp_path / "dict.txt", "undersell verkopen onder de prijs\nday of the week\tweekdag\n")
    assert list(read_lexicon(path, "en", "nl")) == [
        ("undersell", "verkopen onder de prijs"),
        ("day of the week", "weekdag"),
    ]


def test_a_named_dictionary_reads_in_both_directions_and_no_other(tmp_path):
    path = put(tmp_path / "en-de.0-5000.txt", "cat Katze\n")
    assert list(read_lexicon(path, "de", "en")) == [("Katze", "cat")]
    with pytest.raises(InputError, match="dictionary of en and de by its name, not of en and nl"):
        read_lexicon(path, "en", "nl")


def test_a_first_pair_that_looks_like_codes_is_no_header_where_the_name_tells_the_languages(tmp_path):
    path = put(tmp_path / "en-es.txt", "it\tla\nhe\tel\n")
    assert list(read_lexicon(path, "en", "es")) == [("it", "la"), ("he", "el")]
    headed = put(tmp_path / "es-en.tsv", "en\tes\nhe\tel\n")
    assert list(read_lexicon(headed, "en", "es")) == [("he", "el")]


def test_a_table_gives_two_columns_and_passes_over_what_is_missing(tmp_path):
    path = put(
        tmp_path / "lexicon.tsv", "kind\ten\tnl\tde\nn\thouse\thuis\tHaus\nn\tdoor\t\tTür\nn\thot dog\tworst\t-\n"
    )
    assert list(read_lexicon(path, "nl", "en")) == [("huis", "house"), ("worst", "hot dog")]
    with pytest.raises(InputError, match="has no language fr; it has en, nl, de"):
        read_lexicon(path, "en", "fr")


@pytest.mark.parametrize("line", ["alone", "", "\tx", "a\tb\tc"])
def test_a_line_that_is_no_pair_names_file_and_line(tmp_path, line):
    with pytest.raises(InputError, match=r"dict\.txt:2: \d cells where a word and its translation"):
        read_lexicon(put(tmp_path / "dict.txt", f"cat Katze\n{line}\nx y\n"), "en", "de")


def test_two_languages_are_needed(tmp_path):
    with pytest.raises(InputError, match="two different languages"):
        read_lexicon(put(tmp_path / "dict.txt", "a b\n"), "en", "eng")


def test_a_header_alone_has_no_pairs(tmp_path):
    with pytest.raises(InputError, match="no pair of en and nl"):
        read_lexicon(put(tmp_path / "l.tsv", "en\tnl\n"), "en", "nl")


# Pharaoh


def test_sure_and_possible_links(tmp_path):
    sure, possible = read_links(put(tmp_path / "a.links", "0-0 2-1 1p1\n\n1-0 1-0\n"))
    assert sure == [[(0, 0), (2, 1)], [], [(1, 0)]]
    assert possible == [[(0, 0), (1, 1), (2, 1)], [], [(1, 0)]]


@pytest.mark.parametrize("wrong", ["0:0", "0-", "a-b", "1--2", "-1-0"])
def test_a_malformed_link_names_file_and_line(tmp_path, wrong):
    with pytest.raises(InputError, match=rf"a\.links:2: '{wrong}' where a link"):
        read_links(put(tmp_path / "a.links", f"0-0\n0-0 {wrong}\n"))


def test_a_link_outside_the_sentence_names_file_and_line(tmp_path):
    bitext = Bitext((Corpus("en", ["a b", "a b c"]), Corpus("nl", ["x y", "x y z"])))
    links = put(tmp_path / "a.links", "1-1\n2-3\n")
    with pytest.raises(InputError, match=r"a\.links:2: link 2-3, but the nl sentence has 3 words"):
        attach_links(bitext, ("en", "nl"), links)
    with pytest.raises(InputError, match="has no language 'de'"):
        attach_links(bitext, ("en", "de"), links)
    with pytest.raises(InputError, match="links for 1 sentences, the text has 2"):
        attach_links(bitext, ("en", "nl"), put(tmp_path / "b.links", "0-0\n"))


def test_a_bitext_with_links_counts_words_by_spaces(tmp_path):
    text = put(tmp_path / "t.txt", "don't go - ||| ga niet -\n ||| leeg\nyes ||| ja\n")
    bitext = read_bitext(text, languages=("en", "nl"), links=put(tmp_path / "t.links", "0-1 1-0 2-2\n\n0-0\n"))
    assert bitext.rows == 2
    assert bitext.links["en", "nl"] == [[(0, 1), (1, 0), (2, 2)], [(0, 0)]]
    assert bitext["en"].words == [[(0, 5), (6, 8), (9, 10)], [(0, 3)]]


def test_links_of_many_languages_are_given_by_pair(tmp_path):
    table = put(tmp_path / "t.tsv", "en\tnl\tde\na\tb\tc\n")
    links = put(tmp_path / "t.links", "0-0\n")
    assert list(read_bitext(table, links={("en", "de"): links}).links) == [("en", "de")]
    with pytest.raises(InputError, match="is for two languages, but here are 3"):
        read_bitext(table, links=links)


# Hand-linked tables

ROWS = "en\tnl\tzh\nThe cat sleeps~.\tDe/0 kat/1 slaapt/2~./3\t猫/1~睡觉/2~。/3\n"


def test_hand_linked_rows_give_text_words_and_links(tmp_path):
    bitext = read_linked(put(tmp_path / "l.tsv", ROWS))
    assert [corpus.sentences[0] for corpus in bitext] == ["The cat sleeps.", "De kat slaapt.", "猫睡觉。"]
    assert bitext["zh"].words == [[(0, 1), (1, 3), (3, 4)]]
    assert bitext["en"].words == [[(0, 3), (4, 7), (8, 14), (14, 15)]]
    assert bitext.links == {
        ("en", "nl"): [[(0, 0), (1, 1), (2, 2), (3, 3)]],
        ("en", "zh"): [[(1, 0), (2, 1), (3, 2)]],
    }


def test_languages_pick_columns_and_their_links(tmp_path):
    path = put(tmp_path / "l.tsv", ROWS)
    assert read_linked(path, ("zh", "en")).languages == ("zh", "en")
    assert list(read_linked(path, ("zh", "en")).links) == [("en", "zh")]
    assert read_linked(path, ("nl", "zh")).links == {}


def test_a_word_may_translate_several_and_a_slash_may_be_a_slash(tmp_path):
    bitext = read_linked(put(tmp_path / "l.tsv", "en\tde\nto go and / or 24/7\tgehen/0,1 und/oder/2,4 / 24-7/5\n"))
    assert bitext["de"].sentences == ["gehen und/oder / 24-7"]
    assert bitext["en"].sentences == ["to go and / or 24/7"]
    assert bitext.links["en", "de"] == [[(0, 0), (1, 0), (2, 1), (4, 1), (5, 3)]]


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("kat/9", "a link to word 9, but the first column has words 0 to 1"),
        ("kat/", "'kat/' where a word such as"),
        ("kat/1,", "'kat/1,' where a word such as"),
        ("/1", "'/1' where a word such as"),
        ("de  kat/1", "an empty word"),
        ("~kat/1", "an empty word"),
        ("", "an empty word"),
    ],
)
def test_malformed_words_name_file_and_line(tmp_path, cell, sentence):
    with pytest.raises(InputError, match=rf"l\.tsv:3: .*{sentence}"):
        read_linked(put(tmp_path / "l.tsv", f"en\tnl\na b\tx/0\nthe cat\t{cell}\n"))


@given(
    st.lists(
        st.tuples(st.text("abé猫/.", min_size=1, max_size=4), st.lists(st.integers(0, 9), max_size=2)), min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_what_is_written_is_read_back(words, chance):
    """A slash followed by no number is a slash of the text; a word must not end in one."""
    words = [(form.rstrip("/") or "x", numbers) for form, numbers in words]
    joints = [chance.choice(" ~") for _ in words[1:]] + [""]
    ends = ["/" + ",".join(map(str, numbers)) if numbers else "" for _, numbers in words]
    cell = "".join(form + end + joint for (form, _), end, joint in zip(words, ends, joints, strict=True))
    text, found, linked = parse_cell(cell, linked=True)
    assert [text[start:end] for start, end in found] == [form for form, _ in words]
    assert linked == [numbers for _, numbers in words]
    assert text == "".join(form + joint.strip("~") for (form, _), joint in zip(words, joints, strict=True))


def test_a_header_is_needed_and_rows_too(tmp_path):
    with pytest.raises(InputError, match=r"x\.en-nl\.tsv:1: a header of languages was expected"):
        read_linked(put(tmp_path / "x.en-nl.tsv", "The cat\tDe/0 kat/1\n"))
    with pytest.raises(InputError, match="has a header but no rows"):
        read_linked(put(tmp_path / "l.tsv", "en\tnl\n"))


def test_the_embedded_sentences_are_linked_in_every_language():
    bitext = embedded()
    assert bitext.languages == ("en", "nl", "de", "fr", "es", "ru", "zh")
    assert bitext.rows > 100
    for corpus in bitext:
        for text, words in zip(corpus.sentences, corpus.words, strict=True):
            assert all(text[start:end].strip() == text[start:end] != "" for start, end in words)
            covered = {place for start, end in words for place in range(start, end)}
            assert all(place in covered for place, character in enumerate(text) if not character.isspace())
    for (source, target), rows in bitext.links.items():
        for row, links in enumerate(rows):
            assert links
            assert all(i < len(bitext[source].words[row]) and j < len(bitext[target].words[row]) for i, j in links)
