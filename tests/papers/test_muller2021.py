"""Recalled numbers as written down, the files that are read, and tables, figures and findings on rows made by hand."""

import math
from functools import partial

import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.figure import as_text
from isogloss.measures.statistics import correlation
from isogloss.papers import find
from isogloss.papers.muller2021 import published as paper
from isogloss.papers.muller2021 import relations
from isogloss.papers.muller2021.relations import relation_rows
from isogloss.papers.muller2021.rows import change_rows, over_seeds_rows, target_means
from isogloss.papers.muller2021.scales import SCALES, entity_sets, treebank_sets
from isogloss.papers.muller2021.texts import Piece, Texts, choose, sentences
from isogloss.papers.muller2021.treebanks import as_conllu, as_tags, invented_sets
from isogloss.runs.table import frame, row
from isogloss.text import read_tagged
from isogloss.text.invented import grammar
from isogloss.text.readers.conll import read_trees

PAPER = find("muller2021")
TARGETS = ("de", "es", "fr", "ru", "zh", "cs")
HOME = (-0.01, -0.01, -0.005, 0.0, 0.0, 0.0)
AWAY = (-0.15, -0.07, -0.04, -0.02, 0.0, 0.01)
START = tuple(1 - 0.6 * (layer / 12) ** 2 for layer in range(13))
NEAR = tuple(0.3 + 0.5 * math.sin(math.pi * layer / 12) for layer in range(13))  # highest in the middle


def made(seeds=3, home=HOME, away=AWAY, start=START, near=NEAR, turned=False, noise=0.001, chance=0.1):
    """Rows of a reproduction in which everything is as the paper says, unless told otherwise."""
    results, rows = [], []
    for task, score in paper.TASKS.items():
        for seed in range(seeds):
            wobble = noise * math.sin(3 * seed + len(task))
            for place, plan in enumerate(paper.PLANS):
                at = {"model": "m", "task": task, "source": "en", "variant": plan, "seed": seed}
                lost, far = (0.0, 0.0) if not place else (home[place - 1], away[place - 1])
                own = 0.9 + lost + wobble * (place + 1)
                results.append(row(score, own, target="en", data="en_ewt", **at))
                results.append(row(score, own - 0.1, target="en", data="en_pud", **at))
                for number, target in enumerate(TARGETS):
                    gap = 0.2 + 0.02 * number
                    value = 0.9 - gap + far + wobble * (place + 2)
                    results.append(row(score, value, floor=chance, target=target, data=f"{target}_pud", **at))
                    results.append(row("gap", own - value, target=target, data=f"{target}_pud", unit=score, **at))
                results.append(row(score, 0.5 + far, target="de", data="de_lit", **at))
            for variant, each in (("untuned", {}), (paper.REFERENCE, {"seed": seed})):
                for layer, (tuned, like) in enumerate(zip(start, near, strict=True)):
                    at = {"model": "m", "task": task, "source": "en", "variant": variant, "layer": layer, "data": "pud"}
                    at |= each
                    rows.append(row("cka", like + wobble, target="others", **at))
                    if each:
                        far = {"other_model": "start", "other_layer": layer}
                        rows.append(row("cka", tuned + wobble, target="others", **at, **far))
                    for number, target in enumerate(TARGETS):
                        rank = len(TARGETS) - number if turned else number
                        rows.append(row("cka", like - 0.03 * rank, target=target, **at))
    results += target_means(results, ("en", "de", "es", "fr", "ru", "zh"))
    whole = [*results, *rows, *over_seeds_rows(results), *change_rows(results)]
    return frame([*whole, *relation_rows(results, [one for one in rows if one["target"] != "others"])])


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    """Intervals of correlations are tested elsewhere."""
    monkeypatch.setattr(relations, "correlation", partial(correlation, draws=100))


def judged(rows):
    return {one.name: one.held for one in PAPER.findings(rows)}


ALL = ("above chance", "first pair", "depth", "source", "upper layers", "lower part", "middle", "gap and similarity")


