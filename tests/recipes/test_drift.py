"""`isogloss drift` from text to rows: what is tuned moves, what is frozen does not, kills lose nothing."""

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.invented import invented
from transformers import AutoModelForMaskedLM

from isogloss.errors import InputError
from isogloss.papers.hussain2020 import DEFECTS, effect_rows
from isogloss.papers.paper import with_defects
from isogloss.progress import listening
from isogloss.recipes.drift import curve_rows, drift, overlap_notes, read_corpora, split, tokenise_corpora
from isogloss.runs import read_facts, read_rows, row
from isogloss.runs.run import start
from isogloss.runs.table import COORDINATES, frame
from isogloss.stack.edit import without_dropout
from isogloss.stack.load import load_language_model
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.masking import masking_of
from isogloss.training.perplexities import perplexity_probe
from tiny_drift import given, write_model, write_tuning
from tiny_models import ENCODERS, tiny_config

PLANS = "freeze:0,last:1"
ALL_DEFECTS = with_defects("all", DEFECTS)[1]


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    return write_tuning(tmp_path_factory.mktemp("tuning"))


@pytest.fixture(scope="module")
def whole(tuning, tmp_path_factory):
    """A run of two plans and two seeds with everything on: its folder and its table."""
    model, native, files = tuning
    out = tmp_path_factory.mktemp("run") / "run"
    bitext = invented(("qaa", "qab"), sentences=10, seed=3)
    options = given(files, native=str(native), plans=PLANS, seeds=2, attention=True)
    return out, drift(model, bitext, out=out, **options)


def test_sentences_that_are_tuned_on_and_searched_are_told(tuning, tmp_path):
    model, _, files = tuning
    train = read_corpora(f"qaa={files['qaa']}", [], share=0.1, batch=8)[0]
    own = train.sentences[:3]
    fresh = invented(("qaa", "qab"), sentences=6, seed=3)
    sides = ([*own, *fresh["qaa"].sentences[:3]], fresh["qab"].sentences)
    text = Bitext(tuple(Corpus(one.language, side) for one, side in zip(fresh, sides, strict=True)), name="talk")
    told = ["3 of 6 sentences of talk (qaa) are also in the training text: retrieval there is not on new text"]
    assert overlap_notes(train, [text]) == told and overlap_notes(train, [fresh]) == []
    drift(model, text, out=tmp_path / "run", **given(files, epochs=1))
    assert told[0] in read_facts(tmp_path / "run")["notes"]


