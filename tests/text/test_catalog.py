"""A data folder: what is in it, what is wrong with it, data sets called by name."""

import gzip
import hashlib
import json

import pytest

from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.text.catalog import (
    check,
    data_dir,
    data_sets,
    files_by_kind,
    find_lexicon,
    kind_of,
    languages_in,
    listing,
    resolve,
)
from isogloss.text.readers.parallel import read_bitext

WORD = "1\t{form}\t_\tX\t_\t_\t0\troot\t_\t_\n"
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "The cat.",
                    "qas": [{"id": "q1", "question": "Who?", "answers": [{"text": "cat", "answer_start": 4}]}],
                }
            ]
        }
    ]
}

FILES = {
    "tatoeba/README.md": "# tatoeba\n\nSentence pairs.\nMore.\n",
    "tatoeba/tatoeba.nld-eng.nld": "een\ntwee\n",
    "tatoeba/tatoeba.nld-eng.eng": "one\ntwo\n",
    "tatoeba/tatoeba.deu-eng.deu": "eins\n",
    "tatoeba/tatoeba.deu-eng.eng": "one\n",
    "xnli/README.md": "# xnli\n",
    "xnli/xnli.15way.tsv": "en\tde\none\teins\n",
    "xnli/dev-en.tsv": "a\tb\tneutral\n",
    "xnli/dev-de.tsv": "c\td\tentailment\n",
    "gettext/en-nl.tsv": "open the file\topen het bestand\n",
    "mono/novel.nl.txt": "Eerste alinea.\nTweede.\n",
    "mono/novel.en.txt": "Only one.\n",
    "multi/train.en.gz": gzip.compress(b"one\n", mtime=0),
    "multi/train.fr.gz": gzip.compress(b"un\n", mtime=0),
    "muse/en-de.0-5000.txt": "cat Katze\n",
    "muse/en-de.5000-6500.txt": "dog Hund\n",
    "ud/en_x-ud-test.conllu": WORD.format(form="one") + "\n" + WORD.format(form="two") + "\n",
    "ner/dev-nl.tsv": "Jan\tB-PER\nSmit\tI-PER\nloopt\tO\n\nJan\tB-PER\n",
    "ner/conll2002.ned.train": "Jan N B-PER\nloopt V O\n",
    "nli_zh/dev.json": json.dumps({"sentence1": "a", "sentence2": "b", "label": "-"}) + "\n",
    "qa/xquad.en.json": json.dumps(SQUAD),
}


