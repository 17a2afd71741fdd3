"""What planning any paper takes: texts, scales, and jobs that belong together."""

import json
from importlib import import_module
from pathlib import Path

import pytest

import isogloss as ig
from isogloss.papers.paper import PREPARED, Outline, Paper, Request, Texts, find, join_jobs, names, read_scales
from isogloss.recipes.jobs import Job


def texts_of(folder, contents, **more):
    return Texts(Request("mini", folder, data=str(folder)), lambda data: contents, **more)


def test_texts_are_made_when_they_are_needed_and_written_once(tmp_path):
    Texts(Request("mini", tmp_path / "run"), None).path("a.txt")  # a dry run reads nothing
    contents = {"a.txt": "één\n", "part/b.txt.gz": "twee\n"}
    texts = texts_of(tmp_path, contents, wanted={"a.txt": 2, "part/b.txt.gz": 1}, notes=["few"])
    texts.write()
    assert Path(texts.path("a.txt")).read_text(encoding="utf-8") == "één\n"
    assert set(texts.facts["hashes"]) == set(contents)
    assert texts.facts["notes"] == ["few", "a.txt has 1 lines, where this scale takes 2"]


def test_texts_that_were_written_are_taken_as_they_are_and_need_no_data(tmp_path):
    first = texts_of(tmp_path, {"a.txt": "een\n", "b.txt.gz": "twee\n"}, notes=["few"])
    first.write()
    (tmp_path / "text" / "b.txt.gz").unlink()  # nothing reads it any more
    again = Texts(Request("mini", tmp_path), None)
    again.write()
    assert again.facts == first.facts and (tmp_path / "text" / PREPARED).is_file()


def test_smoke_scale_reads_invented_data_sets_by_the_same_readers(tmp_path):
    def make(data):
        return {"x.txt": (data / "xnli" / "dev-qab.tsv").read_text(encoding="utf-8")}

    contents = Texts(Request("smoke", tmp_path), make).contents
    assert contents["x.txt"].count("\tneutral\n") == 20
    assert set(contents) == {"x.txt", "known.qaa.txt", "known.qab.txt", "known.qac.txt"}
    assert not list(tmp_path.iterdir())
    with pytest.raises(ig.InputError, match="no data folder is set"):
        Texts(Request("mini", tmp_path), make).facts["hashes"]


def paper_of(planned):
    """A paper whose settings are those of muller2021, and whose planned settings are kept in a list."""

    def outline(request, scale):
        planned.append(scale)
        return Outline("", {"model": scale.model}, None, [], {})

    return Paper("a2020", "A", *read_scales("muller2021"), outline, None, [], None, None)


def test_options_take_the_place_of_the_scales_own_settings():
    planned = []
    paper = paper_of(planned)
    arguments = paper.plan(Request("mini", Path("out"), model="c"), epochs=None, tested=16).arguments
    (scale,) = planned
    assert (scale.model, scale.epochs, scale.tested, scale.legacy) == ("c", 10, 16, None)
    sizes = {"examples": None, "tested": 16, "compared": 1000, "epochs": 10, "rate": 1e-4}
    assert arguments == {"paper": "a2020", "scale": "mini", "model": "c", **sizes}
    assert paper.options["epochs"].help == "passes over the training sentences; default: by --scale"
    with pytest.raises(ig.InputError, match="--scale smoke makes its own model"):
        paper.plan(Request("smoke", Path("out"), model="c"))
    with pytest.raises(ig.InputError, match="--epochs must be at least 1, not 0"):
        paper.plan(Request("smoke", Path("out")), epochs=0)


def test_a_file_of_settings_is_a_scale_of_ones_own(tmp_path):
    planned = []
    paper = paper_of(planned)
    (tmp_path / "own.toml").write_text('base = "paper"\nbatch = 4\nexamples = ""\nunseen = ["is"]\n')
    outline = paper.plan(Request(str(tmp_path / "own.toml"), tmp_path), epochs=1)
    scale = planned[0]
    assert (scale.batch, scale.examples, scale.unseen, scale.epochs, scale.rate) == (4, None, ["is"], 1, 5e-5)
    assert outline.arguments["scale"] == "paper" and outline.arguments["batch"] == 4
    assert outline.conditions.startswith("A; at paper scale (own.toml): ")
    for content, part in (
        ("btch = 4", "own.toml: btch is no setting of a2020"),
        ('base = "huge"', "base is smoke or mini or paper, not 'huge'"),
        ("batch 4", "own.toml is no file of settings"),
    ):
        (tmp_path / "own.toml").write_text(content)
        with pytest.raises(ig.InputError, match=part):
            paper.plan(Request(str(tmp_path / "own.toml"), tmp_path))


def test_settings_are_of_one_kind_at_every_scale():
    for paper in map(find, names()):
        for setting, value in vars(paper.scales["mini"]).items():
            values = [vars(scale)[setting] for scale in paper.scales.values()]
            assert len({type(each) for each in values if each is not None}) <= 1, (paper.name, setting, value)
    for name in ("hussain2020", "muller2021"):
        told = find(name).options["legacy"].help
        assert all(defect in told for defect in import_module(f"isogloss.papers.{name}").DEFECTS)


def finished_jobs(folder, **jobs):
    """Finished jobs, from their options and hashes."""
    for name, (options, hashes) in jobs.items():
        (folder / name).mkdir()
        (folder / name / "run.json").write_text(json.dumps({"hashes": hashes}))
        yield Job(name, "transfer", options, folder / name, {})


def test_jobs_that_read_different_text_by_one_name_or_weights_from_one_folder_are_refused(tmp_path):
    first = {"model": "m"}, {"model": 1, "data": {"en train": 2, "en test": 3}}
    other = {"model": "n"}, {"model": 9, "data": {"en train": 2, "de test": 4}}
    jobs = list(finished_jobs(tmp_path, first=first, other=other))
    join_jobs(None, jobs)
    text = {"model": "m"}, {"model": 1, "data": {"en train": 5}}
    weights = {"model": "n"}, {"model": 8, "data": {}}
    for number, (changed, part) in enumerate(((text, "data"), (weights, "model"))):
        last = finished_jobs(tmp_path, **{f"last{number}": changed})
        with pytest.raises(ig.InputError, match=f"last{number} were run on a different {part}; they are no runs"):
            join_jobs(None, [*jobs, *last])


def test_the_same_file_may_be_read_in_other_languages_and_weights_may_be_drawn_anew(tmp_path):
    maps = [({"languages": code}, {"data": {"xnli.tsv": code}}) for code in ("en,de", "en,zh")]
    join_jobs(None, list(finished_jobs(tmp_path, a=maps[0], b=maps[1])))
    fresh = [({"other": "n", "random_weights": True}, {"other": number}) for number in range(2)]
    join_jobs(None, list(finished_jobs(tmp_path, c=fresh[0], d=fresh[1])))
