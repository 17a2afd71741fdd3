"""Mistakes on the command line of `isogloss drift`: exit code 2, one sentence that names them, no folder left."""

import pytest

from tiny_commands import command_line
from tiny_drift import words, write_model, write_tuning


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    return write_tuning(tmp_path_factory.mktemp("tuning"))


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path, tuning):
    """Run a mistaken command: one sentence with these parts, and nothing but what was there before."""
    run = command_line(monkeypatch, capsys)

    def check(changes, *parts):
        before = sorted(tmp_path.rglob("*"))
        model = changes.pop("model", tuning[0])
        code, shown, told = run("drift", *words(model, tuning[2], **changes), "--out", tmp_path / "run")
        assert code == 2, (shown, told)
        assert told.startswith("isogloss: ") and told.count("\n") == 1 and "Traceback" not in told
        for part in parts:
            assert str(part) in told
        assert shown == "" and sorted(tmp_path.rglob("*")) == before

    return check


def lines(path, *sentences):
    path.write_text("".join(f"{one}\n" for one in sentences), encoding="utf-8")
    return path


def test_a_bitext_in_other_languages_is_refused_before_the_model_is_loaded(refused, tmp_path):
    table = tmp_path / "talk.tsv"
    table.write_text("en\tnl\nyes\tja\nno\tnee\n")
    refused(
        {"model": "nowhere/at-all", "bitext": table}, "--bitext needs at least two of the languages of the text, qaa"
    )


def test_a_target_smaller_than_a_batch(refused, tmp_path):
    few = lines(tmp_path / "few.txt", *(f"sentence {number}" for number in range(10)))
    refused(
        {"target": f"qaa={few}", "batch": 9}, "few.txt has 10 sentences, 8 of them to train on, fewer than one batch"
    )
    fewer = lines(tmp_path / "fewer.txt", "one", "two", "three")
    refused({"target": f"qaa={fewer}", "batch": 1}, "fewer.txt has 3 sentences, too few to hold out 0.1 of them twice")


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "deep", depth=3)


def test_a_native_model_of_another_depth(deep, refused):
    refused({"native": deep}, f"the native model {deep} has 3 layers and ", "has 2", "choose one of the same depth")


def test_text_without_a_token_that_can_be_masked(refused, tmp_path):
    strange = lines(tmp_path / "strange.txt", *("\u16a0\u16a1\u16a2" for _ in range(4)))
    refused({"others": [f"qab={strange}"]}, "strange.txt (qab) has no token that could be masked")
    refused(
        {"target": f"qaa={lines(tmp_path / 'all.txt', *(chr(0x16A0 + n) for n in range(40)))}"},
        "has no token that could be masked",
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"plans": "top:3"}, "'top:3' is no plan; write freeze:8"),
        ({"plans": "last:1,,last:2"}, "'' is no plan"),
        ({"plans": "last:1,last:1"}, "--plans has last:1 twice; --seeds runs a plan several times"),
        ({"plans": "last:3"}, "the plan last:3 asks for 3 blocks in last, but the model has 2; name at most 2"),
        ({"others": None, "stop": "balance"}, "--stop balance weighs the target against other languages"),
        ({"stop": "soon"}, "--stop takes never or early or balance, not 'soon'"),
        ({"patience": 0, "stop": "early"}, "patience is 1 evaluation or more, not 0"),
        ({"held_out": 0}, "--held-out must be above 0 to below 1, not 0"),
        ({"held_out": 0.5}, "to train on, fewer than one batch of 8"),
        ({"seeds": 0}, "--seeds must be at least 1, not 0"),
        ({"seed": -1}, "--seed must be from 0 to below 9223372036854775808, not -1"),
        ({"epochs": 0}, "--epochs must be at least 1, not 0"),
        ({"batch": 0}, "--batch must be at least 1, not 0"),
        ({"probe": 0}, "--probe must be at least 1, not 0"),
        ({"distance": 0}, "--distance must be at least 1, not 0"),
        ({"checkpoint": 0}, "--checkpoint must be at least 1, not 0"),
        ({"words": 3}, "--words must be at least 4, not 3"),
        ({"rate": 0}, "--rate must be above 0, not 0"),
        ({"decay": "steep"}, "--decay takes linear or cosine or "),
        ({"dtype": "float16"}, "--dtype float16 does not train stably"),
        ({"target": None}, "target"),
        ({"target": "qaa"}, "--target takes LANG=FILE or a folder"),
        ({"native": "/gone"}, "there is no folder /gone"),
    ],
)
def test_an_option_that_cannot_be_used(refused, changes, sentence):
    refused(changes, sentence)


def test_languages_given_twice_or_on_both_sides(refused, tuning):
    files = tuning[2]
    refused({"others": [f"qaa={files['qab']}"]}, "--others has text of qaa, the language of --target")
    refused({"others": [f"qab={files['qab']}", f"qab={files['qac']}"]}, "--others: qab is listed twice")


def test_a_model_without_a_head(refused, tuning, tiny, monkeypatch, capsys, tmp_path):
    run = command_line(monkeypatch, capsys)
    code, _, told = run("drift", *words(tiny("bert"), tuning[2]), "--out", tmp_path / "run")
    assert code == 2 and "has no head that predicts masked words" in told and not (tmp_path / "run").exists()


def test_several_processes(refused, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused({}, "drift trains in one process; start it without torchrun or accelerate")
