"""pan2021 from end to end at a scale of seconds, and the script that prepares its texts."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest
from pan_data import data_folder, small_scale

import isogloss as ig
from isogloss.papers import Request, find
from isogloss.papers.pan2021.published import RISE
from isogloss.runs import read_facts, read_rows
from tiny_commands import command_line, parse
from tiny_reproduction import make_small_pan

ALIGNMENTS = {"before", "both", "tlm", "contrastive", "unshuffled", "10%", "search"}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A reproduction with one seed, made by two commands; the rows after each, and its folder."""
    folder = tmp_path_factory.mktemp("pan") / "run"
    with pytest.MonkeyPatch.context() as patch:
        make_small_pan(patch)
        part = ig.reproduce("pan2021", out=folder, seeds=1, only="part=qa,both", device="cpu")
        whole = ig.reproduce("pan2021", out=folder, seeds=1, device="cpu", resume=True)
    return folder, part, whole


def test_a_part_brings_the_alignment_it_needs_and_each_command_collects(reproduced):
    folder, part, whole = reproduced
    assert set(part.variant) == {"before", "both"} and set(part[part.task != ""].task) == {"qa"}
    assert set(part[part.measure == "perplexity"].variant) == {"before", "both"}
    assert {one.partition(" ")[0] for one in whole.variant} == ALIGNMENTS
    assert read_facts(folder)["status"] == "finished"
    pd.testing.assert_frame_equal(read_rows(folder), whole)
    assert {path.name for path in folder.iterdir()} >= {"text", "jobs", "packed", "multilingual", "summary.txt"}
    packed = [path for path in (folder / "packed").iterdir() if path.is_dir()]
    assert len(packed) == 2  # all the text, and a tenth of it: six alignments share them


def test_scores_are_those_of_the_jobs_and_changes_are_their_differences(reproduced):
    folder, _, whole = reproduced
    for name, variant, data in (
        ("nli-tlm", "tlm", "xnli"),
        ("translate-both", "both translated", "xnli"),
        ("translate-switched-before", "before switched", "xnli"),
        ("qa-both", "both", "mlqa"),
    ):
        job = read_rows(folder / "jobs" / f"{name}-seed-0")
        measure = "answer_f1" if "qa" in name else "accuracy"
        mine = job[(job.measure == measure) & job.step.isna() & job.seed.notna() & (job.target != "others")]
        mine = mine[mine.data.str.startswith(data)].set_index("target").value
        ours = whole[
            (whole.measure == measure) & (whole.variant == variant) & whole.seed.notna() & (whole.data == data)
        ]
        ours = ours.set_index("target").value
        assert len(mine) > 1 and (ours[mine.index] == mine).all()
        assert ours["others"] == pytest.approx(mine.drop("qaa").mean())
    changes = whole[(whole.measure == "change") & (whole.unit == "accuracy") & (whole.target == "others")]
    scores = whole[(whole.measure == "accuracy") & (whole.target == "others")].set_index("variant").value
    for one in changes.itertuples():
        alignment, _, training = one.variant.partition(" ")
        assert one.value == pytest.approx(scores[one.variant] - scores[f"before {training}".strip()]) and one.n == 1
    assert set(changes.variant) == (ALIGNMENTS - {"before"}) | {"both translated", "both switched"}
    assert changes[changes.variant == "both"].published.item() == RISE
    assert changes[changes.variant != "both"].published.isna().all()


def test_perplexity_is_that_of_the_first_and_the_last_update(reproduced):
    folder, _, whole = reproduced
    spoken = whole[(whole.measure == "perplexity") & (whole.unit == "token") & (whole.target == "qab")]
    spoken = spoken.set_index("variant").value
    for name in ("tlm", "search"):
        job = read_rows(folder / "jobs" / f"align-{name}-seed-0")
        curve = (
            job[(job.measure == "perplexity") & (job.unit == "token") & (job.target == "qab")].set_index("step").value
        )
        assert (spoken["before"], spoken[name]) == (curve[0], curve[curve.index.max()])
        factor = whole[(whole.measure == "factor") & (whole.variant == name) & (whole.unit == "token")]
        assert factor.set_index("target").value["qab"] == pytest.approx(spoken[name] / spoken["before"])


