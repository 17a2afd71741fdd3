"""`isogloss rotate`: rows against an explicit evaluation, both kinds of means, two models, resuming, mistakes."""

import numpy as np
import pytest
import torch
from benchmarks.invented import invented
from scipy import stats
from scipy.linalg import orthogonal_procrustes
from transformers import AutoModel

import isogloss as ig
from isogloss.errors import InputError
from isogloss.mappings.methods import parse_mappings
from isogloss.mappings.normalise import normalisation, normalisations
from isogloss.measures.registry import MEASURES
from isogloss.recipes import rotate as rotation
from isogloss.recipes.jobs import Job, run_job
from isogloss.runs import read_facts
from isogloss.seeds import seed_of
from isogloss.stack.edit import reinitialise
from tiny_commands import command_line, way_of
from tiny_models import tiny_config, tiny_tokenizer
from tiny_pretraining import SMALL, write_texts
from tiny_stitching import said_otherwise, turned_model


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
    options = {"layers": "2", "device": "cpu", "mappings": "raw,centred,procrustes,procrustes+iterative"}
    table = ig.rotate(tiny("bert"), test, train_bitext=train, **options)
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
    p = table[(table.measure == "p@1") & way_of(table).str.endswith(" cosine")]
    assert set(way_of(p)) == {f"{name} cosine" for name in expected}
    for name, (a, b) in expected.items():
        there, back = (p[(way_of(p) == f"{name} cosine") & (p.source == source)].iloc[0] for source in ("qaa", "qab"))
        assert there.value == pytest.approx(p_at_1(a, b)), name
        assert back.value == pytest.approx(p_at_1(b, a)), name
        assert there.n == 30 and there.low <= there.value <= there.high and 0 < there.floor < 0.1
    learned = table[table.measure == "learned_from"].iloc[0]
    assert 0 < learned.value <= 90 and set(table.task) == {"rotate"}


@pytest.mark.parametrize(("name", "kind"), [("centred", "centred"), ("procrustes+iterative", "iterative")])
def test_inductive_means_are_of_the_text_learned_from_and_transductive_ones_of_the_test(name, kind):
    draw = torch.Generator().manual_seed(0)
    x, y, u, v = (torch.randn(20, 5, generator=draw, dtype=torch.float64) + shift for shift in (1, -2, 3, 0.5))
    (way,) = parse_mappings(name)
    found = dict(rotation._fitted(way, {"train": (x, y), "test": (u, v)}))
    assert list(found) == [f"{name} inductive", f"{name} transductive"]
    for mapping, sides in zip(found.values(), ((x, y), (u, v)), strict=True):
        for one, space in zip((mapping.source, mapping.target), sides, strict=True):
            assert torch.equal(one.means, normalisation(space, kind).means)
    first, other = found.values()
    assert torch.equal(first.weight, other.weight), "the map is the same"


def test_languages_are_removed_and_the_removal_is_kept(tiny, parts, tmp_path):
    test, train = parts
    given = {"layers": "2", "save_mappings": "2", "device": "cpu", "mappings": "lir,lsar,leace,procrustes+leace"}
    table = ig.rotate(tiny("bert"), test, train_bitext=train, out=tmp_path / "run", **given)
    stack = ig.load(tiny("bert"), device="cpu")
    u, v = (ig.vectors(stack, corpus)[2].double() for corpus in test)
    x, y = (ig.vectors(stack, corpus)[2] for corpus in train)
    for kind in ("lir", "lsar", "leace"):
        source, target = normalisations((x, y), kind)
        kept = ig.load_mapping(tmp_path / "run" / "mappings" / "qaa-qab" / "layer-2" / f"{kind}.safetensors")
        assert torch.allclose(kept(u), source(u)) and torch.allclose(kept.target(v), target(v))
        rows = table[(table.measure == "p@1") & (table.method == "cosine") & (table.source == "qaa")]
        (row,) = rows[rows.condition == f"{kind} inductive"].value
        assert row == pytest.approx(p_at_1(source(u).numpy(), target(v).numpy()), abs=0.04)
    assert {"leace transductive", "procrustes+leace inductive"} <= set(table.condition)
    with pytest.raises(
        InputError, match="leace removes what tells languages apart in one model; leave it out with two"
    ):
        ig.rotate(tiny("bert"), test, train_bitext=train, other=tiny("roberta"), mappings="leace", device="cpu")