def chosen(table, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    return table


def test_a_run_has_every_reading_of_every_plan_and_seed(whole):
    out, table = whole
    pd.testing.assert_frame_equal(read_rows(out), table, check_exact=True)
    assert set(table.model) == {"multi", "own"}
    perplexity = chosen(table, measure="perplexity")
    steps = [0, 2, 4, 6]  # 48 sentences in batches of 8
    for plan in ("freeze:0", "last:1"):
        for seed in (0, 1):
            own = chosen(perplexity, plan=plan, seed=seed)
            for target, data in (
                ("qaa", "validation"),
                ("qab", "qab.txt"),
                ("qac", "qac.txt"),
                ("others", "qab.txt+qac.txt"),
            ):
                for unit in ("token", "word", "character"):
                    assert list(chosen(own, target=target, data=data, unit=unit).step) == steps
            assert len(chosen(own, data="test")) == 3
            assert list(chosen(table, measure="loss", plan=plan, seed=seed).step) == steps[1:]
            assert sorted(set(chosen(table, measure="p@1", plan=plan, method="centred", seed=seed).step)) == [0, 4, 6]
            for measure in ("l2_drift", "cosine_drift", "cka", "procrustes_distance"):
                for other in ("own", "start"):
                    place = {"measure": measure, "other_model": other, "seed": seed, "data": "validation"}
                    assert sorted(set(chosen(table, plan=plan, method="", **place).step)) == [0, 4, 6]
                    assert set(chosen(table, plan=plan, method="", **place).layer) == {0, 1, 2}
                    assert set(chosen(table, plan=plan, method="attention", **place).layer) == {1, 2}
            batch = chosen(table, data="validation, first 6", plan=plan, seed=seed)
            assert set(batch.measure) == {"l2_drift", "cosine_drift"}
    assert not table.duplicated(["measure", *COORDINATES]).any()


def test_models_that_were_not_tuned_are_tested_too(whole, tuning):
    _, table = whole
    untuned = chosen(table, plan="untuned")
    assert untuned.step.isna().all() and set(untuned.measure) == {"perplexity"}
    assert {(one.model, one.data) for one in untuned.itertuples()} == {
        ("multi", "test"),
        ("own", "test"),
        ("own", "validation"),
    }
    assert set(untuned.unit) == {"token", "word", "character"}


def test_evaluation_is_of_the_same_tokens_whatever_the_seed(whole):
    _, table = whole
    first = chosen(table, step=0)
    for _, group in first.groupby(["measure", "target", "data", "unit", "layer", "other_model"], dropna=False):
        for kind in ("", "centred", "attention"):
            own = group[group.method == kind]
            assert own.value.nunique(dropna=False) <= 1 and own.n.nunique() <= 1
    last = chosen(table, step=6, measure="perplexity", unit="token", target="others", plan="freeze:0")
    assert last.value.nunique() == 2  # but trainings differ


def test_frozen_layers_stay_and_trained_ones_move(whole):
    _, table = whole
    moved = chosen(table, measure="l2_drift", other_model="start", unit="word")
    frozen = moved[((moved.plan == "last:1") & (moved.layer < 2)) | (moved.layer == 0) | (moved.step == 0)]
    assert (frozen.value == 0).all() and set(frozen.method) == {"", "attention"}
    assert (moved.drop(frozen.index).value > 0).all()
    still = chosen(moved, plan="last:1", method="attention", layer=1)
    assert (still.value == 0).all() and len(still)


def test_tuning_teaches_the_target(whole):
    _, table = whole
    for plan in ("freeze:0", "last:1"):
        curve = chosen(table, measure="perplexity", plan=plan, data="validation", unit="token", seed=0)
        assert curve.value.iloc[-1] < curve.value.iloc[0]


def test_the_best_model_is_kept_and_its_test_is_that_of_the_kept_model(whole, tuning):
    out, table = whole
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == [
        "freeze-0-seed-0",
        "freeze-0-seed-1",
        "last-1-seed-0",
        "last-1-seed-1",
    ]
    folder = out / "checkpoints" / "last-1-seed-1"
    assert {path.name for path in folder.iterdir()} == {"best", "finished"}
    own = chosen(table, measure="perplexity", plan="last:1", seed=1, unit="token", target="qaa")
    curve, test = chosen(own, data="validation"), chosen(own, data="test")
    assert list(test.step) == [curve.step.iloc[int(np.argmin(curve.value))]]
    stack = load_language_model(folder / "best", device="cpu")
    corpora = read_corpora(f"qaa={tuning[2]['qaa']}", [], share=0.1, batch=8)
    texts, masking = tokenise_corpora(stack, corpora[2:]), masking_of(stack.tokenizer)
    probe = perplexity_probe(stack.language_model, texts, target="qaa", every=1, seed=0, device="cpu", masking=masking)
    assert test.value.iloc[0] == pytest.approx(next(iter(probe.take()))["value"], rel=1e-6)


def test_the_model_is_loaded_once_however_many_trainings_there_are(tuning, tmp_path):
    model, _, files = tuning
    stages = []
    with listening(lambda *told: stages.append(told)):
        drift(model, **given(files, plans=PLANS, seeds=2))
    loaded = [told for told in stages if told[0].startswith("loading")]
    assert loaded == [(f"loading {model}", 0, 1), (f"loading {model}", 1, 1)]
    assert ("measuring before training", 1, 1) in stages
    assert max(done for stage, done, _ in stages if stage == "hashing the weights") > 20


def test_a_run_leaves_little_but_checkpoints(whole):
    out, table = whole
    files = [path for path in out.rglob("*") if path.is_file() and "checkpoints" not in path.parts]
    assert {path.name for path in files} == {"run.json", "rows.csv", "rows.parquet"}
    assert sum(path.stat().st_size for path in files) < 400 * len(table)  # 50 MB hold 125,000 rows and more


class Killed(Exception):
    pass


@pytest.mark.parametrize("changes", [{}, {"stop": "balance", "patience": 2, "condition": "legacy:all", **ALL_DEFECTS}])
def test_a_killed_run_resumes_to_the_same_rows(tuning, tmp_path, changes):
    model, _, files = tuning
    options = given(files, plans=PLANS, **changes)
    before = torch.get_rng_state()
    straight = drift(model, out=tmp_path / "straight", **options)
    assert torch.equal(torch.get_rng_state(), before)
    stages = []

    def kill(stage, done, total):
        stages.append(stage)
        if stage.startswith("tuning last:1") and done == 3:
            raise Killed

    with pytest.raises(Killed), listening(kill):
        drift(model, out=tmp_path / "killed", **options)
    legacy = " legacy:all" if changes else ""
    assert f"tuning freeze:0{legacy}, seed 0 (1 of 2)" in stages
    assert f"tuning last:1{legacy}, seed 0 (2 of 2)" in stages
    folder = f"last-1{legacy.replace(':', '-').replace(' ', '-')}-seed-0"
    assert (tmp_path / "killed" / "checkpoints" / folder / "step-0000002").is_dir()
    again = []
    with listening(lambda stage, done, _: again.append((stage, done))):
        resumed = drift(model, out=tmp_path / "killed", resume=True, **options)
    pd.testing.assert_frame_equal(resumed, straight, check_exact=True)
    assert {stage for stage, _ in again if stage.startswith("tuning")} == {f"tuning last:1{legacy}, seed 0 (2 of 2)"}
    assert min(done for stage, done in again if stage.startswith("tuning")) >= 2
    assert read_facts(tmp_path / "killed")["notes"] == read_facts(tmp_path / "straight")["notes"]


def test_stopping_says_where_and_why(tuning, tmp_path):
    model, _, files = tuning
    table = drift(model, out=tmp_path / "run", **given(files, stop="early", patience=2, rate=1e-30))
    assert table.step.max() == 4  # nothing moves, so steps 2 and 4 are no better than 0
    notes = " ".join(read_facts(tmp_path / "run")["notes"])
    assert "freeze:0, seed 0: stopped at step 4, perplexity (target qaa, data validation, unit token) has not" in notes


def test_one_language_alone_can_be_watched(tuning, tmp_path):
    model, _, files = tuning
    seldom = {"probe": None, "distance": None}  # before and after
    table = drift(model, out=tmp_path / "run", **given(files, others=None, plans="unfreeze:1/epoch", **seldom))
    assert set(chosen(table, measure="perplexity").target) == {"qaa"}
    for measure, steps in (("perplexity", {0, 6}), ("l2_drift", {0, 6}), ("loss", {6})):
        assert set(chosen(table, measure=measure).step.dropna()) == steps
    assert not table.measure.isin(["crossing_step", "balance_step", "p@1"]).any()
    assert set(table.seed) == {0}


def test_the_defects_of_the_original_change_what_they_say(tuning, tmp_path):
    """A run without defects, with every one of them, and with all."""
    model, native, files = tuning
    larger = {**files, "qab": tmp_path / "large.txt"}
    larger["qab"].write_text("\n".join(invented(("qaa", "qab"), 50, seed=1)["qab"].sentences), encoding="utf-8")
    options = given(larger, rate=1e-12, plans="last:1", native=str(native))
    tables = [drift(model, **options)]
    for name in (*DEFECTS, "all"):
        condition, defects = with_defects(name, DEFECTS)
        tables.append(drift(model, **options, condition=condition, **defects))
    whole = pd.concat(tables)
    whole = pd.concat([whole, frame(effect_rows(whole))])
    runs = {name: chosen(whole, plan="last:1", condition=f"legacy:{name}") for name in (*DEFECTS, "all")}
    assert set(whole.plan) == {"last:1", "untuned"}
    assert set(whole.condition) == {"", *(f"legacy:{name}" for name in runs)}
    honest = chosen(whole, plan="last:1", condition="")

    def curve(table, **where):
        return chosen(table, measure="perplexity", unit="token", **where).dropna(subset=["step"])

    steady = curve(honest, target="qab").value
    assert steady.to_numpy() == pytest.approx(steady.iloc[0], rel=1e-6)
    assert curve(runs["two-batches"], target="qab").n.max() < curve(honest, target="qab").n.min()
    assert curve(runs["redrawn"], target="qab").value.nunique() == 4
    assert abs(curve(runs["no-mask"], target="qab").value.iloc[0] - steady.iloc[0]) > 1e-4
    for name, unit in (("by-position", "position"), ("all", "position"), ("worst", "word")):
        assert set(chosen(runs[name], measure="l2_drift").unit) == {unit}
    assert chosen(runs["by-position"], measure="l2_drift").n.min() > chosen(honest, measure="l2_drift").n.max()
    for name in ("worst", "by-position"):  # what they change is not the training
        assert (curve(runs[name], target="qab").value.to_numpy() == steady.to_numpy()).all()

    effects = chosen(whole, task="perplexity", target="qab").set_index(["measure", "condition"]).value
    logs = np.log(curve(runs["redrawn"], target="qab").value.to_numpy() / steady.to_numpy())
    assert effects["legacy_shift", "legacy:redrawn"] == pytest.approx(logs.mean())
    assert effects["legacy_stray", "legacy:redrawn"] == pytest.approx(logs.std())
    assert effects["legacy_shift", "legacy:worst"] == effects["legacy_stray", "legacy:by-position"] == 0
    moved = chosen(whole, measure="legacy_shift", task="l2_drift", other_model="own", data="validation")
    place = {"measure": "l2_drift", "other_model": "own", "data": "validation"}
    both = [chosen(one, **place).sort_values(["step", "layer"]).value for one in (runs["by-position"], honest)]
    expected = np.log(both[0].to_numpy() / both[1].to_numpy()).mean()
    assert chosen(moved, condition="legacy:by-position").value.item() == pytest.approx(expected)


def test_the_worst_is_kept_where_that_is_asked_for(tuning, tmp_path):
    model, _, files = tuning
    table = drift(model, out=tmp_path / "run", **given(files, keep_worst=True))
    own = chosen(table, measure="perplexity", target="qaa", unit="token").dropna(subset=["step"])
    curve = chosen(own, data="validation")
    assert list(chosen(own, data="test").step) == [curve.step.iloc[int(np.argmax(curve.value))]]


@pytest.mark.parametrize("family", ENCODERS)
def test_without_dropout_training_mode_computes_as_evaluation(family):
    config = tiny_config(family, 100)
    for name, value in vars(config).items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.5)
    model = AutoModelForMaskedLM.from_config(config)
    ids = torch.arange(5, 45).view(4, 10)
    with torch.no_grad():
        expected = model.eval()(ids).logits
        assert not torch.allclose(model.train()(ids).logits, expected)
        without_dropout(model)
        torch.testing.assert_close(model.train()(ids).logits, expected)


