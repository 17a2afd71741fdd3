"""A reproduction from end to end at a scale of seconds: jobs that are not run twice, one table, figures, the page."""

import io
import json
import re
import sys

import pandas as pd
import pytest

import isogloss as ig
from isogloss.papers import hussain2020
from isogloss.papers.hussain2020 import PLANS, PUBLISHED
from isogloss.papers.paper import TOY, Request, find, join_jobs, names, outline_lines, selected, summary
from isogloss.recipes import jobs as jobs_module
from isogloss.runs import read_facts, read_rows
from isogloss.runs.table import frame
from tiny_commands import command_line, parse
from tiny_reproduction import make_small


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """A whole reproduction with one seed, made by two commands; the rows after each, and its folder."""
    folder = tmp_path_factory.mktemp("papers") / "run"
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        part = ig.reproduce("hussain2020", out=folder, seeds=1, only="last:1", device="cpu")
        status = read_facts(folder)["status"], read_facts(folder)["notes"]
        whole = ig.reproduce("hussain2020", out=folder, seeds=1, device="cpu", resume=True)
    return folder, part, whole, status


def test_commands_share_the_work_and_each_collects_what_is_there(reproduced):
    folder, part, whole, (status, notes) = reproduced
    assert set(part.plan) == {"last:1", "untuned"}
    found = read_facts(folder)["notes"]
    assert TOY in found and any("do not cross" in note for note in found)
    assert status == "running" and "1 of 5 jobs are finished; the others are missing here" in notes
    assert set(whole.plan) == {*PLANS, "untuned"}
    facts = read_facts(folder)
    assert facts["status"] == "finished"
    assert len(facts["jobs"]["finished"]) == 5 and facts["jobs"]["hardware"]
    assert facts["jobs"]["hashes"] == {"drift": read_facts(folder / "jobs" / "last-1-seed-0")["hashes"]}
    pd.testing.assert_frame_equal(read_rows(folder), whole)
    assert {path.name for path in (folder / "jobs").iterdir()} == {
        f"{plan.replace(':', '-').replace('/', '-')}-seed-0" for plan in PLANS
    }


def test_rows_are_those_of_the_jobs_once_each(reproduced):
    folder, _, whole, _ = reproduced
    job = read_rows(folder / "jobs" / "last-6-seed-0")
    kept = job[~job.measure.isin(["crossing_step", "balance_step"]) & (job.plan != "untuned")]
    here = whole[(whole.plan == "last:6") & ~whole.measure.isin(["crossing_step", "balance_step"])]
    columns = [name for name in whole.columns if name != "published"]
    pd.testing.assert_frame_equal(here[columns].reset_index(drop=True), kept[columns].reset_index(drop=True))
    untuned = whole[(whole.plan == "untuned") & (whole.unit == "token")]
    assert sorted(zip(untuned.model, untuned.data, strict=True)) == [
        ("multilingual/model", "test"), ("native/model", "test"), ("native/model", "validation"),
    ]  # fmt: skip
    assert len(whole[whole.measure == "balance_step"]) == 2 * len(PLANS)


def test_published_values_stand_beside_the_rows_they_are_of(reproduced):
    whole = reproduced[2]
    beside = whole[whole.published.notna()]
    token = beside[(beside.measure == "perplexity") & (beside.unit == "token")]
    first = token[(token.step == 0) & (token.data != "test")]
    assert dict(zip(first.target, first.published, strict=True)) == {
        "qaa": 11.54,
        "others": 6.08,
    }
    tests = token[token.data == "test"]
    assert dict(zip(tests.plan, tests.published, strict=True)) == {
        line["plan"]: float(line["value"]) for line in PUBLISHED.where(measure="perplexity", data="test")
    }
    assert set(tests[tests.plan == "untuned"].model) == {"native/model"}
    far = beside[beside.measure == "l2_drift"]
    assert set(far.other_model) == {"native/model"} and set(far.data) == {"validation, first 3"}
    assert len(far) == len(PUBLISHED.where(measure="l2_drift"))
    for line in PUBLISHED.where(measure="l2_drift"):
        step = 0 if line["step"] == "first" else whole.step.max()
        own = far[(far.plan == line["plan"]) & (far.layer == int(line["layer"])) & (far.step == step)]
        assert own.published.tolist() == [float(line["value"])]
    assert len(beside) == len(first) + len(tests) + len(far)