def test_recalled_numbers_are_those_of_the_sheet():
    assert paper.TABLE_1["parsing"][1] == (53.2, (-15.8, -6.5, -3.4, -1.5, 0.3, 1.0))
    assert paper.TABLE_1["pos"][0] == (96.5, (-0.3, -0.3, -0.4, 0.0, 0.0, 0.0))
    assert paper.TABLE_1["ner"][1] == (64.2, (-8.3, -5.1, -3.1, -0.8, -0.4, -0.2))
    assert len(list(paper.published())) == 3 * 2 * 7
    assert paper.PAIRS == ("reinit:1-2", "reinit:3-4", "reinit:5-6", "reinit:7-8", "reinit:9-10", "reinit:11-12")


def test_everything_as_the_paper_says_is_held():
    assert judged(made()) == dict.fromkeys(ALL, True)


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"away": (-0.05, -0.15, -0.04, -0.02, 0.0, 0.01)}, {"first pair"}),
        ({"away": (-0.15, -0.15, -0.04, -0.02, 0.0, 0.01), "noise": 0.02}, {"first pair"}),
        ({"away": (-0.07, -0.02, -0.02, -0.02, -0.005, -0.15)}, {"first pair", "depth", "upper layers"}),
        ({"home": (-0.08, *HOME[1:])}, {"source"}),
        ({"away": (*AWAY[:4], -0.015, 0.0)}, {"upper layers"}),
        ({"start": START[::-1]}, {"lower part"}),
        ({"start": tuple(0.5 * one for one in START)}, {"lower part"}),
        ({"near": tuple(np.linspace(0.2, 0.9, 13))}, {"middle"}),
        ({"near": tuple(np.linspace(0.9, 0.2, 13))}, {"middle"}),
        ({"turned": True}, {"gap and similarity"}),
        ({"chance": 0.65}, {"above chance"}),
    ],
)
def test_what_is_otherwise_is_not_held(changes, fails):
    found = judged(made(**changes))
    assert {name for name, held in found.items() if held is False} >= fails
    if "noise" not in changes:
        assert {name for name, held in found.items() if held is False} == fails
    assert None not in found.values()


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_judge_nothing_and_say_so(seeds):
    rows = made(seeds=seeds)
    assert set(judged(rows).values()) == {None}
    for one in PAPER.findings(rows):
        if one.name != "gap and similarity":  # its interval is over targets
            assert "[" not in one.measured and f"intervals are not available from {seeds} seed" in one.measured
    assert "[" not in as_text(PAPER.tables(rows)[0])


def test_what_was_not_run_leaves_findings_open():
    rows = made()
    without = rows[rows.variant != "reinit:5-6"]
    found = judged(without)
    assert {name for name, held in found.items() if held is None} == {"first pair", "depth", "source", "upper layers"}
    bare = rows[rows.layer.isna() & (rows.measure != paper.RELATION)]
    found = judged(bare)
    assert {name for name, held in found.items() if held is None} == {"lower part", "middle", "gap and similarity"}
    assert all(one.measured for one in PAPER.findings(bare))
    assert [one.name for one in PAPER.pictures(bare)] == ["figure-pairs"]


def test_means_leave_the_source_out_and_tell_unseen_languages_and_domains_apart():
    rows = made(seeds=1, noise=0.0)
    reference = rows[(rows.variant == paper.REFERENCE) & (rows.task == "pos") & (rows.measure == "accuracy")]
    seeded = reference[reference.seed.notna()]
    pooled = {
        (one.target, one.data): (one.value, one.n)
        for one in seeded[seeded.target.isin(("others", "unseen"))].itertuples()
    }
    assert pooled["others", ""] == (pytest.approx(0.9 - np.mean([0.2, 0.22, 0.24, 0.26, 0.28])), 5)
    assert pooled["unseen", ""] == (pytest.approx(0.6), 1)
    assert pooled["others", "other domains"] == (pytest.approx(0.5), 1)


def test_changes_are_paired_by_seed():
    rows = made(noise=0.01)
    one = rows[(rows.measure == "change") & (rows.variant == "reinit:1-2") & (rows.task == "ner")]
    home = one[(one.target == "en") & (one.data == "en_ewt")].iloc[0]
    wobble = [0.01 * math.sin(3 * seed + 3) for seed in range(3)]  # on top of the reference's
    assert home.value == pytest.approx(-0.01 + np.mean(wobble)) and home.n == 3 and home.unit == "span_f1"
    reach = 4.302653 * np.std(wobble, ddof=1) / math.sqrt(3)
    assert home.high - home.low == pytest.approx(2 * reach, rel=1e-5)


