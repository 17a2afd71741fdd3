"""jexus2020: claims, tables, figures and data on rows and files made by hand, and a run from end to end in seconds."""

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import isogloss as ig
from isogloss.papers import jexus2020
from isogloss.papers.claims import Side, judge
from isogloss.papers.jexus2020 import ALIGNMENT, PUBLISHED, SCALES, correlations
from isogloss.papers.paper import Request, find, join_jobs, outline_lines, selected
from isogloss.papers.results import Curves, Results, mean_over
from isogloss.runs import read_facts, read_rows
from isogloss.runs.table import frame, row
from isogloss.text.readers.examples import read_pairs
from tiny_commands import command_line, parse
from tiny_reproduction import HELD, changed, make_small_jexus

PAPER = find("jexus2020")
POINTS = range(-1, 12)
TARGETS = ("de", "zh")


def hump(point, seed=0, top=8):
    """Highest at one layer, falling by 1% a layer to either side, and lowest with nothing frozen."""
    return 0.60 - 0.01 * abs(point - top)


def made(seeds=3, others=hump, home=lambda point, seed: 0.75, aligned=hump, noise=0.0005, points=POINTS, extra=True):
    """Rows of a reproduction in which everything is as the post says, unless told otherwise."""
    rows = []
    where = {"model": "m", "task": "nli", "source": "en"}
    for point in points:
        for seed in range(seeds):
            off = noise * math.sin(1 + 3 * seed + 7 * point)
            there = others(point, seed)
            values = {"en": home(point, seed) + off, "de": there + 0.02 + off, "zh": there - 0.02 - off}
            values |= {"nl": 0.5 + off} if extra else {}
            for selection, more in ({}, 0), ({"selection": "oracle"}, 0.01):
                at = {**where, "plan": f"freeze:{point}", **selection, "seed": seed}
                scores = [
                    row("accuracy", value + more, target=one, data="x", floor=1 / 3, **at)
                    for one, value in values.items()
                ]
                means = [{**score, "data": None} for score in scores if score["target"] in TARGETS]
                rows += [*scores, *mean_over(means, "target", target="others")]
    for layer in range(13):
        for name, aligned_at in ALIGNMENT.items():
            for number, target in enumerate((*TARGETS, *(["nl"] if extra else []))):
                value = aligned(layer) + 0.1 * number + 0.001 * len(name)
                at = {**aligned_at, "model": "m", "layer": layer, "data": "t"}
                rows.append(row(value=value - 0.01, source="en", target=target, **at))
                if at["measure"] != "cka":
                    rows.append(row(value=value + 0.01, source=target, target="en", **at))
    rows += list(correlations(Results(frame(rows))))
    return frame(rows)


def reading(**changes):
    return Results(made(**changes))


def judged(rows):
    return {one.name: HELD[one.verdict] for one in PAPER.findings(Results(rows))}


ALL_HELD = dict.fromkeys(["above chance", "best near 8", "flat at home", "goes with alignment"], True)


def test_anchors_are_those_of_their_source():
    values = {line["target"]: float(line["value"]) for line in PUBLISHED.where(plan="freeze:-1", measure="accuracy")}
    assert values == {"en": 0.814, "zh": 0.638, "es": 0.743, "de": 0.705, "ar": 0.621, "ur": 0.583}
    assert {line["reference"].partition(":")[0] for line in PUBLISHED.where()} == {
        "google-research/bert, multilingual.md"
    }
    assert (jexus2020.BEST, jexus2020.DEPTH) == (8, 12)


