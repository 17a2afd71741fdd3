"""Readers of the tasks: pairs, tags, trees and questions; every bad row is told with its place and can be left out."""

import csv
import json

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.conll import RELATIONS, UPOS, TaggedSentence, read_parses, read_tagged
from isogloss.text.readers.examples import Question, SentencePair, read_pairs, read_questions


def put(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def word(number, form, head, *, tag="NOUN", relation="dep"):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"


def test_pairs_without_a_header(tmp_path):
    path = put(tmp_path / "dev-nl.tsv", "Een hond .\tEen dier .\tentailment\nA b\tC d \tcontradictory\n")
    assert read_pairs(path) == [
        SentencePair("Een hond .", "Een dier .", "entailment"),
        SentencePair("A b", "C d", "contradiction"),
    ]


def test_the_quotes_of_a_csv_writer_are_undone_and_those_of_the_text_kept(tmp_path):
    rows = [['He said "hi" .', '"No."', "neutral"], ["Plain .", '""Doubled"" "', "entailment"]]
    expected = [SentencePair(*row) for row in rows]
    written = tmp_path / "dev-en.tsv"
    with written.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    assert '"He said ""hi"" ."\t"""No."""\tneutral' in written.read_text(encoding="utf-8")
    assert read_pairs(written) == expected
    assert read_pairs(put(tmp_path / "raw.tsv", "".join("\t".join(row) + "\n" for row in rows))) == expected


@pytest.mark.parametrize("cell", ['"No."', '"', '""', '"""', 'say ""hi""', '"Yes" and "no"', '"a"" b'])
def test_cells_that_no_csv_writer_wrote_stay_as_they_are(tmp_path, cell):
    content = '"He said ""hi"" ."\tb\tneutral\n' * 3 + f"{cell}\tb\tneutral\n"
    pairs = read_pairs(put(tmp_path / "raw.tsv", content))
    assert (pairs[0].first, pairs[-1].first) == ('"He said ""hi"" ."', cell)


def test_pairs_with_a_header_in_any_order_and_other_columns(tmp_path):
    header = "pair_ID\tsentence_A\tentailment_label\tsentence_B\tSemEval_set\n"
    content = header + "1\ta\tNEUTRAL\tb\tTEST\n2\tc\tENTAILMENT\td\tTRAIN\n"
    path = put(tmp_path / "sick.txt", content)
    assert [pair.label for pair in read_pairs(path)] == ["neutral", "entailment"]
    assert read_pairs(path, split="test") == [SentencePair("a", "b", "neutral")]
    with pytest.raises(InputError, match="in the split 'TRIAL'"):
        read_pairs(path, split="TRIAL")


def test_the_gold_label_goes_before_another_and_languages_are_chosen(tmp_path):
    content = "language\tgold_label\tsentence1\tsentence2\tlabel\nen\tneutral\ta\tb\tx\nde\tentailment\tc\td\tx\n"
    path = put(tmp_path / "xnli.tsv", content)
    assert read_pairs(path, language="de") == [SentencePair("c", "d", "entailment")]
    assert len(read_pairs(path)) == 2


def test_pairs_from_json_lines_and_those_without_agreement_are_passed_over(tmp_path):
    rows = [
        {"sentence1": "一", "sentence2": "二", "label": "entailment", "label0": "neutral", "id": 0},
        {"sentence1": "三", "sentence2": "四", "label": "-"},
    ]
    path = put(tmp_path / "ocnli.json", "".join(json.dumps(row) + "\n" for row in rows))
    assert read_pairs(path) == [SentencePair("一", "二", "entailment")]


GOOD = "a\tb\tneutral\n"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("a\tb\tmaybe\n", ":2: the label 'maybe' is not one of entailment, neutral, contradiction"),
        ("a\tneutral\n", ":2: 2 cells where 3 were expected"),
        (" \tb\tneutral\n", ":2: the first sentence of the pair is empty"),
        ("a\t\tneutral\n", ":2: the second sentence of the pair is empty"),
        (b"\xff\tb\tneutral\n", ":2: not valid UTF-8"),
    ],
)
def test_bad_pairs_are_told_with_their_line_or_left_out(tmp_path, row, sentence):
    content = GOOD.encode() + (row if isinstance(row, bytes) else row.encode()) + GOOD.encode()
    path = put(tmp_path / "x.tsv", content)
    with pytest.raises(InputError, match=sentence):
        read_pairs(path)
    problems = []
    assert len(read_pairs(path, problems.append)) == 2
    assert len(problems) == 1
    assert str(path) in problems[0]