def test_the_correlation_is_that_of_ranks():
    rows = made()
    one = rows[(rows.measure == paper.RELATION) & (rows.task == "pos") & (rows.variant == paper.REFERENCE)]
    assert set(one.layer.dropna()) == set(range(13)) and one.layer.isna().sum() == 1
    assert one.value.tolist() == pytest.approx([-1.0] * 14) and set(one.n) == {6}  # the farther, the larger the gap


def test_tables_show_recalled_beside_measured():
    first, *others = PAPER.tables(made(noise=0.0))
    lines = {line[0]: line[1:] for line in first.rows}
    assert lines["parsing en → X, recalled"] == ["53.2", "-15.8", "-6.5", "-3.4", "-1.5", "+0.3", "+1.0", "–"]
    assert lines["parsing en → X"][:2] == ["66.0 [66.0, 66.0]", "-15.0 [-15.0, -15.0]"]
    assert lines["POS en → en"][0] == "90.0 [90.0, 90.0]"
    assert lines["parsing en → X"][-1] == "10.0" and first.columns[-1] == "chance"
    assert any("recalled, approximate" in note for note in first.notes)
    titles = [table.title for table in others]
    assert titles[0].startswith("Table 2, parsing") and titles[1].startswith("Table 3, parsing")
    assert [line[0] for line in others[0].rows] == [f"en → {target}" for target in TARGETS]
    assert [line[0] for line in others[1].rows] == ["en → en_pud", "en → de_lit", "en → X, other domains"]


def test_figures_are_those_of_the_paper():
    drawn = {picture.name: picture for picture in PAPER.pictures(made(noise=0.0))}
    assert list(drawn) == ["figure-pairs", "figure-1", "figure-2", "figure-3"]
    pairs = {line.label: line for line in drawn["figure-pairs"].panels[0].lines}
    assert pairs["others"].steps == [1, 3, 5, 7, 9, 11]
    assert pairs["others"].value == pytest.approx([100 * one for one in AWAY])
    assert pairs["others, recalled"].value[0] == -15.8
    before, after = drawn["figure-1"].panels[1].lines[:2]
    assert before.value == pytest.approx(list(NEAR)) and after.label == "after training" and not before.low
    assert drawn["figure-2"].panels[0].lines[0].value == pytest.approx(list(START))
    dots = drawn["figure-3"].panels[2].lines[0]
    assert (
        dots.dots
        and dots.value == pytest.approx([20, 22, 24, 26, 28, 30])
        and "NER: -1.00 " in drawn["figure-3"].panels[2].title
    )


def test_sentences_are_chosen_by_their_ids_so_that_translations_stay_together():
    banks = invented_sets(("qaa", "qab"), {"pud": 40})["pud"]
    texts = {code: sentences(as_conllu(words, code, name="pud").splitlines()) for code, words in banks.items()}
    some = {code: [block[0] for block in choose(blocks, 7)] for code, blocks in texts.items()}
    assert some["qaa"] == some["qab"] and len(some["qaa"]) == 7
    assert some["qaa"] == [block[0] for block in texts["qaa"] if block[0] in some["qaa"]]  # in order
    assert set(some["qaa"]) == {block[0] for block in choose(texts["qaa"][::-1], 7)}


def test_dev_and_test_halves_of_one_file_share_no_sentence():
    tags = sentences(as_tags(invented_sets(("qaa", "qab"), {"dev": 200})["dev"]["qaa"]).splitlines())
    dev, test = (choose(tags, None, half) for half in ("dev", "test"))
    joined = [{"\n".join(block) for block in half} for half in (dev, test)]
    assert not joined[0] & joined[1] and len(dev) + len(test) == 200 and min(len(dev), len(test)) > 60