def test_rows_as_the_post_says_hold_every_claim():
    assert judged(made()) == ALL_HELD
    assert judged(made(extra=False)) == ALL_HELD


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"others": lambda point, seed: hump(point) - 0.25}, {"above chance"}),
        (
            {"others": lambda point, seed: hump(point, top=3), "aligned": lambda layer: hump(layer, top=3)},
            {"best near 8"},
        ),
        ({"others": lambda point, seed: 0.60 if point < 0 else hump(point)}, {"best near 8"}),  # freezing gains nothing
        (  # nor lowers it later, where alignment falls
            {"others": lambda point, seed: 0.60 if point >= 8 else hump(point)},
            {"best near 8", "goes with alignment"},
        ),
        (
            {"others": lambda point, seed: hump(point) + (0.07 if (point, seed) == (2, 1) else 0)},
            {"best near 8", "goes with alignment"},
        ),
        ({"home": lambda point, seed: 0.75 - (0.05 if point == 11 else 0)}, {"flat at home"}),
        ({"home": lambda point, seed: 0.75 + 0.01 * seed * (point == 4)}, {"flat at home"}),  # an interval too wide
        ({"aligned": lambda layer: -hump(layer)}, {"goes with alignment"}),
        ({"aligned": lambda layer: 0.5 + 0.1 * math.sin(5 * layer)}, {"goes with alignment"}),
    ],
)
def test_each_claim_fails_where_rows_say_otherwise(changed, fails):
    found = judged(made(**changed))
    assert {name for name, held in found.items() if held is False} == fails
    assert {name for name, held in found.items() if held} == set(ALL_HELD) - fails


@pytest.mark.parametrize(
    ("others", "verdict", "unheld"),
    [
        (lambda point, seed: hump(point, top=5), "not held", {2, 3, 4, 5, 6}),  # higher than near 8, in every seed
        (lambda point, seed: hump(point) + (0.07 if (point, seed) == (2, 1) else 0), "not held, open", {2}),  # in one
    ],
)
def test_another_summit_refutes_only_where_it_is_told_apart(others, verdict, unheld):
    found = {one.name: one for one in PAPER.findings(reading(others=others))}
    sides = dict(zip([-1, *range(7), 10, 11], found["best near 8"].contrasts, strict=True))
    assert {point for point, each in sides.items() if each.judged is not Side.HELD} == unheld
    assert found["best near 8"].verdict == verdict


def test_nothing_is_judged_on_two_seeds_or_on_half_of_the_points():
    found = PAPER.findings(reading(seeds=2))
    assert {HELD[one.verdict] for one in found} == {None}
    assert all("intervals are not available from 2 seeds" in one.measured for one in found)
    part = judged(made(points=(-1, 8)))
    assert part["best near 8"] is None and part["goes with alignment"] is None and part["flat at home"] is True


def test_maps_alone_and_trainings_alone_make_what_they_can():
    rows = made()
    maps, trained = rows[rows.layer.notna()], rows[rows.task.ne("") & ~rows.measure.str.contains("spearman|pearson")]
    assert judged(maps) == dict.fromkeys(ALL_HELD)
    assert [one.name for one in PAPER.figures(Results(maps))] == ["alignment-by-layer"] and PAPER.tables(
        Results(maps)
    ) == []
    assert [one.name for one in PAPER.figures(Results(trained))] == ["accuracy-by-frozen-layers"]
    assert len(PAPER.tables(Results(trained))) == 2
    assert len(PAPER.figures(reading(points=(4, 8)))[0].panels) == 1  # nothing to compare with


def test_words_say_where_it_is_highest_and_how_far_home_moves():
    told = {one.name: one.measured for one in PAPER.findings(reading())}
    assert "highest at N = 8, 8, 8 in the 3 seeds, and at 8 on average (60.0)" in told["best near 8"]
    assert "8 (German), 8 (Chinese)" in told["best near 8"]
    assert "English between 75.0 and 75.0" in told["flat at home"]
    assert (
        "75.0 with nothing frozen (the mean over targets between 51.0 and 60.0); less that, at N = 0 +0.0 ["
        in (told["flat at home"])
    )
    assert "; at N = 7 to 9 less nothing frozen +" in told["best near 8"] and "; N = 0 +" in told["best near 8"]


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_claims_on_every_n_are_refuted_by_no_more_than_chance(seeds, monkeypatch):
    """The truth is within the margin, or best near 8; the highest of several N is above it in each single seed."""
    generator, empty, wrong = np.random.default_rng(0), Results(frame([])), []
    home, others = 0.75 - 0.019 * (np.arange(13) > 0), 0.60 - 0.001 * (abs(np.arange(-1, 12) - 8) > 1)
    monkeypatch.setattr(jexus2020, "_frozen", lambda _: {point: {} for point in POINTS})
    monkeypatch.setattr(jexus2020, "_depth", lambda _: 12)
    monkeypatch.setattr(jexus2020, "_languages", lambda _: ["en"])
    for claim, truth in [(jexus2020.flat, home), (jexus2020.best, others)] * 50:
        curves = Curves(np.array(POINTS, float), truth + 0.01 * generator.normal(size=(seeds, 13)), tuple(range(seeds)))
        monkeypatch.setattr(jexus2020, "_curves", lambda *_, curves=curves: curves)
        wrong.append(judge(claim, empty).verdict == "not held")
    assert sum(wrong) <= 10


