"""Claims, tables and figures on rows made by hand, and the paper from end to end at a scale of seconds."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isogloss as ig
from isogloss.figure import as_text
from isogloss.papers import muller2021 as paper
from isogloss.papers.claims import judge
from isogloss.papers.paper import Request, find, join_jobs, summary
from isogloss.papers.results import Results, changes, mean_over
from isogloss.runs import read_facts, read_rows
from isogloss.runs.table import frame, mean_rows, row
from isogloss.text.readers.parallel import read_bitext
from tiny_commands import command_line, parse
from tiny_reproduction import HELD, SMALLER, changed

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
                at = {"model": "m", "task": task, "source": "en", "plan": plan, "seed": seed}
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
            for plan, each in (("untuned", {}), (paper.REFERENCE, {"seed": seed})):
                for layer, (tuned, like) in enumerate(zip(start, near, strict=True)):
                    at = {"model": "m", "task": task, "source": "en", "plan": plan, "layer": layer, "data": "pud"}
                    at |= each
                    rows.append(row("cka", like + wobble, target="others", **at))
                    if each:
                        far = {"other_model": "start", "other_layer": layer}
                        rows.append(row("cka", tuned + wobble, target="others", **at, **far))
                    for number, target in enumerate(TARGETS):
                        rank = len(TARGETS) - number if turned else number
                        rows.append(row("cka", like - 0.03 * rank, target=target, **at))
    results += mean_over(list(paper._pooled(results, ("en", "de", "es", "fr", "ru", "zh"))))
    scores = [entry for entry in results if entry["measure"] != "gap"]
    whole = [*results, *rows, *mean_rows(results), *changes(scores, plan=paper.REFERENCE)]
    single = [entry for entry in rows if entry["target"] != "others"]
    return frame([*whole, *paper.relation_rows(Results(frame([*results, *single])))])


def findings(rows):
    return PAPER.findings(Results(rows))


def judged(rows):
    return {finding.name: HELD[finding.verdict] for finding in findings(rows)}


ALL = ("above chance", "first pair", "depth", "source", "upper layers", "lower part", "middle", "gap and similarity")


def test_no_number_of_the_paper_is_printed_since_none_could_be_read():
    rows = made(noise=0.0)
    assert rows.published.isna().all()
    assert not (Path(paper.__file__).parent / "published" / "muller2021.csv").exists()
    text = "\n".join(summary(PAPER, rows))
    assert "No number of the paper could be read" in text and "thresholds of the findings are our own" in text
    assert "recalled" not in text and "53.2" not in text and "-15.8" not in text
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


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_claims_on_every_pair_of_layers_are_refuted_by_no_more_than_chance(seeds, monkeypatch):
    """No pair loses more than is allowed, or more than the first; the worst of several does so in each single seed."""
    generator, empty, wrong = np.random.default_rng(0), Results(frame([])), []
    monkeypatch.setattr(paper, "_tasks", lambda _: ["parsing"])
    truths = {
        paper.small_at_home: -0.028,
        paper.upper_layers: -0.008,
        paper.first_pair: np.array([-0.021, *[-0.02] * 5]),
    }
    for claim, truth in [*truths.items()] * 40:
        losses = truth + 0.01 * generator.normal(size=(seeds, 6))
        monkeypatch.setattr(paper, "_losses", lambda *_, losses=losses, **__: (losses, losses.mean(axis=0)))
        wrong.append(judge(claim, empty).verdict == "not held")
    assert sum(wrong) <= 12


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_judge_nothing_and_say_so(seeds):
    rows = made(seeds=seeds)
    assert set(judged(rows).values()) == {None}
    for one in findings(rows):
        if one.name != "gap and similarity":  # its interval is over targets
            assert "[" not in one.measured and f"intervals are not available from {seeds} seed" in one.measured
    assert "[" not in as_text(PAPER.tables(Results(rows))[0])


def test_what_was_not_run_leaves_findings_open():
    rows = made()
    without = rows[rows.plan != "reinit:5-6"]
    found = judged(without)
    assert {name for name, held in found.items() if held is None} == {"first pair", "depth", "source", "upper layers"}
    bare = rows[rows.layer.isna() & (rows.measure != paper.RELATION)]
    found = judged(bare)
    assert {name for name, held in found.items() if held is None} == {"lower part", "middle", "gap and similarity"}
    assert all(one.measured for one in findings(bare))
    assert [one.name for one in PAPER.figures(Results(bare))] == ["figure-pairs"]


def test_means_leave_the_source_out_and_tell_unseen_languages_and_domains_apart():
    rows = made(seeds=1, noise=0.0)
    reference = rows[(rows.plan == paper.REFERENCE) & (rows.task == "pos") & (rows.measure == "accuracy")]
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
    one = rows[(rows.measure == "change") & (rows.plan == "reinit:1-2") & (rows.task == "ner")]
    home = one[(one.target == "en") & (one.data == "en_ewt")].iloc[0]
    wobble = [0.01 * math.sin(3 * seed + 3) for seed in range(3)]  # on top of the reference's
    assert home.value == pytest.approx(-0.01 + np.mean(wobble)) and home.n == 3 and home.unit == "span_f1"
    reach = 4.302653 * np.std(wobble, ddof=1) / math.sqrt(3)
    assert home.high - home.low == pytest.approx(2 * reach, rel=1e-5)


def test_the_correlation_is_that_of_ranks():
    rows = made()
    one = rows[(rows.measure == paper.RELATION) & (rows.task == "pos") & (rows.plan == paper.REFERENCE)]
    assert set(one.layer.dropna()) == set(range(13)) and one.layer.isna().sum() == 1
    assert one.value.tolist() == pytest.approx([-1.0] * 14) and set(one.n) == {6}  # the farther, the larger the gap


def test_tables_have_score_changes_and_chance():
    first, *others = PAPER.tables(Results(made(noise=0.0)))
    lines = {line[0]: line[1:] for line in first.rows}
    assert lines["parsing en → X"][:2] == ["66.0 [66.0, 66.0]", "-15.0 [-15.0, -15.0]"]
    assert lines["POS en → en"][0] == "90.0 [90.0, 90.0]"
    assert lines["parsing en → X"][-1] == "10.0" and first.columns[-1] == "chance"
    titles = [table.title for table in others]
    assert titles[0].startswith("Table 2, parsing") and titles[1].startswith("Table 3, parsing")
    assert [line[0] for line in others[0].rows] == [f"en → {target}" for target in TARGETS]
    assert [line[0] for line in others[1].rows] == ["en → en_pud", "en → de_lit", "en → X, other domains"]


def test_figures_are_those_of_the_paper():
    drawn = {figure.name: figure for figure in PAPER.figures(Results(made(noise=0.0)))}
    assert list(drawn) == ["figure-pairs", "figure-1", "figure-2", "figure-3"]
    pairs = {line.label: line for line in drawn["figure-pairs"].panels[0].lines}
    assert pairs["others"].steps == [1, 3, 5, 7, 9, 11]
    assert pairs["others"].value == pytest.approx([100 * one for one in AWAY])
    assert list(pairs) == ["source", "others"]
    before, after = drawn["figure-1"].panels[1].lines[:2]
    assert before.value == pytest.approx(list(NEAR)) and after.label == "after training" and not before.low
    assert drawn["figure-2"].panels[0].lines[0].value == pytest.approx(list(START))
    dots = drawn["figure-3"].panels[2].lines[0]
    assert (
        dots.dots
        and dots.value == pytest.approx([20, 22, 24, 26, 28, 30])
        and "NER: -1.00 " in drawn["figure-3"].panels[2].title
    )


def test_which_sets_a_source_is_tested_on():
    names = list(paper._files(paper.SCALES["mini"], "pos", "en"))
    assert names[:4] == ["en_ewt.train", "en_ewt.dev", "en_ewt", "en_gum-academic"]  # at home, then other domains
    assert names[17:19] == ["en_gum-whow", "en_pud"]
    assert names.index("de_pud") < names.index("de_gsd") < names.index("de_lit")  # the first of a language is its main
    assert [name for name in names if name.startswith("nl_")] == ["nl_lassysmall", "nl_alpino"]
    assert {"ru_taiga", "fr_sequoia", "is_pud", "th_pud"} <= set(names)
    sizes = paper._files(paper.SCALES["mini"], "pos", "fr")
    assert list(sizes)[2:6] == ["fr_sequoia", "fr_gsd", "fr_parisstories", "fr_pud"] and "en_ewt" in sizes
    assert (sizes["en_pud"], sizes["en_ewt"], sizes["de_lit"], sizes["th_pud"]) == (500, 500, 250, 250)
    tagged = list(paper._files(paper.SCALES["mini"], "ner", "es"))
    assert tagged[:3] == ["es_wikiann.train", "es_wikiann.dev", "es_wikiann"] and len(tagged) == 2 + 7


# ---------------------------------------------------------------------------------------------- from end to end

SMALL = changed(
    paper.SCALES["smoke"], examples=8, tested=16, compared=16, epochs=1,
    tiny=SMALLER,
)  # fmt: skip


def make_small(patch):
    patch.setitem(paper.SCALES, "smoke", SMALL)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """Two of the three tasks with one seed, by two commands."""
    folder = tmp_path_factory.mktemp("papers") / "run"
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        ig.reproduce("muller2021", out=folder, seeds=1, only="pos", device="cpu")
        table = ig.reproduce("muller2021", out=folder, seeds=1, only="task=ner", device="cpu", resume=True)
    return folder, table


def test_jobs_are_tasks_with_all_plans_inside_and_each_command_collects(reproduced):
    folder, table = reproduced
    assert {path.name for path in (folder / "jobs").iterdir()} == {"pos-qaa-seed-0", "ner-qaa-seed-0"}
    assert "2 of 3 jobs are finished; the others are missing here" in read_facts(folder)["notes"]
    assert read_facts(folder)["status"] == "running"
    assert set(table.task) == {"pos", "ner"}
    scores = table[table.measure.isin(("accuracy", "span_f1")) & table.seed.notna()]
    assert set(scores.plan) == set(paper.PLANS) and set(scores.target) == {"qaa", "qab", "qac", "others"}
    pd.testing.assert_frame_equal(read_rows(folder), table)


def test_rows_are_those_of_the_jobs_and_their_means(reproduced):
    folder, table = reproduced
    job = read_rows(folder / "jobs" / "pos-qaa-seed-0")
    here = table[(table.task == "pos") & table.seed.notna()]
    for plan in paper.PLANS:
        mine = job[(job.measure == "accuracy") & (job.plan == plan) & job.step.isna() & (job.target != "others")]
        ours = here[(here.measure == "accuracy") & (here.plan == plan)].set_index(["target", "data"]).value
        assert len(mine) == 4  # home, parallel text, and two targets
        for one in mine.itertuples():
            assert ours[one.target, one.data] == one.value
        assert ours["others", ""] == pytest.approx((ours["qab", "qab_pud"] + ours["qac", "qac_pud"]) / 2)
    changes = table[(table.task == "pos") & (table.measure == "change")]
    scores = here[here.measure == "accuracy"].set_index(["plan", "target", "data"]).value
    assert set(changes.plan) == set(paper.PAIRS)
    for one in changes.itertuples():
        expected = scores[one.plan, one.target, one.data] - scores[paper.REFERENCE, one.target, one.data]
        assert one.value == pytest.approx(expected) and one.n == 1


def test_similarities_are_means_over_languages(reproduced):
    folder, table = reproduced
    job = read_rows(folder / "jobs" / "ner-qaa-seed-0")
    for plan in ("untuned", "reinit:3-4"):
        mine = job[(job.measure == "cka") & (job.plan == plan) & (job.layer == 5) & job.other_layer.isna()]
        ours = table[(table.task == "ner") & (table.measure == "cka") & (table.plan == plan) & (table.layer == 5)]
        ours = ours[ours.other_layer.isna() & (ours.target == "others")]
        assert ours.value.item() == pytest.approx(mine.value.mean()) and ours.n.item() == 2 == len(mine)
    single = table[(table.measure == "cka") & (table.target != "others") & table.other_layer.isna()]
    assert set(single.plan) == {"untuned", paper.REFERENCE} and set(single.target) == {"qab", "qac"}
    started = table[(table.other_model == "start") & (table.measure == "cka")]
    assert set(started.plan) == set(paper.PLANS)
    below = table[(table.other_layer.notna()) & (table.other_model == "") & (table.measure == "cka")]
    assert set(below.plan) == {"untuned", paper.REFERENCE}
    rbf = table[table.measure == "cka_rbf"]
    conditions = set(zip(rbf.plan, rbf.condition, strict=True))
    assert conditions == {(plan, each) for plan in ("untuned", paper.REFERENCE) for each in ("", "legacy:windows")}


def test_texts_are_written_once_and_are_what_the_jobs_read(reproduced):
    folder, _ = reproduced
    bitext = read_bitext(folder / "text" / "pud.tsv")
    assert bitext.languages == ("qaa", "qab", "qac") and bitext.rows == 16
    assert (folder / "text" / "qaa_home.train.conllu").read_text(encoding="utf-8").count("# sent_id") == 8
    hashes = read_facts(folder)["hashes"]
    assert {"pud.tsv", "qaa_home.train.conllu", "qab_pud.conllu", "qac_wikiann.tsv"} <= set(hashes)
    assert read_facts(folder / "jobs" / "pos-qaa-seed-0")["hashes"]["parallel text"] == bitext.fingerprint


def test_both_initialisers_and_learning_curves_are_collected(tmp_path, monkeypatch):
    small = changed(SMALL, torch=True, epochs=2, probe=1, parallel=["qaa", "qab"])
    monkeypatch.setitem(paper.SCALES, "smoke", small)
    table = ig.reproduce("muller2021", out=tmp_path / "run", seeds=1, only="pos", device="cpu")
    job = read_rows(tmp_path / "run" / "jobs" / "pos-qaa-seed-0")
    assert set(table[table.measure == "change"].plan) == set(paper.ALL_PLANS) - {paper.REFERENCE}
    curves = table[(table.measure == "accuracy") & table.step.notna() & (table.plan == "reinit:1-2/torch")]
    assert sorted(zip(curves.target, curves.step, strict=True)) == [
        (target, step) for target in ("others", "qaa") for step in (1, 2)
    ]
    for one in curves.itertuples():
        data = "qaa_home" if one.target == "qaa" else "qab_pud"
        mine = job[(job.measure == "accuracy") & (job.plan == one.plan) & (job.step == one.step) & (job.data == data)]
        assert mine.value.tolist() == [one.value]
    results = Results(table)
    first, torch, *_ = PAPER.tables(results)
    assert "PyTorch" in torch.title and torch.columns[1:] == first.columns[2:-1] and len(torch.rows) == len(first.rows)
    drawn = {figure.name: figure for figure in PAPER.figures(results)}
    assert [panel.title for panel in drawn["learning"].panels] == ["POS, qaa → qaa", "POS, qaa → others"]
    assert drawn["learning"].panels[0].lines[0].steps == [1, 2]
    assert len(drawn["figure-pairs"].panels[0].lines) == 4
    plain = table[~table.plan.str.endswith("/torch") & table.step.isna()]
    assert [each.sentence for each in PAPER.findings(results)] == [
        each.sentence for each in PAPER.findings(Results(plain))
    ]


def test_the_command_prints_tables_and_findings_and_draws(reproduced, monkeypatch, capsys):
    folder = reproduced[0]
    make_small(monkeypatch)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "muller2021", "--out", folder, "--seeds", 1, "--device", "cpu", "--resume",
                            "--only", "pos", "--no-page")  # fmt: skip
    assert code == 0, told
    for part in ("Table 1", "POS qaa → X", "Table 2, NER", "Findings", "intervals are not available from 1 seed"):
        assert part in shown
    assert shown.count("not judged:") == 8


def test_the_report_shows_the_papers_own_figures_and_no_map(reproduced, tmp_path):
    from isogloss.report import write_figures, write_page

    folder = reproduced[0]
    drawn = {path.stem for path in write_figures(folder, folder / "figures")}
    assert drawn == {"figure-pairs", "figure-1", "figure-1-gaussian", "figure-2", "figure-3"}
    page = write_page([folder], tmp_path / "page.html", figures=False).read_text(encoding="utf-8")
    assert page.count('class="judged not-judged"') == 8 and page.count('"section":"pictures"') == 5
    assert "Table 2, NER: every target language" in page
    assert "<h2>Verdict</h2>" not in page, "a paper's findings are its verdict, and an empty box is none"


def test_jobs_of_other_models_or_texts_are_refused(reproduced, monkeypatch):
    folder = reproduced[0]
    make_small(monkeypatch)
    jobs = [job for job in PAPER.plan(Request("smoke", folder, seeds=1)).jobs if job.done]
    facts = jobs[1].folder / "run.json"
    before = facts.read_text(encoding="utf-8")
    model = read_facts(jobs[1].folder)["hashes"]["model"]
    facts.write_text(before.replace(model, "another"), encoding="utf-8")
    try:
        with pytest.raises(ig.InputError, match="were run on a different model"):
            join_jobs(None, jobs)
    finally:
        facts.write_text(before, encoding="utf-8")


def test_a_dry_run_tells_jobs_and_cost_and_needs_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "muller2021", "--scale", "paper", "--dry-run")
    assert code == 0, told
    assert not list(tmp_path.iterdir())
    assert "isogloss transfer bert-base-multilingual-cased" in shown and "all 27 jobs" in shown
    assert "--plans freeze:-1,reinit:1-2,reinit:3-4,reinit:5-6,reinit:7-8,reinit:9-10,reinit:11-12" in shown
    assert "ar_padt.train.conllu" in shown and "th_pud.conllu" in shown
    code, shown, _ = run("reproduce", "muller2021", "--scale", "mini", "--dry-run", "--only", "task=ner,seed=1")
    assert code == 0
    assert re.findall(r"--task ner --train (\w\w)=", shown) == ["en", "ru", "nl"]
    assert "reinit:11-12,reinit:1-2/torch,reinit:3-4/torch" in shown and "--probe 1000 " in shown
    assert "all 33 jobs" in shown  # 4 + 4 + 3 experiments, 3 seeds


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = PAPER.plan(Request("mini", tmp_path))
    for job in outline.jobs[::6]:
        parse(" ".join(job.words).split()[1:])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"model": "mini"}, "--scale smoke makes its own model"),
        ({"examples": 0}, "--examples must be at least 1"),
        ({"compared": 5}, "--compared must be at least 16"),
        ({"only": "qa"}, "--only 'qa' chooses no job of this paper"),
        ({"legacy": "window"}, "--legacy 'window' is not known; choose windows"),
        ({"legacy": "batch-25,batch-200"}, "--legacy takes batch-25 or batch-200, not both"),
        ({"native": "x"}, "--native is no option of muller2021"),
        ({"scale": "mini"}, "no data folder is set; give --data DIR"),
        ({"scale": "mini", "data": "."}, "en_ewt-ud-train*.conllu is missing; docs/reproduce.md lists the files"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options, part, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    with pytest.raises(ig.InputError, match=re.escape(part)):
        ig.reproduce("muller2021", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
