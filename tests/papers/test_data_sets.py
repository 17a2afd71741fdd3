"""Files of the data folder that are found, cut, halved and missing."""

import pytest
from benchmarks.invented import entities, grammar, invented, treebank

from isogloss.errors import InputError
from isogloss.papers.data_sets import choose, cut_file, drawn, find_file, lowest_hashed, sentences, task_file

SAID = invented(("qaa", "qab"), 200, seed=1)
TAGS = entities(SAID["qaa"].sentences[:40], grammar("qaa", 1))


def test_sentences_are_chosen_by_their_ids_so_that_translations_stay_together():
    banks = {corpus.language: treebank(corpus.sentences[:40], grammar(corpus.language, 1)) for corpus in SAID}
    texts = {code: sentences(bank.splitlines()) for code, bank in banks.items()}
    some = {code: [block[0] for block in choose(blocks, 7)] for code, blocks in texts.items()}
    assert some["qaa"] == some["qab"] and len(some["qaa"]) == 7
    assert some["qaa"] == [block[0] for block in texts["qaa"] if block[0] in some["qaa"]]  # in order
    assert set(some["qaa"]) == {block[0] for block in choose(texts["qaa"][::-1], 7)}


def test_dev_and_test_halves_of_one_file_share_no_sentence():
    tags = sentences(entities(SAID["qaa"].sentences, grammar("qaa", 1)).splitlines())
    dev, test = (choose(tags, None, half) for half in ((0.0, 0.5), (0.5, 1.0)))
    joined = [{"\n".join(block) for block in half} for half in (dev, test)]
    assert not joined[0] & joined[1] and len(dev) + len(test) == 200 and min(len(dev), len(test)) > 60


def test_a_set_without_labelled_test_is_half_of_dev(tmp_path):
    folder = tmp_path / "wikiann_panx"
    folder.mkdir()
    for part in ("dev", "train"):
        (folder / f"{part}-es.tsv").write_text(TAGS, encoding="utf-8")
    files = ("es_wikiann.train", "es_wikiann.dev", "es_wikiann")
    assert [task_file(stem) for stem in files] == ["es_wikiann.train.tsv", "es_wikiann.dev.tsv", "es_wikiann.tsv"]
    assert task_file("en_ewt.train") == "en_ewt.train.conllu"
    train, dev, test = (sentences(cut_file(tmp_path, stem).splitlines()) for stem in files)
    assert len(train) == 40
    assert len(dev) + len(test) == 40 and not {str(block) for block in dev} & {str(block) for block in test}
    (folder / "test-es.tsv").write_text(TAGS, encoding="utf-8")
    assert len(sentences(cut_file(tmp_path, "es_wikiann").splitlines())) == 40
    assert sentences(cut_file(tmp_path, "es_wikiann.dev").splitlines()) == dev
    assert len(sentences(cut_file(tmp_path, "es_wikiann", 7).splitlines())) == 7


def test_a_genre_is_the_sentences_that_have_it_in_their_ids(tmp_path):
    (tmp_path / "ud_train").mkdir()
    ids = [f"GUM_{genre}_text-{number}" for genre in ("news", "court") for number in range(4)]
    lines = "".join(f"# sent_id = {name}\n1\tnews_court_\n\n" for name in ids)
    (tmp_path / "ud_train" / "en_gum-ud-test.conllu").write_text(lines)
    assert task_file("en_gum-news") == "en_gum-news.conllu"
    assert cut_file(tmp_path, "en_gum-news") == lines[: lines.index("# sent_id = GUM_court")]
    assert len(sentences(cut_file(tmp_path, "en_gum-court", 3).splitlines())) == 3
    assert cut_file(tmp_path, "en_gum") == lines
    with pytest.raises(InputError, match="has no sentence for en_gum-vlog"):
        cut_file(tmp_path, "en_gum-vlog")


def test_files_that_are_missing_are_named(tmp_path):
    with pytest.raises(InputError, match=r"en_ewt-ud-test\.conllu is missing; docs/reproduce.md lists the files"):
        cut_file(tmp_path, "en_ewt")
    (tmp_path / "ud_train").mkdir()
    packed = tmp_path / "ud_train" / "en_ewt-ud-train.rebuilt.conllu.gz"
    packed.touch()
    assert find_file(tmp_path, "gone/*.tsv", "ud_train/en_ewt-ud-train*.conllu") == packed


def test_what_is_drawn_hangs_on_the_number_of_rows_and_what_is_hashed_on_the_rows_alone():
    assert drawn(range(10), 3) == sorted(drawn(range(10), 3)) and drawn(range(3), 5) == [0, 1, 2]
    assert [ord(letter) - 97 for letter in drawn("abcdefghij", 3)] == drawn(range(10), 3)
    lines = [f"zin nummer {number} ." for number in range(50)]
    few, turned = lowest_hashed(lines, 20), lowest_hashed(lines[::-1], 20)
    assert len(few) == 20 and set(few) == set(turned) and few == [line for line in lines if line in set(few)]
    assert set(lowest_hashed(lines, 7)) < set(few)
