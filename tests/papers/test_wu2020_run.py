"""The paper from end to end at a scale of seconds: text, packing, models, all that reads them, one table, the page."""

import json
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest

import isogloss as ig
from isogloss.papers import Request, find
from isogloss.papers.wu2020 import scales
from isogloss.runs import read_facts, read_rows
from tiny_commands import command_line, parse

SMOKE = scales.SCALES["smoke"]
SMALL = replace(
    SMOKE, training={**SMOKE.training, "steps": 2}, variants=("Default", "Sep Emb"), pairs=24, examples=8, tested=8,
    inferred=8, stitched={**SMOKE.stitched, "layers": "0,4"},
)  # fmt: skip


def make_small(patch):
    patch.setitem(scales.SCALES, "smoke", SMALL)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """Text packed by one command, moved, and all the rest by another where neither text to pretrain on nor data is."""
    first, folder = (tmp_path_factory.mktemp("papers") / name for name in ("here", "there"))
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        begun = ig.reproduce("wu2020", out=first, seeds=1, only="part=pack", device="cpu")
        shutil.copytree(first, folder)
        for path in (folder / "text").glob("pretrain.*"):
            path.unlink()
        patch.setattr("isogloss.papers.wu2020.texts.invented_texts", None)  # the text that was written is taken
        table = ig.reproduce("wu2020", out=folder, seeds=1, device="cpu", resume=True)
    return first, folder, begun, table


def test_packing_is_apart_and_what_was_packed_is_enough(reproduced):
    first, folder, begun, table = reproduced
    assert begun.empty and not (first / "models").exists()
    packed = {path.name for path in (first / "streams").iterdir()}
    assert packed == {"qaa", "qab", "qaa-qab", "qaa-qaa2.own", "qaa-qab.own"}
    assert read_facts(folder)["status"] == "finished" and not list((folder / "text").glob("pretrain.*"))
    models = {path.name for path in (folder / "models").iterdir()}
    assert models == {
        "qaa.seed-0", "qaa.seed-1", "qab.seed-0", "qaa-qab.seed-0", "qaa-qaa2.sep-emb.seed-0", "qaa-qab.sep-emb.seed-0",
    }  # fmt: skip
    assert (folder / "models" / "qaa-qab.sep-emb.seed-0" / "model" / "qab" / "config.json").is_file()
    pd.testing.assert_frame_equal(read_rows(folder), table)


def test_rows_are_those_of_the_jobs(reproduced):
    folder, table = reproduced[1], reproduced[3]
    for kind, data in (("bilingual", "train"), ("monolingual", "train"), ("random", "test")):
        job = read_rows(folder / "jobs" / f"rotate-qab-{kind}-seed-0")
        mine = job[(job.measure == "cka") & (job.variant == data)].sort_values("layer")
        here = table[(table.measure == "cka") & (table.model == kind) & (table.target == "qab") & (table.seed == 0)]
        ours = here[here.layer.notna()].sort_values("layer")
        assert ours.value.tolist() == mine.value.tolist() and ours.floor.tolist() == mine.floor.tolist()
        assert here[here.layer.isna()].value.item() == pytest.approx(mine.value.mean())
        assert len(ours) == 9
    job = read_rows(folder / "jobs" / "stitch-qab-bilingual-ner")
    mine = job[(job.measure == "span_f1") & (job.target == "qab") & job.seed.notna() & (job.layer == 4)]
    ours = table[(table.task == "stitch ner") & (table.model == "bilingual") & (table.layer == 4) & table.seed.notna()]
    assert dict(zip(ours.variant, ours.value, strict=True)) == dict(zip(mine.variant, mine.value, strict=True))
    job = read_rows(folder / "jobs" / "transfer-qab-sep-emb-parsing")
    mine = job[(job.measure == "las") & job.step.isna() & job.seed.notna() & (job.target == "qab")]
    ours = table[(table.task == "table-1 parsing") & (table.variant == "Sep Emb") & (table.target == "qab")]
    assert ours[ours.seed.notna()].value.tolist() == mine.value.tolist()
    words = table[(table.task == "lexicon") & (table.measure == "p@1")]
    assert set(words.model) == {"monolingual", "static"} and set(words.unit) == {"word", "piece"}
    assert set(table[table.task == "pretrain"].data) == {"qaa", "qab", "qaa-qab", "qaa-qaa2"}


