"""Mistakes on the command line of `isogloss pretrain`: exit code 2, one sentence that names them, no folder left."""

import gzip
import json
import shutil

import pytest
from benchmarks.invented import invented

from isogloss.errors import InputError
from isogloss.recipes.packed_text import TextSource
from isogloss.recipes.pretrain import pretrain
from tiny_commands import command_line
from tiny_pretraining import LANGUAGES, SMALL, options, write_lexicon, write_texts


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("text"))


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Run a mistaken command: one sentence with these parts, and nothing but what was there before."""
    run = command_line(monkeypatch, capsys)

    def check(words, *parts):
        before = sorted(tmp_path.rglob("*"))
        code, shown, told = run("pretrain", *words, "--out", tmp_path / "run")
        assert code == 2, (shown, told)
        assert told.startswith("isogloss: ") and told.count("\n") == 1 and "Traceback" not in told
        for part in parts:
            assert str(part) in told
        assert shown == "" and sorted(tmp_path.rglob("*")) == before

    check.run = run
    return check


def file(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_no_text_at_all(refused, files):
    refused(options({}, text=None), "--text is missing", "--streams")


@pytest.mark.parametrize(
    "content", [b"", b"\n \n\t\n", gzip.compress(b"\n", mtime=0)], ids=["nothing", "blank", "gzip"]
)
def test_an_empty_file(refused, files, tmp_path, content):
    empty = file(tmp_path / "empty.txt", content)
    refused(options({**files, "qab": empty}), "empty.txt is empty")
    refused(options({"qaa": files["qaa"], "qab": f"{files['qab']},{empty}"}), "empty.txt is empty")


def test_a_missing_file(refused, files, tmp_path):
    refused(options({**files, "qab": tmp_path / "gone.txt"}), f"--text qab: there is no file {tmp_path / 'gone.txt'}")
    refused(options({**files, "qab": ""}), "--text qab: no file is named; give qab=FILE")
    refused(options({}, text=[str(tmp_path / "gone")]), "takes LANG=FILE or a folder", "gone")


def test_a_folder_where_a_file_belongs(refused, files, tmp_path):
    (tmp_path / "folder").mkdir()
    refused(options({**files, "qab": tmp_path / "folder"}), f"--text qab: {tmp_path / 'folder'} is a folder")
    refused(options(files, streams=files["qaa"]), "is a file; name a folder for packed text")
    refused(options(files, tokenizer=tmp_path / "folder"), "no tokenizer that can be read: it has no tokenizer.json")


def test_text_and_lists_given_from_python_as_one_string(files, tmp_path):
    with pytest.raises(InputError, match=r"has no files named \*.LANG.txt"):
        pretrain(tmp_path, out=tmp_path / "run", **SMALL)
    with pytest.raises(InputError, match="takes LANG=FILE or a folder .* not 'qaa.txt'"):
        pretrain("qaa.txt", out=tmp_path / "run", **SMALL)
    with pytest.raises(InputError, match="--repeat x=2: no file"):
        pretrain(files, out=tmp_path / "run", repeat="x=2", **SMALL)
    with pytest.raises(InputError, match="text is a Bitext, as read_bitext reads it, or .*, not 'x.tsv'"):
        pretrain(files, "x.tsv", out=tmp_path / "run", **SMALL)


def test_a_language_listed_twice(refused, files, tmp_path):
    twice = [f"en={files['qaa']}", f"eng={files['qab']}"]
    refused(options({}, text=twice), "--text: en is listed twice; give its files together, en=A,B")
    folder = file(tmp_path / "folder" / "book.nl.txt", files["qaa"].read_bytes()).parent
    refused(options({}, text=[str(folder), f"nl={files['qab']}"]), "nl is listed twice")


def test_a_folder_without_languages(refused, tmp_path):
    file(tmp_path / "folder" / "book.txt", "text")
    refused(options({}, text=[str(tmp_path / "folder")]), "has no files named *.LANG.txt")


def test_an_unknown_language(refused, files):
    refused(options({"xx": files["qaa"]}), "unknown language code 'xx'")


def test_text_that_is_not_utf_8_is_named_by_line(refused, files, tmp_path):
    damaged = file(tmp_path / "damaged.txt", files["qab"].read_bytes() + b"na\xefve\n")
    refused(options({**files, "qab": damaged}), f"{damaged}:201: not valid UTF-8", "save the file as UTF-8")
    refused(options({**files, "qab": damaged}, streams=tmp_path / "streams"), f"{damaged}:201")


def test_a_vocabulary_larger_than_the_text_supports(refused, files, tmp_path):
    refused(options(files, vocabulary=30_000), "the text of qaa, qab supports", "not 30,000; lower --vocabulary")
    refused(options(files, vocabulary=30_000, streams=tmp_path / "streams"), "lower --vocabulary or give more text")
    refused(options(files, vocabulary=20), "a vocabulary of 20 pieces is too small")
    refused(options(files, vocabulary=30_000, tokenizer="unigram", vocabularies="separate"), "the text of qaa supports")


def test_text_shorter_than_one_stream(refused, files):
    refused(options(files, length=5_000), "tokens, fewer than one stream of 5000; give more text or a smaller --length")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "bort"}, "--architecture 'bort' is not known; choose bert"),
        ({"width": 17}, "--width 17 is no multiple of --heads 2"),
        ({"heads": 0}, "--heads must be at least 1, not 0"),
        ({"dropout": 1.5}, "--dropout must be from 0 to below 1, not 1.5"),
        ({"separate": "1-9"}, "the model has 2; name a smaller number"),
        ({"lexicon": ["qaa-qab=x"]}, "--lexicon goes with --anchors extra, not with --anchors default"),
        ({"separate": "layers"}, "'layers' does not say what is separate"),
        ({"anchors": "some"}, "--anchors takes default or none or extra, not 'some'"),
        ({"anchors": "extra"}, "--anchors extra needs --lexicon SOURCE-TARGET=FILE"),
        ({"vocabularies": "three"}, "--vocabularies takes joint or separate, not 'three'"),
        ({"tokenizer": "bpe"}, "--tokenizer takes wordpiece, unigram or the folder of a tokenizer, not 'bpe'"),
        ({"held_out": 1.0}, "--held-out must be from 0 to below 1, not 1.0"),
        ({"mask_share": 0.0}, "--mask-share must be above 0 to below 1, not 0.0"),
        ({"decay": "steep"}, "--decay takes linear or cosine or "),
        ({"rate": 0}, "--rate must be above 0, not 0"),
        ({"warm_up": -2}, "--warm-up must be from 0 to below 1, not -2"),
        ({"weight_decay": -2}, "--weight-decay must be at least 0, not -2"),
        ({"batch": 0}, "--batch must be at least 1, not 0"),
        ({"length": 3}, "--length must be at least 8, not 3"),
        ({"steps": -1}, "--steps must be at least 0, not -1"),
        ({"seed": -1}, "--seed must be from 0 to below 9223372036854775808, not -1"),
        ({"micro_batch": 0}, "--micro-batch must be at least 1, not 0"),
        ({"probe": 0}, "--probe must be at least 1, not 0"),
        ({"report": 0}, "--report must be at least 1, not 0"),
        ({"checkpoint": 0}, "--checkpoint must be at least 1, not 0"),
        ({"exponent": -0.5}, "--exponent must be at least 0, not -0.5"),
        ({"compiled": "maybe"}, "--compiled takes auto or yes or no, not 'maybe'"),
        ({"save_dtype": "int8"}, "--save-dtype takes float32 or float16, not 'int8'"),
        ({"dtype": "float16"}, "--dtype float16 does not train stably"),
        ({"device": "abacus"}, "--device 'abacus' is not known"),
        ({"evaluate": ["qac={qaa}"]}, "--evaluate has text of qac, which --text has not"),
        ({"evaluate": ["qaa=gone.txt"]}, "--evaluate qaa: there is no file gone.txt"),
        ({"lexicon": ["qaa=x"], "anchors": "extra"}, "--lexicon takes SOURCE-TARGET=FILE"),
        ({"config": "gone.json"}, "--config gone.json cannot be read as JSON"),
        ({"bitext": ["gone.tsv"]}, "gone.tsv"),
    ],
)
def test_what_cannot_be_used_is_named(refused, files, changes, sentence):
    changes = {
        name: [one.format(**files) for one in value] if isinstance(value, list) else value
        for name, value in changes.items()
    }
    refused(options(files, **changes), sentence)


def test_sharing_is_about_two_languages(refused, files, tmp_path):
    one = {"qaa": files["qaa"]}
    for changes in ({"separate": "embeddings"}, {"separate": "1-1"}, {"anchors": "none"}):
        refused(options(one, **changes), "the text has one language only")


def test_a_lexicon_of_other_languages(refused, files, tmp_path):
    words = write_lexicon(tmp_path / "words.txt")
    refused(options(files, anchors="extra", lexicon=[f"qaa-qad={words}"]), "--lexicon has words of qad")


def test_a_tokenizer_folder_that_is_none(refused, files, tmp_path):
    (tmp_path / "folder").mkdir()
    refused(options(files, tokenizer=tmp_path / "folder"), f"{tmp_path / 'folder'} holds no tokenizer that can be read")
    file(tmp_path / "broken" / "tokenizer.json", "{")
    refused(options(files, tokenizer=tmp_path / "broken"), f"{tmp_path / 'broken'} holds no tokenizer that can be read")
    refused(options(files, tokenizer=tmp_path / "folder", separate="embeddings"), "joint vocabularies only")


def test_a_folder_of_tokenizers_is_not_taken_for_one_of_them(refused, files, tmp_path):
    assert refused.run("pretrain", *options(files, steps=0, separate="embeddings"), "--out", tmp_path / "two")[0] == 0
    refused(options(files, tokenizer=tmp_path / "two" / "model"), "model holds no tokenizer that can be read")


def test_code_beside_a_tokenizer_is_never_run(refused, files, tmp_path):
    own = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    file(tmp_path / "folder" / "tokenizer_config.json", json.dumps(own))
    file(tmp_path / "folder" / "own.py", f"open({str(tmp_path / 'ran')!r}, 'w')")
    refused(options(files, tokenizer=tmp_path / "folder"), f"{tmp_path / 'folder'} holds no tokenizer that can be read")
    assert not (tmp_path / "ran").exists()


def test_packed_text_of_a_tokenizer_that_has_changed_since(refused, files, tmp_path):
    for name, size in (("first", 150), ("second", 140)):
        words = options(files, steps=0, vocabulary=size)
        assert refused.run("pretrain", *words, "--out", tmp_path / name)[0] == 0
    words = options(files, steps=0, tokenizer=tmp_path / "first" / "model", streams=tmp_path / "streams")
    assert refused.run("pretrain", *words, "--out", tmp_path / "third")[0] == 0
    shutil.copy(tmp_path / "second" / "model" / "tokenizer.json", tmp_path / "first" / "model")
    refused(words, f"{tmp_path / 'streams'} was packed from other text or with other options")


def test_parallel_text_of_other_languages(refused, files, tmp_path):
    both = invented(("qac", "qad"), sentences=3, seed=0)
    for corpus in both:
        file(tmp_path / f"{corpus.language}.txt", "\n".join(corpus.sentences) + "\n")
    bitext = ["--bitext", tmp_path / "qac.txt", "--bitext", tmp_path / "qad.txt", "--languages", "qac,qad"]
    refused([*options(files), *bitext], "--bitext needs at least two of the languages of the text, qaa, qab")


def test_packed_text_of_something_else(refused, files, tmp_path):
    streams = tmp_path / "streams"
    refused(options({}, text=None, streams=streams), f"{streams} holds no packed text")
    assert refused.run("pretrain", *options(files, streams=streams, steps=0), "--out", tmp_path / "first")[0] == 0
    other = {**files, "qab": file(tmp_path / "other.txt", files["qab"].read_bytes() + b"tak\n")}
    for words in (
        options(other, streams=streams),
        options(files, streams=streams, vocabulary=140),
        options(files, streams=streams, held_out=0.2),
        options({"qaa": files["qaa"]}, streams=streams),
    ):
        refused(words, f"{streams} was packed from other text or with other options; choose another --streams")
    packed = {"text": None, "streams": streams}
    others = [("separate", "embeddings"), ("anchors", "none"), ("anchors", "extra"), ("vocabularies", "separate")]
    for name, value in others:
        words = options({}, **packed, **{name: value})
        refused(words, "--streams was packed with other --vocabularies, --anchors or --separate; give the ones")
    others = [("vocabulary", 140), ("tokenizer", "unigram"), ("tokenizer", tmp_path / "first" / "model")]
    for name, value in others:
        words = options({}, **packed, **{name: value})
        refused(words, f"--{name} cannot change text that is packed already, in {streams}; leave it out")
    refused(options({}, **packed, evaluate=[f"qaa={files['qaa']}"]), "--evaluate goes with --text")
    (streams / "train.qab.json").unlink()
    refused(options({}, **packed), "train.qab.npy does not hold packed text")
    (streams / "streams.json").write_text("{")
    refused(options({}, **packed), f"{streams / 'streams.json'} cannot be read")
    (streams / "streams.json").write_text("{}")
    refused(options({}, **packed), f"{streams / 'streams.json'} does not say which text was packed")


def test_a_resume_with_other_arguments(refused, files, tmp_path):
    out = tmp_path / "first"
    assert refused.run("pretrain", *options(files, steps=2), "--out", out)[0] == 0
    facts = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(facts | {"status": "running"}))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for changes, sentence in (
        ({"steps": 3}, "was begun differently (arguments steps: 2 then, 3 now)"),
        ({"steps": 2, "seed": 1}, "was begun differently (arguments seed: 0 then, 1 now)"),
        ({"steps": 2, "dropout": 0.1}, "was begun differently (arguments dropout: 0.0 then, 0.1 now)"),
    ):
        code, _, told = refused.run("pretrain", *options(files, **changes), "--out", out, "--resume")
        assert code == 2 and sentence in told and told.count("\n") == 1
    code, _, told = refused.run("pretrain", *options(files, steps=2), "--out", out)
    assert code == 2 and "already holds a run; add --resume" in told
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    text = files["qaa"].read_bytes()
    files["qaa"].write_bytes(text + b"tak\n")
    try:
        code, _, told = refused.run("pretrain", *options(files, steps=2), "--out", out, "--resume")
    finally:
        files["qaa"].write_bytes(text)
    assert code == 2 and "was begun differently (hashes data text" in told


def test_a_resume_with_other_parallel_text(tmp_path, files):
    """From Python, where the arguments hold its languages and its hash."""
    first, second = (invented(LANGUAGES, sentences=12, seed=seed) for seed in (4, 5))
    changes = SMALL | {"steps": 0}
    pretrain(files, first, out=tmp_path / "run", **changes)
    with pytest.raises(InputError, match="was begun differently .arguments bitext"):
        pretrain(files, second, out=tmp_path / "run", resume=True, **changes)


def test_separate_blocks_that_are_not_there_are_refused_before_text_is_packed(files, monkeypatch, tmp_path):
    monkeypatch.setattr(TextSource, "packed", lambda *_: pytest.fail("packed"))
    with pytest.raises(InputError, match="the model has 2"):
        pretrain(files, out=tmp_path / "run", **SMALL | {"separate": "1-3"})