def test_a_finished_job_is_not_run_again(reproduced, monkeypatch):
    folder, _, whole, _ = reproduced
    make_small(monkeypatch)
    monkeypatch.setattr("isogloss.recipes.jobs.run_job", None)  # any call would fail
    again = ig.reproduce("hussain2020", out=folder, seeds=1, device="cpu", resume=True)
    pd.testing.assert_frame_equal(again, whole)


def test_the_command_prints_tables_and_findings_and_makes_the_page(reproduced, monkeypatch, capsys):
    folder = reproduced[0]
    make_small(monkeypatch)
    run = command_line(monkeypatch, capsys)
    monkeypatch.setattr("isogloss.report.can_draw", lambda: True)
    monkeypatch.setattr("isogloss.report.reproduction_view.BENEATH", {})  # the page of drift is tested elsewhere
    monkeypatch.setattr(hussain2020, "DISTANCES", dict([*hussain2020.DISTANCES.items()][:1]))  # all of them take long
    code, shown, told = run("reproduce", "hussain2020", "--out", folder, "--seeds", 1, "--device", "cpu", "--resume")
    assert code == 0, told
    for part in ("Table 1", "11.54 ± 1.28", "Table 2", "7.342", "Findings", "intervals are not available from 1 seed"):
        assert part in shown
    assert "held:" not in shown.replace("not held:", "")  # nothing is judged on one seed
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn == {"figure-1", "figure-2"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('class="judged not-judged"') == 11
    assert '"figure-1"' in page and '"figure-2"' in page
    assert "Table 2: test perplexity of qaa" in page
    assert (folder / "summary.txt").read_text(encoding="utf-8").startswith("Table 1")


def test_texts_alone_are_written_and_are_enough_where_the_data_is_not(tmp_path, monkeypatch):
    make_small(monkeypatch)
    assert all(summary(find(name), frame([])) == [] for name in names())  # what the command prints then
    rows = ig.reproduce("hussain2020", out=tmp_path / "run", seeds=1, only="texts", device="cpu")
    assert rows.empty and {path.name for path in (tmp_path / "run").iterdir()} >= {"run.json", "text"}
    assert not (tmp_path / "run" / "multilingual").exists() and not (tmp_path / "run" / "jobs").exists()
    monkeypatch.setattr("isogloss.papers.paper.INVENTED", None)  # any call would fail
    written = read_facts(tmp_path / "run")["hashes"]
    rows = ig.reproduce("hussain2020", out=tmp_path / "run", seeds=1, only="texts", device="cpu", resume=True)
    assert rows.empty and read_facts(tmp_path / "run")["hashes"] == written


def test_a_folder_of_another_reproduction_is_refused(reproduced, monkeypatch):
    make_small(monkeypatch)
    with pytest.raises(ig.InputError, match="already holds a run"):
        ig.reproduce("hussain2020", out=reproduced[0], seeds=1)
    with pytest.raises(ig.InputError, match="begun differently .arguments every"):
        ig.reproduce("hussain2020", out=reproduced[0], seeds=1, every=4, resume=True)


def test_runs_on_different_texts_are_not_put_into_one_table(reproduced, monkeypatch, tmp_path):
    make_small(monkeypatch)
    folder = reproduced[0]
    outline = find("hussain2020").plan(Request("smoke", folder, seeds=1))
    facts = folder / "jobs" / "last-3-seed-0" / "run.json"
    before = facts.read_text(encoding="utf-8")
    changed = json.loads(before)
    changed["hashes"]["data"]["qab"] = "another"
    facts.write_text(json.dumps(changed), encoding="utf-8")
    try:
        with pytest.raises(ig.InputError, match=r"last-3-seed-0 were run on a different data"):
            join_jobs(None, outline.jobs)
    finally:
        facts.write_text(before, encoding="utf-8")


def test_a_worker_runs_the_job_it_reads(reproduced, tmp_path, monkeypatch):
    folder = reproduced[0]
    options = {"target": {"qaa": str(folder / "text" / "qaa.txt")}, "device": "cpu", "epochs": 1, "words": 12}
    options["model"] = str(folder / "multilingual" / "model")
    given = {"name": "n", "recipe": "drift", "options": options}
    monkeypatch.setattr(jobs_module, "end_with_starter", lambda lease: None)  # would end this process with its input
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({**given, "folder": str(tmp_path / "run")})))
    jobs_module.main()
    assert read_facts(tmp_path / "run")["status"] == "finished"
    other = {**options, "model": str(tmp_path)}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({**given, "options": other, "folder": "none"})))
    with pytest.raises(SystemExit, match="is no model"):
        jobs_module.main()