def test_correlations_are_those_of_scipy_on_seed_means_without_nothing_frozen():
    rows = made(noise=0.01)
    found = Results(rows)
    for kind, reference in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        for name in ALIGNMENT:
            for target in (*TARGETS, "nl"):
                ends = {"source": ("en", target), "target": ("en", target)}
                x = [found.where(**ALIGNMENT[name], layer=point, **ends).value.mean() for point in range(12)]
                score = {"measure": "accuracy", "selection": None, "target": target}
                y = [found.where(**score, plan=f"freeze:{point}").value.mean() for point in range(12)]
                one = rows[(rows.measure == kind) & (rows.unit == name) & (rows.target == target)]
                assert math.isclose(one.value.item(), reference(x, y).statistic, abs_tol=1e-9)
                assert one.n.item() == 12 and one.low.item() <= one.value.item() <= one.high.item()
    assert set(rows[rows.measure == "spearman"].target) == {"de", "zh", "nl", "others"}
    assert set(rows[rows.measure == "spearman"].over) <= {"layers", ""}


def test_the_table_is_points_by_languages_with_dutch_apart():
    first, oracle, correlated = PAPER.tables(reading())
    assert list(first.columns) == ["N", "English", "German", "Chinese", "mean of targets", "Dutch (SICK)"]
    assert first.rows.pop(1) == ["-1, published", "81.4", "70.5", "63.8", "–", "–"]
    assert [line[0] for line in first.rows] == [str(point) for point in POINTS]
    at_8 = first.rows[9]
    assert at_8[0] == "8" and at_8[4].startswith("60.0 [") and at_8[2].startswith("62.0 [")
    assert oracle.rows[9][-1].startswith("61.0 [") and "Dutch" not in " ".join(oracle.columns)
    assert [line[0] for line in correlated.rows] == ["German", "Chinese", "Dutch", "pooled"]
    assert correlated.columns[1] == "centred P@1, spearman" and len(correlated.columns) == 1 + 2 * 4
    assert correlated.rows[-1][1].startswith("0.99 [")  # layers as far from 8 on either side are equals
    assert "Translations lie closest at layer 8 (centred P@1)." in first.notes


def test_the_head_on_the_mean_has_a_table_and_a_panel_and_judges_nothing():
    rows = made()
    mean = made(others=partial(hump, top=2))
    mean = mean[mean.task.eq("nli") & mean.measure.eq("accuracy")].assign(task="nli-mean")
    both = Results(frame([*rows.to_dict("records"), *mean.to_dict("records")]))
    assert judged(both.rows) == judged(rows)
    _, again, *_ = PAPER.tables(both)
    assert again.rows[3][0] == "2" and again.rows[3][4].startswith("60.0 [") and len(again.rows) == len(POINTS)
    titles = [panel.title for panel in PAPER.figures(both)[0].panels]
    assert titles[-1] == "accuracy, head on the mean of all tokens" and len(titles) == 3


def test_figures_have_a_line_for_each_language_and_a_circle_for_each_point():
    by_point, by_layer, against = PAPER.figures(reading())
    assert [line.label for line in by_point.panels[0].lines] == [
        "English",
        "German",
        "Chinese",
        "Dutch",
        "mean of targets",
    ]
    assert list(by_point.panels[0].lines[0].steps) == list(POINTS)
    assert by_point.panels[0].floor == pytest.approx(1 / 3) and by_point.panels[1].floor is None
    change = by_point.panels[1].lines[-1]
    assert change.label == "mean of targets" and change.value[0] == 0 and abs(change.value[9] - 0.09) < 1e-9
    assert [panel.title for panel in by_layer.panels] == list(ALIGNMENT)
    assert len(by_layer.panels[0].lines[0].steps) == 13
    assert all(line.dots and len(line.steps) == 12 for panel in against.panels for line in panel.lines)
    assert all(abs(sum(side)) < 1e-9 for line in against.panels[0].lines for side in (line.steps, line.value))
    assert against.panels[0].title == "centred P@1 (0.99)"


