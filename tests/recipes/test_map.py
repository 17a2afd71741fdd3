import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.invented import invented
from scipy import stats
from transformers import ByT5Tokenizer

import isogloss as ig
from isogloss.errors import InputError
from isogloss.measures.geometry import anc, anisotropy, separability
from isogloss.measures.retrieval import mexa, retrieve
from isogloss.measures.word_alignment import ALIGNERS, align_words, alignment_error_rate, itermax_links
from isogloss.progress import listening
from isogloss.recipes import map as map_recipe
from isogloss.recipes.layer_comparison import LayerMean, layer_rows, mean_of_scores
from isogloss.report import verdict, write_page
from isogloss.runs.table import KEY
from isogloss.text.vocabulary import vocabulary
from isogloss.text.words import words_of
from tiny_models import tiny_config, tiny_model

LANGUAGES = ("qaa", "qab", "qac")


@pytest.fixture(scope="module")
def bitext():
    return invented(LANGUAGES, sentences=60, seed=3)


@pytest.fixture(scope="module")
def stack(tiny):
    return ig.load(tiny("bert"), device="cpu")  # made before a test can hide a GPU


def only(table, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    return table


def test_rows_equal_the_measures_taken_directly(stack, bitext):
    table = ig.map(stack, bitext, sample="all")
    x, y = (ig.vectors(stack, bitext[language]) for language in LANGUAGES[:2])
    order = np.random.default_rng(0).permutation(bitext.rows).tolist()
    for layer in stack.cuts:
        mine = only(table, measure="cka", source="qaa", target="qab", layer=layer)
        assert mine.value.item() == pytest.approx(ig.cka(x[layer], y[layer]), rel=1e-4)
        assert mine.low.item() < mine.value.item() < mine.high.item()
        assert mine.n.item() == 60
        for method in ("cosine", "centred", "csls"):
            there, back = retrieve(
                x[layer][order], y[layer][order], method=method,
                keys_x=[bitext["qaa"].sentences[i] for i in order], keys_y=[bitext["qab"].sentences[i] for i in order],
            )  # fmt: skip
            for one, source, target in ((there, "qaa", "qab"), (back, "qab", "qaa")):
                where = {"method": method, "source": source, "target": target, "layer": layer}
                hit = only(table, measure="p@1", **where)
                assert hit.value.item() == pytest.approx(one.p[1].value, abs=0.02)  # rounding may turn a near tie
                assert (hit.n.item(), hit.floor.item()) == (one.n, one.p[1].floor)
        pair = {"source": "qaa", "target": "qab", "layer": layer}
        for name, taken in (("anc", anc), ("mexa", mexa), ("separability", separability)):
            mine = only(table, measure=name, **pair)
            assert mine.value.item() == pytest.approx(taken(x[layer], y[layer]), abs=0.02) and mine.n.item() == 60
        flat = only(table, measure="anisotropy", source="qaa", layer=layer)
        assert flat.value.item() == pytest.approx(anisotropy(x[layer]), abs=1e-5)


def test_every_similarity_has_its_floor_and_n(stack, bitext):
    table = ig.map(stack, bitext, sample=40)
    names = ["cka", "p@1", "p@5", "p@10", "mrr", "word_agreement", "anc", "mexa", "separability"]
    scored = table[table.measure.isin(names)]
    assert len(scored) and scored.floor.notna().all() and scored.n.notna().all()
    assert only(table, measure="cka").n.unique().tolist() == [60]  # CKA reads everything
    assert only(table, measure="p@1").n.unique().tolist() == [40]  # retrieval reads the pool


def test_words_are_compared_in_the_full_space(stack, bitext):
    """Word agreement by hand: mean vector of each type, means removed, nearest neighbour by cosine."""
    table = ig.map(stack, bitext, sample="all")
    rows = range(bitext.rows)
    pair = ("qaa", "qab")
    words = vocabulary(bitext, {pair: bitext.links[pair]}, rows, limit=1000, at_least={pair: 1})
    means = []
    for language in pair:
        found = list(ig.stream(stack, bitext[language], units=("word",)))
        values = torch.cat([one.values["word"] for one in found], dim=1)[2]
        items = torch.cat([one.items["word"] for one in found]).tolist()
        spelled = [
            bitext[language].sentences[row][slice(*bitext[language].words[row][word])].lower() for row, word in items
        ]
        kinds = words.types[language]
        means.append(torch.stack([values[[s == kind for s in spelled]].mean(0) for kind in kinds]))
    chosen = words.pairs[pair]
    x = means[0][[i for i, _ in chosen]]
    y = means[1][[j for _, j in chosen]]
    x, y = ((side - side.mean(0)) / (side - side.mean(0)).norm(dim=1, keepdim=True) for side in (x, y))
    scores = x @ y.T
    as_high = (scores >= scores.diagonal()[:, None] - 1e-6).sum(1)  # itself, and whatever ties with it
    expected = (as_high == 1).float().mean().item()
    mine = only(table, measure="word_agreement", source="qaa", target="qab", layer=2)
    assert mine.value.item() == pytest.approx(expected, abs=1.5 / len(chosen))  # one near tie may turn by rounding
    assert mine.n.item() == len(chosen)
    assert mine.floor.item() == pytest.approx(1 / len(chosen))


def test_links_found_by_vectors_are_judged_by_the_given_ones(stack, bitext):
    table = ig.map(stack, bitext, sample="all")
    pair = ("qaa", "qab")
    predicted = []
    x = list(ig.stream(stack, bitext["qaa"], units=("word",)))[0]
    y = list(ig.stream(stack, bitext["qab"], units=("word",)))[0]
    for row in range(bitext.rows):
        sides = [one.values["word"][1][one.items["word"][:, 0] == row] for one in (x, y)]
        predicted.append(itermax_links(*sides))
    expected = alignment_error_rate(predicted, bitext.links[pair]).value
    mine = only(table, measure="aer", method="itermax", source="qaa", target="qab", layer=1)
    assert mine.value.item() == pytest.approx(expected, abs=1e-6)


def test_the_aligner_is_chosen_by_name(stack, bitext):
    order = np.random.default_rng(0).permutation(bitext.rows).tolist()
    sides = [[words_of(bitext[language], row) for row in order] for language in ("qaa", "qab")]
    gold = [bitext.links["qaa", "qab"][row] for row in order]
    values = {}
    for aligner, model in ALIGNERS.items():
        table = ig.map(stack, bitext, sample="all", layers=[0], aligner=aligner)
        mine = only(table, measure="aer", method="statistical", source="qaa", target="qab")
        values[aligner] = mine.value.item()
        assert values[aligner] == alignment_error_rate(align_words(*sides, model=model), gold).value
    assert values["ibm2"] != values["fast_align"]
    with pytest.raises(InputError, match="aligner"):
        ig.map(stack, bitext, aligner="giza")


def test_same_seed_same_rows_to_the_bit_another_seed_another_sample(stack, bitext):
    first, again = (ig.map(stack, bitext, sample=20, seed=1) for _ in range(2))
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    other = ig.map(stack, bitext, sample=20, seed=2)
    assert not np.array_equal(only(first, measure="p@1").value, only(other, measure="p@1").value)


def test_several_passes_give_the_rows_of_one(stack, bitext, monkeypatch):
    one = ig.map(stack, bitext, sample=20)
    chunks_of, passes = map_recipe._chunks, []

    def counted(reading, layers):
        passes.append(layers)
        return chunks_of(reading, layers)

    monkeypatch.setattr(map_recipe, "SUMS_BYTES", 1)
    monkeypatch.setattr(map_recipe, "_chunks", counted)
    several = ig.map(stack, bitext, sample=20)
    assert passes == [[0], [1], [2], [3]]
    keys = list(KEY)
    joined = one.merge(several, on=keys, suffixes=("", "_2"))
    assert len(joined) == len(one)
    np.testing.assert_allclose(joined.value, joined.value_2, atol=1e-6)


class Stop(Exception):
    pass


@pytest.mark.parametrize("moment", [1, 3, 6, 7, 9, 10])
def test_a_run_stopped_anywhere_resumes_to_the_same_rows(stack, bitext, tmp_path, moment):
    whole = ig.map(stack, bitext, sample=20, points=0, out=tmp_path / "whole")
    told = []

    def stop(*news):
        told.append(news)
        if len(told) == moment:
            raise Stop

    with pytest.raises(Stop), listening(stop):
        ig.map(stack, bitext, sample=20, points=0, out=tmp_path / "run")
    resumed = ig.map(stack, bitext, sample=20, points=0, out=tmp_path / "run", resume=True)
    columns = list(whole.columns)
    pd.testing.assert_frame_equal(
        whole.sort_values(columns, ignore_index=True), resumed.sort_values(columns, ignore_index=True), check_exact=True
    )


def test_a_run_resumed_after_its_reading_does_not_read_again(stack, bitext, tmp_path, monkeypatch):
    def stop(stage, done, total):
        if stage.startswith("comparing") and done == 2:
            raise Stop

    with pytest.raises(Stop), listening(stop):
        ig.map(stack, bitext, sample=20, points=0, out=tmp_path / "run")
    monkeypatch.setattr(map_recipe, "stream", lambda *_, **__: pytest.fail("read again"))
    ig.map(stack, bitext, sample=20, points=0, out=tmp_path / "run", resume=True)


def test_long_sentences_are_said_in_a_note(stack, tmp_path):
    english, dutch = (["the cat", "a cat", "man", "yes"], ["de kat", "een kat", "man", "ja"])
    sides = (ig.Corpus("en", [*english, "cat " * 90]), ig.Corpus("nl", [*dutch, "kat " * 90]))
    long = ig.Bitext(sides, name="t")
    table = ig.map(stack, long, out=tmp_path / "run", points=0)
    assert only(table, measure="truncated").value.tolist() == [1, 1]
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert "1 of 5 sentences of en in t were longer than 64 tokens and were cut" in notes


def test_duplicates_are_counted(stack):
    sides = [ig.Corpus("en", ["a cat", "a cat", "the man", "yes", "water"]), ig.Corpus("nl", list("vwxyz"))]
    table = ig.map(stack, ig.Bitext(tuple(sides)))
    counts = only(table, measure="duplicates").set_index("target").value
    assert counts.to_dict() == {"en": 1, "nl": 0}


def test_mistakes_leave_no_folder(stack, bitext, tmp_path):
    for mistake, sentence in (
        ({"sample": "some"}, "--sample takes a number of sentences or 'all'"),
        ({"sample": 2}, "--sample must be at least 4"),
        ({"pairs": "none"}, "--pairs takes all or first"),
        ({"layers": "7"}, "has layers 0 to 3; --layers asks for 7"),
        ({"layers": "3-1"}, "--layers 3-1 runs backwards; write 1-3"),
        ({"layers": "a"}, "--layers takes numbers"),
    ):
        with pytest.raises(InputError, match=sentence):
            ig.map(stack, bitext, out=tmp_path / "run", **mistake)
    few = bitext.take([0, 1, 2])
    with pytest.raises(InputError, match="3 parallel sentences; debiased CKA needs at least 4"):
        ig.map(stack, few, out=tmp_path / "run")
    blank = ig.Bitext((ig.Corpus("en", ["a", "b", "c", "  "], name="e.txt"), ig.Corpus("nl", list("abcd"))))
    with pytest.raises(InputError, match=r"e\.txt: nothing is left of sentence 4"):
        ig.map(stack, blank, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("given", [["talk.tsv"], [["the cat"] * 8, ["de kat"] * 8], [Path("talk.tsv")]])
def test_text_that_is_no_bitext_is_refused_and_the_embedded_sentences_do_not_stand_in(stack, given):
    with pytest.raises(
        InputError, match=r"parallel text is a Bitext, as .*, or Corpus\(language, sentences\) for each language, not "
    ):
        ig.map(stack, *given)


def test_word_map_is_drawn_layer_after_layer(stack, bitext, tmp_path):
    ig.map(stack, bitext, out=tmp_path / "run", points=12, layers="0,2-3")
    points = pd.read_parquet(tmp_path / "run" / "points.parquet")
    assert points.layer.unique().tolist() == [0, 2, 3]
    assert set(points.language) == set(LANGUAGES)
    frames = [points[points.layer == layer].reset_index(drop=True) for layer in (0, 2, 3)]
    assert frames[0].word.equals(frames[1].word) and frames[0].pair.equals(frames[1].pair)
    assert not np.allclose(frames[0].x, frames[1].x)
    assert np.isfinite(points[["x", "y"]]).all().all()


def test_tokens_of_the_first_sentences_are_points_that_nothing_joins(stack, bitext, tmp_path, monkeypatch):
    from safetensors import safe_open

    from isogloss.recipes import word_map

    monkeypatch.setattr(word_map, "find_spec", lambda name: None)  # the vectors are left
    ig.map(stack, bitext, out=tmp_path / "run", points=7, tokens=True, layers="0,2")
    with safe_open(tmp_path / "run" / "words.safetensors", framework="numpy") as file:
        facts = {name: json.loads(text) for name, text in file.metadata().items()}
        values = file.get_tensor("vectors")
    assert facts["languages"] == [language for language in LANGUAGES for _ in range(7)]
    assert facts["pairs"] == list(range(21)) and values.shape == (2, 21, stack.width)
    rows = np.random.default_rng(0).permutation(bitext.rows)[:7].tolist()
    read = ig.vectors(stack, bitext[LANGUAGES[1]].take(rows), unit="token", layers=[0, 2])
    np.testing.assert_allclose(values[:, 7:14], np.asarray(read)[:, :7], atol=1e-5)
    sentence = bitext[LANGUAGES[1]].sentences[rows[0]]
    assert facts["words"][7:9] == stack.tokenizer.tokenize(sentence)[:2]


def test_without_opentsne_the_vectors_are_left_and_drawn_later(stack, bitext, tmp_path, monkeypatch):
    from isogloss.recipes import word_map as wordmap

    ig.map(stack, bitext, out=tmp_path / "here", points=12)
    monkeypatch.setattr(wordmap, "find_spec", lambda name: None)
    ig.map(stack, bitext, out=tmp_path / "node", points=12)
    assert not (tmp_path / "node" / "points.parquet").exists()
    monkeypatch.undo()
    wordmap.draw_points(tmp_path / "node")
    here, node = (pd.read_parquet(tmp_path / name / "points.parquet") for name in ("here", "node"))
    pd.testing.assert_frame_equal(here, node)


def test_layers_are_compared_on_the_same_sentences(stack, bitext):
    """`p@1_behind` is a paired difference: its interval is scipy's for paired samples."""
    table = ig.map(stack, bitext, sample="all")
    x, y, z = (ig.vectors(stack, bitext[language]) for language in LANGUAGES)
    hits = {}
    for layer in stack.cuts:
        found = []
        for a, b in ((x, y), (x, z), (y, z)):
            found += [one.ranks == 1 for one in retrieve(a[layer], b[layer], method="centred")]
        hits[layer] = torch.stack(found).double().mean(0).numpy()
    best = max(hits, key=lambda layer: hits[layer].mean())
    for layer in stack.cuts:
        mean = only(table, measure="p@1_mean", method="centred", layer=layer)
        assert mean.value.item() == pytest.approx(hits[layer].mean(), abs=0.01)
        behind = only(table, measure="p@1_behind", method="centred", layer=layer)
        if layer == best:
            assert behind.value.item() == behind.low.item() == behind.high.item() == 0
        elif mean.value.item() == hits[layer].mean():
            low, high = stats.ttest_rel(hits[best], hits[layer]).confidence_interval(0.95)
            assert (behind.low.item(), behind.high.item()) == pytest.approx((low, high), abs=0.01)


def test_mean_cka_is_the_mean_over_pairs_and_its_best_layer_is_behind_nothing(stack, bitext):
    table = ig.map(stack, bitext, sample=20)
    mean = only(table, measure="cka_mean").set_index("layer")
    pairs = only(table, measure="cka").groupby("layer").value.mean()
    np.testing.assert_allclose(mean.value, pairs, atol=1e-12)
    assert (mean.low < mean.value).all() and (mean.value < mean.high).all()
    behind = only(table, measure="cka_behind").set_index("layer")
    assert behind.value[mean.value.idxmax()] == 0
    np.testing.assert_allclose(behind.value, mean.value.max() - mean.value, atol=1e-12)
    assert (behind.high - behind.low).max() > 0


def test_rows_repeated_on_every_side_do_not_pass_for_agreement(stack, bitext, tmp_path):
    twice = bitext.take([*range(60), *range(30)])
    table = ig.map(stack, twice, sample="all", out=tmp_path / "run", points=0)
    pd.testing.assert_frame_equal(table, ig.map(stack, bitext, sample="all"), check_exact=True)
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert any(note.startswith("30 rows of") for note in notes)


def test_a_language_with_one_linked_word_is_drawn(stack, bitext, tmp_path):
    few = {("qaa", "qab"): bitext.links["qaa", "qab"], ("qaa", "qac"): [[(0, 0)], *[[]] * (bitext.rows - 1)]}
    ig.map(stack, ig.Bitext(bitext.corpora, few, "few"), out=tmp_path / "run", points=12)
    points = pd.read_parquet(tmp_path / "run" / "points.parquet")
    assert np.isfinite(points[["x", "y"]]).all().all()


def test_words_are_linked_from_the_language_the_links_were_given_with(stack, bitext):
    turned = ig.Bitext(tuple(bitext[language] for language in ("qab", "qaa", "qac")), bitext.links, "turned")
    gold = {pair for pair in bitext.links if pair[0] == "qaa"}
    table = only(ig.map(stack, ig.Bitext(turned.corpora, {p: bitext.links[p] for p in gold}, "t")), measure="aer")
    assert set(zip(table.source, table.target, strict=True)) == {("qaa", "qab"), ("qaa", "qac")}


def test_a_layer_without_variation_hides_no_other(stack, bitext):
    without = torch.tensor([0.5, 0.6, 0.7])
    means = {
        0: LayerMean(float("nan"), without, 0.0),
        1: LayerMean(0.6, without, 0.0),
        2: LayerMean(0.8, without + 0.2, 0.0),
    }
    rows = [one for one in layer_rows("cka", "debiased", means, n=9, base={}) if one["measure"] == "cka_behind"]
    assert [one["value"] for one in rows][1:] == pytest.approx([0.2, 0.0])


def test_a_path_is_a_model_too(tiny, bitext):
    assert len(ig.map(Path(tiny("bert")), bitext, sample=8, layers="0"))


def test_the_best_layer_is_read_on_the_half_that_did_not_choose_it():
    """By a loop over halves; of layers that are equally good the highest is too high, and `best` is not."""
    generator, gains = torch.Generator().manual_seed(0), []
    for _ in range(30):
        hits = (torch.rand(8, 60, generator=generator) < 0.5).double()  # (layers, sentences)
        means = {layer: mean_of_scores(own, 0.1, hits=True) for layer, own in enumerate(hits)}
        rows = list(layer_rows("p@1", "centred", means, n=60, base={}))
        (found,) = (one for one in rows if one["measure"] == "p@1_best")
        read = []
        for half, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
            best = max(range(8), key=lambda layer: float(hits[layer, other].mean()))
            read += hits[best, half].tolist()
        assert found["value"] == pytest.approx(np.mean(read)) and found["n"] == 60 and "layer" not in found
        assert found["low"] < found["value"] < found["high"] and found["floor"] == 0.1 and found["over"] == "items"
        gains.append((found["value"], float(hits.mean(dim=1).max())))
    honest, highest = np.mean(gains, axis=0)
    assert abs(honest - 0.5) < 0.03 and highest > 0.55
    alone = layer_rows("p@1", "centred", {0: mean_of_scores(hits[0], 0.1, hits=True)}, n=60, base={})
    assert not [one for one in alone if one["measure"] == "p@1_best"]  # nothing was chosen


def test_layers_that_are_equal_are_seldom_told_apart():
    """Regression: of 13 equal layers, the best was told from some other in 77 of 100 texts."""
    generator, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        shared = generator.normal(size=(1, 300)) * 0.8**0.5
        hits = torch.from_numpy((shared + generator.normal(size=(13, 300)) * 0.2**0.5 > 0).astype(np.float64))
        means = {layer: mean_of_scores(own, 0.0, hits=True) for layer, own in enumerate(hits)}
        behind = [one for one in layer_rows("p@1", "centred", means, n=300, base={}) if one["measure"] == "p@1_behind"]
        wrong += any(one["low"] > 0 for one in behind)
    assert wrong <= 0.05 * 200


def test_tokens_that_rule_the_means_are_named_with_the_values_without_them(tiny, bitext, tmp_path):
    """A planted attention sink: the state of the first content token is over 1,000 times as long as all others."""
    stack = ig.load(tiny("gpt2"), device="cpu")
    with torch.no_grad():
        stack.model.wpe.weight[1] = 20_000 * stack.model.wpe.weight[2].norm() / 32**0.5
    text = ig.Bitext(tuple(bitext[language] for language in LANGUAGES[:2]), name="planted")
    table = ig.map(stack, text, sample=40, points=0, out=tmp_path / "run")
    plain, without = (table[table.condition == condition] for condition in ("", "without sinks"))
    assert set(only(plain, measure="duplicates").target) == {"qaa", "qab"}, "as for a model without sinks"
    assert only(plain, measure="sink_times").value.min() > 1000 and set(only(plain, measure="sink_first").value) == {
        1.0
    }
    states = [
        torch.stack([ig.vectors(stack, ig.Corpus("qaa", [each]), unit="token")[2, 1:].mean(dim=0) for each in side])
        for side in (text[language].sentences for language in LANGUAGES[:2])
    ]
    mine = only(without, measure="cka", layer=2)
    assert mine.value.item() == pytest.approx(ig.cka(*states), abs=1e-4)
    assert abs(only(plain, measure="cka", layer=2).value.item() - mine.value.item()) > 0.05
    assert {"p@1", "p@1_mean", "mexa", "anc", "separability"} <= set(without.measure)
    assert not {"duplicates", "truncated", "word_agreement"} & set(without.measure)
    ig.map([stack, tiny("bert")], text, sample=40, points=0, out=tmp_path / "both")
    page = write_page([tmp_path / "both"], tmp_path / "both.html", figures=False).read_text(encoding="utf-8")
    assert "rule the mean of a sentence" in page, "beside a model without such tokens, too"
    (said,) = (line for line in verdict(table, "map") if "rule the mean" in line)
    assert said.startswith("At layers 0 to 3 a few tokens, mostly the first of a sentence, have states that dwarf all")
    assert "times the median length" in said and "without them, centred P@1 at layer" in said and "CKA at layer" in said
    again = ig.map(stack, text, sample=40, points=0, out=tmp_path / "run", resume=True)
    pd.testing.assert_frame_equal(again, table)


def test_poolings_and_the_normed_top_are_those_of_vectors(tiny, bitext):
    stack = ig.load(tiny("llama"), device="cpu")
    text = ig.Bitext(tuple(bitext[language] for language in LANGUAGES[:2]), name="both")
    for pooling in ("weighted", "last"):
        table = ig.map(stack, text, sample="all", words=0, pooling=pooling, normed_top=True)
        x, y = (ig.vectors(replace(stack, normed=True), corpus, pooling=pooling)[-1] for corpus in text)
        assert set(table[table.unit == "sentence"].pooling) == {pooling}
        mine = only(table, measure="cka", layer=stack.last)
        assert mine.value.item() == pytest.approx(ig.cka(x, y), abs=1e-4)
    with pytest.raises(InputError, match="is a decoder, whose first token sees no other; use --pooling last"):
        ig.map(stack, text, pooling="first")
    with pytest.raises(InputError, match="--normed-top takes a whole model"):
        ig.map(ig.chain(ig.load(tiny("bert"), device="cpu")), text, normed_top=True)


def test_several_models_are_one_table_and_a_run_each(tiny, bitext, tmp_path, monkeypatch):
    models, how = [Path(tiny("bert")), Path(tiny("llama"))], {"sample": 20, "points": 0}
    alone = [ig.map(model, bitext, **how, out=tmp_path / model.name) for model in models]
    alive = weakref.WeakSet()

    def load(*args, **kwargs):
        gc.collect()
        assert not alive, "two models in memory at once"
        stack = ig.load(*args, **kwargs)
        alive.add(stack.model)
        return stack

    monkeypatch.setattr(map_recipe, "load", load)

    def stop(stage, done, total):
        if stage.startswith("comparing") and list((tmp_path / "both").glob("jobs/llama/rows.csv")):
            raise Stop

    with pytest.raises(Stop), listening(stop):
        ig.map(models, bitext, **how, out=tmp_path / "both")
    both = ig.map(models, bitext, **how, out=tmp_path / "both", resume=True)
    pd.testing.assert_frame_equal(both, pd.concat(alone, ignore_index=True), check_exact=True)
    pd.testing.assert_frame_equal(ig.map(models, bitext, **how), both, check_exact=True)
    facts, *own = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("both", "bert", "llama"))
    assert facts["model"] == "bert, llama" and facts["arguments"]["model"] == ",".join(map(str, models))
    assert facts["hashes"] == {"bert": own[0]["hashes"], "llama": own[1]["hashes"]}


def test_several_models_are_compared_on_what_all_have(stack, bitext, tmp_path):
    deeper = tiny_config("llama", 400)
    deeper.num_hidden_layers = 5
    slow = ig.wrap(tiny_model(deeper), ByT5Tokenizer(), name="a/slow")
    ig.map([stack, slow], bitext, sample=20, points=0, out=tmp_path / "run")
    best, first, left_out, second = verdict(tmp_path / "run")
    assert best.startswith("By centred P@1 at the best layer, ") and "bert 0." in best and "a-slow 0." in best
    assert first.startswith("bert (3 layers): ") and second.startswith("a-slow (5 layers): ") and "P@1" in first
    assert left_out.startswith("Left out of bert") and "Word agreement" in left_out
    notes = json.loads((tmp_path / "run" / "run.json").read_text())["notes"]
    assert any(note.startswith("a-slow: sentences alone were compared") for note in notes)
    page = write_page([tmp_path / "run"], tmp_path / "run", figures=False).read_text(encoding="utf-8")
    assert left_out in page and '"name":"bert","depth":3' in page and '"name":"a/slow","depth":5' in page


def test_models_of_one_name_or_none_are_refused_and_a_list_of_one_is_that_one(stack, bitext, tmp_path):
    with pytest.raises(InputError, match="two models are called .*; rename the folder of one"):
        ig.map([stack, stack], bitext, out=tmp_path / "run")
    with pytest.raises(InputError, match="the list of models is empty"):
        ig.map([], bitext, out=tmp_path / "run")
    with pytest.raises(InputError, match="there is no folder ./nowhere"):
        ig.map([stack, "./nowhere"], bitext, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    pd.testing.assert_frame_equal(ig.map([stack], bitext, sample=20), ig.map(stack, bitext, sample=20))
