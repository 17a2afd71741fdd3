"""MUSE dictionaries and tables of words."""

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.dictionaries import read_lexicon


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
