"""The texts of pan2021: what is chosen, left out and written, and what is missing."""

import pytest
from pan_data import data_folder, small_scale

import isogloss as ig
from isogloss.papers.pan2021.bitexts import choose, letters, sources_in
from isogloss.papers.pan2021.texts import Texts, shares_of
from isogloss.text.readers.inference import read_pairs
from isogloss.text.readers.questions import read_questions
from isogloss.text.sampling import hash_fraction


def test_letters_are_what_copies_are_known_by():
    assert letters("It's 5 o'clock -- NOW!") == "its5oclocknow" == letters("its 5 oclock now")
    assert letters("Ёлка, да.") == letters("ёлка да") and letters("你好。") == letters("你好") and letters("...") == ""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    found = Texts(folder / "text", small_scale(), data=str(data_folder(folder)))
    found.write()
    return found


def test_no_sentence_of_a_test_is_in_the_parallel_text_however_it_is_written(texts):
    folder, tests = texts.folder, set()
    for path in [*folder.glob("compared/*"), *folder.glob("evaluate/*"), *folder.glob("nli/xnli*"),
                 *folder.glob("nli/sick*")]:  # fmt: skip
        tests |= {letters(cell) for line in path.read_text().split("\n") for cell in line.split("\t")[:2]}
    trained = [
        cell
        for path in folder.glob("pairs/*/*.tsv")
        for line in path.read_text().split("\n")[1:]
        for cell in line.split("\t")
        if cell
    ]
    assert len(trained) == 2 * 2 * (40 + 20) and not {letters(one) for one in trained} & tests
    assert (
        "en-nl: 40 of tatoeba_train, 20 of libreoffice_help; 5 pairs left out that have a sentence" in texts.notes()[0]
    )


def test_parts_are_shares_of_every_source_and_amounts_are_their_beginnings(texts):
    assert shares_of(small_scale()) == (0.1, 0.3, 1.0)
    assert [one.rsplit("/", 1)[1] for one in texts.parts(0.3)] == ["0", "1"] and len(texts.parts(1.0)) == 3
    counts = [len((texts.folder / "pairs" / part / "en-nl.tsv").read_text().split("\n")) - 2 for part in "012"]
    assert counts == [6, 12, 42]
    first = (texts.folder / "pairs" / "0" / "en-nl.tsv").read_text()
    assert first.startswith("en\tnl\n") and first.count("number") == 4 and first.count("manual") == 2


def test_of_other_sources_the_lowest_places_are_taken_and_missing_ones_passed_over(tmp_path):
    folder = data_folder(tmp_path)
    found = choose(sources_in(folder), ("en", "de"), tests=(), shares=(1.0,), most=5, whole=None)
    manuals = [(f"A manual says {one}", f"das Handbuch {one}") for one in range(30)]
    wanted = sorted(manuals, key=lambda pair: hash_fraction("\t".join(pair)))[:5]
    assert [pair for pair in found.parts[0] if "manual" in pair[0]] == wanted and found.sources["libreoffice_help"] == 5
    assert found.tested == 0 and found.sources["tatoeba_train"] == 45
    with pytest.raises(ig.InputError, match="no parallel text of en and ru to align with"):
        choose(sources_in(folder), ("en", "ru"), tests=(), shares=(1.0,), most=5)
    with pytest.raises(ig.InputError, match="tatoeba_train is missing: parallel text; give it, or tables of your own"):
        sources_in(tmp_path / "xnli")


def test_tasks_are_what_transfer_reads(texts):
    path = texts.folder
    assert len(read_pairs(path / "nli" / "mnli-train.tsv")) == 9
    both = [read_pairs(path / "nli" / f"sick-train-{one}.tsv") for one in ("nl", "en")]
    assert [one.label for one in both[0]] == [one.label for one in both[1]] and len(both[0]) == 9
    assert (both[0][2].first, both[1][2].first) == ("zin 2", "line 2")
    test = [one.label for one in read_pairs(path / "nli" / "sick-test-nl.tsv")]
    assert {one: test.count(one) for one in test} == {"entailment": 3, "neutral": 3, "contradiction": 3}
    assert [one.label for one in read_pairs(path / "nli" / "xnli-train-de.tsv")] == [
        one.label for one in read_pairs(path / "nli" / "xnli-train-en.tsv")
    ]
    train, dev = (read_questions(path / "qa" / f"squad-{part}.json") for part in ("train", "dev"))
    assert len(train) == 20 and len(dev) == 2 and not {one.context for one in train} & {one.context for one in dev}
    assert (path / "evaluate" / "nl.txt").read_text().startswith("zin ")


def test_prepared_texts_are_the_same_and_are_refused_where_they_are_not(texts):
    again = Texts(texts.folder / "unused", small_scale(), prepared=str(texts.folder))
    assert again.hashes() == texts.hashes() and again.notes() == texts.notes()
    again.write()
    assert not (texts.folder / "unused").exists() and again.path("nli") == str(texts.folder / "nli")
    with pytest.raises(ig.InputError, match="was prepared otherwise: its limit is None, and 9 is asked for"):
        Texts(texts.folder, small_scale(), prepared=str(texts.folder), limit=9).hashes()
    with pytest.raises(ig.InputError, match=r"has no texts.json; scripts/pan_text.py prepares"):
        Texts(texts.folder, small_scale(), prepared=str(texts.folder / "nli")).hashes()
    file = texts.folder / "nli" / "mnli-dev.tsv"
    before = file.read_bytes()
    try:
        file.write_bytes(before + b"a\tb\tneutral\n")
        with pytest.raises(ig.InputError, match=r"mnli-dev.tsv is not what it was, of texts that were prepared"):
            Texts(texts.folder, small_scale(), prepared=str(texts.folder)).hashes()
    finally:
        file.write_bytes(before)


@pytest.mark.parametrize(
    "name", ["nli_en/mnli_val.tsv", "xnli/dev-de.tsv", "nli_nl_sick/SICK_NL.txt", "xquad/xquad.de.json"]
)
def test_a_file_that_is_missing_is_named(name, tmp_path):
    folder = data_folder(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ig.InputError, match=f"{name} is missing"):
        Texts(tmp_path / "text", small_scale(), data=str(folder)).write()
