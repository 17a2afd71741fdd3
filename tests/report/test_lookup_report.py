"""The report of words or sentences that were looked up: verdict, figure, table and page."""

from pathlib import Path

import pandas as pd
import pytest
from benchmarks.invented import invented

import isogloss as ig
from isogloss.report import score_views, verdict as verdict_of, write_figures, write_page
from isogloss.report.curves import RunFolder
from isogloss.report.page import read_run, render, view_of
from isogloss.report.score_views import TEXTS, lookups
from isogloss.runs.table import frame, row
from tiny_pretraining import write_lexicons, write_texts

BASE = {"task": "lexicon", "data": "en-nl.test.txt", "source": "en", "target": "nl", "seed": 0, "model": "mini"}


def verdict(rows):
    return verdict_of(rows, "lexicon")


def p(value, way, layer=None, unit="word", **more):
    near = {"low": value - 0.05, "high": value + 0.05, "floor": 0.0001, "n": 400}
    return row(
        "p@1", value, **{**BASE, **near, "condition": way, "method": "csls", "unit": unit, "layer": layer, **more}
    )


def rows():
    found = [p(0.2 + 0.1 * layer, "procrustes+iterative", layer) for layer in range(3)]
    found += [p(0.1, "raw", layer) for layer in range(3)]
    found += [{**p(0.9, "raw", 1), "method": "cosine"}]  # by another method: not what is led with
    found += [p(0.6, "procrustes+iterative", unit="piece"), p(0.3, "procrustes+iterative", model="static: PPMI")]
    behind = [(0, 0.2, 0.1, 0.3), (1, 0.1, -0.1, 0.3), (2, 0.0, 0.0, 0.0)]
    found += [
        row(
            "p@1_behind",
            value,
            low=low,
            high=high,
            layer=layer,
            condition="procrustes+iterative",
            method="csls",
            unit="word",
            **BASE,
        )
        for layer, value, low, high in behind
    ]
    found += [row("coverage", 0.25, n=1600, condition="test", unit="word", **BASE)]
    return frame([*found, row("identical", 0.1, n=400, condition="test", unit="word", **BASE)])


def test_the_verdict_names_layer_way_baseline_and_coverage():
    said = verdict(rows())
    assert said[0] == (
        "Most translations are found at layer 2 with procrustes+iterative: 0.400 [0.350, 0.450] of 400 words have "
        "theirs nearest of all by CSLS, where chance gives 0.0001; layers 1 and 2 cannot be told apart."
    )
    assert said[1] == "The best layers of the other ways: raw 0.100 [0.050, 0.150] at layer 0."
    assert "embedding matrix 0.600" in said[2] and "static: PPMI, words 0.300" in said[2]
    assert (
        said[3]
        == "25% of the 1,600 words of the test are known; 10% of these have a translation that is written alike."
    )


def test_a_baseline_is_given_with_its_own_best_way():
    static = [p(value, way, model="static: PPMI") for value, way in ((0.0, "raw"), (0.2, "ridge"))]
    found = frame([p(0.5, "raw", 0), p(0.3, "ridge", 0), *static])
    said = verdict(found)
    assert "Beside it, each with its best way: static: PPMI, words 0.200 [0.150, 0.250] with ridge (n = 400)." in said
    (alone,) = lookups(frame(static))
    assert alone.beside == [], "it is what is led with"


def test_the_correlation_with_cka_is_said_of_the_best_way():
    base = {**BASE, "task": "rotate", "other_model": "two"}
    found = [{**p(value, way, layer), "task": "rotate", "method": "cosine"} for way, value in
             (("raw", 0.1), ("procrustes", 0.6)) for layer in range(5)]  # fmt: skip
    about = {"high": 0.9, "n": 5, "method": "cosine", "unit": "sentence", **base}
    found += [row("cka_retrieval", value, low=low, condition=way, **about)
              for way, value, low in (("raw", 0.4, 0.1), ("procrustes", 0.8, 0.7))]  # fmt: skip
    said = [line for line in verdict(frame(found)) if "correlation" in line]
    assert said == [
        "Over 5 layers, CKA before any map and P@1 with procrustes, the mean of both directions, have a correlation of "
        "0.800 [0.700, 0.900]."
    ]


def test_several_pairs_are_named():
    both = pd.concat([rows(), rows().assign(target="fr", data="en-fr.test.txt")])
    assert len(lookups(both)) == 2
    said = verdict(both)
    assert said[0].startswith("English to Dutch: Most") and said[4].startswith("English to French: Most")


def page_of(folder):
    run = read_run(folder)
    return render([run], [view_of(run)])