def test_a_dry_run_tells_jobs_and_cost_and_writes_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "hussain2020", "--scale", "paper", "--dry-run")
    assert code == 0, told
    assert not list(tmp_path.iterdir())
    assert "isogloss drift bert-base-multilingual-cased" in shown and "--native wietsedv/bert-base-dutch-cased" in shown
    assert len(re.findall(r"^  --plans ", shown, re.MULTILINE)) == 15
    assert "all 15 jobs, 15 of drift: about 3.0 hours one by one" in shown  # 5 plans, 3 seeds
    assert "723 s a job of drift" in shown and "as measured, or guessed from that, on one H200" in shown
    code, shown, _ = run("reproduce", "hussain2020", "--scale", "mini", "--dry-run", "--only", "last:1", "--out", "x")
    assert code == 0
    assert "first, native:" in shown and "--depth 12 --width 384 --heads 6" in shown  # as mini has
    assert re.findall(r"--plans (\S+) --seed (\d)", shown) == [("last:1", "0"), ("last:1", "1"), ("last:1", "2")]
    assert "about 1.1 hours one by one" in shown


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("hussain2020").plan(Request("smoke", tmp_path))
    for job in (*outline.before, outline.jobs[0]):
        parse(" ".join(job.words).split()[1:])
    assert outline_lines(outline, selected(outline.jobs, "last:6,seed=1"))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"scale": "huge"}, "--scale takes smoke or mini or paper, or a file of settings, not 'huge'"),
        ({"only": "last:5"}, "--only 'last:5' chooses no job of this paper; it has plan last:12"),
        ({"only": "seed=3"}, "--only 'seed=3' chooses no job of this paper; it has plan last:12"),
        ({"rates": "1e-5"}, "--rates is no option of hussain2020, whose own are: --text, --native, --every"),
        ({"seeds": 0}, "--seeds must be at least 1"),
        ({"every": 0}, "--every must be at least 1"),
        ({"parallel": 0}, "--parallel must be at least 1"),
        ({"model": "mini"}, "--scale smoke makes its own model"),
        ({"scale": "mini"}, "no data folder is set; give --data DIR"),
        ({"scale": "mini", "data": "."}, "drift/nl.txt is missing; docs/reproduce.md lists the files"),
        ({"scale": "mini", "data": ".", "text": "gone.txt"}, "gone.txt"),
        ({"scale": "mini", "model": "/"}, "/ is no model"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options, part, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    with pytest.raises(ig.InputError, match=re.escape(part)):
        ig.reproduce("hussain2020", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_model_that_cannot_be_used_leaves_no_folder_behind(tmp_path):
    (tmp_path / "data" / "xnli").mkdir(parents=True)
    (tmp_path / "data" / "drift").mkdir()
    (tmp_path / "data" / "drift" / "nl.txt").write_text("".join(f"Dit is zin {one}.\n" for one in range(100)))
    for language in ("en", "de", "fr", "es", "ru", "zh"):
        for part in ("dev", "test"):
            lines = "".join(f"{part} {one}\th\tneutral\n" for one in range(5))
            (tmp_path / "data" / "xnli" / f"{part}-{language}.tsv").write_text(lines)
    (tmp_path / "empty").mkdir()
    given = {
        "scale": "mini",
        "seeds": 1,
        "data": str(tmp_path / "data"),
        "native": str(tmp_path / "empty"),
        "device": "cpu",
    }
    with pytest.raises(ig.InputError, match="empty is no model"):
        ig.reproduce("hussain2020", out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_paper_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(ig.InputError, match="no paper 'nobody1999' to reproduce; there is .*hussain2020"):
        ig.reproduce("nobody1999", out=tmp_path / "run")