def data_folder(folder):
    """The least files of a data folder, six pairs each."""
    for name in ("nli_en", "xnli", "nli_nl_sick"):
        (folder / name).mkdir(parents=True)
    labels = ("entailment", "neutral", "contradiction")
    head = "sentence1\tsentence2\tlabel\tgenre\n"
    for name, count in (("mnli_train", 30), ("mnli_val", 6)):
        lines = "".join(f"first {one}\tsecond {one}\t{labels[one % 3]}\tfiction\n" for one in range(count))
        (folder / "nli_en" / f"{name}.tsv").write_text(head + lines)
    for language in ("en", "de"):
        for part in ("dev", "test"):
            lines = "".join(f"{language} {part} {one}\th {one}\t{labels[one % 3]}\n" for one in range(6))
            (folder / "xnli" / f"{part}-{language}.tsv").write_text(lines)
    rows = "".join(f"der Satz {one}\tsentence {one}\n" for one in range(12))
    (folder / "xnli" / "xnli.15way.tsv").write_text("de\ten\n" + rows)
    columns = (
        "pair_ID",
        "sentence_A",
        "sentence_B",
        "entailment_label",
        "sentence_A_original",
        "sentence_B_original",
        "SemEval_set",
    )
    sick = [
        [str(one), f"zin {one}", f"zin {one + 1}", labels[one % 3].upper(), f"line {one}", f"line {one + 1}", part]
        for one, part in enumerate(("TRAIN", "TEST", "TEST", "TEST", "TEST", "TEST", "TRIAL"))
    ]
    (folder / "nli_nl_sick" / "SICK_NL.txt").write_text("".join("\t".join(line) + "\n" for line in [columns, *sick]))
    return folder


def texts_of(folder, *, dutch=True, **request):
    """The texts that the mini scale makes of a small data folder, of nine pairs to train on."""
    small = changed(SCALES["mini"], targets=("de",), pair="de", count=9, dutch=dutch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "mini", small)
        return PAPER.plan(Request("mini", folder / "run", data=str(folder), **request)).texts


def rows_of(texts):
    """The cells of every file."""
    return {name: [line.split("\t") for line in text.splitlines()] for name, text in texts.contents.items()}


def test_texts_are_the_parts_that_are_wanted(tmp_path):
    folder = data_folder(tmp_path)
    texts = texts_of(folder)
    found = rows_of(texts)
    assert {name: len(rows) for name, rows in found.items()} == {
        "mnli-train.tsv": 9,
        "mnli-dev.tsv": 6,
        "xnli-test-en.tsv": 6,
        "xnli-dev-de.tsv": 6,
        "xnli-test-de.tsv": 6,
        "xnli.tsv": 13,
        "sick-test-nl.tsv": 3,
        "sick.tsv": 9,
    }
    assert found["xnli.tsv"][:2] == [["en", "de"], ["sentence 0", "der Satz 0"]]
    assert found["sick.tsv"][:2] == [["en", "nl"], ["line 0", "zin 0"]]
    labels = [line[2] for line in found["sick-test-nl.tsv"]]  # of the test part, as many of each
    assert sorted(labels) == ["contradiction", "entailment", "neutral"]
    assert {line[0] for line in found["sick-test-nl.tsv"]} <= {f"zin {one}" for one in range(1, 6)}
    assert texts.facts["notes"] == []
    texts.write()
    assert [one.label for one in read_pairs(texts.path("sick-test-nl.tsv"))] == labels
    (folder / "nli_en" / "mnli_train.tsv").write_text("a\tb\tneutral\n")
    (folder / "run").rename(folder / "before")
    texts = texts_of(folder, dutch=False)
    assert rows_of(texts)["mnli-train.tsv"] == [["a", "b", "neutral"]] and "sick.tsv" not in texts.contents
    assert texts.facts["notes"] == ["mnli-train.tsv has 1 lines, where this scale takes 9"]


