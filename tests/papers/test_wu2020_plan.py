"""Models and files that are planned, and texts that are cut."""

import json
from dataclasses import replace

import pytest

import isogloss as ig
from isogloss.papers import Request, find, selected
from isogloss.papers.wu2020 import published as paper
from isogloss.papers.wu2020.models import Model
from isogloss.papers.wu2020.scales import SCALES
from isogloss.papers.wu2020.texts import Texts, cut, task_files
from isogloss.progress import silent

PAPER = find("wu2020")
TARGETS = ("fr", "de", "ru", "zh", "nl")


def test_models_share_packed_text_where_their_pieces_are_the_same():
    names = {variant: Model(("en", "fr"), variant).packed for variant in paper.TABLE_1 if variant != "Wiki-CC"}
    assert names["Default"] == names["Sep L1-3"] == names["Sep L1-6"] == "en-fr"
    assert names["Sep Emb"] == names["Sep Emb + L1-3"] == names["Sep Emb + L1-6"]
    assert len(set(names.values())) == 5
    frozen = {variant: Model(("en", "fr"), variant).frozen for variant in paper.TABLE_1}
    assert frozen["Default"] == frozen["No anchors"] == -1 and frozen["Sep Emb"] == 0
    assert frozen["Sep L1-3"] == frozen["Sep Emb + L1-3"] == 3 and frozen["Sep Emb + L1-6"] == 6
    apart = {variant for variant in paper.TABLE_1 if Model(("en", "fr"), variant).apart}
    assert apart == set(paper.TABLE_1) - {"Default", "Wiki-CC", "Extra anchors"}


def test_the_mini_plan_has_the_models_that_were_asked_for(tmp_path):
    outline = PAPER.plan(Request("mini", tmp_path))
    models = [job for job in outline.jobs if job.place["part"] == "pretrain"]
    plain = sorted(f"{job.place['model']} {job.place['seed']}" for job in models if job.place["variant"] == "Default")
    assert plain == sorted(
        [f"{one} {seed}" for one in ("en", "fr", "en-fr") for seed in range(3)]
        + [f"{one} 0" for one in ("de", "ru", "zh", "nl", "en-de", "en-ru", "en-zh", "en-nl")]
    )
    assert len(models) == 17 + 1 + 2 * 8  # en-en2, and the variants of two pairs
    assert all(job.options["depth"] == 8 for job in models)
    assert len({job.folder for job in outline.jobs}) == len(outline.jobs)
    chosen = selected(outline.jobs, "part=stitch,target=ru,task=ner")
    assert {job.place["part"] for job in chosen} == {"pack", "pretrain", "stitch"}
    assert {job.place["model"] for job in chosen if job.place["part"] == "pretrain"} == {"en", "ru", "en-ru"}
    seconds = [one for one in outline.cost.basis if "34 models to pretrain" in one]
    assert seconds and 0.3 < outline.cost.hours < 2


def test_the_same_share_of_the_updates_warms_up_however_many_there_are(tmp_path):
    for steps, warm_up in ((None, 600), (1000, 100), (3, 0)):
        jobs = PAPER.plan(Request("mini", tmp_path), steps=steps).jobs
        found = {(job.options["steps"], job.options["warm_up"]) for job in jobs if job.place["part"] == "pretrain"}
        assert found == {(steps or 6000, warm_up)}


def test_a_finished_job_needs_nothing(tmp_path):
    def needs():
        jobs = PAPER.plan(Request("smoke", tmp_path)).jobs
        return next(job for job in jobs if job.name == "rotate-qab-bilingual-seed-0")

    before = needs()
    assert [folder.name for folder in before.needs] == ["qaa-qab.seed-0"]
    before.folder.mkdir(parents=True)
    (before.folder / "run.json").write_text('{"status": "finished"}', encoding="utf-8")
    assert not needs().needs