def test_each_of_two_models_reads_its_language(tiny, text):
    stack = ig.load(tiny("bert"), device="cpu")
    same = ig.Bitext((text["qaa"], ig.Corpus("qab", text["qaa"].sentences)))
    test, train = same.take(range(20)), same.take(range(20, 120))
    found = ig.rotate(
        stack, test, train_bitext=train, other=tiny("roberta"), mappings="raw,procrustes+centred", device="cpu"
    )
    p = found[(found.measure == "p@1") & (found.other_model == "roberta")]
    assert len(p) == 4 * 2 * 2 * 3 and set(p.model) == {"bert"}
    table = ig.rotate(stack, test, train_bitext=train, mappings="raw,procrustes", device="cpu")
    assert (table[table.measure == "p@1"].value == 1).all()


def test_attention_sinks_are_left_out_of_sentences_and_noted(tiny, parts, tmp_path):
    stack = ig.load(tiny("gpt2"), device="cpu")
    with torch.no_grad():  # the state of the first content token is over 1,000 times as long as the others
        stack.model.wpe.weight[1] = 20_000 * stack.model.wpe.weight[2].norm() / 32**0.5
    table = ig.rotate(stack, parts[0], layers="1", mappings="raw", out=tmp_path / "run")
    clean, raw = (
        ig.cka(*(ig.vectors(stack, corpus, layers=[1], keep_sinks=kept)[0] for corpus in parts[0]))
        for kept in (False, True)
    )
    measured = table[(table.measure == "cka") & (table.data != "")].value.tolist()
    assert measured[0] == pytest.approx(clean, abs=1e-6) and abs(clean - raw) > 0.01
    (note,) = (note for note in read_facts(tmp_path / "run")["notes"] if "attention sinks" in note)
    assert note.endswith("at layers 1: they are left out of the means of sentences")


def test_cka_of_two_models_equals_the_measures_on_their_vectors(tiny, text):
    test, train = text.take([*range(30), 3, 4]), text.take(range(30, 120))  # two rows come twice
    table = ig.rotate(
        tiny("bert"), test, train_bitext=train, other=tiny("roberta"), mappings="none", layers="0,2", device="cpu"
    )
    assert set(table.measure) == {"cka", "cka_biased", "cka_uncentred", "learned_from"}
    stacks = [ig.load(tiny(name), device="cpu") for name in ("bert", "roberta")]
    for variant, some in (("test", test.take(range(30))), ("train", train)):
        once = some.take(some.distinct_rows)
        x, y = (ig.vectors(stack, corpus)[2] for stack, corpus in zip(stacks, once, strict=True))
        for measure in ("cka", "cka_biased", "cka_uncentred"):
            rows = table[(table.measure == measure) & (table.condition == variant) & (table.layer == 2)]
            (one,) = rows.to_dict("records")
            assert one["value"] == pytest.approx(MEASURES[measure].function(x, y), rel=1e-5), measure
            assert (one["source"], one["target"], one["n"]) == ("qaa", "qab", once.rows)
            assert (one["model"], one["other_model"]) == ("bert", "roberta")
            assert one["low"] <= one["value"] <= one["high"] and one["floor"] < 1


