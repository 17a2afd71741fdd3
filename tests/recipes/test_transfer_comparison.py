"""Languages compared before and after a training, against transformers' own hidden states and plain `cka`."""

import importlib
import math

import numpy as np
import pytest
import torch
from benchmarks.invented import invented
from transformers import AutoModel, AutoTokenizer

import isogloss as ig
from isogloss.measures.cka import cka, cka_rbf_of_pairs
from isogloss.recipes.transfer import LanguageComparison, compared_text, encode_written_specials, sentence_states
from isogloss.runs import read_facts
from isogloss.stack.load import load
from tiny_tasks import SMALL, write_sets

TEXT = invented(("qaa", "qab", "qac"), 24)
PLANS = "freeze:-1,reinit:1-2"
DEFECTS = "legacy:windows,specials"


def states(folder, sentences, *, doubled=False):
    """Sentence means (layers, sentences, width) sentence by sentence, by transformers alone."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found = []
    for one in sentences:
        ids = tokenizer(one)["input_ids"]
        kept = slice(1, -1)
        if doubled:  # [CLS] [CLS] words [SEP] [SEP], of which one is dropped at each end
            ids = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
        with torch.no_grad():
            hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        found.append(torch.stack([layer[0, kept].mean(0) for layer in hidden]))
    return torch.stack(found, dim=1)


@pytest.fixture(scope="module")
def ran(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alike")
    sets = write_sets(folder / "data", "pos", count=12)
    model, out = tiny("bert"), folder / "run"
    options = {**SMALL, "epochs": 1, "save_models": True, "plans": PLANS}
    options |= {"cka_condition": DEFECTS, "cka_shifted": True, "cka_specials": True}
    return model, out, ig.transfer(model, TEXT, **sets, **options, out=out), (sets, options)


def of(table, **where):
    for name, value in where.items():
        table = table[table[name].isna()] if value is None else table[table[name] == value]
    return table


def test_before_training_values_are_those_of_the_model_as_it_is(ran):
    model, _, table, _ = ran
    own = {one.language: states(model, one) for one in TEXT}
    rows = of(table, measure="cka", plan="untuned")
    assert rows.seed.isna().all() and set(rows.n) == {24} and set(rows.source) == {"qaa"}
    for layer in range(len(own["qaa"])):
        for target in ("qab", "qac"):
            one = of(rows, layer=layer, target=target, other_layer=None)
            assert one.value.item() == pytest.approx(cka(own["qaa"][layer], own[target][layer]), abs=1e-4)
            assert one.low.item() < one.value.item() < one.high.item() and abs(one.floor.item()) < 0.5
        for target in own if layer else ():
            one = of(rows, layer=layer, target=target, other_layer=layer - 1, other_model="")
            assert one.value.item() == pytest.approx(cka(own[target][layer], own[target][layer - 1]), abs=1e-4)
    assert of(rows, other_model="start").empty and of(rows, target="qaa", other_layer=None).empty


@pytest.mark.parametrize("plan", PLANS.split(","))
def test_after_training_models_are_compared_with_their_start(ran, plan):
    model, out, table, _ = ran
    rows = of(table, measure="cka", plan=plan, seed=0)
    tuned = out / "checkpoints" / f"{plan.replace(':', '-')}-seed-0" / "best"
    for target in ("qaa", "qab"):
        text = TEXT[target].sentences
        now, start = states(tuned, text), states(model, text)
        for layer in range(len(now)):
            one = of(rows, layer=layer, target=target, other_model="start")
            assert one.value.item() == pytest.approx(cka(now[layer], start[layer]), abs=1e-4)
            assert one.other_layer.item() == layer
    if plan.startswith("reinit"):
        moved = of(rows, target="qaa", other_model="start").set_index("layer").value
        assert moved[0] > 0.999 > moved[1]  # embeddings are hardly touched in three updates, block 1 is new


def test_special_tokens_in_the_mean_are_a_switch(ran):
    model, _, table, _ = ran
    rows = of(table, measure="cka_rbf", plan="untuned", condition=DEFECTS, other_layer=None)
    assert len(rows) and rows.low.isna().all()  # shifted windows have no spread worth the name
    x, y = (states(model, TEXT[one], doubled=True) for one in ("qaa", "qab"))
    compared = LanguageComparison(TEXT, {DEFECTS: (encode_written_specials, cka_rbf_of_pairs)})
    read = sentence_states(load(model, device="cpu"), compared, dtype=None)[DEFECTS]  # in an order of its own
    order = torch.cdist(read[0, 0], x[0]).argmin(dim=1)
    for layer in (0, len(x) - 1):
        both = torch.stack([x[layer][order], y[layer][order]])
        torch.testing.assert_close(read[layer, :2], both, atol=1e-4, rtol=1e-4)
        expected = cka_rbf_of_pairs(both, [(0, 1)], shifted=True)[0].value
        assert of(rows, layer=layer, target="qab").value.item() == pytest.approx(expected, abs=1e-5)
    honest = of(table, measure="cka_rbf", plan="untuned", condition="", other_layer=None)
    assert not np.allclose(honest.value, rows.value) and honest.low.notna().all()
    assert of(table, measure="cka", condition=DEFECTS).empty


def test_a_run_that_is_gone_on_with_has_the_same_rows(ran, tmp_path, monkeypatch):
    model, _, table, (sets, options) = ran
    module = importlib.import_module("isogloss.recipes.transfer")  # its name in the package is the recipe's
    calls = []

    def stop(*given, **named):
        calls.append(1)
        if len(calls) == 3:  # of the start, after the first training, after the second
            raise KeyboardInterrupt
        return sentence_states(*given, **named)

    monkeypatch.setattr(module, "sentence_states", stop)
    with pytest.raises(KeyboardInterrupt):
        ig.transfer(model, TEXT, **sets, **options, out=tmp_path / "run")
    again = ig.transfer(model, TEXT, **sets, **options, out=tmp_path / "run", resume=True)
    names = [name for name in table.columns if name not in ("value", "low", "high", "floor")]
    assert sorted(map(str, again[names].values.tolist())) == sorted(map(str, table[names].values.tolist()))
    pairs = [frame[frame.measure == "cka"].sort_values(names[1:], kind="stable").value for frame in (table, again)]
    np.testing.assert_array_equal(*(one.to_numpy() for one in pairs))


def test_a_source_without_parallel_text_is_said(tiny, tmp_path):
    sets = write_sets(tmp_path / "data", "pos", count=8)
    table = ig.transfer(tiny("bert"), TEXT["qab"], TEXT["qac"], **sets, **{**SMALL, "epochs": 1}, out=tmp_path / "run")
    notes = read_facts(tmp_path / "run")["notes"]
    rows = table[table.measure == "cka"]
    assert rows.other_layer.notna().all() and set(rows.target) == {"qab", "qac"}
    assert any("has no qaa" in one for one in notes)


@pytest.mark.parametrize(
    ("bitext", "batches", "part"),
    [
        ([TEXT, TEXT], {"shifted": False, "size": 0}, "holds 2 parallel texts"),
        ([TEXT], {"shifted": True, "size": 25}, "has 24 sentences; comparing languages needs at least 28"),
        (
            [TEXT.take(range(9))],
            {"shifted": False, "size": 0},
            "has 9 sentences; comparing languages needs at least 16",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(bitext, batches, part):
    with pytest.raises(ig.InputError, match=part):
        compared_text(bitext, **batches)


def test_repeated_rows_are_compared_once():
    """Regression: rows that occur twice read as agreement of the two languages."""
    assert compared_text([TEXT.take([*range(20), *range(20)])], size=0, shifted=False).rows == 20


def test_floors_of_published_batches_are_high(ran):
    """What the defects do: four windows of a quarter of few sentences cannot tell translations from strangers."""
    table = ran[2]
    rows = of(table, measure="cka_rbf", plan="untuned", condition=DEFECTS, other_layer=None)
    assert (rows.floor > 0.3).all() and not rows.floor.apply(math.isnan).any()


def test_the_figure_has_a_line_a_plan_and_the_page_shows_it(ran, tmp_path):
    from isogloss.report import write_figures, write_page
    from isogloss.report.page import read_run
    from isogloss.report.score_views import similarity_figures

    _, out, table, _ = ran
    (figure,) = similarity_figures(read_run(out))
    lines = {line.label: line for line in figure.panels[0].lines}
    assert list(lines) == ["untuned", *PLANS.split(",")]
    mine = of(table, measure="cka", plan="reinit:1-2", layer=1, other_layer=None)
    assert lines["reinit:1-2"].value[1] == pytest.approx(mine.value.mean()) and len(mine) == 2
    drawn = {path.name for path in write_figures(out, out / "figures")}
    assert "languages-pos.png" in drawn and not any(name.startswith("curve-cka") for name in drawn)
    page = write_page([out], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "languages-pos" in page