@pytest.mark.parametrize("name", ["nli_en/mnli_val.tsv", "xnli/dev-de.tsv", "nli_nl_sick/SICK_NL.txt"])
def test_a_file_that_is_missing_is_named(name, tmp_path):
    folder = data_folder(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ig.InputError, match=f"{name} is missing"):
        texts_of(folder).facts["hashes"]


def test_sick_without_its_columns_is_refused(tmp_path):
    folder = data_folder(tmp_path)
    path = folder / "nli_nl_sick" / "SICK_NL.txt"
    path.write_text(path.read_text().replace("_original", "_first"))
    with pytest.raises(ig.InputError, match="SICK_NL.txt:1: the column sentence_A_original of SICK-NL"):
        texts_of(folder).facts["hashes"]


def test_a_dry_run_of_the_paper_needs_neither_data_nor_model(tmp_path):
    outline = PAPER.plan(Request("paper", tmp_path / "run"))
    told = "\n".join(outline_lines(outline, outline.jobs))
    assert "isogloss transfer bert-base-multilingual-cased --task nli" in told and "isogloss map" in told
    assert "--plans freeze:-1" in told and "--plans freeze:11" in told
    assert "all 16 jobs, 13 of transfer, 3 of map: about 14.7 hours one by one" in told  # 13 points, 3 seeds
    assert not (tmp_path / "run").exists()
    mini = PAPER.plan(Request("mini", tmp_path / "run"), rate="2e-5,5e-5")
    assert [job.coordinates for job in selected(mini.jobs, "freeze:8")] == [
        {"part": "transfer", "task": task, "plan": "freeze:8"} for task in ("nli", "nli-mean")
    ]
    assert [job.name for job in selected(mini.jobs, "nli-mean,freeze:11")] == ["freeze-11-mean"]
    names = ["map-xnli", "map-en-zh", "map-en-zh-tokens", "map-sick"]
    assert [job.name for job in selected(mini.jobs, "part=map")] == names
    assert mini.seconds == {"transfer": 2 * 3 * 74} and len(mini.jobs) == 2 * 13 + 4