@pytest.mark.parametrize("learned", [True, False])
def test_cka_and_retrieval_are_correlated_over_layers(tiny, parts, learned):
    test, train = parts
    given = {"train_bitext": train, "mappings": "raw,procrustes"} if learned else {"mappings": "raw"}
    table = ig.rotate(tiny("bert"), test, other=tiny("roberta"), device="cpu", **given)
    alike = table[(table.measure == "cka") & (table.condition == ("train" if learned else "test"))]
    found = table[table.measure == "cka_retrieval"]
    found = found.set_index(way_of(found))
    assert set(found.index) == {
        f"{way} {method}" for way in given["mappings"].split(",") for method in ("cosine", "csls")
    }
    for variant, one in found.iterrows():
        p = table[(table.measure == "p@1") & (way_of(table) == variant)].groupby("layer").value.mean()
        assert one.value == pytest.approx(stats.pearsonr(alike.value, p.loc[alike.layer]).statistic)
        assert one.low <= one.value <= one.high and one.n == 4 and (one.source, one.target) == ("qaa", "qab")
    two = ig.rotate(tiny("bert"), test, other=tiny("roberta"), layers="0,3", device="cpu", **given)
    assert "cka_retrieval" not in set(two.measure)  # two points are always on a line


def test_random_weights_read_the_other_language_alone(tiny, parts):
    test, train = parts
    given = {"train_bitext": train, "mappings": "procrustes", "layers": "0,3", "device": "cpu"}
    tables = [ig.rotate(tiny("bert"), test, random_weights=random, seed=seed, **given) for random, seed in
              ((False, 0), (True, 0), (True, 0), (True, 1))]  # fmt: skip
    trained, fresh, again, drawn = (one[one.measure == "cka"].value.tolist() for one in tables)
    assert fresh == again and fresh != drawn and fresh != trained
    assert set(tables[1].other_model) == {"bert random"} and set(tables[0].other_model) == {""}
    stack = ig.load(tiny("bert"), device="cpu")
    other = reinitialise(stack, [1, 2, 3], embeddings=True, seed=seed_of(0, "random weights"))
    x, y = (ig.vectors(one, corpus)[3] for one, corpus in zip((stack, other), test, strict=True))
    one = tables[1].query("measure == 'cka' and condition == 'test' and layer == 3").iloc[0]
    assert one.value == pytest.approx(ig.cka(x, y), rel=1e-5)


def test_one_language_twice_each_with_a_model_of_its_own(tiny, text, tmp_path):
    twice = ig.Bitext((ig.Corpus("en", text["qaa"].sentences), ig.Corpus("en2", text["qab"].sentences)), name="twice")
    lines = ["en\ten2", *("\t".join(pair) for pair in zip(*(c.sentences for c in twice), strict=True))]
    (tmp_path / "twice.tsv").write_text("\n".join(lines) + "\n")
    read = ig.read_bitext(tmp_path / "twice.tsv")
    assert read.languages == ("en", "en2") and read.rows == twice.rows
    table = ig.rotate(tiny("bert"), read, other=tiny("roberta"), mappings="centred", layers="1", device="cpu")
    assert set(table[table.measure == "cka"].target) == {"en2"}


def test_each_side_of_a_model_with_parts_of_its_own_reads_its_language(text, tmp_path):
    files = write_texts(tmp_path / "text")
    twice = {"en": files["qaa"], "en2": files["qab"]}
    ig.pretrain(twice, **{**SMALL, "separate": "embeddings"}, out=tmp_path / "both")
    sides = [ig.Corpus(name, corpus.sentences) for name, corpus in zip(twice, text, strict=True)]
    given = {"other": str(tmp_path / "both" / "model" / "en2"), "mappings": "none", "device": "cpu"}
    table = ig.rotate(tmp_path / "both" / "model" / "en", *sides, **given)
    alike = table[table.measure == "cka"]
    assert len(alike) == 3 and set(alike.model) == {"both/en"} and set(alike.other_model) == {"both/en2"}
    assert alike.value.notna().all()


def test_a_model_and_itself_turned_are_alike_at_every_layer(tiny, text, tmp_path):
    other, _ = turned_model(tiny("bert"), tmp_path / "turned")
    ciphered = ig.Corpus("qab", [said_otherwise(one) for one in text["qaa"].sentences])
    both = ig.Bitext((text["qaa"], ciphered))
    table = ig.rotate(tiny("bert"), both.take(range(40)), other=other, mappings="none", device="cpu")
    alike = table[table.measure.str.startswith("cka")]
    assert len(alike) == 4 * 3 and alike.value.tolist() == pytest.approx([1.0] * 12, abs=1e-6)