def test_the_split_hangs_on_the_sentences_alone():
    sentences = [f"sentence {number}" for number in range(40)]
    sentences += sentences[:10]
    parts = split(Corpus("en", sentences), 0.2)
    assert [part.name for part in parts] == ["test", "validation", "train"]
    assert sorted(one for part in parts for one in part) == sorted(sentences)
    assert 10 <= len(parts[0]) <= 12 and 10 <= len(parts[1]) <= 12
    for one in parts:
        assert not set(one) & {sentence for other in parts if other is not one for sentence in other}
    turned = split(Corpus("en", sentences[::-1]), 0.2)
    assert [list(part) for part in turned[:2]] == [list(part) for part in parts[:2]]
    assert list(turned[2]) == list(parts[2])[::-1]


def course(run, target, others, *, plan="last:1"):
    """Append made-up perplexities at steps 0, 100, 200: target and others by seed."""
    for seed, both in enumerate(zip(target, others, strict=True)):
        for name, data, curve in (("qaa", "validation", both[0]), ("others", "some", both[1])):
            run.append(
                row("perplexity", value, target=name, data=data, unit=unit, step=step, seed=seed, plan=plan)
                for step, value in zip((0, 100, 200), curve, strict=True)
                for unit in ("token", "character")
            )


def test_crossing_and_balance_over_seeds(tmp_path):
    run = start(tmp_path / "run", {})
    course(run, [[8, 4, 2], [8, 4, 1], [8, 8, 8]], [[2, 2, 4], [2, 2, 2], [2, 2, 2]])
    course(run, [[8, 4, 2]], [[1, 1, 1]], plan="last:2")
    rows = [one for rows in curve_rows(run, "qaa", model="m") for one in rows]
    found = {(one["measure"], one["plan"], one["unit"]): one for one in rows}
    assert len(rows) == 6
    for unit in ("token", "character"):
        crossed = found["crossing_step", "last:1", unit]
        assert (crossed["value"], crossed["n"], crossed["target"], crossed["model"]) == (150, 2, "qaa", "m")
        assert (crossed["low"], crossed["high"]) == (150, 150)
        # Seed 0 loses on the others what it gains after step 100; the third never gains.
        assert found["balance_step", "last:1", unit]["value"] == pytest.approx((100 + 200 + 0) / 3)
        assert found["balance_step", "last:1", unit]["n"] == 3
        alone = found["balance_step", "last:2", unit]
        assert alone["value"] == 200 and "low" not in alone
    assert run.facts["notes"] == [
        "last:1: the curves of qaa and the others per token do not cross in 1 of 3 seeds",
        "last:1: the curves of qaa and the others per character do not cross in 1 of 3 seeds",
        "last:2: the curves of qaa and the others per token do not cross",
        "last:2: the curves of qaa and the others per character do not cross",
    ]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_decoder_is_tuned_and_watched_as_a_masked_model_is(family, tuning, tmp_path):
    _, _, files = tuning
    model = write_model(tmp_path / family, family=family)
    table = drift(model, out=tmp_path / "run", **given(files, plans="freeze:0,lora:2", rate=1e-2))
    curve = chosen(table, measure="perplexity", unit="token", data="validation")
    assert set(curve.method) == {"causal"}
    for plan in ("freeze:0", "lora:2"):
        steps = chosen(curve, plan=plan).sort_values("step").value.tolist()
        assert steps[-1] < steps[0]
        (folder,) = (tmp_path / "run" / "checkpoints").glob(f"{plan.replace(':', '-')}*/best")
        stack = load_language_model(folder, device="cpu")
        best = stack.language_model
        assert stack.causal and not any("lora" in name for name, _ in best.named_parameters()), "adapters are merged"
        text = tokenise_corpora(stack, read_corpora(f"qaa={files['qaa']}", [], share=0.1, batch=8)[2:3])
        masking = masking_of(stack.tokenizer, causal=True)
        again = perplexity_probe(best, text, every=1, seed=0, masking=masking, device="cpu", target="qaa").take()
        told = chosen(table, measure="perplexity", unit="token", data="test", plan=plan).value.item()
        assert next(each["value"] for each in again if each["unit"] == "token") == pytest.approx(told, rel=1e-4)
    distances = chosen(table, measure="l2_drift", plan="lora:2", data="validation", step=6).set_index("layer").value
    assert distances[0] == 0 and distances[2] > 0, "embeddings stay, blocks move"


