"""The reports of scores: what was looked up, and tasks that were trained in one language and tested in others."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.invented import invented

import isogloss as ig
from isogloss.report import draw_matplotlib, score_views, verdict as verdict_of, write_figures, write_page
from isogloss.report.curves import RunFolder
from isogloss.report.draw_matplotlib import drawing, write_figure
from isogloss.report.page import read_run, read_runs, render, view_of
from isogloss.report.score_views import TEXTS, _course_sentences, lookups, results, transfer_view
from isogloss.report.training_view import panels, step_figures
from isogloss.runs.run import start
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
    assert "How alike the two spaces are, by layer" in page and "biased, not centred" in page
    assert "Before any map the two spaces" in page and '"name":"alike-qaa-qab' in page


def test_the_heading_names_both_models(tiny, tmp_path):
    text = invented(("qaa", "qab"), sentences=40, seed=3)
    how = {"train_bitext": text.take(range(20, 40)), "layers": "1", "device": "cpu"}
    ig.rotate(tiny("bert"), text.take(range(20)), out=tmp_path / "one", **how)
    ig.rotate(tiny("bert"), text.take(range(20)), other=str(tiny("roberta")), out=tmp_path / "two", **how)
    one, two = (page_of(tmp_path / name) for name in ("one", "two"))
    names = [Path(tiny(family)).name for family in ("bert", "roberta")]
    assert f"<h1>{names[0]}</h1>" in one and f"<h1>{names[0]} and {names[1]}</h1>" in two


def run_of(rows):
    return RunFolder(Path(), {"command": "transfer"}, rows)


def transfer_verdict(rows):
    return verdict_of(rows, "transfer")


def transfer_facts(rows):
    return transfer_view(run_of(rows[rows.step.isna()])).facts


def score_tables(rows):
    return transfer_view(run_of(rows)).tables


def made(*, seeds=(0,), plans=("freeze:-1", "freeze:8")):
    """Rows of a run: English at 0.8, German at 0.6 and 0.7, Dutch at 0.5, and the oracle a little above."""
    where = {"model": "mini", "task": "nli", "source": "en"}
    found = [row("accuracy", 0.1, n=9, target="en", data="dev", step=3, seed=0, plan=plans[0], **where)]
    for number, plan in enumerate(plans):
        scores = {"en": 0.8, "de": 0.6 + 0.1 * number, "nl": 0.5}
        for selection, more in (("", 0.0), ("oracle", 0.05)):
            for seed in [*seeds, *([None] if len(seeds) > 1 else [])]:
                at = {**where, "plan": plan, "selection": selection, "seed": seed}
                for target, value in scores.items():
                    value = value + more + 0.01 * (seed or 0)
                    found.append(row("accuracy", value, low=value - 0.02, high=value + 0.02, n=90, target=target, **at))
                mean = (scores["de"] + scores["nl"]) / 2 + more
                found.append(row("accuracy", mean, low=mean - 0.01, high=mean + 0.01, target="others", **at))
                gap = {"unit": "accuracy", "target": "others", **at}
                found.append(row("gap", 0.8 - mean, low=0.8 - mean - 0.01, high=0.8 - mean + 0.01, **gap))
    return frame(found)


def test_each_plan_has_a_sentence_and_the_best_for_the_others_is_named():
    assert transfer_verdict(made()) == [
        "freeze:-1: accuracy 0.800 [0.780, 0.820] in English, 0.550 [0.540, 0.560] in the others, a gap of 0.250 "
        "[0.240, 0.260] (German 0.600, Dutch 0.500).",
        "freeze:8: accuracy 0.800 [0.780, 0.820] in English, 0.600 [0.590, 0.610] in the others, a gap of 0.200 "
        "[0.190, 0.210] (German 0.700, Dutch 0.500).",
        "The others score highest under freeze:8: 0.600 [0.590, 0.610]; each plan has one seed.",
    ]  # fmt: skip


def test_of_plans_that_score_alike_the_facts_name_the_one_that_the_verdict_names():
    rows = made(plans=("freeze:-1", "freeze:0"))
    rows["value"] = rows.value.where(rows.target != "others", 0.5)
    assert transfer_verdict(rows)[-1].startswith("The others score highest under freeze:-1: 0.500 [")
    assert transfer_verdict(rows)[-1].endswith("; the interval of freeze:0 reaches into that; each plan has one seed.")
    assert transfer_facts(rows)[0] == ("best plan for the others", "freeze:-1", "")


def test_plans_whose_intervals_reach_into_the_best_one_s_are_named_or_counted():
    def last(*scores):
        rows = made(plans=[f"freeze:{number}" for number in range(len(scores))])
        means = (rows.target == "others") & (rows.measure == "accuracy")
        for number, score in enumerate(scores):
            at = means & (rows.plan == f"freeze:{number}")
            rows.loc[at, ["value", "low", "high"]] = [score, score - 0.01, score + 0.01]
        return transfer_verdict(rows)[-1]

    said, seed = "The others score highest under freeze:0: 0.500 [0.490, 0.510]", "; each plan has one seed."
    assert last(0.5, 0.475, 0.479) == f"{said}{seed}"
    assert last(0.5, 0.481, 0.479) == f"{said}; the interval of freeze:1 reaches into that{seed}"
    assert last(0.5, 0.481, 0.49, 0.4) == f"{said}; the intervals of freeze:1 and freeze:2 reach into that{seed}"
    assert last(0.5, *[0.49] * 4) == f"{said}; the intervals of 4 more plans reach into that{seed}"


def test_a_plan_does_not_reach_into_itself_on_other_data():
    rows = made()
    again = rows[rows.target == "others"].assign(data="other")
    again[["value", "low", "high"]] -= 0.005
    assert transfer_verdict(pd.concat([rows, again]))[-1] == (
        "The others score highest under freeze:8: 0.600 [0.590, 0.610]; each plan has one seed."
    )


def test_a_plan_that_was_still_improving_at_its_last_update_is_said_to_be_that():
    at = {"model": "mini", "task": "nli", "source": "en", "target": "en", "seed": 0}
    course = [row("accuracy", 0.1 * step, step=step, data="dev", plan="freeze:-1", **at) for step in (3, 6, 9)]
    chosen = [row("chosen_step", step, plan=plan, **at) for plan, step in (("freeze:-1", 9), ("freeze:8", 6))]
    said = transfer_verdict(pd.concat([made(), frame([*course, *chosen])]))
    assert said[-1] == (
        "Under freeze:-1 the score on the development set was highest after the last update; more epochs or a higher "
        "rate may raise it."
    )
    once = pd.concat([made(), frame([*course[:1], row("chosen_step", 3, plan="freeze:8", **at)])])
    assert "last update" not in " ".join(transfer_verdict(once)), "scored once, so nothing was chosen"


def test_plans_of_other_lengths_end_at_their_own_last_update():
    at = {"model": "mini", "task": "nli", "source": "en", "target": "en", "seed": 0}
    rows = []
    for plan, steps in (("freeze:-1", (5, 10)), ("freeze:8", (10, 20, 30))):
        rows += [row("accuracy", 0.01 * step, step=step, data="dev", plan=plan, **at) for step in steps]
        rows.append(row("chosen_step", steps[-1], plan=plan, **at))
    said = transfer_verdict(pd.concat([made(), frame(rows)]))
    assert said[-1].startswith(
        "Under freeze:-1 and freeze:8 the score on the development set was highest after the last"
    )


def test_a_change_over_a_tuning_is_said_with_what_it_is_judged_by():
    """The intervals of the readings overlap, and the change on the same examples is clear."""
    hard, rows = np.linspace(-0.02, 0.02, 20), []
    for seed, step in product(range(3), (0, 100)):
        value = 0.6 + (0.03 + 0.001 * seed) * (step > 0)
        at = {"model": "m", "task": "nli", "source": "en", "plan": "p", "step": step, "seed": seed}
        for target in ("en", "nl", "others"):
            parts = value + hard + 0.001 * np.cos(np.arange(20) + seed) * (step > 0)
            own = {**at, "target": target, "data": "" if target == "others" else "test"}
            rows.append(row("accuracy", value, low=value - 0.05, high=value + 0.05, parts=parts, **own))
            rows += [row("gap", 0.1, unit="accuracy", **own)] if target != "en" else []
    (said,) = _course_sentences(RunFolder(Path(), {}, frame(rows)))
    assert (
        "rose in the others (from 0.600 [0.550, 0.650] at step 0 to 0.631 [0.581, 0.681] at step 100, a change of"
        in said
    )
    assert "+0.031 [" in said and "on the same items" in said


def test_the_loss_of_several_plans_is_not_called_that_of_other_languages():
    where = {"model": "mini", "task": "nli", "source": "en", "seed": 0, "n": 9}
    rows = [
        row(measure, 0.5, target=target, data=data, step=step, plan=plan, **where)
        for measure, target, data in (("loss", "en", "train"), ("accuracy", "de", "test"))
        for plan in ("freeze:-1", "freeze:0")
        for step in (5, 10)
    ]
    titles = [(panel.measure, panel.kind) for panel in panels(run_of(frame(rows)))]
    assert ("loss", "by plan") in titles and ("accuracy", "other languages, by plan") in titles


def test_two_sets_of_a_language_are_told_apart():
    rows = made(plans=("freeze:-1",))
    again = rows[(rows.target == "nl") & rows.step.isna()]
    rows = pd.concat([rows.assign(data=rows.data.where(rows.target != "nl", "sick")), again.assign(data="taiga")])
    assert "(German 0.600, Dutch (sick) 0.500, Dutch (taiga) 0.500)." in transfer_verdict(rows)[0]


def test_curves_over_the_steps_do_not_mix_a_development_set_with_tests_or_the_source_with_others():
    where = {"model": "mini", "task": "nli", "source": "en", "plan": "freeze:-1", "seed": 0, "n": 9}
    scores = {("en", "dev"): 0.9, ("en", "test"): 0.7, ("de", "test"): 0.6, ("nl", "test"): 0.4}
    rows = [
        row("accuracy", value - 0.1 * (step == 5), target=target, data=data, step=step, **where)
        for step in (5, 10)
        for (target, data), value in scores.items()
    ]
    (panel,) = panels(run_of(frame(rows)))
    ends = {line.code: line.last.value for line in panel.lines}
    assert ends == pytest.approx({"others": 0.5, "dev, en": 0.9, "test, en": 0.7, "de": 0.6, "nl": 0.4})
    assert panel.lead is not None and panel.lead.code == "others" and panel.lead.members == 2
    (figure,) = step_figures(run_of(frame(rows)))
    lines = figure.panels[0].lines
    assert [line.label for line in lines[:2]] == ["others", "dev, English"]
    looks = [(line.hue, line.dash) for line in lines]
    assert len(set(looks)) == len(looks) and looks[1][0] == looks[2][0], "both sets of English have its colour"


def with_floors(rows):
    return rows.assign(floor=(rows.measure == "accuracy").map({True: 0.3, False: float("nan")}))


def test_chance_stands_beside_the_others_and_in_the_facts():
    rows = with_floors(made())
    assert "0.550 [0.540, 0.560] in the others, where chance gives 0.300, a gap of 0.250" in transfer_verdict(rows)[0]
    assert transfer_facts(rows) == [
        ("best plan for the others", "freeze:8", ""), ("in the language trained in", "0.800", ""),
        ("in the others", "0.600", ""), ("by chance", "0.300", ""),
    ]  # fmt: skip
    assert len(transfer_facts(made(plans=("freeze:-1",)))) == 2


def test_a_table_has_a_line_a_plan_and_one_for_chance():
    (table,) = score_tables(with_floors(made(seeds=(0, 1))))
    assert table.title == "Accuracy, nli from English"
    assert table.columns == [
        "plan", "English", "German", "Dutch", "mean of the others", "gap of the others", "relative gap"
    ]  # fmt: skip
    assert table.rows == [
        ["freeze:-1", "0.800 [0.780, 0.820]", "0.600", "0.500", "0.550 [0.540, 0.560]", "0.250 [0.240, 0.260]", "–"],
        ["freeze:8", "0.800 [0.780, 0.820]", "0.700", "0.500", "0.600 [0.590, 0.610]", "0.200 [0.190, 0.210]", "–"],
        ["chance", "0.300", "0.300", "0.300", "0.300", "–", "–"],
    ]
    assert "t intervals over seeds" in table.notes[0] and "of one seed" in score_tables(made())[0].notes[0]
    lost = row("relative_gap", float("nan"), model="mini", task="nli", source="en", target="others", plan="freeze:8")
    (table,) = score_tables(pd.concat([made(), frame([{**lost, "unit": "accuracy", "seed": 0}])]))
    assert table.rows[1][-1] == "–"
    two = score_tables(pd.concat([made(), made().assign(model="other")]))
    assert [one.title for one in two] == ["mini, Accuracy, nli from English", "other, Accuracy, nli from English"]


def test_the_page_has_the_scores_and_counts_no_language_called_others(tmp_path):
    run = start(tmp_path / "run", {"command": "transfer", "model": "mini"})
    run.append(with_floors(made()).to_dict("records"))
    run.finish()
    page = write_page([tmp_path / "run"], tmp_path / "page.html", figures=False).read_text(encoding="utf-8")
    assert "Scores, by plan and language" in page and page.count('"name":"transfer-nli"') == 1
    assert "English, German, Dutch. Text:" in page and "<dt>languages</dt><dd>3</dd>" in page
    assert "what is lost in transfer" in page  # the gap is explained


def test_models_of_one_table_have_figures_of_their_own(tmp_path):
    run = start(tmp_path / "run", {"command": "sweep", "model": "mini, other", "arguments": {"recipe": "transfer"}})
    run.append(pd.concat([made(), made().assign(model="other")]).to_dict("records"))
    run.finish()
    assert [run.path for run in read_runs(tmp_path / "run")] == [tmp_path / "run"]
    names = {path.name for path in write_figures(tmp_path / "run", tmp_path / "figures")}
    assert {"transfer-nli-en-mini.png", "transfer-nli-en-other.png"} <= names


def test_maps_of_a_sweep_are_shown_as_the_runs_they_are(tmp_path):
    facts = {"command": "sweep", "model": "", "arguments": {"recipe": "map"}}
    run = start(tmp_path / "run", facts)
    assert [run.path for run in read_runs(tmp_path / "run")] == [tmp_path / "run"]  # nothing is finished
    for name in ("pool-8", "pool-16"):
        job = start(tmp_path / "run" / "jobs" / name, {"command": "map", "model": "mini", "depth": 2})
        place = {
            "source": "en",
            "target": "nl",
            "method": "centred",
            "unit": "sentence",
            "data": "text",
            "model": "mini",
        }
        job.append([row("p@1", layer / 4, layer=layer, n=9, floor=0.1, **place) for layer in (1, 2)])
        job.finish()
    run.facts["jobs"] = {"finished": ["pool-8", "pool-16"]}
    run.finish()
    assert [run.path for run in read_runs(tmp_path / "run")] == [
        tmp_path / "run" / "jobs" / name for name in ("pool-8", "pool-16")
    ]
    page = write_page([tmp_path / "run"], tmp_path / "page.html", figures=False).read_text(encoding="utf-8")
    assert "mini (pool-8)" in page and "mini (pool-16)" in page


def test_means_over_seeds_stand_for_the_seeds_and_neither_steps_nor_the_oracle_are_results():
    rows = results(made(seeds=(0, 1, 2)))
    assert rows.seed.isna().all() and rows.step.isna().all()
    assert set(rows.plan) == {"freeze:-1", "freeze:8"}
    assert results(made()).seed.eq(0).all()


def test_many_plans_and_several_models_keep_the_verdict_short_and_clear():
    rows = pd.concat([made(), made().assign(model="other")])
    assert transfer_verdict(rows)[0].startswith("mini, nli from English: freeze:-1:")
    many = transfer_verdict(made(plans=tuple(f"freeze:{n}" for n in range(17))))
    assert many[-2] == "3 more plans are in the rows."


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_scores_are_drawn_by_plan(seeds, tmp_path):
    run = start(tmp_path / "run", {"command": "transfer", "model": "mini"})
    run.append(made(seeds=seeds).to_dict("records"))
    run.finish()
    names = {path.name for path in write_figures(tmp_path / "run", tmp_path / "figures")}
    assert {"transfer-nli.png", "transfer-nli.svg"} <= names


def test_plans_of_different_kinds_are_not_joined_by_lines(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(draw_matplotlib, "save", lambda sheet, *_: drawn.append(sheet) or [])
    for plans, joined in ((("freeze:-1", "freeze:8"), True), (("freeze:8", "reinit:1-2"), False)):
        figure = transfer_view(run_of(made(plans=plans))).figures[0]
        assert {line.dots for line in figure.panels[0].lines} == {not joined}
        with drawing():
            write_figure(figure, tmp_path)
    reaches = [path.get_extents().height for line in drawn[1].axes[0].collections for path in line.get_paths()]
    assert reaches == pytest.approx([0.04, 0.04, 0.02, 0.02])  # of English, and of the others: a stroke a plan


def test_the_interval_of_a_single_plan_is_drawn(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(draw_matplotlib, "save", lambda sheet, *_: drawn.append(sheet) or [])
    with drawing():
        write_figure(transfer_view(run_of(made(plans=("freeze:8",)))).figures[0], tmp_path)
    lines = drawn[0].axes[0].collections
    reaches = [path.get_extents().height for line in lines for path in line.get_paths()]
    assert reaches == pytest.approx([0.04, 0.02])  # of English, and of the others
    assert all(line.get_linewidth()[0] > 1 for line in lines)  # a band over one point is there, but has no width