def test_widths_may_differ_and_three_sentences_are_too_few(tiny, text, tmp_path):
    config = tiny_config("bert", len(tiny_tokenizer()))
    config.hidden_size = 16
    AutoModel.from_config(config).save_pretrained(tmp_path / "narrow")
    tiny_tokenizer().save_pretrained(tmp_path / "narrow")
    given = {"other": str(tmp_path / "narrow"), "layers": "0", "device": "cpu"}
    table = ig.rotate(tiny("bert"), text.take(range(9)), mappings="none", **given)
    assert set(table.measure) == {"cka", "cka_biased", "cka_uncentred", "learned_from"}
    table = ig.rotate(tiny("bert"), text.take(range(3)), mappings="none", **given)
    assert set(table.measure) == {"learned_from"}
    with pytest.raises(InputError, match="bert is 32 wide and .*narrow 16; raw needs equal widths"):
        ig.rotate(tiny("bert"), text.take(range(9)), mappings="raw", **given)


def test_sentences_that_are_looked_up_are_not_learned_from(tiny, text, tmp_path):
    ig.rotate(
        tiny("bert"),
        text.take(range(40)),
        train_bitext=text,
        layers="0",
        mappings="procrustes",
        device="cpu",
        out=tmp_path / "run",
    )
    notes = read_facts(tmp_path / "run")["notes"]
    assert any("were left out of learning" in note for note in notes)
    with pytest.raises(InputError, match="--train-bitext has 0 sentences of qaa and qab that are not looked up"):
        ig.rotate(tiny("bert"), text, train_bitext=text, layers="0")


def test_fewer_pairs_than_directions_is_noted(tiny, parts, tmp_path):
    test, train = parts
    ig.rotate(tiny("bert"), test, train_bitext=train, train_sample=10, layers="0", device="cpu", out=tmp_path / "run")
    assert any("fitted on 10 pairs for 32 directions" in note for note in read_facts(tmp_path / "run")["notes"])


def test_without_training_text_only_means_of_the_test_are_there(tiny, parts):
    table = ig.rotate(tiny("bert"), parts[0], mappings="raw,centred", layers="0,1", device="cpu")
    variants = set(way_of(table[table.measure == "p@1"]))
    assert variants == {f"{way} {method}" for way in ("raw", "centred transductive") for method in ("cosine", "csls")}


def test_a_stopped_run_goes_on_and_reads_nothing_again(tiny, parts, tmp_path, monkeypatch):
    test, train = parts
    given = {"train_bitext": train, "layers": "0,1,2", "mappings": "raw,procrustes", "device": "cpu"}
    whole = ig.rotate(tiny("bert"), test, **given, out=tmp_path / "whole")
    retrieve, calls = rotation.retrieve, []

    def stop(*args, **more):
        calls.append(1)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return retrieve(*args, **more)

    monkeypatch.setattr(rotation, "retrieve", stop)
    with pytest.raises(KeyboardInterrupt):
        ig.rotate(tiny("bert"), test, **given, out=tmp_path / "run")
    monkeypatch.setattr(rotation, "retrieve", retrieve)
    monkeypatch.setattr(rotation, "stream", None)
    again = ig.rotate(tiny("bert"), test, **given, out=tmp_path / "run", resume=True)
    key = ["measure", "condition", "method", "layer", "source"]
    left, right = (one.sort_values(key).value.tolist() for one in (whole, again))
    assert left == right