def test_each_side_is_read_by_the_model_it_should_be(reproduced):
    folder = reproduced[1]

    def arguments(name):
        facts = read_facts(folder / "jobs" / name)
        return facts["arguments"], facts["hashes"]

    given, _ = arguments("rotate-qaa2-monolingual-seed-0")
    assert given["model"].endswith("qaa.seed-0/model") and given["other"].endswith("qaa.seed-1/model")
    given, _ = arguments("rotate-qaa2-bilingual-seed-0")
    assert given["model"].endswith("sep-emb.seed-0/model/qaa") and given["other"].endswith("sep-emb.seed-0/model/qaa2")
    given, hashes = arguments("rotate-qab-random-seed-0")
    assert given["random"] and hashes["other"] != arguments("rotate-qab-monolingual-seed-0")[1]["other"]
    given, hashes = arguments("transfer-qab-sep-emb-ner")
    assert given["plans"] == "freeze:0" and given["model"].endswith("model/qaa") and list(hashes["own"]) == ["qab"]
    assert arguments("transfer-qab-default-ner")[0]["plans"] == "freeze:-1"


def test_the_command_prints_tables_and_findings(reproduced, monkeypatch, capsys):
    folder = reproduced[1]
    make_small(monkeypatch)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "wu2020", "--out", folder, "--seeds", 1, "--device", "cpu", "--resume",
                            "--only", "part=lexicon", "--no-report")  # fmt: skip
    assert code == 0, told
    for part in ("Figure 7, qaa-qab", "Figure 6: sentences found", "Figure 5, NER", "Figure 4", "Table 1", "Findings"):
        assert part in shown
    assert shown.count("not judged:") + shown.count("held:") >= 12


def test_the_report_shows_the_papers_own_figures(reproduced, tmp_path):
    from isogloss.report import write_figures, write_page

    folder = reproduced[1]
    drawn = {path.stem for path in write_figures(folder, folder / "figures")}
    assert drawn == {"figure-7", "figure-6", "figure-6-and-7", "figure-5-ner", "figure-5-parsing", "figure-4"}
    page = write_page([folder], tmp_path / "page.html", figures=False).read_text(encoding="utf-8")
    assert page.count('class="judged ') == 12 and page.count('"section":"pictures"') == 6
    assert "Table 1: what languages share" in page


def test_jobs_of_other_weights_are_refused(reproduced, monkeypatch):
    folder = reproduced[1]
    make_small(monkeypatch)
    jobs = [job for job in find("wu2020").plan(Request("smoke", folder, seeds=1)).jobs if job.place["part"] == "stitch"]
    facts = jobs[1].folder / "run.json"
    before = facts.read_text(encoding="utf-8")
    changed = json.loads(before)
    changed["hashes"]["model"] = "another"
    same = next(job for job in jobs if job.first == jobs[1].first and job is not jobs[1])
    facts.write_text(json.dumps(changed), encoding="utf-8")
    try:
        with pytest.raises(ig.InputError, match="were run with different weights of"):
            find("wu2020").collect(None, [same, jobs[1]])
    finally:
        facts.write_text(before, encoding="utf-8")


def test_a_dry_run_tells_jobs_and_cost_and_needs_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "wu2020", "--scale", "paper", "--dry-run", "--only", "part=pretrain")
    assert code == 0, told
    assert not list(tmp_path.iterdir())
    assert "--depth 8 --width 768 --heads 12 --dropout 0.1" in shown and "--decay inverse-sqrt" in shown
    assert "Wiki-CC" not in shown and "millions" not in shown
    (tmp_path / "crawl").mkdir()
    code, shown, _ = run(
        "reproduce", "wu2020", "--scale", "paper", "--dry-run", "--crawl", "crawl", "--only", "Wiki-CC"
    )
    assert code == 0 and "crawl/fr.txt" in shown and "en-zh.wiki-cc.seed-0" in shown


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("wu2020").plan(Request("mini", tmp_path))
    for job in outline.jobs[::5]:
        parse([part for word in job.words for part in word.split(" ", 1)][1:])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"text": "."}, "--scale smoke makes its own languages and models"),
        ({"model": "mini"}, "--model is no option here"),
        ({"crawl": "."}, "--crawl . goes with --scale paper"),
        ({"width": 2}, "--width must be at least 8"),
        ({"compared": 5}, "--compared must be at least 16"),
        ({"only": "part=map"}, "--only 'part=map' chooses no job of this paper; it has part pack, pretrain"),
        ({"native": "x"}, "--native is no option of wu2020"),
        ({"scale": "mini"}, "--text is missing: give a folder of text to pretrain on"),
        ({"scale": "mini", "text": "gone"}, "gone is no folder"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options, part, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOGLOSS_DATA", raising=False)
    with pytest.raises(ig.InputError, match=re.escape(part)):
        ig.reproduce("wu2020", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()