@pytest.mark.parametrize(
    ("row", "sentence"), [("{oops\n", "is not JSON"), ('{"sentence1": "a"}\n', "no sentence2 and no gold_label")]
)
def test_bad_lines_of_json(tmp_path, row, sentence):
    good = json.dumps({"premise": "a", "hypothesis": "b", "label": "neutral"}) + "\n"
    path = put(tmp_path / "x.jsonl", good + row)
    with pytest.raises(InputError, match=f":2: .*{sentence}"):
        read_pairs(path)


def test_tags_after_a_tab_and_in_the_last_of_three_columns(tmp_path):
    expected = [TaggedSentence(("Anna", "Bo", "."), ("B-PER", "I-PER", "O")), TaggedSentence(("Ja",), ("O",))]
    panx = put(tmp_path / "dev-nl.tsv", "Anna\tB-PER\nBo\tI-PER\n.\tO\n\n\nJa\tO\n")
    assert read_tagged(panx) == expected
    conll = "-DOCSTART- -DOCSTART- O\n\nAnna N B-PER\nBo N I-PER\n. Punc O\n\nJa N O"
    assert read_tagged(put(tmp_path / "ned.testa", conll)) == expected


def test_a_language_before_every_word_of_the_file_is_cut_off(tmp_path):
    content = "nl:Anna\tB-PER\nnl:zegt\tO\nnl::\tO\n\nnl:nl:Ja\tO\n"
    first, second = read_tagged(put(tmp_path / "nl-train", content))
    assert (first.words, second.words) == (("Anna", "zegt", ":"), ("nl:Ja",))
    assert first.lines == (1, 2, 3)
    (kept,) = read_tagged(put(tmp_path / "nl-dev", "nl:Anna\tB-PER\nJa\tO\n"))
    assert kept.words == ("nl:Anna", "Ja")
    assert read_tagged(put(tmp_path / "nl-test", "nl:Anna\tB-PER\nen:Yes\tO\n"))[0].words[0] == "nl:Anna"


def test_a_treebanks_tags_are_those_of_its_words(tmp_path):
    content = (
        "# text = aux\n1-2\taux"
        + "\t_" * 8
        + "\n"
        + word(1, "à", 2, tag="ADP")
        + word(2, "les", 0, tag="DET")
        + "2.1\tx"
        + "\t_" * 8
        + "\n\n"
    )
    path = put(tmp_path / "fr_x.conllu", content)
    assert read_tagged(path, tags=UPOS) == [TaggedSentence(("à", "les"), ("ADP", "DET"))]
    with pytest.raises(InputError, match=":3: the tag 'ADP' is not one of NOUN"):
        read_tagged(path, tags=["NOUN"])


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("Bo\tI-PER\tx\n", ":4: 3 columns where the file has 2"),
        ("Bo\n", ":4: 1 column where a word and its tag"),
        ("Bo\tPER\n", ":4: the tag 'PER' is not O, B-type or I-type"),
        ("Bo\tB-GPE\n", ":4: the tag 'B-GPE' is not one of"),
        ("Bo\t\n", ":4: this word has no tag"),
        (" \tO\n", ":4: the word is empty"),
        (b"\xff\tO\n", ":4: not valid UTF-8"),
    ],
)
def test_a_bad_word_takes_its_sentence_along(tmp_path, row, sentence):
    row = row if isinstance(row, bytes) else row.encode()
    path = put(tmp_path / "x.tsv", b"Anna\tB-PER\n\nWim\tB-PER\n" + row + b"hier\tO\n\nJa\tO\n")
    tags = ("O", "B-PER", "I-PER")
    with pytest.raises(InputError, match=sentence):
        read_tagged(path, tags=tags)
    problems = []
    assert [each.words for each in read_tagged(path, problems.append, tags=tags)] == [("Anna",), ("Ja",)]
    assert len(problems) == 1


