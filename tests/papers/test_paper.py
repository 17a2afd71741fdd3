"""What planning any paper takes: texts, scales, and jobs that belong together."""

import json
from pathlib import Path

import pytest

import isogloss as ig
from isogloss.papers.paper import PREPARED, Outline, Paper, Request, Texts, join_jobs, option, scale_table
from isogloss.recipes.jobs import Job


def never():
    raise AssertionError("read although it was prepared")


def test_texts_are_made_when_they_are_needed_and_written_once(tmp_path):
    Texts(tmp_path / "text", never).path("a.txt")  # a dry run reads nothing
    contents = {"a.txt": "één\n", "part/b.txt.gz": "twee\n"}
    texts = Texts(tmp_path / "text", lambda: contents, wanted={"a.txt": 2, "part/b.txt.gz": 1}, notes=["few"])
    texts.write()
    assert Path(texts.path("a.txt")).read_text(encoding="utf-8") == "één\n"
    assert set(texts.facts["hashes"]) == set(contents)
    assert texts.facts["notes"] == [
        "few",
        "a.txt has 1 lines, where this scale takes 2",
    ]
    assert not (tmp_path / "text" / PREPARED).exists()


def test_prepared_texts_are_taken_as_they_are_unless_something_else_is_asked_for(tmp_path):
    contents = {"a.txt": "een\n", "b.txt.gz": "twee\n"}
    with pytest.raises(ig.InputError, match="holds no prepared texts"):
        Texts(tmp_path, never, asked={"pairs": 5}, must_exist=True).facts["hashes"]
    first = Texts(tmp_path, lambda: contents, asked={"pairs": 5, "shares": (0.1, 1.0)}, notes=["few"])
    first.write()
    again = Texts(tmp_path, never, asked={"pairs": 5, "shares": (0.1, 1.0)})
    again.write()
    assert again.facts["hashes"] == first.facts["hashes"] and again.facts["notes"] == ["few"]
    with pytest.raises(ig.InputError, match="their pairs is 5, and 6 is asked for"):
        Texts(tmp_path, never, asked={"pairs": 6}).facts["hashes"]
    (tmp_path / "a.txt").write_text("drie\n", encoding="utf-8")
    with pytest.raises(ig.InputError, match=r"a\.txt is not what it was"):
        Texts(tmp_path, never, asked={"pairs": 5}).facts["hashes"]
    (tmp_path / "a.txt").unlink()
    with pytest.raises(ig.InputError, match=r"a\.txt is missing"):
        Texts(tmp_path, never, asked={"pairs": 5}).facts["hashes"]


def test_options_take_the_place_of_the_scales_own_settings():
    scales, options = scale_table(
        model=(None, "a", "b"),
        steps=option("updates", 10, 100, 1000),
        width=option("width", 8, 8, 8, recorded=False),
        text=option("a file", own_data=True),
    )
    planned = []

    def outline(request, scale):
        planned.append(vars(scale))
        return Outline("", {"model": scale.model}, None, [], {}, "")

    paper = Paper("a2020", "A", scales, options, outline, None, [], None, None)
    arguments = paper.plan(Request("mini", Path("out"), model="c"), steps=None, width=16).arguments
    assert planned == [{"model": "c", "steps": 100, "width": 16, "text": None, "given": {"width": 16}}]
    assert arguments == {"paper": "a2020", "scale": "mini", "model": "c", "steps": 100}
    with pytest.raises(ig.InputError, match="--scale smoke makes its own languages and models"):
        paper.plan(Request("smoke", Path("out")), text="text.txt")
    with pytest.raises(ig.InputError, match="--steps must be at least 1, not 0"):
        paper.plan(Request("smoke", Path("out")), steps=0)


def test_jobs_that_must_agree_are_refused_where_they_do_not(tmp_path):
    jobs = []
    for name, hashes in (("a", {"model": 1, "data": 2}), ("b", {"model": 1, "data": 3})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"hashes": hashes}))
        jobs.append(Job(name, "drift", {"model": "m"}, tmp_path / name, {"source": name}))
    with pytest.raises(ig.InputError, match="b were run on a different data; they are no runs of one reproduction"):
        join_jobs(None, jobs)
    join_jobs(None, jobs, lambda job, hashes: {("model",): hashes["model"]})
    join_jobs(None, jobs, lambda job, hashes: {(job.coordinates["source"], "data"): hashes["data"]})
