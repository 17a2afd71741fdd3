"""CoNLL-U: words are spans of the text, rows are joined by sentence ids."""

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.conll import read_trees, stream_trees
from isogloss.text.readers.parallel import read_bitext, read_corpus


def word(number, form, head, *, tag="X", relation="dep", misc="_"):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t{misc}\n"


AUX = (
    "# sent_id = n1\n# text = Il va aux États-Unis.\n"
    + word(1, "Il", 2, tag="PRON", relation="nsubj")
    + word(2, "va", 0, tag="VERB", relation="root")
    + "3-4\taux\t_\t_\t_\t_\t_\t_\t_\t_\n"
    + word(3, "à", 5, tag="ADP", relation="case")
    + word(4, "les", 5, tag="DET", relation="det")
    + word(5, "États-Unis", 2, tag="PROPN", relation="obl", misc="SpaceAfter=No")
    + "5.1\tnode\t_\t_\t_\t_\t_\t_\t2:dep\t_\n"
    + word(6, ".", 2, tag="PUNCT", relation="punct")
    + "\n"
)


def put(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def simple(identifier, *forms):
    rows = "".join(word(place, form, place - 1) for place, form in enumerate(forms, start=1))
    return f"# sent_id = {identifier}\n# text = {' '.join(forms)}\n{rows}\n"


def test_spans_tags_and_heads_with_a_multi_word_token_and_an_empty_node(tmp_path):
    (tree,) = read_trees(put(tmp_path / "fr_x.conllu", AUX))
    assert tree.identifier == "n1"
    assert [tree.text[start:end] for start, end in tree.words] == ["Il", "va", "aux", "aux", "États-Unis", "."]
    assert tree.forms == ("Il", "va", "à", "les", "États-Unis", ".")
    assert tree.tags == ("PRON", "VERB", "ADP", "DET", "PROPN", "PUNCT")
    assert tree.heads == (2, 0, 5, 5, 2, 2)
    assert tree.relations[0] == "nsubj"


def test_without_text_it_is_put_together_from_the_forms(tmp_path):
    content = AUX.replace("# text = Il va aux États-Unis.\n", "")
    (tree,) = read_trees(put(tmp_path / "fr_x.conllu", content))
    assert tree.text == "Il va aux États-Unis."


def test_a_form_with_a_space_and_no_blank_line_at_the_end(tmp_path):
    (tree,) = read_trees(
        put(tmp_path / "fr_x.conllu", "# text = 10 000 ans\n" + word(1, "10 000", 2) + word(2, "ans", 0))
    )
    assert tree.words == ((0, 6), (7, 10))


def test_a_treebank_is_a_corpus_with_its_words(tmp_path):
    corpus = read_corpus(put(tmp_path / "fr_x.conllu", AUX), "fr")
    assert corpus.words is not None
    assert corpus.words[0][4] == (10, 20)


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        ("1\tonly\tthree\n", 1, "3 columns where a treebank has 10"),
        (word(2, "a", 0), 1, "word number '2' where 1 was expected"),
        ("# text = b\n" + word(1, "a", 0), 2, "the form 'a' is not what '# text' has there"),
        (word(1, "a", 7), 1, "head '7' where 0"),
        (word(1, "a", 0) + word(2, "b", 2), 2, "word 2 is its own head"),
        (word(1, "a", 0) + word(2, "b", 0), 1, "2 roots where one was expected"),
        (word(1, "a", 0) + word(2, "b", 3) + word(3, "c", 2), 2, "in a circle through word 2"),
        ("2-3\tab\t" + "_\t" * 7 + "_\n" + word(1, "a", 0), 1, "multi-word token '2-3' where one from 1"),
        ("1-2\tab\t" + "_\t" * 7 + "_\n" + word(1, "a", 0), 1, "a multi-word token without its words"),
    ],
)
def test_what_is_malformed_names_file_and_line(tmp_path, content, line, sentence):
    with pytest.raises(InputError, match=rf"en_x\.conllu:{line}: .*{sentence}"):
        read_trees(put(tmp_path / "en_x.conllu", content))


def test_a_collector_reads_on_after_a_malformed_sentence(tmp_path):
    path = put(tmp_path / "en_x.conllu", word(1, "a", 5) + "\n" + simple("s2", "b"))
    found = []
    assert [tree.identifier for tree in stream_trees(path, found.append)] == ["s2"]
    assert len(found) == 1


def test_a_slip_in_a_tree_does_not_matter_to_the_words(tmp_path):
    assert list(read_corpus(put(tmp_path / "en_x.conllu", word(1, "a", 5)), "en")) == ["a"]


def test_rows_are_joined_by_sentence_id_never_by_position(tmp_path):
    """Icelandic PUD has the ids of the others in another order."""
    en = put(tmp_path / "en_pud-ud-test.conllu", simple("n1", "one") + simple("n2", "two") + simple("n3", "three"))
    iceland = put(tmp_path / "is_pud-ud-test.conllu", simple("n3", "þrír") + simple("n1", "einn") + simple("n9", "níu"))
    bitext = read_bitext(en, iceland)
    assert bitext.languages == ("en", "is")
    assert [list(corpus) for corpus in bitext] == [["one", "three"], ["einn", "þrír"]]
    assert bitext.dropped == 1
    assert read_bitext(tmp_path, languages=("is", "en")).languages == ("is", "en")


def test_without_ids_rows_go_by_order(tmp_path):
    def strip(text):
        return text.replace("# sent_id = n1\n", "")

    en = put(tmp_path / "en_x.conllu", strip(simple("n1", "one")))
    nl = put(tmp_path / "nl_x.conllu", strip(simple("n1", "een")))
    assert [list(corpus) for corpus in read_bitext(en, nl)] == [["one"], ["een"]]
    put(nl, strip(simple("n1", "een")) * 2)
    with pytest.raises(InputError, match=r"equally many sentences: .*en_x\.conllu has 1, .*nl_x\.conllu has 2"):
        read_bitext(en, nl)


def test_treebanks_that_share_no_id_are_not_parallel(tmp_path):
    en = put(tmp_path / "en_x.conllu", simple("n1", "one"))
    nl = put(tmp_path / "nl_x.conllu", simple("n2", "een"))
    with pytest.raises(InputError, match="no sent_id occurs in every one of en_x.conllu, nl_x.conllu"):
        read_bitext(en, nl)


def test_an_id_that_occurs_twice(tmp_path):
    en = put(tmp_path / "en_x.conllu", simple("n1", "one") + simple("n1", "two"))
    nl = put(tmp_path / "nl_x.conllu", simple("n1", "een"))
    with pytest.raises(InputError, match="sent_id n1 occurs more than once"):
        read_bitext(en, nl)


def test_several_treebanks_of_a_language_in_a_folder(tmp_path):
    for name in ("en_a.conllu", "en_b.conllu", "nl_a.conllu"):
        put(tmp_path / name, simple("n1", "x"))
    with pytest.raises(InputError, match=r"several treebanks of en \(en_a.conllu, en_b.conllu\)"):
        read_bitext(tmp_path, languages=("en", "nl"))