TREE = word(1, "ja", 0, relation="root") + word(2, "zo", 1, relation="obl:tmod") + "\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (word(1, "a", 0) + word(2, "b", "_"), ":5: this word has no head"),
        (word(1, "a", 0) + word(2, "b", 1, relation="_"), ":5: this word has no relation"),
        (word(1, "a", 0) + word(2, "b", 1, relation="SBJ"), ":5: the relation 'SBJ' is neither universal nor"),
        (word(1, "a", 0) + word(2, "b", 0), ":4: the sentence has 2 roots"),
        (word(1, "a", 2) + word(2, "b", 1), ":4: the sentence has 0 roots"),
        (word(1, "a", 0) + word(2, "b", 3) + word(3, "c", 2), ":5: the heads run in a circle"),
        ("1\ta\tb\n", ":4: 3 columns where a treebank has 10"),
        ("# text = a\n", ":4: a sentence without words"),
        (word(1, "a", 0).encode() + b"2\t\xff\n", ":5: not valid UTF-8"),
    ],
)
def test_bad_trees_are_told_with_their_line_or_left_out(tmp_path, content, sentence):
    content = content if isinstance(content, bytes) else content.encode()
    path = put(tmp_path / "nl_x.conllu", TREE.encode() + content + b"\n" + TREE.encode())
    with pytest.raises(InputError, match=sentence):
        read_parses(path, relations=("root", "obl"))
    problems = []
    trees = read_parses(path, problems.append, relations=("root", "obl"))
    assert [tree.heads for tree in trees] == [(0, 1), (0, 1)]
    assert len(problems) == 1


def test_relations_of_training_may_be_any_and_universal_ones_may_be_new(tmp_path):
    path = put(tmp_path / "x.conllu", word(1, "a", 0, relation="root") + word(2, "b", 1, relation="SBJ"))
    assert read_parses(path)[0].relations == ("root", "SBJ")
    assert len(read_parses(path, relations=("SBJ",))) == 1
    assert len(RELATIONS) == 37
    assert len(UPOS) == 17


def questions(*entries, context="Anna woont in Gent."):
    return {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(entries)}]}]}


def entry(identifier="q1", question="Waar?", text="Gent", start=14):
    return {"id": identifier, "question": question, "answers": [{"text": text, "answer_start": start}]}


def test_questions_with_several_answers(tmp_path):
    asked = entry()
    asked["answers"].append({"text": "in Gent", "answer_start": 11})
    path = put(tmp_path / "x.json", json.dumps(questions(asked)))
    expected = Question("q1", "Waar?", "Anna woont in Gent.", ("Gent", "in Gent"), (14, 11))
    assert read_questions(path) == [expected]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (entry("q2", text="Brussel"), "the answer 'Brussel' does not begin at character 14: it is not in its context"),
        (entry("q2", start=13), "does not begin at character 13: its context has it at 14"),
        (entry("q2", start=-5), "does not begin at character -5"),
        (entry("q2", question=" "), "the question is empty"),
        ({"id": "q2", "question": "Waar?", "answers": []}, "there is no answer"),
        (entry("q2", text=" "), "an answer has no text or no start"),
    ],
)
def test_bad_questions_are_told_by_their_id_or_left_out(tmp_path, bad, sentence):
    path = put(tmp_path / "x.json", json.dumps(questions(entry(), bad, entry("q3"))))
    with pytest.raises(InputError, match=f"question q2: .*{sentence}"):
        read_questions(path)
    problems = []
    assert [each.identifier for each in read_questions(path, problems.append)] == ["q1", "q3"]
    assert len(problems) == 1


def test_questions_without_an_id_are_told_by_paragraph_and_number(tmp_path):
    first, second = entry(), entry(text="Anna", start=0)
    del first["id"], second["id"]
    path = put(tmp_path / "x.json", json.dumps(questions(first, second)))
    assert [each.identifier for each in read_questions(path)] == ["1-1", "1-2"]


def test_an_id_twice_is_a_problem(tmp_path):
    path = put(tmp_path / "x.json", json.dumps(questions(entry(), entry())))
    with pytest.raises(InputError, match="question q1: this id has occurred before"):
        read_questions(path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{\n oops", ":2: this is not JSON"),
        ("[]", "not in SQuAD's format"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "no question with an answer"),
        (b"\xff", "not valid UTF-8"),
    ],
)
def test_files_that_hold_no_questions(tmp_path, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read_questions(put(tmp_path / "x.json", content))


@pytest.mark.parametrize("read", [read_pairs, read_tagged])
def test_a_file_of_nothing_but_bad_rows_cannot_be_used(tmp_path, read):
    with pytest.raises(InputError, match="that can be used"):
        read(put(tmp_path / "x.tsv", "a b c\nd\n\n"), [].append)