def test_what_cannot_be_used_is_one_sentence(tmp_path):
    with pytest.raises(ig.InputError, match="--epochs must be at least 1"):
        find("jexus2020").plan(Request("mini", tmp_path / "run"), epochs=0)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A reproduction with two seeds, made by three commands; the rows after each, and its folder."""
    folder = tmp_path_factory.mktemp("jexus") / "run"
    with pytest.MonkeyPatch.context() as patch:
        make_small_jexus(patch)
        maps = ig.reproduce("jexus2020", out=folder, seeds=2, only="part=map", device="cpu")
        part = ig.reproduce("jexus2020", out=folder, seeds=2, only="freeze:1", device="cpu", resume=True)
        whole = ig.reproduce("jexus2020", out=folder, seeds=2, device="cpu", resume=True)
    return folder, maps, part, whole


def test_commands_share_the_work_and_each_collects_what_is_there(reproduced):
    folder, maps, part, whole = reproduced
    assert set(maps.task) == {""} and set(maps.layer.dropna()) == {0, 1, 2, 3}
    assert set(part[part.plan.ne("")].plan) == {"freeze:1"}
    scores = whole[whole.measure == "accuracy"]
    assert set(zip(scores.plan, scores.selection, strict=True)) == {
        (f"freeze:{point}", selection) for point in range(-1, 3) for selection in ("", "oracle")
    }
    facts = read_facts(folder)
    assert facts["status"] == "finished" and set(facts["jobs"]["hashes"]) == {"transfer", "map"}
    pd.testing.assert_frame_equal(read_rows(folder), whole)
    assert {path.name for path in (folder / "jobs").iterdir()} == {
        "freeze-nothing",
        "freeze-0",
        "freeze-1",
        "freeze-2",
        "map-xnli",
        "map-qaa-qab",
        "map-qaa-qab-tokens",
    }


def test_results_are_those_of_the_jobs_and_means_are_over_xnli(reproduced):
    folder, _, _, whole = reproduced
    job = read_rows(folder / "jobs" / "freeze-2")
    wanted = job[job.step.isna() & job.seed.notna() & (job.target != "others")]
    here = whole[(whole.plan == "freeze:2") & whole.seed.notna() & (whole.target != "others")]
    columns = [name for name in whole.columns if name != "published"]
    pd.testing.assert_frame_equal(here[columns].reset_index(drop=True), wanted[columns].reset_index(drop=True))
    scores = whole[
        (whole.measure == "accuracy") & (whole.plan == "freeze:2") & (whole.selection == "") & (whole.seed == 1)
    ]
    by_target = scores.set_index("target").value
    assert by_target["others"] == pytest.approx((by_target["qab"] + by_target["qac"]) / 2)
    floors = scores.set_index("target").floor
    assert floors["others"] == pytest.approx((floors["qab"] + floors["qac"]) / 2)
    mean = whole[
        (whole.measure == "accuracy") & (whole.plan == "freeze:2") & (whole.selection == "") & whole.seed.isna()
    ]
    assert mean[mean.target == "qab"].n.item() == 2
    assert whole.step.isna().all()  # scores by epoch are in the jobs' own tables


def test_alignment_is_of_every_pair_with_the_source_and_correlated_from_0_on(reproduced):
    whole = reproduced[3]
    cka = whole[whole.measure == "cka"]
    assert set(zip(cka.source, cka.target, strict=True)) == {("qaa", "qab"), ("qaa", "qac")}
    assert len(cka) == 2 * 4  # each layer once, although a second map reads the same text
    found = whole[whole.measure.isin(["spearman", "pearson"])]
    assert set(found.n) <= {3} and set(found.target) <= {"qab", "qac", "others"}


def test_the_word_map_of_two_languages_is_the_runs_own(reproduced):
    folder = reproduced[0]
    name = "points.parquet" if (folder / "points.parquet").is_file() else "words.safetensors"
    assert (folder / name).read_bytes() == (folder / "jobs" / "map-qaa-qab" / name).read_bytes()
    assert (folder / "jobs" / "map-qaa-qab-tokens" / name).is_file()  # that of tokens stays there


def test_the_command_prints_tables_and_findings_and_makes_the_page(reproduced, monkeypatch, capsys):
    folder = reproduced[0]
    make_small_jexus(monkeypatch)
    run = command_line(monkeypatch, capsys)
    monkeypatch.setattr("isogloss.report.can_draw", lambda: True)
    monkeypatch.setattr("isogloss.report.reproduction_view.BENEATH", {})  # the page of a map is tested elsewhere
    code, shown, told = run("reproduce", "jexus2020", "--out", folder, "--seeds", 2, "--device", "cpu", "--resume")
    assert code == 0, told
    for part in ("Table 1: accuracy (%)", "mean of targets", "Table 2", "Findings", "from 2 seeds: 3 are the fewest"):
        assert part in shown
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert {"accuracy-by-frozen-layers", "alignment-by-layer", "accuracy-against-alignment"} <= drawn
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('class="judged not-judged"') == 4
    assert all(f'"{name}"' in page for name in ("accuracy-by-frozen-layers", "alignment-by-layer"))


def test_seeds_and_options_are_those_the_folder_was_begun_with(reproduced, monkeypatch):
    make_small_jexus(monkeypatch)
    with pytest.raises(ig.InputError, match="begun differently .arguments seeds"):
        ig.reproduce("jexus2020", out=reproduced[0], seeds=3, resume=True)
    with pytest.raises(ig.InputError, match="--native is no option of jexus2020, whose own are: --rate, --epochs"):
        ig.reproduce("jexus2020", out=reproduced[0], native="x")


def test_trainings_on_different_texts_are_not_put_into_one_table(reproduced, monkeypatch):
    make_small_jexus(monkeypatch)
    folder = reproduced[0]
    outline = find("jexus2020").plan(Request("smoke", folder, seeds=2))
    facts = folder / "jobs" / "freeze-2" / "run.json"
    before = facts.read_text(encoding="utf-8")
    changed = json.loads(before)
    changed["hashes"]["model"] = "another"
    facts.write_text(json.dumps(changed), encoding="utf-8")
    try:
        with pytest.raises(ig.InputError, match="freeze-2 were run on a different model"):
            join_jobs(None, outline.jobs)
    finally:
        facts.write_text(before, encoding="utf-8")


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("jexus2020").plan(Request("smoke", tmp_path))
    for job in (*outline.before, outline.jobs[0], outline.jobs[-1]):
        parse(" ".join(job.words).split()[1:])