def data_folder(root):
    """A folder of data sets and one of text, a few rows of each file that the mini scale reads."""
    data, text = root / "data", root / "text"
    scale = SCALES["mini"]
    languages = ("en", *TARGETS)
    for name in ("xnli", "tatoeba", "tatoeba_train", "muse", "bilex_nl", "nli_en", "ud_train", "wikiann_panx"):
        (data / name).mkdir(parents=True)
    text.mkdir()
    for one in languages:
        lines = [f"{one} paragraph. {number}\n" for number in range(80)]
        (text / f"news.{one}.txt").write_text("".join(lines[:60]))
        (text / f"europarl.{one}.txt").write_text(f"{one} debate\n")
        (data / "xnli" / f"test-{one}.tsv").write_text("".join(f"p {k}\th {k}\tneutral\n" for k in range(9)))
        tree = "# sent_id = {}\n1\ta\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
        for part in ("train.rebuilt", "dev", "test"):
            name = f"{one}_{scale.treebanks[one]}-ud-{part}.conllu"
            (data / "ud_train" / name).write_text("".join(tree.format(k) for k in range(6)))
        for part in ("train", "dev", "test"):
            if part != "test" or one not in ("ru", "zh"):
                tags = "".join(f"{one}{k}\tO\n\n" for k in range(12))
                (data / "wikiann_panx" / f"{part}-{one}.tsv").write_text(tags)
    head = "\t".join(one for one in languages if one != "nl")
    cells = ["\t".join(f"{one} {k}" for one in languages if one != "nl") for k in range(20)]
    (data / "xnli" / "xnli.15way.tsv").write_text("\n".join([head, *cells]) + "\n")
    for one, long in zip(TARGETS, ("fra", "deu", "rus", "cmn", "nld"), strict=True):
        (data / "tatoeba_train" / f"en-{one}.tsv").write_text(
            "".join(f"e {k} {way}\t{one} {k}\n" for k in range(9) for way in "ab")
        )
        for end, side in (("eng", "en"), (long, one)):
            (data / "tatoeba" / f"tatoeba.{long}-eng.{end}").write_text("".join(f"{side} t{k}\n" for k in range(5)))
        folder, stem = ("bilex_nl", "en-nl.freedict") if one == "nl" else ("muse", f"en-{one}")
        for split, part in (("train", "0-5000"), ("test", "5000-6500")):
            name = f"{stem}.{split if one == 'nl' else part}.txt"
            (data / folder / name).write_text("".join(f"e{k} {one}{k}\n" for k in range(6)))
    for part in ("train", "val"):
        lines = "".join(f"p {k}\th {k}\tentailment\n" for k in range(9))
        (data / "nli_en" / f"mnli_{part}.tsv").write_text(f"sentence1\tsentence2\tlabel\n{lines}")
    return str(data), str(text)


def test_texts_are_cut_written_and_then_need_no_data_any_more(tmp_path):
    data, text = data_folder(tmp_path)
    scale = replace(SCALES["mini"], text=400, words=200, pairs=10, examples=4, tested=4, inferred=5)
    given = {"text": text, "treebanks": None, "entities": None}
    texts = Texts(tmp_path / "run", scale, data, given)
    found, hashes = texts.read(), texts.hashes()
    texts.write(silent)
    again = Texts(tmp_path / "run", scale, None, dict.fromkeys(given))
    assert again.hashes() == hashes == json.loads((tmp_path / "run" / "text" / "texts.json").read_text())
    again.write(silent)
    other = Texts(tmp_path / "other", scale, data, given)
    other.write(silent)
    packed = [(one.out / "text" / "pretrain.fr.txt.gz").read_bytes() for one in (texts, other)]
    assert packed[0] == packed[1]  # no time and no name of a file inside
    english, other = (set(found[f"pretrain.{one}.txt.gz"].splitlines()) for one in ("en", "en2"))
    assert english and other and not english & other and "en debate" not in english | other
    assert len(found["pretrain.fr.txt.gz"]) <= 400 and len(found["words.fr.txt.gz"]) <= 200
    lines = found["words.fr.txt.gz"].splitlines()
    assert lines[:2] == ["fr paragraph.", lines[1]] and lines[1] in found["pretrain.fr.txt.gz"].splitlines()[0]
    assert ig.read_bitext(texts.path("parallel.en-fr.tsv")).languages == ("en", "fr")
    assert len(found["parallel.en-zh.tsv"].splitlines()) == 11
    assert found["parallel.en-nl.tsv"].startswith("en\tnl\ne ")  # of tatoeba_train, since XNLI has no Dutch
    assert set(found["parallel.en-en2.tsv"].split()) >= {"en", "en2", "a", "b"}
    tests = {task: task_files(scale, task, "ru") for task in ("nli", "ner", "parsing")}
    for train, dev, both in tests.values():
        assert {train, dev, *both.values()} <= set(found)
    assert found["en_ewt.train.conllu"].count("# sent_id") == 4 and found["nli.train.tsv"].count("\n") == 5
    dev, test = (set(found[f"{name}.tsv"].split()) - {"O"} for name in ("en_wikiann.dev", "ru_wikiann"))
    assert dev and test  # the test of Russian is half of its development set


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"text": None}, r"is no folder; --text is a folder of text to pretrain on"),
        ({"text": "."}, "has no text of en: no file is named"),
        ({"size": 10**6}, "a second model of it needs other text"),
    ],
)
def test_text_that_is_missing_is_one_sentence(change, part, tmp_path, monkeypatch):
    data, text = data_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    scale = replace(SCALES["mini"], text=change.get("size", 400), words=200)
    texts = Texts(
        tmp_path / "run", scale, data, {"text": change.get("text", text), "treebanks": None, "entities": None}
    )
    with pytest.raises(ig.InputError, match=part):
        texts.read()


def test_lines_are_cut_at_so_many_bytes():
    assert cut(["éé", "b", "c"], 7) == ["éé", "b"] and cut(["abc"], 3) == []