def test_a_native_model_of_another_width_is_compared_by_cka_alone(tuning, tmp_path):
    model, _, files = tuning
    wider = write_model(tmp_path / "wider", seed=1, hidden_size=32)
    table = drift(model, **given(files, native=str(wider), plans="last:1"), out=tmp_path / "run")
    to_native = table[(table.other_model == "wider") & table.layer.notna()]
    assert set(to_native.measure) == {"cka"} and set(to_native.data) == {"validation"} and to_native.value.notna().all()
    assert {"l2_drift", "cka"} <= set(table[table.other_model == "start"].measure), "to its own start, all of them"
    (note,) = (note for note in read_facts(tmp_path / "run")["notes"] if note.startswith("wider is 32 wide and "))
    assert note.endswith("multi 16: l2, cosine, procrustes left out, only cka compares models of different widths")


def test_a_native_model_of_another_kind_is_refused(tuning, tmp_path):
    model, _, files = tuning
    decoder = write_model(tmp_path / "llama", family="llama")
    with pytest.raises(InputError, match="are not both decoders"):
        drift(model, **given(files, native=str(decoder)))


def test_one_model_is_tuned_at_a_time(tuning):
    model, native, files = tuning
    with pytest.raises(InputError, match="drift takes one model; sweep runs it for several"):
        drift([model, native], **given(files))
