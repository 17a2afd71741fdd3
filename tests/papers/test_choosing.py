"""Which jobs a command runs, which options a paper has, and jobs as commands."""

import re

import pytest

import isogloss as ig
from isogloss.papers.paper import find, names, selected
from isogloss.recipes.jobs import Job, run_jobs
from isogloss.runs import read_rows


def some_jobs(tmp_path):
    places = [{"part": "tune", "plan": plan, "seed": seed} for plan in ("last:1", "last:6") for seed in (0, 1)]
    places.append({"part": "map", "layer": 1})
    return [Job(str(number), "drift", {"model": "m"}, tmp_path, place) for number, place in enumerate(places)]


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (None, [0, 1, 2, 3, 4]),
        ("last:6", [2, 3]),
        ("last:6,last:1,seed=1", [1, 3]),
        ("plan=last:1, seed=1", [1]),
        ("map", [4]),
        ("part=tune,seed=0", [0, 2]),
        ("texts", []),
    ],
)
def test_jobs_are_chosen_by_any_of_their_coordinates(only, found, tmp_path):
    jobs = some_jobs(tmp_path)
    assert [int(job.name) for job in selected(jobs, only)] == found


def test_what_a_chosen_job_needs_is_chosen_with_it_in_the_order_of_all(tmp_path):
    model, tuned, score, other = (tmp_path / name for name in ("model", "tuned", "score", "other"))
    jobs = [
        Job("score", "map", {"model": "m"}, score, {"part": "map"}, [tuned]),
        Job("model", "pretrain", {"model": "m"}, model, {"part": "model"}),
        Job("tuned", "drift", {"model": "m"}, tuned, {"part": "tune"}, [model]),
        Job("other", "drift", {"model": "m"}, other, {"part": "tune"}, [model]),
    ]
    assert [job.name for job in selected(jobs, "map")] == ["score", "model", "tuned"]
    assert [job.name for job in selected(jobs, "model")] == ["model"]


@pytest.mark.parametrize(
    ("only", "part"),
    [
        ("1", "--only '1' may be seed=1 or layer=1; write one of them"),
        ("task=ner", "--only 'task=ner' chooses no job of this paper; it has part tune, map; plan last:1, last:6; "),
        ("map,last:6", "--only 'map,last:6' leaves no job"),
    ],
)
def test_what_chooses_no_job_is_one_sentence(only, part, tmp_path):
    with pytest.raises(ig.InputError, match=re.escape(part)):
        selected(some_jobs(tmp_path), only)


def test_options_of_papers_are_none_unless_given_and_have_help_and_one_type():
    for paper in map(find, names()):
        assert all(each.help and each.default is None for each in paper.options.values())
        kinds = {each.kind for each in paper.options.values()}
        assert kinds <= {str | None, int | None, float | None, bool | None}


def test_words_of_a_job_are_what_a_command_takes(tmp_path):
    options = {"bitext": ["a", "b"], "keep": True, "cache": False, "train": {"en": "x", "nl": ["y", "z"]}, "none": None}
    assert Job("n", "map", {"model": "mini", **options}, tmp_path / "o", {}).words[2:-1] == [
        "mini", "--bitext a", "--bitext b", "--keep", "--no-cache", "--train en=x", "--train nl=y,z",
    ]  # fmt: skip


def test_a_job_may_be_a_map_of_files(tmp_path):
    (tmp_path / "text.tsv").write_text("en\tnl\n" + "".join(f"word {n}\twoord {n}\n" for n in range(6)))
    options = {"bitext": str(tmp_path / "text.tsv"), "languages": "en,nl", "layers": "1", "points": 0, "device": "cpu"}
    run_jobs([Job("map", "map", {"model": "mini", **options}, tmp_path / "run", {})])
    assert set(read_rows(tmp_path / "run").layer.dropna()) == {1}
