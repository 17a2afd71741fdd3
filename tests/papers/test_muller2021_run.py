"""The paper from end to end at a scale of seconds: texts, jobs, one table, figures, and what cannot be used."""

import re
from dataclasses import replace

import pandas as pd
import pytest

import isogloss as ig
from isogloss.papers import Request, find
from isogloss.papers.muller2021 import scales
from isogloss.papers.muller2021.published import PAIRS, PLANS, REFERENCE
from isogloss.runs import read_facts, read_rows
from isogloss.text import read_bitext
from tiny_commands import command_line, parse

SMALL = replace(
    scales.SCALES["smoke"], examples=8, tested=16, compared=16, epochs=1,
    pretraining={**scales.PRETRAINING, "width": 16, "batch": 4, "warm_up": 1, "steps": 2},
)  # fmt: skip


def make_small(patch):
    patch.setitem(scales.SCALES, "smoke", SMALL)


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
    assert set(scores.variant) == set(PLANS) and set(scores.target) == {"qaa", "qab", "qac", "others"}
    pd.testing.assert_frame_equal(read_rows(folder), table)


def test_rows_are_those_of_the_jobs_and_their_means(reproduced):
    folder, table = reproduced
    job = read_rows(folder / "jobs" / "pos-qaa-seed-0")
    here = table[(table.task == "pos") & table.seed.notna()]
    for plan in PLANS:
        mine = job[(job.measure == "accuracy") & (job.variant == plan) & job.step.isna() & (job.target != "others")]
        ours = here[(here.measure == "accuracy") & (here.variant == plan)].set_index(["target", "data"]).value
        assert len(mine) == 4  # home, parallel text, and two targets
        for one in mine.itertuples():
            assert ours[one.target, one.data] == one.value
        assert ours["others", ""] == pytest.approx((ours["qab", "qab_pud"] + ours["qac", "qac_pud"]) / 2)
    changes = table[(table.task == "pos") & (table.measure == "change")]
    scores = here[here.measure == "accuracy"].set_index(["variant", "target", "data"]).value
    assert set(changes.variant) == set(PAIRS)
    for one in changes.itertuples():
        expected = scores[one.variant, one.target, one.data] - scores[REFERENCE, one.target, one.data]
        assert one.value == pytest.approx(expected) and one.n == 1


def test_similarities_are_means_over_languages(reproduced):
    folder, table = reproduced
    job = read_rows(folder / "jobs" / "ner-qaa-seed-0")
    for variant in ("untuned", "reinit:3-4"):
        mine = job[(job.measure == "cka") & (job.variant == variant) & (job.layer == 5) & job.other_layer.isna()]
        ours = table[(table.task == "ner") & (table.measure == "cka") & (table.variant == variant) & (table.layer == 5)]
        ours = ours[ours.other_layer.isna() & (ours.target == "others")]
        assert ours.value.item() == pytest.approx(mine.value.mean()) and ours.n.item() == 2 == len(mine)
    single = table[(table.measure == "cka") & (table.target != "others") & table.other_layer.isna()]
    assert set(single.variant) == {"untuned", REFERENCE} and set(single.target) == {"qab", "qac"}
    started = table[(table.other_model == "start") & (table.measure == "cka")]
    assert set(started.variant) == set(PLANS)
    below = table[(table.other_layer.notna()) & (table.other_model == "") & (table.measure == "cka")]
    assert set(below.variant) == {"untuned", REFERENCE}
    rbf = table[table.measure == "cka_rbf"]
    assert set(rbf.variant) == {"untuned", REFERENCE, "untuned+legacy:windows", f"{REFERENCE}+legacy:windows"}


def test_texts_are_written_once_and_are_what_the_jobs_read(reproduced):
    folder, _ = reproduced
    bitext = read_bitext(folder / "text" / "pud.tsv")
    assert bitext.languages == ("qaa", "qab", "qac") and bitext.rows == 16
    assert (folder / "text" / "qaa_home.train.conllu").read_text(encoding="utf-8").count("# sent_id") == 8
    hashes = read_facts(folder)["hashes"]
    assert {"pud.tsv", "qaa_home.train.conllu", "qab_pud.conllu", "qac_wikiann.tsv"} <= set(hashes)
    assert read_facts(folder / "jobs" / "pos-qaa-seed-0")["hashes"]["parallel text"] == bitext.fingerprint


def test_the_command_prints_tables_and_findings_and_draws(reproduced, monkeypatch, capsys):
    folder = reproduced[0]
    make_small(monkeypatch)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "muller2021", "--out", folder, "--seeds", 1, "--device", "cpu", "--resume",
                            "--only", "pos", "--no-report")  # fmt: skip
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
    jobs = [job for job in find("muller2021").plan(Request("smoke", folder, seeds=1)).jobs if job.done]
    facts = jobs[1].folder / "run.json"
    before = facts.read_text(encoding="utf-8")
    model = read_facts(jobs[1].folder)["hashes"]["model"]
    facts.write_text(before.replace(model, "another"), encoding="utf-8")
    try:
        with pytest.raises(ig.InputError, match="were run with a different model"):
            find("muller2021").collect(None, jobs)
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
    assert re.findall(r"--task ner --train (\w\w)=", shown) == ["en", "nl", "de", "fr", "es", "ru", "zh"]
    assert "all 39 jobs" in shown  # 3 + 3 + 7 experiments, 3 seeds


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("muller2021").plan(Request("mini", tmp_path))
    for job in outline.jobs[::6]:
        parse(" ".join(job.words).split()[1:])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"entities": "."}, "--scale smoke makes its own languages and models"),
        ({"examples": 0}, "--examples must be at least 1"),
        ({"compared": 5}, "--compared must be at least 16"),
        ({"only": "qa"}, "--only 'qa' chooses no job of this paper"),
        ({"native": "x"}, "--native is no option of muller2021"),
        ({"scale": "mini"}, "--treebanks is missing: give a folder of UD treebanks"),
        ({"scale": "mini", "treebanks": "gone"}, "--treebanks gone is no folder"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options, part, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    with pytest.raises(ig.InputError, match=re.escape(part)):
        ig.reproduce("muller2021", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
