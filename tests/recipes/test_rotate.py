"""`isogloss rotate`: rows against an explicit evaluation, both kinds of means, two models, resuming, mistakes."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

import isogloss as ig
from isogloss.errors import InputError
from isogloss.recipes.steps import turning
from isogloss.runs import read_facts
from isogloss.text.invented import invented
from tiny_pretraining import command_line


@pytest.fixture(scope="module")
def text():
    return invented(("qaa", "qab"), sentences=120, seed=3)


@pytest.fixture
def parts(text):
    return text.take(range(30)), text.take(range(30, 120))


def iterated(space, other):
    """Iterative normalisation of a space, and of other vectors with its means."""
    for _ in range(5):
        space, other = (side / np.linalg.norm(side, axis=1)[:, None] for side in (space, other))
        mean = space.mean(0)
        space, other = space - mean, other - mean
    return tuple(side / np.linalg.norm(side, axis=1)[:, None] for side in (space, other))


def p_at_1(x, y):
    """Share of rows whose nearest by cosine is their partner, ties against us."""
    x, y = (side / np.linalg.norm(side, axis=1)[:, None] for side in (x, y))
    scores = x @ y.T
    return np.mean([np.sum(scores[i] >= scores[i, i] - 1e-9) == 1 for i in range(len(x))])


def test_rows_equal_an_explicit_evaluation(tiny, parts):
    test, train = parts
    options = {"layers": "2", "device": "cpu", "ways": "raw,centred,procrustes,procrustes+iterative"}
    table = ig.rotate(tiny("bert"), test, train=train, **options)
    stack = ig.load(tiny("bert"), device="cpu")
    u, v = (ig.vectors(stack, corpus)[2].double().numpy() for corpus in test)
    x, y = (ig.vectors(stack, corpus)[2].double().numpy() for corpus in train)
    turn, _ = orthogonal_procrustes(x, y)
    (nx, nu), (ny, nv) = iterated(x, u), iterated(y, v)
    iterative, _ = orthogonal_procrustes(nx, ny)
    expected = {
        "raw": (u, v),
        "centred inductive": (u - x.mean(0), v - y.mean(0)),
        "centred transductive": (u - u.mean(0), v - v.mean(0)),
        "procrustes": (u @ turn, v),
        "procrustes+iterative inductive": (nu @ iterative, nv),
        "procrustes+iterative transductive": (iterated(u, u)[0] @ iterative, iterated(v, v)[0]),
    }
    p = table[(table.measure == "p@1") & table.variant.str.endswith(" cosine")]
    assert set(p.variant) == {f"{name} cosine" for name in expected}
    for name, (a, b) in expected.items():
        there, back = (p[(p.variant == f"{name} cosine") & (p.source == source)].iloc[0] for source in ("qaa", "qab"))
        assert there.value == pytest.approx(p_at_1(a, b)), name
        assert back.value == pytest.approx(p_at_1(b, a)), name
        assert there.n == 30 and there.low <= there.value <= there.high and 0 < there.floor < 0.1
    learned = table[table.measure == "learned_from"].iloc[0]
    assert 0 < learned.value <= 90 and set(table.task) == {"rotate"}


def test_each_of_two_models_reads_its_language(tiny, text):
    stack = ig.load(tiny("bert"), device="cpu")
    same = ig.Bitext((text["qaa"], ig.Corpus("qab", text["qaa"].sentences)))
    test, train = same.take(range(20)), same.take(range(20, 120))
    found = ig.rotate(stack, test, train=train, other=tiny("roberta"), ways="raw,procrustes+centred", device="cpu")
    p = found[(found.measure == "p@1") & (found.other_model == "roberta")]
    assert len(p) == 4 * 2 * 2 * 3 and set(p.model) == {"bert"}
    table = ig.rotate(stack, test, train=train, ways="raw,procrustes", device="cpu")
    assert (table[table.measure == "p@1"].value == 1).all()


def test_sentences_that_are_looked_up_are_not_learned_from(tiny, text, tmp_path):
    ig.rotate(
        tiny("bert"),
        text.take(range(40)),
        train=text,
        layers="0",
        ways="procrustes",
        device="cpu",
        out=tmp_path / "run",
    )
    notes = read_facts(tmp_path / "run")["notes"]
    assert any("were not learned from" in note for note in notes)
    with pytest.raises(InputError, match="--train has 0 sentences of qaa and qab that are not looked up"):
        ig.rotate(tiny("bert"), text, train=text, layers="0")


def test_fewer_pairs_than_directions_is_noted(tiny, parts, tmp_path):
    test, train = parts
    ig.rotate(tiny("bert"), test, train=train, pairs=10, layers="0", device="cpu", out=tmp_path / "run")
    assert any("fitted on 10 pairs for 32 directions" in note for note in read_facts(tmp_path / "run")["notes"])


def test_without_training_text_only_means_of_the_test_are_there(tiny, parts):
    table = ig.rotate(tiny("bert"), parts[0], ways="raw,centred", layers="0,1", device="cpu")
    variants = set(table[table.measure == "p@1"].variant)
    assert variants == {f"{way} {method}" for way in ("raw", "centred transductive") for method in ("cosine", "csls")}


def test_a_stopped_run_goes_on_and_reads_nothing_again(tiny, parts, tmp_path, monkeypatch):
    test, train = parts
    given = {"train": train, "layers": "0,1,2", "ways": "raw,procrustes", "device": "cpu"}
    whole = ig.rotate(tiny("bert"), test, **given, out=tmp_path / "whole")
    retrieve, calls = turning.retrieve, []

    def stop(*args, **more):
        calls.append(1)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return retrieve(*args, **more)

    monkeypatch.setattr(turning, "retrieve", stop)
    with pytest.raises(KeyboardInterrupt):
        ig.rotate(tiny("bert"), test, **given, out=tmp_path / "run")
    monkeypatch.setattr(turning, "retrieve", retrieve)
    monkeypatch.setattr(turning, "stream", None)
    again = ig.rotate(tiny("bert"), test, **given, out=tmp_path / "run", resume=True)
    key = ["measure", "variant", "layer", "source"]
    left, right = (one.sort_values(key).value.tolist() for one in (whole, again))
    assert left == right


def test_the_command_reads_both_texts_and_reports(tiny, parts, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    for name, part in zip(("test", "train"), parts, strict=True):
        lines = ["qaa\tqab", *("\t".join(pair) for pair in zip(*(c.sentences for c in part), strict=True))]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    words = ["rotate", tiny("bert"), "--bitext", tmp_path / "test.tsv", "--layers", "0,1", "--device", "cpu"]
    code, shown, told = run(*words, "--train", tmp_path / "train.tsv", "--out", tmp_path / "run")
    assert code == 0, told
    assert "Most translations are found at layer" in shown and "sentences have" in shown
    code, _, told = run(*words, "--out", tmp_path / "other")
    assert code == 2 and "procrustes is learned from parallel text; give it with --train" in told


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        (0, {}, "--bitext is missing"),
        (1, {"pairs": 1}, "--pairs must be at least 2"),
        (1, {"pool": 1}, "--pool must be at least 2"),
        (1, {"ways": "turn"}, "--ways takes"),
        (1, {"layers": "7"}, "--layers asks for 7"),
    ],
)
def test_mistakes_are_one_sentence(tiny, parts, given, options, sentence):
    test, train = parts
    with pytest.raises(InputError, match=sentence):
        ig.rotate(tiny("bert"), *[test][:given], train=train, **options)


def test_training_text_of_other_languages_is_refused(tiny, parts):
    other = invented(("qaa", "qac"), sentences=20, seed=3)
    with pytest.raises(InputError, match="--train has no parallel text of qaa and qab; it has qaa-qac"):
        ig.rotate(tiny("bert"), parts[0], train=other)
