"""Pairs of sentences of one language that share a translation."""

import pytest
from typer.testing import CliRunner

from isogloss import Bitext, Corpus, InputError, read_bitext
from isogloss.cli import app
from isogloss.text.corpora import paraphrases

ENGLISH = ["It is late.", "it is late!", "The hour is late.", "Yes.", "So it is.", "Sure.", "It is late."]
FRENCH = ["Il est tard.", "Il est tard.", "Il est tard.", "Oui.", "C'est vrai.", "C'est vrai.", "Il se fait tard."]
GERMAN = Bitext((Corpus("en", ["It grows late.", "It is late.", "Yes."]), Corpus("de", ["Es ist spät."] * 2 + ["Ja."])))


def given():
    return Bitext((Corpus("en", ENGLISH), Corpus("fr", FRENCH)))


def pairs(bitext):
    return [frozenset(pair) for pair in zip(*(corpus.sentences for corpus in bitext), strict=True)]


def test_pairs_share_a_translation_differ_in_letters_and_no_sentence_comes_twice():
    found = paraphrases([given(), GERMAN])
    assert found.languages == ("en", "en2")
    assert pairs(found) == [frozenset(("It is late.", "The hour is late.")), frozenset(("So it is.", "Sure."))]
    assert pairs(paraphrases([GERMAN])) == [frozenset(("It grows late.", "It is late."))]


def test_the_same_texts_give_the_same_pairs_and_neither_side_is_the_sorted_one():
    many = Bitext(
        (Corpus("en", [f"number {i:03}" for i in range(400)]), Corpus("nl", [str(i // 2) for i in range(400)]))
    )
    one, other = paraphrases([many]), paraphrases([many])
    assert one == other and one.rows == 200
    first = sum(a < b for a, b in zip(*(corpus.sentences for corpus in one), strict=True))
    assert 70 < first < 130


def test_any_language_of_the_text_can_be_asked_for_and_nothing_found_is_said():
    twice = Bitext((Corpus("en", ["Yes."] * 2), Corpus("fr", ["Oui.", "Si."])))
    assert pairs(paraphrases([twice], "fra")) == [frozenset(("Oui.", "Si."))]
    with pytest.raises(InputError, match="no two sentences of en share a translation"):
        paraphrases([twice])


def test_the_command_writes_a_table_that_is_read_again(tmp_path):
    rows = "".join(f"{en}\t{fr}\n" for en, fr in zip(ENGLISH, FRENCH, strict=True))
    (tmp_path / "en-fr.tsv").write_text(rows, encoding="utf-8")
    out = tmp_path / "pairs.tsv"
    done = CliRunner().invoke(app, ["data", "paraphrases", str(tmp_path), "--out", str(out)])
    assert done.exit_code == 0 and "2 pairs in" in done.output
    assert read_bitext(out).languages == ("en", "en2") and pairs(read_bitext(out)) == pairs(paraphrases([given()]))
