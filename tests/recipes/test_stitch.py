"""`isogloss stitch`: a planted rotation, word pairs, frozen layers, rows, resuming, the report, mistakes."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.linalg import orthogonal_procrustes

import isogloss as ig
from isogloss.mappings.methods import MappingSpec
from isogloss.mappings.normalise import normalisation
from isogloss.measures.word_alignment import ALIGNERS, align_words
from isogloss.recipes import task_scores
from isogloss.recipes.stitch import choose_word_pairs, random_rotation, read_words, target_conditions
from isogloss.runs import read_facts
from isogloss.stack.edit import with_fresh_blocks
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.words import words_of
from isogloss.vectors.store import VectorStore
from tiny_commands import command_line
from tiny_models import ENCODERS, tiny_config, tiny_tokenizer
from tiny_stitching import SMALL, parallel_text, write_stitching
from tiny_training import interrupted

stitch_module = importlib.import_module("isogloss.recipes.stitch")  # its name in the package is the recipe's


def scores(table, measure):
    """Values of a measure by (layer, target, condition)."""
    some = table[(table.measure == measure) & table.seed.notna()]
    return {(one.layer, one.target, one.condition): one.value for one in some.itertuples()}


def test_the_planted_models_have_one_shape(planted):
    """What every other test here stands on: cut k of one is cut k of the other, turned."""
    first, other, turn = planted
    text = parallel_text(5)
    x, y = (ig.vectors(ig.load(one), text[language], unit="word") for one, language in ((first, "qaa"), (other, "qab")))
    torch.testing.assert_close(y, x @ turn.T, atol=1e-5, rtol=0)
    assert (y - x).abs().max() > 1


@pytest.mark.parametrize(
    ("task", "main", "denormalise", "layers"),
    [
        ("parsing", "las", "recentred", (2,)),
        ("parsing", "las", "raw", (0,)),
        ("ner", "span_f1", "normalised", (0,)),
    ],
)
def test_a_planted_rotation_gives_the_sources_scores_and_nothing_else_does(
    planted, tmp_path, task, main, denormalise, layers
):
    first, other, _ = planted
    epochs = 12 if task == "ner" else 4
    given = {**write_stitching(tmp_path, task, count=16), **SMALL, "epochs": epochs}
    options = {**given, "denormalise": denormalise, "layers": layers}
    found = scores(ig.stitch(first, parallel_text(), other=other, **options), main)
    for layer in layers:
        home = found[layer, "qaa", "stitched"]
        assert home > 0.5, "or nothing was learned that could be lost"
        assert found[layer, "qab", "stitched"] == pytest.approx(home, abs=1e-9)
        controls = {"unmapped", "random"} | ({"shifted"} if denormalise == "recentred" else set())
        assert {way for at, target, way in found if (at, target) == (layer, "qab")} == {"stitched", *controls}
        assert all(found[layer, "qab", way] < home - 0.3 for way in controls)


def test_rows_keep_the_contract_and_means_over_seeds(planted, tmp_path):
    first, other, _ = planted
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "1", "seeds": 2}
    table = ig.stitch(first, parallel_text(links=False), other=other, **options)
    assert set(table.layer.dropna()) == {1} and set(table.task) == {"ner"} and set(table.model) == {"bert"}
    assert set(table.other_model) == {"turned"} and set(table.source) == {"qaa"}
    result = table[(table.measure == "span_f1") & table.seed.notna()]
    assert len(result) == 2 * (1 + 4)  # seeds, the source once and each way
    assert ((result.low <= result.value) & (result.value <= result.high)).all()
    assert result.floor.notna().all() and (result.n > 0).all()
    means = table[(table.measure == "span_f1") & table.seed.isna()]
    assert len(means) == 5 and set(means.n) == {2}
    one = means[(means.condition == "stitched") & (means.target == "qab")].iloc[0]
    own = result[(result.condition == "stitched") & (result.target == "qab")].value
    assert one.value == pytest.approx(own.mean())
    gaps = table[(table.measure == "gap") & (table.seed == 0)].set_index("condition").value
    home, away = (
        result[(result.seed == 0) & (result.target == one)].set_index("condition").value for one in ("qaa", "qab")
    )
    assert gaps["random"] == pytest.approx(home["stitched"] - away["random"])
    learned = table[table.measure == "learned_from"]
    assert len(learned) == 1 and learned.value.iloc[0] > 32
    assert not table.duplicated([name for name in table.columns if name not in ("value", "low", "high", "floor")]).any()


def test_one_model_can_be_both_and_unmapped_is_then_the_model_itself(tiny, tmp_path):
    """Appendix A: the first layers of one model, with and without the map."""
    text = parallel_text()
    given = write_stitching(tmp_path)
    given["test"] = {"qaa": given["test"]["qaa"], "qab": given["test"]["qaa"]}
    found = scores(ig.stitch(tiny("bert"), text, **given, **{**SMALL, "epochs": 1}, layers="1"), "span_f1")
    assert found[1, "qab", "unmapped"] == found[1, "qaa", "stitched"]


def test_the_map_is_that_of_an_explicit_fit(planted, tmp_path, monkeypatch):
    first, other, _ = planted
    seen = {}

    def watched(mapping, *, seed):
        seen["mapping"] = mapping
        return target_conditions(mapping, seed=seed)

    monkeypatch.setattr(stitch_module, "target_conditions", watched)
    text = parallel_text(12)
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "2", "max_uses": 3}
    options["mapping"] = "procrustes+centred"
    ig.stitch(first, text, other=other, **options)
    seen_words = {"qaa": {}, "qab": {}}
    pairs = []
    for one in choose_word_pairs(text, ("qab", "qaa"), most=50_000, max_uses=3, seed=0):
        words = {
            language: text[language].sentences[one[0]].split()[at]
            for language, at in (("qab", one[1]), ("qaa", one[2]))
        }
        for language, word in words.items():
            seen_words[language][word] = seen_words[language].get(word, 0) + 1
        assert words["qaa"] != words["qab"]
        pairs.append(one)
    assert max(max(known.values()) for known in seen_words.values()) == 3
    sides = []
    for folder, language, at in ((other, "qab", 1), (first, "qaa", 2)):
        starts = np.cumsum([0, *(len(sentence.split()) for sentence in text[language])])
        vectors = ig.vectors(ig.load(folder), text[language], unit="word")[2].double().numpy()
        sides.append(np.stack([vectors[starts[pair[0]] + pair[at]] for pair in pairs]))
    mapping = seen["mapping"]
    means = [
        ig.vectors(ig.load(folder), text[language], unit="word")[2].double().numpy().mean(0)
        for folder, language in ((other, "qab"), (first, "qaa"))
    ]
    for shape, mean, side in zip((mapping.source, mapping.target), means, sides, strict=True):
        np.testing.assert_allclose(shape.mean.numpy(), mean, atol=1e-5)
        assert np.abs(mean - side.mean(0)).max() > 1e-3, "of all words, not of those that are paired"
    x, y = (side - mean for side, mean in zip(sides, means, strict=True))
    expected, _ = orthogonal_procrustes(x, y)
    np.testing.assert_allclose(mapping.weight.numpy(), expected.T, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_the_space_of_a_language_is_all_its_words_and_is_read_once(planted, tmp_path, monkeypatch, pooling):
    stack, corpus, store = ig.load(planted[0]), parallel_text(12)["qaa"], VectorStore(tmp_path)
    reading = {"layers": [0, 2], "rows": range(12), "pooling": pooling, "normalise": "iterative"}
    found = read_words(stack, corpus, [(0, 0)], store=store, **reading)
    vectors = ig.vectors(stack, corpus, layers=[0, 2], unit="word", pool=pooling)
    for one, space in zip(found, vectors, strict=True):
        whole = normalisation(space.double())
        torch.testing.assert_close(one.means, whole.means, atol=1e-6, rtol=0)
        torch.testing.assert_close(one.mean, whole.mean, atol=1e-6, rtol=0)
    monkeypatch.setattr(stitch_module, "stream", None)
    again = read_words(stack, corpus, [(0, 0)], store=store, **reading)
    assert all(torch.equal(one.means, other.means) for one, other in zip(found, again, strict=True))


def counted(monkeypatch, module, name):
    """The calls of a function of a module, which does what it did."""
    real, calls = getattr(module, name), []

    def watched(*args, **kwargs):
        calls.append((args, kwargs))
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, watched)
    return calls


@pytest.mark.parametrize("kind", ["centred", "iterative"])
def test_pairs_and_spaces_are_of_one_reading_of_the_text(planted, tmp_path, monkeypatch, kind):
    """Pairs may stand in sentences that are not drawn for the space: those are read, and are no part of it."""
    stack, corpus, store = ig.load(planted[0]), parallel_text(12)["qaa"], VectorStore(tmp_path / "here")
    words = [(row, 1) for row in (0, 3, 11)]
    reading = {"layers": [0, 2], "rows": range(2, 9), "pooling": "mean", "normalise": kind}
    readings = counted(monkeypatch, stitch_module, "stream")
    found = read_words(stack, corpus, words, store=store, **reading)
    assert len(readings) == 1 and list(readings[0][1]["rows"]) == [0, *range(2, 9), 11]
    starts = np.cumsum([0, *(len(sentence.split()) for sentence in corpus)])
    vectors = ig.vectors(stack, corpus, layers=[0, 2], unit="word")
    expected = vectors[:, [starts[row] + word for row, word in words]]
    np.testing.assert_allclose(store.read("words.qaa").numpy(), expected.numpy(), atol=1e-5)
    for one, space in zip(found, vectors[:, starts[2] : starts[9]].double(), strict=True):
        torch.testing.assert_close(one.means, normalisation(space, kind).means, atol=1e-6, rtol=0)
    same = read_words(stack, corpus, words, store=store, **reading)
    assert len(readings) == 1 and all(map(torch.equal, *([each.means for each in spaces] for spaces in (found, same))))
    assert sorted(path.name for path in store.folder.iterdir()) == ["means.qaa.npy", "words.qaa.npy"]
    store.path("words.qaa").unlink()  # a kill before the words had their name
    read_words(stack, corpus, words, store=store, **reading)
    np.testing.assert_allclose(store.read("words.qaa").numpy(), expected.numpy(), atol=1e-5)


def test_refinement_is_that_of_the_mapping(planted, tmp_path, monkeypatch):
    seen = []
    fit = MappingSpec.fit

    def watched(self, x, y, **more):
        seen.append((self.options["refine"], fit(self, x, y, **more)))
        return seen[-1][1]

    monkeypatch.setattr(MappingSpec, "fit", watched)
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "1", "refine": 2}
    ig.stitch(planted[0], parallel_text(12), other=planted[1], **options)
    ((rounds, mapping),) = seen
    assert rounds == 2 and mapping.pairs > 0


def test_pairs_are_one_to_one_differently_written_and_capped():
    text = ig.Bitext(
        (ig.Corpus("qaa", ["a b 12 c d", "a a"]), ig.Corpus("qab", ["x b 13 y z", "x x"])),
        {("qaa", "qab"): [[(0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 4)], [(0, 0), (1, 1)]]},
    )
    found = choose_word_pairs(text, ("qaa", "qab"), most=10, max_uses=9, seed=0)
    assert found == [(0, 0, 0), (1, 0, 0), (1, 1, 1)]
    assert len(choose_word_pairs(text, ("qaa", "qab"), most=10, max_uses=2, seed=0)) == 2
    assert len(choose_word_pairs(text, ("qaa", "qab"), most=1, max_uses=9, seed=0)) == 1
    one_way = ig.Bitext((ig.Corpus("qaa", ["a a"]), ig.Corpus("qab", ["x y"])), {("qaa", "qab"): [[(0, 0), (1, 1)]]})
    for languages in (("qaa", "qab"), ("qab", "qaa")):
        assert len(choose_word_pairs(one_way, languages, most=10, max_uses=1, seed=0)) == 1, (
            "a word of either side is capped"
        )
    backwards = choose_word_pairs(text, ("qab", "qaa"), most=10, max_uses=9, seed=0)
    assert [(row, first, other) for row, other, first in backwards] == [(0, 0, 0), (1, 0, 0), (1, 1, 1)]


def test_pairs_are_links_of_the_chosen_aligner():
    text = ig.Bitext((embedded()["en"], embedded()["nl"]))
    sides = [[words_of(corpus, row) for row in range(text.rows)] for corpus in text.corpora]
    chosen = {}
    for aligner, model in ALIGNERS.items():
        links = align_words(*sides, model=model, symmetrise="intersection")
        wanted = {
            (row, i, j)
            for row, found in enumerate(links)
            for i, j in found
            if sides[0][row][i].lower() != sides[1][row][j].lower() and sides[0][row][i].isalpha()
        }
        pairs = choose_word_pairs(text, ("en", "nl"), most=50_000, max_uses=10_000, seed=0, aligner=aligner)
        chosen[aligner] = {pair for pair in pairs if sides[0][pair[0]][pair[1]].isalpha()}
        assert chosen[aligner] == {one for one in wanted if any(map(str.isalpha, sides[1][one[0]][one[2]]))}
    assert chosen["ibm2"] != chosen["fast_align"]


def test_a_word_that_was_cut_off_has_no_vector(tiny, tmp_path):
    corpus = ig.Corpus("qaa", ["cat " * 70])
    words, store = [(0, 0), (0, 69), (0, 0)], VectorStore(tmp_path)
    how = {"layers": [0, 2], "rows": [0], "pooling": "mean", "normalise": "centred"}
    read_words(ig.load(tiny("bert")), corpus, words, store=store, **how)
    values = store.read("words.qaa").numpy()
    assert values.shape == (2, 3, 32) and np.isfinite(values[:, [0, 2]]).all() and np.isnan(values[:, 1]).all()
    np.testing.assert_array_equal(values[:, 0], values[:, 2])


@pytest.mark.parametrize("family", ENCODERS)
def test_fresh_blocks_stand_on_a_lower_part_equal_to_the_bit(tiny, family):
    stack, text = ig.load(tiny(family)), ig.Corpus("qaa", ["the cat sleeps", "yes"])
    before = torch.random.get_rng_state()
    made = with_fresh_blocks(stack, 2, count=3, seed=1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert made.last == 5 and stack.last == 3
    assert torch.equal(ig.vectors(made, text, layers=[0, 1, 2]), ig.vectors(stack, text, layers=[0, 1, 2]))
    again, other = (with_fresh_blocks(stack, 2, count=3, seed=seed) for seed in (1, 2))
    assert made.fingerprint == again.fingerprint != other.fingerprint
    drawn = [one for one in made.blocks[2].parameters() if one.dim() > 1]
    assert all(one.std() < 0.1 for one in drawn), "as the class draws them, not the 0.2 of the model below"


def test_a_depth_of_another_number_of_blocks_goes_on_as_the_class_has_it(tiny):
    made = with_fresh_blocks(ig.load(tiny("modernbert")), 1, count=4, seed=0)
    expected = tiny_config("modernbert", len(tiny_tokenizer()))
    deep = type(expected)(
        **{**{k: v for k, v in expected.to_dict().items() if k != "layer_types"}, "num_hidden_layers": 5}
    )
    assert made.model.config.layer_types == deep.layer_types


def test_frozen_layers_stay_and_fresh_ones_move(planted, tmp_path, monkeypatch):
    first, other, _ = planted
    made, begun = [], []
    real = stitch_module.with_fresh_blocks

    def watched(*args, **kwargs):
        made.append(real(*args, **kwargs))
        begun.append({name: weight.clone() for name, weight in made[-1].model.state_dict().items()})
        return made[-1]

    monkeypatch.setattr(stitch_module, "with_fresh_blocks", watched)
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "1"}
    ig.stitch(first, parallel_text(), other=other, **options)
    now, original = made[0].model.state_dict(), ig.load(first).model.state_dict()
    moved = {name for name in now if not torch.equal(now[name], begun[0][name])}
    assert moved and all(name.startswith("encoder.layer.1.") for name in moved)
    for name in now:
        if name.startswith(("embeddings.", "encoder.layer.0.")):
            assert torch.equal(now[name], original[name])


def test_a_random_rotation_is_one_and_hangs_on_its_seed():
    turn = random_rotation(16, seed=0)
    torch.testing.assert_close(turn @ turn.T, torch.eye(16, dtype=torch.float64))
    assert not torch.equal(turn, random_rotation(16, seed=1))


def test_a_run_that_was_stopped_goes_on_to_the_same_rows(planted, tmp_path, monkeypatch):
    first, other, _ = planted
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 2, "layers": "0,1"}
    whole = ig.stitch(first, parallel_text(), other=other, out=tmp_path / "whole", **options)
    with interrupted(monkeypatch, after=10):  # at layer 1, after a checkpoint
        ig.stitch(first, parallel_text(), other=other, out=tmp_path / "parts", **options)
    read, layers = stitch_module.read_prefix, set()

    def counted(stack, items, cut, **how):
        layers.add(cut)
        return read(stack, items, cut, **how)

    monkeypatch.setattr(stitch_module, "read_prefix", counted)
    again = ig.stitch(first, parallel_text(), other=other, out=tmp_path / "parts", resume=True, **options)
    order = ["measure", "layer", "target", "condition", "seed"]
    both = [one.sort_values(order).reset_index(drop=True) for one in (whole, again)]
    pd.testing.assert_frame_equal(*both, check_exact=True)
    assert not list((tmp_path / "parts").rglob("step-*"))
    assert layers == {1}, "nothing is read again of a layer that is done"


def best_after(monkeypatch, epoch):
    """Dev is answered right after this epoch, counted from here, and wrong after others; the weights after each."""
    real, weights = stitch_module.predict, []

    def answered(model, examples, items, **how):
        said = real(model, examples, items, **how)
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
        right = [model.task.gold(example) for example in examples]
        return right if len(weights) == epoch else [["O"] * len(some) for some in said]

    monkeypatch.setattr(stitch_module, "predict", answered)
    return weights


def scored_weights(monkeypatch):
    """The weights of each model that all sets were scored with."""
    real, worn = task_scores.score_sets, []

    def watched(model, *given, **how):
        worn.append({name: value.clone() for name, value in model.state_dict().items()})
        return real(model, *given, **how)

    monkeypatch.setattr(task_scores, "score_sets", watched)
    return worn


def test_every_set_is_scored_once_with_the_weights_of_the_best_epoch(planted, tmp_path, monkeypatch):
    first, other, _ = planted
    weights, worn = best_after(monkeypatch, 2), scored_weights(monkeypatch)
    runs = counted(monkeypatch, task_scores, "predict")
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 3, "layers": "1"}
    table = ig.stitch(first, parallel_text(), other=other, out=tmp_path / "run", **options)
    assert len(weights) == 3 and len(worn) == 1 + 4
    assert len(runs) == 1 + 1 + 4  # dev, the source's test, and the target's four ways
    assert all(torch.equal(worn[0][name], weights[1][name]) for name in worn[0])
    assert any(not torch.equal(worn[0][name], weights[2][name]) for name in worn[0])
    assert set(table[table.measure == "chosen_step"].value) == {6}
    left = sorted(one.name for one in (tmp_path / "run" / "checkpoints" / "layer-1-seed-0").iterdir())
    assert left == ["finished", "random", "shifted", "stitched", "unmapped"]


def test_the_best_epoch_from_before_a_kill_is_scored_after_it(planted, tmp_path, monkeypatch):
    first, other, _ = planted
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 2, "layers": "1", "checkpoint": 5}
    worn = scored_weights(monkeypatch)
    with monkeypatch.context() as patch:
        best_after(patch, 1)
        whole = ig.stitch(first, parallel_text(), other=other, out=tmp_path / "whole", **options)
    with monkeypatch.context() as patch, interrupted(monkeypatch, after=5):  # in the second epoch, after a checkpoint
        best_after(patch, 1)
        ig.stitch(first, parallel_text(), other=other, out=tmp_path / "parts", **options)
    best_after(monkeypatch, 9)
    again = ig.stitch(first, parallel_text(), other=other, out=tmp_path / "parts", resume=True, **options)
    assert set(again[again.measure == "chosen_step"].value) == {3}
    pd.testing.assert_frame_equal(whole, again, check_exact=True)
    assert len(worn) == 2 * 5
    assert all(torch.equal(value, other[name]) for other in worn for name, value in worn[0].items())


def test_the_report_draws_scores_by_layer(planted, tmp_path):
    from isogloss.report import write_figures, write_page

    first, other, _ = planted
    options = {**write_stitching(tmp_path, count=12), **SMALL, "epochs": 1, "layers": "0,1"}
    ig.stitch(first, parallel_text(), other=other, out=tmp_path / "run", **options)
    figures = write_figures(tmp_path / "run", tmp_path / "run" / "figures")
    assert {path.name for path in figures} == {"stitch-ner-qab-test-qab.png", "stitch-ner-qab-test-qab.svg"}
    page = write_page([tmp_path / "run"], tmp_path / "run").read_text(encoding="utf-8")
    assert "Scores by layer, stitched" in page and "unmapped" in page and "layer 1" in page
    assert "no layer can be named" not in page


def test_the_command(planted, tmp_path, monkeypatch, capsys):
    first, other, _ = planted
    given, text = write_stitching(tmp_path), parallel_text()
    for corpus in text:
        (tmp_path / f"text.{corpus.language}").write_text("\n".join(corpus.sentences) + "\n", encoding="utf-8")
    code, _, errors = command_line(monkeypatch, capsys)(
        "stitch",
        first,
        "--other",
        other,
        "--task",
        "ner",
        "--train",
        f"qaa={given['train']['qaa']}",
        "--dev",
        f"qaa={given['dev']['qaa']}",
        *(f"--test={one}={path}" for one, path in given["test"].items()),
        "--bitext",
        tmp_path / "text.qaa",
        "--bitext",
        tmp_path / "text.qab",
        "--languages",
        "qaa,qab",
        "--layers",
        "1",
        "--epochs",
        "1",
        "--fresh-layers",
        "1",
        "--device",
        "cpu",
        "--out",
        tmp_path / "run",
    )
    assert code == 0, errors
    table = ig.read_rows(tmp_path / "run")
    assert set(table[table.measure == "span_f1"].condition) == {"stitched", "shifted", "unmapped", "random"}


# --- mistakes --------------------------------------------------------------------------------------------------------

check = ig.stitch.recipe.check


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"layers": "0,7"}, "has layers 0 to 3; --layers asks for 7"),
        ({"mapping": "raw"}, "--mapping takes one mapping that is fitted"),
        ({"denormalise": "back"}, "--denormalise takes normalised or recentred or raw, not 'back'"),
        ({"pooling": "last"}, "--pooling takes first or mean, not 'last'"),
        ({"fresh_layers": 0}, "--fresh-layers must be at least 1, not 0"),
        ({"task": "chess"}, "--task 'chess' is not known"),
    ],
)
def test_options_that_cannot_be_used(planted, tmp_path, changed, sentence):
    options = {**write_stitching(tmp_path), **SMALL, **changed}
    with pytest.raises(ig.InputError, match=sentence):
        check(planted[0], parallel_text(), other=planted[1], **options)


def test_text_that_cannot_be_used(planted, tmp_path):
    first, other, _ = planted
    given = {**write_stitching(tmp_path), **SMALL}
    with pytest.raises(ig.InputError, match="--bitext is missing: give parallel text of qaa and qab"):
        check(first, other=other, **given)
    strange = ig.Bitext((ig.Corpus("qaa", ["a"]), ig.Corpus("qac", ["b"])))
    with pytest.raises(ig.InputError, match="no parallel text of qaa and qab; it has qaa-qac"):
        check(first, strange, other=other, **given)
    alone = {**given, "test": {"qaa": given["test"]["qaa"]}}
    with pytest.raises(ig.InputError, match="sets of exactly one target language besides qaa, the source; it has none"):
        check(first, parallel_text(), other=other, **alone)
    oracle = {**given, "dev": {**given["dev"], "qab": given["train"]["qaa"]}}
    with pytest.raises(ig.InputError, match="--dev takes examples of qaa only"):
        check(first, parallel_text(), other=other, **oracle)
    bad = tmp_path / "bad.tsv"
    bad.write_text("cat\tO\ncat\n", encoding="utf-8")
    with pytest.raises(ig.InputError, match=r"bad\.tsv:2"):
        check(first, parallel_text(), other=other, **{**given, "train": {"qaa": bad}})


def test_words_that_cannot_be_paired(planted, tmp_path):
    first, other, _ = planted
    given = {**write_stitching(tmp_path), **SMALL}
    same = ig.Bitext((ig.Corpus("qaa", ["a b"]), ig.Corpus("qab", ["a b"])), {("qaa", "qab"): [[(0, 0), (1, 1)]]})
    check(first, same, other=other, **given)  # only reading the text tells
    with pytest.raises(ig.InputError, match="has no word pairs to fit a mapping on"):
        ig.stitch(first, same, other=other, **given, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    beyond = ig.Bitext((ig.Corpus("qaa", ["a b"]), ig.Corpus("qab", ["x y"])), {("qaa", "qab"): [[(0, 5)]]})
    with pytest.raises(ig.InputError, match="sentence 1: a link refers to word 5, counted from 0, of a sentence of 2"):
        ig.stitch(first, beyond, other=other, **given)


def test_models_that_cannot_be_stitched(planted, tiny, tmp_path):
    given = {**write_stitching(tmp_path), **SMALL}
    with pytest.raises(ig.InputError, match="is 384 wide and .* 32; layers of one cannot run on"):
        check("mini", parallel_text(), other=planted[1], **given)
    with pytest.raises(ig.InputError, match="is of kind decoder; stitch takes encoders"):
        check(planted[0], parallel_text(), other=tiny("gpt2"), **given)


def test_few_pairs_are_told(planted, tmp_path):
    first, other, _ = planted
    options = {**write_stitching(tmp_path), **SMALL, "epochs": 1, "layers": "1", "word_pairs": 8}
    ig.stitch(first, parallel_text(), other=other, out=tmp_path / "run", **options)
    assert any("8 pairs for 32 directions" in note for note in read_facts(tmp_path / "run")["notes"])
