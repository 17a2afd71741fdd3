"""jexus2020 from end to end at a scale of seconds."""

import json

import pandas as pd
import pytest

import isogloss as ig
from isogloss import cli
from isogloss.papers import Request, find
from isogloss.runs import read_facts, read_rows
from tiny_commands import command_line, parse
from tiny_reproduction import make_small_jexus

POINTS = ["freeze:-1", "freeze:0", "freeze:1", "freeze:2"]


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
    assert set(part[part.task.ne("")].variant) == {"freeze:1", "freeze:1 oracle"}
    assert set(whole[whole.measure == "accuracy"].variant) == {*POINTS, *(f"{one} oracle" for one in POINTS)}
    facts = read_facts(folder)
    assert facts["status"] == "finished" and set(facts["jobs"]["hashes"]) == {"transfer", "map"}
    pd.testing.assert_frame_equal(read_rows(folder), whole)
    assert {path.name for path in (folder / "jobs").iterdir()} == {
        "freeze-nothing", "freeze-0", "freeze-1", "freeze-2", "map-xnli", "map-qaa-qab",
    }  # fmt: skip


def test_results_are_those_of_the_jobs_and_means_are_over_xnli(reproduced):
    folder, _, _, whole = reproduced
    job = read_rows(folder / "jobs" / "freeze-2")
    wanted = job[job.step.isna() & job.seed.notna() & (job.target != "others")]
    here = whole[whole.variant.str.startswith("freeze:2") & whole.seed.notna() & (whole.target != "others")]
    columns = [name for name in whole.columns if name != "published"]
    pd.testing.assert_frame_equal(here[columns].reset_index(drop=True), wanted[columns].reset_index(drop=True))
    scores = whole[(whole.measure == "accuracy") & (whole.variant == "freeze:2") & (whole.seed == 1)]
    by_target = scores.set_index("target").value
    assert by_target["others"] == pytest.approx((by_target["qab"] + by_target["qac"]) / 2)
    floors = scores.set_index("target").floor
    assert floors["others"] == pytest.approx((floors["qab"] + floors["qac"]) / 2)
    mean = whole[(whole.measure == "accuracy") & (whole.variant == "freeze:2") & whole.seed.isna()]
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


def test_the_command_prints_tables_and_findings_and_makes_the_page(reproduced, monkeypatch, capsys):
    folder = reproduced[0]
    make_small_jexus(monkeypatch)
    run = command_line(monkeypatch, capsys)
    monkeypatch.setattr(cli, "_can_draw", lambda: True)
    monkeypatch.setattr("isogloss.report.views.BENEATH", {})  # tested elsewhere
    monkeypatch.setattr("isogloss.report.word_map.write_word_maps", lambda *_: [])
    code, shown, told = run("reproduce", "jexus2020", "--out", folder, "--seeds", 2, "--device", "cpu", "--resume")
    assert code == 0, told
    for part in ("Table 1: accuracy (%)", "mean of targets", "Table 2", "Findings", "from 2 seeds: 3 are the fewest"):
        assert part in shown
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert {"accuracy-by-frozen-layers", "alignment-by-layer", "accuracy-against-alignment"} <= drawn
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('class="judged not-judged"') == 4
    assert page.count('"section":"pictures"') == 3


def test_seeds_and_options_are_those_the_folder_was_begun_with(reproduced, monkeypatch):
    make_small_jexus(monkeypatch)
    with pytest.raises(ig.InputError, match="begun differently .arguments seeds"):
        ig.reproduce("jexus2020", out=reproduced[0], seeds=3, resume=True)
    with pytest.raises(ig.InputError, match="--native is no option of jexus2020, whose own are: --train, --languages"):
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
            find("jexus2020").collect(None, outline.jobs)
    finally:
        facts.write_text(before, encoding="utf-8")


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("jexus2020").plan(Request("smoke", tmp_path))
    for job in (*outline.before, outline.jobs[0], outline.jobs[-1]):
        parse(" ".join(job.words).split()[1:])