@pytest.fixture
def run(tiny, tmp_path):
    files, (train, test) = write_texts(tmp_path / "text", sentences=40), write_lexicons(tmp_path)
    lexicons = {"train_lexicon": train, "test_lexicon": test, "static": "train"}
    ig.lexicon(tiny("bert"), text=files, **lexicons, min_count=1, levels="word", device="cpu", out=tmp_path / "run")
    return tmp_path / "run"


def test_a_run_has_its_figure_table_and_page(run):
    names = {path.name for path in write_figures(run, run / "figures")}
    assert names == {f"lookup-qaa-qab-qaa-qab-test-txt.{kind}" for kind in ("png", "svg")}
    page = page_of(run)
    assert "isogloss lookup" in page and "Translations found, by layer and way (words)" in page
    assert "layer 3" in page and "static: PPMI, words" in page and '"name":"lookup-qaa-qab-qaa-qab-test-txt"' in page
    assert 'id="word-map"' not in page
    assert write_page([run], run / "report.html", figures=False).is_file()


def alike(form, layer, value, text="train", **more):
    ends = {"low": value - 0.02, "high": value + 0.02, "floor": 0.05, "n": 900}
    base = {"task": "rotate", "data": "t.tsv", "source": "en", "target": "en2", "model": "one", "other_model": "two"}
    return row(form, value, layer=layer, condition=text, seed=0, **{**base, **ends, **more})


def likeness():
    values = {"cka": (0.3, 0.6, 0.5), "cka_biased": (0.4, 0.7, 0.6), "cka_uncentred": (0.9, 0.9, 0.9)}
    both = [("test", -0.1), ("train", 0.0)]
    return frame([alike(form, layer, value + move, text) for text, move in both for form, some in values.items()
                  for layer, value in enumerate(some)])  # fmt: skip


def test_cka_of_two_spaces_is_said_on_the_text_learned_from():
    assert verdict(likeness()) == [
        "Before any map the two spaces are most alike at layer 1: CKA 0.600 [0.580, 0.620], where chance gives 0.050; "
        "at layer 2, the last read, 0.500 [0.480, 0.520] (n = 900, the text learned from)."
    ]
    several = pd.concat([likeness(), likeness().assign(target="fr")])
    assert [line.split(":")[0] for line in verdict(several)] == ["English and English 2", "English and French"]
    assert score_views.lookup_view(RunFolder(Path(), {}, likeness())).facts == [
        ("best layer", "1", "of 2"),
        ("CKA", "0.600", ""),
        ("by chance", "0.050", ""),
    ]


def test_a_text_learned_from_comes_first_and_is_named(tiny, tmp_path):
    text = invented(("qaa", "qab"), sentences=60, seed=3)
    given = {"train_bitext": text.take(range(20, 60)), "mappings": "raw", "layers": "0,2", "device": "cpu"}
    ig.rotate(tiny("bert"), text.take(range(20)), **given, out=tmp_path / "run")
    drawn = write_figures(tmp_path / "run", tmp_path / "run" / "figures")
    run = read_run(tmp_path / "run")
    view = score_views.lookup_view(run)
    assert [table.title.rpartition(", ")[2] for table in view.tables[2:]] == list(TEXTS.values())
    names = [figure.name for figure in view.figures[-2:]]
    assert [name.rpartition("-")[2] for name in names] == list(TEXTS)
    assert {f"{name}.png" for name in names} <= {path.name for path in drawn}


def test_a_run_of_cka_alone_has_tables_figures_and_a_page(tiny, tmp_path):
    text = invented(("qaa", "qab"), sentences=24, seed=3)
    ig.rotate(tiny("bert"), text, mappings="none", layers="0,2", device="cpu", out=tmp_path / "run")
    names = {path.stem for path in write_figures(tmp_path / "run", tmp_path / "run" / "figures")}
    assert {name.rpartition("-")[0].partition("-qaa-qab")[0] for name in names} == {"alike"} and len(names) == 1
    page = page_of(tmp_path / "run")
    assert "How alike the two spaces are, by layer" in page and "as printed, not centred" in page
    assert "Before any map the two spaces" in page and '"name":"alike-qaa-qab' in page


def test_the_heading_names_both_models(tiny, tmp_path):
    text = invented(("qaa", "qab"), sentences=40, seed=3)
    how = {"train_bitext": text.take(range(20, 40)), "layers": "1", "device": "cpu"}
    ig.rotate(tiny("bert"), text.take(range(20)), out=tmp_path / "one", **how)
    ig.rotate(tiny("bert"), text.take(range(20)), other=str(tiny("roberta")), out=tmp_path / "two", **how)
    one, two = (page_of(tmp_path / name) for name in ("one", "two"))
    names = [Path(tiny(family)).name for family in ("bert", "roberta")]
    assert f"<h1>{names[0]}</h1>" in one and f"<h1>{names[0]} and {names[1]}</h1>" in two
