"""Files of treebanks and named entities that are cut, halved and missing, and invented ones."""

import pytest

from isogloss.errors import InputError
from isogloss.papers.treebanks import (
    FIRST_HALF,
    SECOND_HALF,
    TaskFile,
    choose,
    cut_file,
    invented_file,
    invented_sets,
    is_planned,
    sentences,
)
from isogloss.text import read_tagged
from isogloss.text.invented import grammar
from isogloss.text.readers.conll import read_trees


def invented(languages, part, count, corpus):
    """An invented file of each language."""
    sets = invented_sets(languages, {part: count})
    return {code: invented_file(TaskFile(f"{code}_{corpus}"), sets, part) for code in languages}


def test_sentences_are_chosen_by_their_ids_so_that_translations_stay_together():
    banks = invented(("qaa", "qab"), "pud", 40, "home")
    texts = {code: sentences(bank.splitlines()) for code, bank in banks.items()}
    some = {code: [block[0] for block in choose(blocks, 7)] for code, blocks in texts.items()}
    assert some["qaa"] == some["qab"] and len(some["qaa"]) == 7
    assert some["qaa"] == [block[0] for block in texts["qaa"] if block[0] in some["qaa"]]  # in order
    assert set(some["qaa"]) == {block[0] for block in choose(texts["qaa"][::-1], 7)}


def test_dev_and_test_halves_of_one_file_share_no_sentence():
    tags = sentences(invented(("qaa", "qab"), "dev", 200, "wikiann")["qaa"].splitlines())
    dev, test = (choose(tags, None, half) for half in (FIRST_HALF, SECOND_HALF))
    joined = [{"\n".join(block) for block in half} for half in (dev, test)]
    assert not joined[0] & joined[1] and len(dev) + len(test) == 200 and min(len(dev), len(test)) > 60


def test_a_set_without_labelled_test_is_half_of_dev(tmp_path):
    lines = invented(("qaa", "qab"), "dev", 40, "wikiann")["qaa"]
    (tmp_path / "dev-es.tsv").write_text(lines, encoding="utf-8")
    (tmp_path / "train-es.tsv").write_text(lines, encoding="utf-8")
    files = {"train": TaskFile("es_wikiann.train"), "dev": TaskFile("es_wikiann.dev"), "test": TaskFile("es_wikiann")}
    assert [file.name for file in files.values()] == ["es_wikiann.train.tsv", "es_wikiann.dev.tsv", "es_wikiann.tsv"]
    contents = {name: cut_file(file, {"entities": tmp_path}) for name, file in files.items()}
    train, dev, test = (sentences(content.splitlines()) for content in contents.values())
    assert len(train) == 40
    assert len(dev) + len(test) == 40 and not {str(block) for block in dev} & {str(block) for block in test}
    (tmp_path / "test-es.tsv").write_text(lines, encoding="utf-8")
    assert len(sentences(cut_file(files["test"], {"entities": tmp_path}).splitlines())) == 40
    assert cut_file(files["dev"], {"entities": tmp_path}) == contents["dev"]


def test_files_that_are_missing_are_named(tmp_path):
    file = TaskFile("en_ewt")
    with pytest.raises(InputError, match="--treebanks is missing: give a folder of UD treebanks"):
        cut_file(file, {"treebanks": None})
    with pytest.raises(InputError, match=r"has no en_ewt-ud-test\.conllu; --treebanks is a folder of UD treebanks"):
        cut_file(file, {"treebanks": tmp_path})
    with pytest.raises(InputError, match=r"gone is no folder; --treebanks is a folder of UD treebanks"):
        cut_file(file, {"treebanks": tmp_path / "gone"})


def test_optional_files_are_counted_on_where_they_are_or_no_folder_is_known(tmp_path):
    file = TaskFile("en_gum", optional=True)
    assert is_planned(file, {"treebanks": None}) and not is_planned(file, {"treebanks": tmp_path})
    (tmp_path / "en_gum-ud-test.conllu.gz").touch()
    assert is_planned(file, {"treebanks": tmp_path})


@pytest.mark.parametrize("language", ["qaa", "qab", "qac", "qad", "qae", "qaf"])
def test_invented_treebanks_are_trees_whose_nouns_do_what_the_grammar_says(tmp_path, language):
    bank = invented((language, "qaz"), "train", 60, "home")[language]
    (tmp_path / "trees.conllu").write_text(bank, encoding="utf-8")
    trees = read_trees(tmp_path / "trees.conllu")  # which checks roots and circles
    assert len(trees) == 60
    speech = grammar(language, 1)
    for tree in trees:
        order = [relation for relation in tree.relations if relation in ("nsubj", "root", "obj")]
        letters = {"nsubj": "s", "root": "v", "obj": "o"}
        assert "".join(letters[relation] for relation in order) == speech.order
        for head, relation in zip(tree.heads, tree.relations, strict=True):
            if relation in ("det", "amod"):
                assert tree.tags[head - 1] == "NOUN"


def test_invented_entities_are_nouns(tmp_path):
    tags = invented(("qaa", "qab"), "train", 30, "wikiann")["qaa"]
    (tmp_path / "tags.tsv").write_text(tags, encoding="utf-8")
    found = read_tagged(tmp_path / "tags.tsv")
    assert len(found) == 30 and {tag for sentence in found for tag in sentence.tags} == {"O", "B-PER", "B-LOC"}