def test_a_set_without_labelled_test_is_half_of_dev(tmp_path):
    lines = as_tags(invented_sets(("qaa", "qab"), {"dev": 40})["dev"]["qaa"])
    (tmp_path / "dev-es.tsv").write_text(lines, encoding="utf-8")
    (tmp_path / "train-es.tsv").write_text(lines, encoding="utf-8")
    pieces = {piece.name: piece for piece in entity_sets(SCALES["mini"], "es") if piece.language == "es"}
    texts = Texts(tmp_path, {"entities": tmp_path}, pieces, (), None)
    found = {name: sentences(content.splitlines()) for name, content in texts.read().items()}
    assert len(found["es_wikiann.train.tsv"]) == 40
    dev, test = found["es_wikiann.dev.tsv"], found["es_wikiann.tsv"]
    assert len(dev) + len(test) == 40 and not {str(one) for one in dev} & {str(one) for one in test}
    (tmp_path / "test-es.tsv").write_text(lines, encoding="utf-8")
    whole = Texts(tmp_path, {"entities": tmp_path}, pieces, (), None).read()
    assert len(sentences(whole["es_wikiann.tsv"].splitlines())) == 40
    assert whole["es_wikiann.dev.tsv"] == texts.read()["es_wikiann.dev.tsv"]


def test_which_sets_a_source_is_tested_on():
    names = [piece.name for piece in treebank_sets(SCALES["mini"], "en")]
    assert names[:5] == ["en_ewt.train", "en_ewt.dev", "en_ewt", "en_gum", "en_pud"]  # at home, then other domains
    assert names.index("de_pud") < names.index("de_gsd") < names.index("de_lit")  # the first of a language is its main
    assert [name for name in names if name.startswith("nl_")] == ["nl_lassysmall", "nl_alpino"]
    assert {"ru_taiga", "fr_sequoia", "is_pud", "th_pud"} <= set(names) and len(set(names)) == len(names)
    french = [piece.name for piece in treebank_sets(SCALES["mini"], "fr")]
    assert french[2:6] == ["fr_sequoia", "fr_gsd", "fr_parisstories", "fr_pud"] and "en_ewt" in french
    sizes = {piece.name: piece.most for piece in treebank_sets(SCALES["mini"], "fr")}
    assert (sizes["en_pud"], sizes["en_ewt"], sizes["de_lit"], sizes["th_pud"]) == (500, 500, 250, 250)


def test_files_that_are_missing_are_named(tmp_path):
    piece = Piece("en_ewt", "en", "treebanks", ("en_ewt-ud-test.conllu",))
    with pytest.raises(InputError, match="--treebanks is missing: give a folder of UD treebanks"):
        Texts(tmp_path, {"treebanks": None}, {"en_ewt": piece}, (), None).read()
    with pytest.raises(InputError, match=r"has no en_ewt-ud-test\.conllu; --treebanks is a folder of UD treebanks"):
        Texts(tmp_path, {"treebanks": tmp_path}, {"en_ewt": piece}, (), None).read()


@pytest.mark.parametrize("language", ["qaa", "qab", "qac", "qad", "qae", "qaf"])
def test_invented_treebanks_are_trees_whose_nouns_do_what_the_grammar_says(tmp_path, language):
    words = invented_sets((language, "qaz"), {"train": 60})["train"][language]
    (tmp_path / "one.conllu").write_text(as_conllu(words, language, name="t"), encoding="utf-8")
    trees = read_trees(tmp_path / "one.conllu")  # which checks roots and circles
    assert len(trees) == 60
    speech = grammar(language, 1)
    for tree in trees:
        order = [relation for relation in tree.relations if relation in ("nsubj", "root", "obj")]
        letters = {"nsubj": "s", "root": "v", "obj": "o"}
        assert "".join(letters[one] for one in order) == speech.order
        for head, relation in zip(tree.heads, tree.relations, strict=True):
            if relation in ("det", "amod"):
                assert tree.tags[head - 1] == "NOUN"


def test_invented_entities_are_nouns(tmp_path):
    words = invented_sets(("qaa", "qab"), {"train": 30})["train"]["qaa"]
    (tmp_path / "one.tsv").write_text(as_tags(words), encoding="utf-8")
    found = read_tagged(tmp_path / "one.tsv")
    assert len(found) == 30 and {tag for one in found for tag in one.tags} == {"O", "B-PER", "B-LOC"}