def test_maps_are_of_the_aligned_models_and_centred(reproduced):
    folder, _, whole = reproduced
    job = read_rows(folder / "jobs" / "map-search-seed-0")
    mine = job[(job.measure == "p@1") & (job.variant == "centred") & (job.data == "tatoeba.qaa-qac.tsv")]
    ours = whole[(whole.measure == "p@1") & (whole.variant == "search") & (whole.data == "tatoeba")]
    ours = ours[ours.source.isin(("qaa", "qac")) & ours.target.isin(("qaa", "qac"))]
    assert sorted(ours.value) == sorted(mine.value) and len(mine) == 2 * 3
    before = whole[whole.layer.notna() & (whole.variant == "before")]
    assert before.seed.isna().all() and set(before.data) == {"xnli", "tatoeba"}
    hashes = read_facts(folder / "jobs" / "map-search-seed-0")["hashes"]["model"]
    assert hashes != read_facts(folder / "jobs" / "map-before")["hashes"]["model"]


def test_the_command_prints_tables_and_findings_and_draws(reproduced, monkeypatch, capsys):
    from isogloss.report import write_figures, write_page

    folder = reproduced[0]
    make_small_pan(monkeypatch)
    run = command_line(monkeypatch, capsys)
    code, shown, told = run("reproduce", "pan2021", "--out", folder, "--seeds", 1, "--device", "cpu", "--resume",
                            "--no-report")  # fmt: skip
    assert code == 0, told
    for part in ("Table 1: before and after", "both, 10% of the text", "Table 6", "Findings", "from 1 seed: 3 are"):
        assert part in shown
    assert shown.count("not judged:") == 9
    drawn = {path.stem for path in write_figures(folder, folder / "figures")}
    assert drawn == {"tatoeba-by-layer", "xnli-by-layer", "by-amount-of-text"}
    page = write_page([folder], folder / "page.html", figures=False).read_text(encoding="utf-8")
    assert page.count('class="judged not-judged"') == 9 and page.count('"section":"pictures"') == 3


def test_jobs_of_other_models_or_texts_are_refused(reproduced, monkeypatch):
    make_small_pan(monkeypatch)
    folder = reproduced[0]
    outline = find("pan2021").plan(Request("smoke", folder, seeds=1))
    for name, key in (("nli-tlm-seed-0", "data"), ("translate-both-seed-0", "model")):
        facts = folder / "jobs" / name / "run.json"
        before = facts.read_text(encoding="utf-8")
        changed = json.loads(before)
        changed["hashes"][key] = "another"
        facts.write_text(json.dumps(changed), encoding="utf-8")
        try:
            with pytest.raises(ig.InputError, match=f"run with a different {'text' if key == 'data' else key}"):
                find("pan2021").collect(None, outline.jobs)
        finally:
            facts.write_text(before, encoding="utf-8")


def test_commands_of_a_dry_run_parse(tmp_path):
    outline = find("pan2021").plan(Request("mini", tmp_path))
    first = {(job.recipe, job.place["part"], job.place.get("training")): job for job in reversed(outline.jobs)}
    assert len(first) == 8
    for job in (*first.values(), *find("pan2021").plan(Request("smoke", tmp_path)).before):
        parse(" ".join(job.words).split()[1:])


def test_the_script_prepares_what_a_run_would_write(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("pan_text", Path(__file__).parents[2] / "scripts" / "pan_text.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setitem(script.SCALES, "mini", small_scale())
    folder = data_folder(tmp_path / "data")
    assert script.main([str(folder), str(tmp_path / "out")]) == 0
    assert "en-nl: 40 of tatoeba_train" in capsys.readouterr().out
    made = find("pan2021").plan(Request("mini", tmp_path / "run", data=str(folder)))
    taken = find("pan2021").plan(Request("mini", tmp_path / "run"), texts=str(tmp_path / "out"))
    assert made.hashes() == taken.hashes()
    words = next(job.words for job in taken.jobs if job.name == "nli-both-seed-2")
    assert f"--train en={tmp_path / 'out' / 'nli' / 'mnli-train.tsv'}" in words
    assert script.main([str(tmp_path / "nothing"), str(tmp_path / "other")]) == 2
    assert "nothing" in capsys.readouterr().err
