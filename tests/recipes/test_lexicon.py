"""`isogloss lexicon`: rows against an explicit evaluation, two models, baselines, resuming, and every mistake."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes

import isogloss as ig
from isogloss.errors import InputError
from isogloss.mappings.methods import parse_mappings
from isogloss.recipes.lexicon import draw_sentences, entries, single_pieces
from isogloss.text.corpora import Lexicon
from isogloss.vectors import static
from isogloss.vectors.static import count_types, types_of
from tiny_commands import command_line, way_of
from tiny_pretraining import write_lexicons, write_texts


@pytest.fixture
def files(tmp_path):
    return write_texts(tmp_path / "text", sentences=40)


@pytest.fixture
def lexicons(tmp_path):
    return write_lexicons(tmp_path)


def small(files, lexicons, **changes):
    train, test = lexicons
    return {
        "text": files,
        "train_lexicon": train,
        "test_lexicon": test,
        "min_count": 1,
        "layers": "0,2",
        "device": "cpu",
        **changes,
    }


def space(stack, path, language, layer, most=None):
    """Words by frequency, and their mean vectors, by plain loops."""
    sentences = path.read_text(encoding="utf-8").splitlines()
    counts = count_types(sentences, language)
    words = sorted(counts, key=lambda word: (-counts[word], word))[:most]
    sums = {word: [] for word in words}
    for sentence in sentences:
        vectors = ig.vectors(stack, ig.Corpus(language, [sentence]), layers=[layer], unit="word")[0]
        for word, vector in zip(types_of(sentence, language), vectors, strict=True):
            if word in sums:
                sums[word].append(vector.double())
    return words, torch.stack([torch.stack(sums[word]).mean(0) for word in words]).numpy()


def normalised(space):
    for _ in range(5):
        space = space / np.linalg.norm(space, axis=1)[:, None]
        space = space - space.mean(0)
    return space / np.linalg.norm(space, axis=1)[:, None]


def read_pairs(path):
    return [tuple(line.split()) for line in path.read_text().splitlines()]


def test_rows_equal_an_explicit_evaluation(tiny, files, lexicons):
    table = ig.lexicon(tiny("bert"), **small(files, lexicons, levels="word"))
    stack = ig.load(tiny("bert"), device="cpu")
    words_x, x = space(stack, files["qaa"], "qaa", 2)
    words_y, y = space(stack, files["qab"], "qab", 2)
    train, test = (
        [(words_x.index(a), words_y.index(b)) for a, b in read_pairs(path) if a in words_x and b in words_y]
        for path in lexicons
    )
    x, y = normalised(x), normalised(y)
    w, _ = orthogonal_procrustes(x[[i for i, _ in train]], y[[j for _, j in train]])
    cosine = (x @ w) @ y.T
    near_x, near_y = np.sort(cosine, axis=1)[:, -10:].mean(1), np.sort(cosine, axis=0)[-10:].mean(0)
    for method, scores in (("cosine", cosine), ("csls", 2 * cosine - near_x[:, None] - near_y)):
        for k in (1, 5, 10):
            hits = [np.sum(scores[i] >= scores[i, j]) <= k for i, j in test]
            row = table[(table.measure == f"p@{k}") & (table.layer == 2)]
            row = row[way_of(row) == f"procrustes+iterative {method}"].iloc[0]
            assert row.value == pytest.approx(np.mean(hits))
            assert row.n == len(test) and row.floor == pytest.approx(k / len(words_y))
            assert row.low <= row.value <= row.high
    coverage = table[(table.measure == "coverage") & (table.condition == "test")].iloc[0]
    assert coverage.value == pytest.approx(len(test) / len(read_pairs(lexicons[1])))
    assert set(table.task) == {"lexicon"} and set(table.seed) == {0}


def test_every_level_way_and_layer_has_its_rows(tiny, files, lexicons, tmp_path):
    ways = "raw,centred,normalised,procrustes,procrustes+iterative,least-squares+centred,ridge+length"
    options = small(files, lexicons, mappings=ways, static="train", layers=None)
    table = ig.lexicon(tiny("bert"), **options, out=tmp_path / "run")
    p = table[table.measure == "p@1"]
    assert way_of(p).nunique() == 14
    words = p[(p.unit == "word") & (p.model == "bert")]
    assert sorted(words.layer.unique()) == [0, 1, 2, 3] and len(words) == 56
    assert set(p[p.model == "static: PPMI"].unit) >= {"word"}
    assert p[p.model == "static: PPMI"].layer.isna().all()
    assert table.floor[table.measure.isin(["p@1", "p@5", "p@10"])].notna().all()
    behind = table[table.measure == "p@1_behind"]
    assert len(behind) == 56 and (behind.groupby(way_of(behind)).value.min() == 0).all()
    assert not table.duplicated(["measure", "model", "unit", "layer", "condition", "method", "target", "source"]).any()
    assert not (tmp_path / "run" / "scratch").exists()
    few = [note for note in ig_notes(tmp_path / "run") if "fitted on" in note and "arbitrary" in note]
    assert few and all(note.startswith("static: PPMI: ") for note in few), "the model has pairs enough"


def test_fewer_pairs_than_directions_is_noted(tiny, files, lexicons, tmp_path):
    train = tmp_path / "few" / lexicons[0].name
    train.parent.mkdir()
    train.write_text("\n".join(lexicons[0].read_text().splitlines()[:8]) + "\n")
    given = small(files, (train, lexicons[1]), mappings="procrustes", levels="word", layers="0")
    ig.lexicon(tiny("bert"), **given, out=tmp_path / "run")
    (note,) = ig_notes(tmp_path / "run")
    assert note.startswith("procrustes was fitted on ") and "pairs for 32 directions: the map is arbitrary in" in note


def ig_notes(folder):
    from isogloss.runs import read_facts

    return read_facts(folder)["notes"]


def test_one_model_for_a_language_each(tiny, files, lexicons):
    table = ig.lexicon(tiny("bert"), other=tiny("roberta"), **small(files, lexicons, levels="word"))
    p = table[table.measure == "p@1"]
    assert set(p.model) == {"bert"} and set(p.other_model) == {"roberta"}
    alone = ig.lexicon(tiny("bert"), **small(files, lexicons, levels="word"))
    assert not p.value.reset_index(drop=True).equals(alone[alone.measure == "p@1"].value.reset_index(drop=True))
    stack = ig.load(tiny("bert"), device="cpu")
    again = ig.lexicon(stack, other=tiny("bert"), **small(files, lexicons, levels="word"))
    assert again[again.measure == "p@1"].value.tolist() == alone[alone.measure == "p@1"].value.tolist()


def test_word_vectors_from_files_are_cut_to_the_vocabulary(tiny, files, lexicons, tmp_path):
    """Perfect vectors: translations share theirs, and words outside the vocabulary are no candidates."""
    pairs = read_pairs(lexicons[0]) + read_pairs(lexicons[1])
    vectors = np.random.default_rng(0).normal(size=(len(pairs) + 50, 6))
    for side, language in enumerate(("qaa", "qab")):
        words = [pair[side] for pair in pairs] + [f"zz{i}" for i in range(50)]
        lines = [f"{word} {' '.join(f'{v:.5f}' for v in vector)}" for word, vector in zip(words, vectors, strict=True)]
        (tmp_path / f"{language}.vec").write_text("\n".join([f"{len(lines)} 6", *lines]) + "\n")
    static = {language: tmp_path / f"{language}.vec" for language in ("qaa", "qab")}
    table = ig.lexicon(tiny("bert"), **small(files, lexicons, levels="word", static=static))
    p = table[(table.measure == "p@1") & (table.model == "static: qaa.vec")]
    assert set(p.other_model) == {"static: qab.vec"} and (p.value == 1).all()
    mine = table[(table.measure == "p@1") & (table.model == "bert")]
    assert p.n.iloc[0] == mine.n.iloc[0]


def test_the_baseline_has_the_words_that_the_model_has_at_each_level(tiny, tmp_path):
    lines = {"en": "the cat sleeps on the chair beside unpiecelike qqq", "nl": "de kat slaapt op de stoel naast qqqq"}
    for language, line in lines.items():
        (tmp_path / f"{language}.txt").write_text(f"{line}\n" * 3)
    (tmp_path / "en-nl.test.txt").write_text("cat kat\nchair stoel\n")
    table = ig.lexicon(
        tiny("bert"), text={one: tmp_path / f"{one}.txt" for one in lines}, mappings="raw", layers="0", static="train",
        test_lexicon=tmp_path / "en-nl.test.txt", device="cpu",
    )  # fmt: skip
    floors = table[(table.measure == "p@1") & (way_of(table) == "raw cosine")].set_index(["unit", "model"]).floor
    for unit in ("word", "piece"):
        assert floors[unit, "bert"] == floors[unit, "static: PPMI"]
    assert floors["word", "bert"] < floors["piece", "bert"], "fewer words are single pieces"


def test_pairs_written_alike_are_counted_and_can_be_left_out(files):
    words = ["a", "b", "c", "d"], ["a", "x", "c", "y"]
    train, test = Lexicon("en", "nl", [("b", "x"), ("c", "c")], "t"), Lexicon("en", "nl", [("A", "a"), ("d", "Y")], "u")
    with_them = entries(train, test, words)
    assert with_them.pairs["test"].tolist() == [[0, 0], [3, 3]] and with_them.alike == 1
    without = entries(train, test, words, identical=False)
    assert without.pairs["test"].tolist() == [[3, 3]] and without.pairs["train"].tolist() == [[1, 1]]
    assert (without.alike, without.known["test"], without.words["test"]) == (0, 1, 1)


def test_words_of_the_test_are_not_learned_from():
    train = Lexicon("en", "nl", [("a", "x"), ("b", "y")], "t")
    test = Lexicon("en", "nl", [("a", "z")], "u")
    found = entries(train, test, (["a", "b"], ["x", "y", "z"]))
    assert found.pairs["train"].tolist() == [[1, 1]] and found.shared == 1


def test_single_pieces_have_their_row_of_the_matrix(tiny):
    stack = ig.load(tiny("bert"), device="cpu")
    words, vectors = single_pieces(stack, ["cat", "sleepschair", "猫", "water"])
    matrix = stack.model.get_input_embeddings().weight
    assert "cat" in words and "sleepschair" not in words
    for word, vector in zip(words, vectors, strict=True):
        assert torch.equal(vector, matrix[stack.tokenizer.convert_tokens_to_ids(word)])


def test_the_embedding_matrix_is_looked_up_too(tiny, tmp_path):
    for language, line in (("en", "the cat sleeps on the chair"), ("nl", "de kat slaapt op de stoel")):
        (tmp_path / f"{language}.txt").write_text(f"{line}\n" * 3)
    (tmp_path / "en-nl.train.txt").write_text("the de\nsleeps slaapt\n")
    (tmp_path / "en-nl.test.txt").write_text("cat kat\nchair stoel\n")
    table = ig.lexicon(
        tiny("bert"), text={one: tmp_path / f"{one}.txt" for one in ("en", "nl")}, levels="piece", mappings="raw",
        test_lexicon=tmp_path / "en-nl.test.txt", device="cpu",
    )  # fmt: skip
    stack = ig.load(tiny("bert"), device="cpu")
    words = {"en": ["the", "cat", "chair", "on", "sleeps"], "nl": ["de", "kat", "op", "slaapt", "stoel"]}
    sides = {one: single_pieces(stack, words[one]) for one in words}
    names = {one: list(sides[one][0]) for one in words}
    x, y = (sides[one][1] / sides[one][1].norm(dim=1, keepdim=True) for one in ("en", "nl"))
    hits = []
    for one, other in (("cat", "kat"), ("chair", "stoel")):
        if one in names["en"] and other in names["nl"]:
            scores = y @ x[names["en"].index(one)]
            hits.append(bool((scores >= scores[names["nl"].index(other)]).sum() == 1))
    row = table[(table.measure == "p@1") & (way_of(table) == "raw cosine")].iloc[0]
    assert row.n == len(hits) > 0 and row.value == pytest.approx(np.mean(hits)) and row.unit == "piece"
    assert table.layer.isna().all()


def test_sentences_are_drawn_by_the_seed_and_read_lazily(files):
    whole = draw_sentences("qaa", [files["qaa"]], most=1000, seed=0)
    assert list(whole) == files["qaa"].read_text().splitlines()
    some, again, others = (draw_sentences("qaa", [files["qaa"]], most=20, seed=seed) for seed in (1, 1, 2))
    assert list(some) == list(again) != list(others) and len(some) == 20
    assert [one for one in whole if one in set(some)] == list(some), "in the order of the file"


def test_a_stopped_run_goes_on_and_reads_nothing_again(tiny, files, lexicons, tmp_path, monkeypatch):
    from isogloss.recipes import lexicon as recipe

    options = small(files, lexicons)
    whole = ig.lexicon(tiny("bert"), **options, out=tmp_path / "whole")
    judge, calls = recipe.induction, []

    def stop(*args, **more):
        calls.append(args)
        if len(calls) > 7:  # when some layers have their rows
            raise KeyboardInterrupt
        return judge(*args, **more)

    monkeypatch.setattr(recipe, "induction", stop)
    with pytest.raises(KeyboardInterrupt):
        ig.lexicon(tiny("bert"), **options, out=tmp_path / "run")
    monkeypatch.setattr(recipe, "induction", judge)
    monkeypatch.setattr(static, "stream", None)  # would fail if it were called
    again = ig.lexicon(tiny("bert"), **options, out=tmp_path / "run", resume=True)
    key = ["measure", "unit", "condition", "method", "layer", "source", "model"]
    left, right = (one.sort_values(key).value.tolist() for one in (whole, again))
    assert left == right


def test_the_command_finds_dictionaries_in_the_data_folder(tiny, files, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    (tmp_path / "data" / "muse").mkdir(parents=True)
    write_lexicons(tmp_path / "data" / "muse")
    texts = [word for language, path in files.items() for word in ("--text", f"{language}={path}")]
    shared = ["--min-count", 1, "--layers", "0", "--device", "cpu"]
    code, shown, told = run(
        "lexicon", tiny("bert"), *texts, *shared, "--data", tmp_path / "data", "--out", tmp_path / "a"
    )
    assert code == 0, told
    assert "rows.csv" in shown
    code, _, told = run("lexicon", tiny("bert"), *texts, *shared, "--out", tmp_path / "b")
    assert code == 2 and "give a dictionary with --train-lexicon FILE" in told
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"mappings": "affine"},
            "--mappings takes raw, centred, normalised, lir, lsar, leace, or procrustes, .* not 'affine'",
        ),
        ({"mappings": "procrustes+z"}, "--mappings takes .* not 'procrustes\\+z'"),
        ({"mappings": "raw,raw"}, "--mappings has raw twice"),
        ({"levels": "words"}, "--levels takes word and piece"),
        ({"min_count": 0}, "--min-count must be at least 1"),
        ({"min_count": 10_000}, "has no word that occurs 10000 times"),
        ({"refine": -1}, "--refine must be at least 0"),
        ({"layers": "9"}, "has layers 0 to 3; --layers asks for 9"),
        ({"static": ["train", "qaa=x.vec"]}, "--static train stands alone"),
        ({"static": ["qaa=x.vec"]}, "--static qaa: there is no file x.vec"),
        (
            {"train_lexicon": ["en-de.txt"]},
            "--train-lexicon: none of en-de.txt is a dictionary of qaa and qab by its name",
        ),
        ({"train_lexicon": ["missing.txt"]}, "missing.txt does not exist"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(tiny, files, lexicons, tmp_path, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        ig.lexicon(tiny("bert"), **small(files, lexicons, **changes), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dictionary_of_unknown_words_is_refused_before_anything_is_read(tiny, files, lexicons, tmp_path):
    (tmp_path / "qaa-qab.strange.txt").write_text("xylophone zyzzyva\nquux corge\n")
    options = small(files, lexicons, test_lexicon=tmp_path / "qaa-qab.strange.txt")
    with pytest.raises(InputError, match="strange.txt: of its 2 pairs none has both words among the"):
        ig.lexicon(tiny("bert"), **options, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dictionary_that_is_learned_from_and_asked_is_refused(tiny, files, lexicons, tmp_path):
    options = small(files, lexicons, train_lexicon=small(files, lexicons)["test_lexicon"])
    with pytest.raises(InputError, match="all its words are asked by .*, and what is asked is not learned from"):
        ig.lexicon(tiny("bert"), **options, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_language_and_models_of_other_shapes_are_refused(tiny, files, lexicons, tmp_path):
    with pytest.raises(InputError, match="--text has one language only"):
        ig.lexicon(tiny("bert"), **small({"qaa": files["qaa"]}, lexicons))
    from transformers import AutoModel

    from tiny_models import tiny_config, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    for name, changes in (("wide", {"hidden_size": 48}), ("deep", {"num_hidden_layers": 4})):
        config = tiny_config("bert", len(tokenizer))
        for key, value in changes.items():
            setattr(config, key, value)
        AutoModel.from_config(config).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    with pytest.raises(
        InputError, match="is 32 wide and .*wide 48; raw needs equal widths: choose others with --mappings"
    ):
        ig.lexicon(tiny("bert"), other=tmp_path / "wide", **small(files, lexicons))
    table = ig.lexicon(tiny("bert"), other=tmp_path / "wide", **small(files, lexicons, mappings="ridge+centred"))
    assert math.isfinite(table.value.sum())
    with pytest.raises(InputError, match="has 3 layers and .*deep has 4; layer k of one is compared with layer k"):
        ig.lexicon(tiny("bert"), other=tmp_path / "deep", **small(files, lexicons, layers=None))


def test_ways_are_read_in_their_order():
    found = parse_mappings("raw, centred,procrustes+iterative")
    assert [one.name for one in found] == ["raw", "centred", "procrustes+iterative"]
    assert [one.learns for one in found] == [False, False, True]