@pytest.fixture
def data(tmp_path):
    def _write(**changes):
        for name, content in {**FILES, **changes.pop("more", {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return _write


def test_kinds_are_told_by_name_and_first_lines(data):
    folder = data()
    expected = {
        "tatoeba/tatoeba.nld-eng.nld": "aligned",
        "xnli/xnli.15way.tsv": "table",
        "xnli/dev-en.tsv": "inference",
        "gettext/en-nl.tsv": "pairs",
        "mono/novel.nl.txt": "lines",
        "multi/train.en.gz": "aligned",
        "muse/en-de.0-5000.txt": "dictionary",
        "ud/en_x-ud-test.conllu": "treebank",
        "ner/dev-nl.tsv": "tags",
        "ner/conll2002.ned.train": "tags",
        "nli_zh/dev.json": "inference",
        "qa/xquad.en.json": "questions",
        "xnli/README.md": "notes",
    }
    kinds = {str(path.relative_to(folder)): kind for each in data_sets(folder) for path, kind in files_by_kind(each)}
    assert {name: kinds[name] for name in expected} == expected


def test_a_first_row_that_looks_like_codes_of_other_languages_does_not_make_pairs_a_table(tmp_path):
    path = tmp_path / "en-nl.tsv"
    path.write_text("No\tNe\n")
    assert (kind_of(path), languages_in(path, "pairs")) == ("pairs", ("en", "nl"))
    path.write_text("nl\ten\nja\tyes\n")
    assert (kind_of(path), languages_in(path, "table")) == ("table", ("nl", "en"))


def test_listing(data):
    records = {record.name: record for record in listing(data())}
    assert list(records) == sorted(records)
    tatoeba = records["tatoeba"]
    assert (tatoeba.kinds, tatoeba.languages, tatoeba.rows, tatoeba.files) == (("aligned",), ("de", "en", "nl"), 3, 5)
    assert tatoeba.about == "Sentence pairs."
    assert tatoeba.bytes == sum(len(content) for name, content in FILES.items() if name.startswith("tatoeba/"))
    assert records["xnli"].rows == 3
    assert records["ud"].rows == 2
    assert (records["ner"].rows, records["ner"].languages) == (3, ("nl",))
    assert records["nli_zh"].languages == ("zh",)
    assert records["qa"].rows == 1


def test_a_sound_folder_has_no_problems(data):
    report = check(data())
    assert report.problems == ()
    assert report.unchecked == ()
    assert len(report.checked) == len(FILES) - 2
    assert [rows for path, rows in report.checked.items() if path.parent.name == "ud"] == [2]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("mono/novel.nl.txt", b"goed\nfout \xe9\n", "novel.nl.txt:2: not valid UTF-8"),
        ("mono/novel.nl.txt", b"", "novel.nl.txt is empty"),
        ("tatoeba/tatoeba.nld-eng.nld", "een\n", "tatoeba.nld-eng.eng has 2, tatoeba.nld-eng.nld has 1"),
        ("xnli/dev-de.tsv", "c\td\tneutral\nc\td\tneutral\n", "dev-de.tsv has 2, dev-en.tsv has 1"),
        ("xnli/dev-de.tsv", "c\td\tneutral\nc\td\tmaybe\n", "dev-de.tsv:2: the label 'maybe' is not one of"),
        ("xnli/xnli.15way.tsv", "en\tde\none\n", "xnli.15way.tsv:2: 1 cells where 2 were expected"),
        ("gettext/en-nl.tsv", "a b\tc d\nx\t\n", "en-nl.tsv:2: an empty cell"),
        ("muse/en-de.0-5000.txt", "cat Katze\ndog\n", "en-de.0-5000.txt:2: 1 cells where a word"),
        ("ud/en_x-ud-test.conllu", "1\tx\n", "en_x-ud-test.conllu:1: 2 columns"),
        ("ner/dev-nl.tsv", "Jan\tB-PER\n\nSmit\tI-PER\n", "dev-nl.tsv:3: I-PER does not continue an entity"),
        ("ner/dev-nl.tsv", "Jan\tB-PER\nSmit\tPER\n" + "x\tO\n" * 30, "dev-nl.tsv:2: the tag 'PER' is not O"),
        (
            "nli_zh/dev.json",
            '{"sentence1": "a", "sentence2": "b", "label": "neutral"}\n{\n',
            "dev.json:2: this line is not JSON",
        ),
        (
            "qa/xquad.en.json",
            json.dumps(SQUAD).replace("4", "5"),
            "question q1: the answer 'cat' does not begin at character 5",
        ),
        ("qa/xquad.en.json", '{"paragraphs"\n:}', "xquad.en.json:2: this is not JSON"),
        ("qa/xquad.en.json", '{"data": ["paragraphs", "qas"]}', "not in SQuAD's format"),
        ("qa/xquad.en.json.gz", gzip.compress(json.dumps(SQUAD).encode(), mtime=0)[:-9], "damaged or cut short"),
        (
            "nli_zh/dev.json",
            '{"sentence1": null, "sentence2": 2, "label": 3}\n',
            "dev.json:1: there is no sentence1 and no sentence2 and no gold_label",
        ),
        ("multi/train.en.gz", gzip.compress(b"one\n", mtime=0)[:-6], "damaged or cut short"),
        ("odd/image.bin", b"\x00\x01", "not checked"),
    ],
)
def test_a_problem_is_told_with_file_and_line(data, name, content, sentence):
    report = check(data(more={name: content}))
    if sentence == "not checked":
        assert [str(path).endswith(name) for path in report.unchecked] == [True]
    else:
        assert any(sentence in problem for problem in report.problems), report.problems


def test_listing_survives_damaged_files(data):
    cut = gzip.compress(b"one\n" * 9999, mtime=0)[:-20]
    records = {record.name: record for record in listing(data(more={"multi/train.en.gz": cut, "odd/a.json": b""}))}
    assert records["odd"].kinds == ("unknown",)
    assert records["multi"].kinds == ("aligned",)


def test_a_check_goes_on_after_a_problem_and_does_not_flood(data):
    report = check(data(more={"muse/en-de.0-5000.txt": "a b\n" * 20 + "alone\n" * 50, "mono/novel.nl.txt": b"\xff\n"}))
    assert any(problem.endswith("and 30 problems more") for problem in report.problems)
    assert any("novel.nl.txt:1" in problem for problem in report.problems)
    assert len(report.problems) == 22 and report.count == 51


def test_progress_is_told(data):
    told = []
    with listening(lambda *news: told.append(news)):
        check(data())
    assert told[-1] == ("checking", len(FILES), len(FILES))


def test_check_sums(data):
    content = FILES["mono/novel.en.txt"].encode()
    right = hashlib.sha256(content).hexdigest()
    folder = data(more={"mono/SHA256SUMS": f"{right}  novel.en.txt\n{'0' * 64}  novel.nl.txt\n{right}  lost.txt\n"})
    report = check(folder)
    assert len(report.problems) == 2
    assert any("novel.nl.txt: its SHA-256 sum is not" in problem for problem in report.problems)
    assert any("SHA256SUMS:3: lost.txt is not there" in problem for problem in report.problems)


def test_the_data_folder_is_an_option_or_a_variable(data, monkeypatch):
    folder = data()
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    with pytest.raises(InputError, match="no data folder is set; give --data DIR or set .*ISOGLOSS_DATA"):
        data_dir(None)
    assert data_dir(str(folder)) == folder
    monkeypatch.setenv("ISOGLOSS_DATA", str(folder))
    assert data_dir(None) == folder
    with pytest.raises(InputError, match=r"\(from --data\) is no folder"):
        data_dir(folder / "nowhere")


def test_a_name_stands_for_a_data_set_and_an_existing_path_wins(data, monkeypatch):
    folder = data()
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    monkeypatch.chdir(folder / "mono")
    assert resolve("xnli", folder) == folder / "xnli" / "xnli.15way.tsv"
    assert resolve("tatoeba", folder) == folder / "tatoeba"
    assert resolve("gettext/en-nl.tsv", folder) == folder / "gettext" / "en-nl.tsv"
    assert resolve("novel.en.txt", folder) == "novel.en.txt"
    assert resolve("hf:x/y") == "hf:x/y"
    assert read_bitext(resolve("tatoeba", folder), languages=("en", "nl")).rows == 2
    with pytest.raises(InputError, match=r"no data set 'tatoba'; did you mean tatoeba\? it has gettext, mono"):
        resolve("tatoba", folder)
    with pytest.raises(
        InputError, match="europarl does not exist; expected a file, a folder, or the name of a data set"
    ):
        resolve("europarl")


def test_dictionaries_are_found_by_language_and_split(data):
    folder = data()
    assert find_lexicon(folder, "en", "de").name == "en-de.0-5000.txt"
    assert find_lexicon(folder, "de", "en", split="test").name == "en-de.5000-6500.txt"
    with pytest.raises(InputError, match="no train dictionary of en and nl; it has en-de"):
        find_lexicon(folder, "en", "nl")