def test_the_command_reads_both_texts_and_reports(tiny, parts, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    for name, part in zip(("test", "train"), parts, strict=True):
        lines = ["qaa\tqab", *("\t".join(pair) for pair in zip(*(c.sentences for c in part), strict=True))]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    words = ["rotate", tiny("bert"), "--bitext", tmp_path / "test.tsv", "--layers", "0,1", "--device", "cpu"]
    code, shown, told = run(*words, "--train-bitext", tmp_path / "train.tsv", "--out", tmp_path / "run")
    assert code == 0, told
    assert "Most translations are found at layer" in shown and "sentences have" in shown
    (tmp_path / "data" / "learned").mkdir(parents=True)
    (tmp_path / "train.tsv").rename(tmp_path / "data" / "learned" / "train.tsv")
    named = ["--train-bitext", "learned", "--data", tmp_path / "data"]
    code, _, told = run(*words, *named, "--out", tmp_path / "named")
    assert code == 0, told
    options = {"bitext": str(tmp_path / "test.tsv"), "train_bitext": ["learned"], "data": str(tmp_path / "data")}
    options |= {"model": tiny("bert"), "layers": "0,1", "device": "cpu"}
    run_job(Job("one", "rotate", options, tmp_path / "job", {}))
    values = [ig.read_rows(tmp_path / name).value.tolist() for name in ("run", "named", "job")]
    assert values[0] == values[1] == values[2]
    code, _, told = run(*words, "--out", tmp_path / "other")
    assert code == 2 and "procrustes is learned from parallel text; give it with --train-bitext" in told


def test_maps_that_are_kept_find_what_the_rows_say(tiny, parts, tmp_path):
    test, train = parts
    options = {
        "layers": "1-2",
        "save_mappings": "2",
        "device": "cpu",
        "mappings": "raw,procrustes,procrustes+iterative",
    }
    table = ig.rotate(tiny("bert"), test, train_bitext=train, out=tmp_path / "run", **options)
    folder = tmp_path / "run" / "mappings"
    files = [str(one.relative_to(folder)) for one in sorted(folder.rglob("*.*"))]
    assert files == [f"qaa-qab/layer-2/{way}.safetensors" for way in ("procrustes+iterative", "procrustes")]
    stack = ig.load(tiny("bert"), device="cpu")
    u, v = (ig.vectors(stack, corpus)[2] for corpus in test)
    for way, means in (("procrustes", ""), ("procrustes+iterative", " inductive")):
        mapping = ig.load_mapping(folder / "qaa-qab" / "layer-2" / f"{way}.safetensors")
        rows = table[(table.measure == "p@1") & (table.layer == 2) & (table.source == "qaa")]
        expected = rows[way_of(rows) == f"{way}{means} cosine"].value.item()
        assert p_at_1(mapping(u).numpy(), mapping.target(v).numpy()) == pytest.approx(expected), way


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        (0, {}, "--bitext is missing"),
        (1, {"train_sample": 1}, "--train-sample must be at least 2"),
        (1, {"sample": 1}, "--sample must be at least 2"),
        (1, {"mappings": "turn"}, "--mappings takes"),
        (1, {"layers": "7"}, "--layers asks for 7"),
        (1, {"save_mappings": "2"}, "save_mappings leaves maps in the run's folder"),
    ],
)
def test_mistakes_are_one_sentence(tiny, parts, given, options, sentence):
    test, train = parts
    with pytest.raises(InputError, match=sentence):
        ig.rotate(tiny("bert"), *[test][:given], train_bitext=train, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"save_mappings": "1", "layers": "2"}, "--save-mappings 1: layer 1 is not read; --layers has 2"),
        (
            {"save_mappings": "2", "mappings": "raw,centred"},
            "--save-mappings keeps maps that are learned, and --mappings has none",
        ),
        ({"save_mappings": "7"}, "asks for 7"),
    ],
)
def test_maps_that_cannot_be_kept_are_told_and_leave_no_folder(tiny, parts, tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        ig.rotate(tiny("bert"), parts[0], train_bitext=parts[1], out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_training_text_of_other_languages_is_refused(tiny, parts):
    other = invented(("qaa", "qac"), sentences=20, seed=3)
    with pytest.raises(InputError, match="--train-bitext has no parallel text of qaa and qab; it has qaa-qac"):
        ig.rotate(tiny("bert"), parts[0], train_bitext=other)
