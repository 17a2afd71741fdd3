"""`isogloss align` from pairs to model: rows, card, kills, what is held out, and mistakes as sentences."""

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.invented import invented
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

import isogloss as ig
from isogloss.recipes.align import PairText, pack_text
from isogloss.runs import read_facts, read_rows
from isogloss.stack.load import load_language_model
from isogloss.text.readers.parallel import find_pairs
from isogloss.training.alignment import Aligner, Alignment
from tiny_alignment import SMALL, words, write_pairs
from tiny_commands import command_line, run_and_kill
from tiny_drift import write_model
from tiny_pretraining import weights_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture
def isogloss(monkeypatch, capsys):
    return command_line(monkeypatch, capsys)


def aligned(model, train, out, *bitext, **changes):
    return ig.align(model, *bitext, train_bitext=train, out=out, **SMALL | changes)


def test_a_run_leaves_a_model_with_its_head_rows_and_a_card(model, train, tmp_path):
    table = aligned(model, train, tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "run.json",
        "rows.csv",
        "rows.parquet",
        "checkpoints",
        "model",
    }
    steps = {name: sorted(set(rows.step)) for name, rows in table.groupby("measure")}
    assert steps == {"loss": [2, 4], "p@1": [0, 4], "p@1_mean": [0, 4], "perplexity": [0, 4]}
    assert set(table.plan) == {"tlm+queue"} and set(table.method) == {"", "centred"} and set(table.model) == {"tiny"}
    losses = table[table.measure == "loss"]
    assert set(zip(losses.task, losses.unit, strict=True)) == {("tlm", "token"), ("contrastive", "pair")}
    assert set(table[table.measure == "perplexity"].target) == {"qaa", "qab", "all"}
    assert set(table[table.measure == "p@1"].layer) == {0, 1, 2}
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    for part in (
        "- qaa\n- qab\n",
        "tiny, aligned",
        "| learned | tlm+queue |",
        "a queue of 18, momentum 0.999",
        "P@1 after",
    ):
        assert part in card
    before, after = (AutoModelForMaskedLM.from_pretrained(one) for one in (model, tmp_path / "run" / "model"))
    moved = {name for name, one in after.named_parameters() if not torch.equal(one, before.get_parameter(name))}
    assert any("predictions" in name for name in moved) and any("layer.1" in name for name in moved)
    assert set(before.state_dict()) == set(after.state_dict()), "no projection, key encoder or queue is left in it"
    stack = ig.load(tmp_path / "run" / "model")
    assert list(stack.cuts) == [0, 1, 2]
    assert len(ig.map(stack, invented(("qaa", "qab"), sentences=12, seed=5), sample=6, points=0)) > 0


def test_one_seed_gives_one_model_and_one_table_and_another_seed_others(model, train, tmp_path):
    before = torch.get_rng_state()
    tables = [aligned(model, train, tmp_path / str(number), seed=seed) for number, seed in enumerate((0, 0, 1))]
    assert torch.equal(torch.get_rng_state(), before)
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)
    models = [weights_of(tmp_path / str(number) / "model") for number in range(3)]
    assert models[0] == models[1] and models[0] != models[2]


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_to_the_same_model(isogloss, model, train, tmp_path):
    rhythm = {"steps": 13, "checkpoint": 3, "report": 4, "probe": 5, "best": True}
    command = ("align", *words(model, train, **rhythm))
    assert isogloss(*command, "--out", tmp_path / "whole")[0] == 0
    out = tmp_path / "killed"
    run_and_kill(*command, "--out", out)
    assert not (out / "model").exists() and read_rows(out).step.max() == 8
    code, _, told = isogloss(*command, "--out", out, "--resume")
    assert code == 0, told
    assert weights_of(out / "model") == weights_of(tmp_path / "whole" / "model")
    assert weights_of(out / "checkpoints") == weights_of(tmp_path / "whole" / "checkpoints")
    for name in ("rows.csv", "model/README.md", "checkpoints/step-0000012/training.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_runs_share_packed_pairs_which_only_the_first_packs(model, train, tmp_path, monkeypatch):
    alone = aligned(model, train, tmp_path / "alone")
    first = aligned(model, train, tmp_path / "first", packed=str(tmp_path / "packed"))
    pd.testing.assert_frame_equal(first, alone, check_exact=True)
    kept = [path for path in (tmp_path / "packed").iterdir() if path.is_dir()]
    other = aligned(model, train, tmp_path / "other", packed=str(tmp_path / "packed"), held_out=0.1)
    assert len(other) and sum(path.is_dir() for path in (tmp_path / "packed").iterdir()) == 2, "other pairs are left"

    def refuse(*_, **__):
        raise AssertionError("these pairs are packed already")

    monkeypatch.setattr("isogloss.recipes.align.pack_pairs", refuse)
    second = aligned(model, train, tmp_path / "second", packed=str(tmp_path / "packed"))
    pd.testing.assert_frame_equal(second, alone, check_exact=True)
    assert len(kept) == 1 and "packed" not in read_facts(tmp_path / "second")["arguments"]


def test_a_checkpoint_holds_key_encoder_queue_and_pointer(model, train, tmp_path):
    aligned(model, train, tmp_path / "run")
    held = load_file(tmp_path / "run" / "checkpoints" / "step-0000002" / "training.safetensors")
    assert held["weight.pointer"].item() == 2 * SMALL["batch"] and held["weight.queue"].shape == (18, 8)
    told = held["weight.names"] != 0
    assert told.tolist() == [True] * 12 + [False] * 6, "which sentences the queue holds is known after a kill, too"
    stack = load_language_model(model, device="cpu")
    aligner = Aligner(stack, Alignment(layer=2, queue=16, projection_width=8), seed=0)
    names = {name for name, _ in aligner.named_parameters()}
    assert {name.removeprefix("weight.") for name in held if name.startswith("weight.")} >= names


def test_the_best_step_by_retrieval_can_be_kept(model, train, tmp_path):
    table = aligned(model, train, tmp_path / "run", best=True, probe=1, steps=5, layer=1)
    curve = table[(table.measure == "p@1_mean") & (table.layer == 1)].set_index("step").value
    best = int(curve.idxmax())  # the first of equals
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"| steps | {best} of 5, 6 pairs each |" in card
    again = aligned(model, train, tmp_path / "again", probe=1, steps=5, layer=1)
    pd.testing.assert_frame_equal(table, again)
    kept, best_kept, last = (weights_of(tmp_path / one) for one in ("run/model", "run/checkpoints/best", "again/model"))
    assert best < 5 and kept == best_kept and kept != last


@pytest.mark.parametrize("rate", [3e-2, 1e-2])  # the model it began with is the best, and one on the way
def test_the_best_step_is_told_and_its_card_is_of_that_step(isogloss, model, train, tmp_path, rate):
    given = words(model, train, best=True, probe=1, report=1, steps=5, layer=1, rate=rate)
    code, shown, told = isogloss("align", *given, "--out", tmp_path / "run", "--quiet")
    assert code == 0, told
    rows = read_rows(tmp_path / "run")
    curve = rows[(rows.measure == "p@1_mean") & (rows.layer == 1)].set_index("step").value
    best = int(curve.idxmax())
    assert best < 5
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"| qaa-qab | {curve[0]:.3f} | {curve[best]:.3f} |" in card
    assert f"Perplexity of masked tokens after step {best};" in card
    where = "the one it began with, before any update" if best == 0 else f"that of step {best} of 5"
    assert f"Note: --best: the model is {where}" in shown


def test_training_on_what_is_measured_on_is_told_as_that(isogloss, model, train, tmp_path):
    one, other = train.removeprefix("qaa-qab=").split(",")
    code, _, told = isogloss(
        "align",
        *words(model, train),
        "--bitext",
        one,
        "--bitext",
        other,
        "--languages",
        "qaa,qab",
        "--out",
        tmp_path / "run",
    )
    assert code == 2 and "120 one of the text given to measure on; give --bitext or --evaluate other text" in told


def test_dropout_is_the_models_own_or_none(model, train, tmp_path):
    losses = [
        aligned(model, train, tmp_path / str(dropout), steps=2, dropout=dropout)
        .query("measure == 'loss'")
        .value.tolist()
        for dropout in (True, False)
    ]
    assert losses[0] != losses[1]


def test_given_text_is_measured_and_never_trained_on(model, train, tmp_path):
    (source,) = find_pairs(train)
    first = [pair for pair, _ in zip(source.open(), range(12), strict=False)]
    test = ig.Bitext(
        tuple(ig.Corpus(one, list(side)) for one, side in zip(("qaa", "qab"), zip(*first, strict=True), strict=True)),
        name="test",
    )
    watched = tmp_path / "watched.txt"
    watched.write_text("\n".join(invented(("qaa", "qac"), sentences=20, seed=9)["qac"].sentences))
    table = aligned(model, train, tmp_path / "run", test, evaluate=[f"qac={watched}"], steps=1)
    assert set(table[table.measure == "p@1"].data) == {"test"} and set(table[table.measure == "p@1"].n) == {12}
    assert set(table[table.measure == "perplexity"].target) == {"qac", "all"}
    notes = " ".join(read_facts(tmp_path / "run")["notes"])
    assert "have a sentence that is measured on, and were left out" in notes


def test_what_is_held_out_is_in_no_pair_that_is_trained_on(model, tmp_path):
    stack = load_language_model(model, device="cpu")
    sources = [
        find_pairs(invented(languages, sentences=150, seed=1))[0] for languages in (("qaa", "qab"), ("qaa", "qac"))
    ]
    given = [pair[1] for pair, _ in zip(sources[1].open(), range(9), strict=False)]
    text = PairText(sources, share=0.1, longest=64, measured=given, packed=None)
    found = pack_text(text, stack.tokenizer, tmp_path / "pairs")
    held = {side for pairs in found.held_out.values() for pair in pairs for side in pair}
    assert set(found.streams) == {"qaa-qab", "qaa-qac"} and len(held) > 20
    assert found.left_out["qaa-qac"] >= 9
    known = {tuple(stack.tokenizer(one, add_special_tokens=False)["input_ids"]) for one in {*held, *given}}
    for title, stream in found.streams.items():
        assert len(found.held_out[title]) >= 8 and len(stream) >= 100
        sides = np.split(np.asarray(stream.ids), stream.begins[1:-1])
        assert not known & {tuple(side.tolist()) for side in sides}
    again = pack_text(text, stack.tokenizer, tmp_path / "pairs")
    assert again.held_out == found.held_out and again.notes == found.notes
    assert [one.languages for one in found.bitexts()] == [("qaa", "qab"), ("qaa", "qac")]
    assert [one.language for one in found.corpora()] == ["qaa", "qab", "qac"]


@pytest.mark.parametrize(
    ("changes", "plan"),
    [
        ({"contrastive": 0.0}, "tlm"),
        ({"tlm": 0.0, "pooling": "mean", "projection": "none", "layer": 1}, "queue"),
        ({"negatives": "batch", "projection": "linear"}, "tlm+batch"),
        ({"pull": 1.0, "shuffle": False, "micro_batch": 4, "queue": 6}, "tlm+queue+pull+unshuffled"),
        ({"reset_positions": True, "dropout": False}, "tlm+queue+reset"),
    ],
)
def test_every_objective_trains_and_says_what_it_is(model, train, tmp_path, changes, plan):
    table = aligned(model, train, tmp_path / "run", steps=2, **changes)
    assert set(table.plan) == {plan}
    tasks = set(table[table.measure == "loss"].task)
    assert tasks == (
        {"tlm"} if "contrastive" in changes else {"contrastive"} if "tlm" in changes else {"tlm", "contrastive"}
    )


def test_pairs_that_are_cut_or_empty_are_counted_in_the_notes(model, tmp_path):
    long = "lapi " * 60
    bitext = invented(("qaa", "qab"), sentences=60, seed=1)
    sides = [[*one.sentences, text, other] for one, text, other in zip(bitext, (long, ""), (long, "x"), strict=True)]
    train = ig.Bitext(tuple(ig.Corpus(one.language, side) for one, side in zip(bitext, sides, strict=True)))
    aligned(model, train, tmp_path / "run", steps=1, held_out=0)
    tokenizer = ig.load(model).tokenizer
    cut = sum(all(pair) and len(tokenizer(*pair)["input_ids"]) > 64 for pair in zip(*sides, strict=True))
    assert read_facts(tmp_path / "run")["notes"] == [
        "qaa-qab: 1 pairs have an empty side and were left out",
        f"qaa-qab: {cut} pairs are longer than the model reads, and are cut",
        "no retrieval is measured: too few pairs were held out; raise --held-out or give --bitext",
    ]


@pytest.mark.parametrize(
    ("changes", "parts"),
    {
        "queue": ({"queue": 5}, ["--queue 5 holds fewer than a batch of 6"]),
        "multiple": ({"queue": 20}, ["--queue 20 is not a multiple of --batch 6", "give --queue 18 or 24"]),
        "layer": ({"layer": 3}, ["has layers 0 to 2; --layer asks for 3"]),
        "nothing": ({"tlm": 0, "contrastive": 0}, ["leave nothing to learn"]),
        "negatives": ({"negatives": "some"}, ["--negatives takes queue or batch, not 'some'"]),
        "pool": ({"pooling": "last"}, ["--pooling takes first or mean"]),
        "projection": ({"projection": "deep"}, ["--projection takes none or linear or mlp"]),
        "momentum": ({"momentum": 1.0}, ["--momentum must be from 0 to below 1"]),
        "temperature": ({"temperature": 0}, ["--temperature must be at least 0.0001"]),
        "micro batch": ({"negatives": "batch", "micro_batch": 2}, ["--micro-batch splits the batch that --negatives"]),
        "one of a batch": ({"negatives": "batch", "batch": 1}, ["--batch must be at least 2"]),
        "length": ({"length": 1000}, ["--length must be 8 to 64"]),
        "one language": ({"train_bitext": "en-en=a,b"}, ["en is named twice; alignment needs two languages"]),
        "no train": ({"train_bitext": "nowhere"}, ["nowhere does not exist"]),
        "evaluate": ({"evaluate": "text.txt"}, ["--evaluate takes LANG=FILE"]),
        "all held out": ({"held_out": 0.999999}, ["no pair is left to train on: 0 have an empty side, 120 a sentence"]),
        "best": ({"best": True, "held_out": 0}, ["--best chooses by retrieval, and too few pairs were held out"]),
        "packed": ({"packed": __file__}, ["test_align.py is a file; give a folder"]),
        "infinite": ({"pull": "inf"}, ["--pull must be a finite number, not inf"]),
    }.values(),
)
def test_mistakes_are_one_sentence_and_leave_no_folder(isogloss, model, train, tmp_path, changes, parts):
    code, shown, told = isogloss(
        "align", *words(model, **{"train_bitext": train, **changes}), "--out", tmp_path / "run"
    )
    assert code == 2, (shown, told)
    assert told.startswith("isogloss: ") and told.count("\n") == 1 and "Traceback" not in told
    for part in parts:
        assert part in told
    assert not (tmp_path / "run").exists()


def test_a_side_that_is_always_empty_is_told(isogloss, model, tmp_path):
    (tmp_path / "a.txt").write_text("lapi mu.\n" * 30)
    (tmp_path / "b.txt").write_text("\n" * 30)
    given = f"qaa-qab={tmp_path / 'a.txt'},{tmp_path / 'b.txt'}"
    code, _, told = isogloss("align", *words(model, given), "--out", tmp_path / "run")
    assert code == 2 and "no pair is left to train on: 30 have an empty side, 0 a sentence that is held out" in told
    assert not (tmp_path / "run").exists()


def test_files_of_unequal_length_leave_no_folder_either(isogloss, model, tmp_path):
    for name, count in {"a": 30, "b": 31}.items():
        (tmp_path / f"{name}.txt").write_text("lapi mu.\n" * count)
    given = f"qaa-qab={tmp_path / 'a.txt'},{tmp_path / 'b.txt'}"
    code, _, told = isogloss("align", *words(model, given), "--out", tmp_path / "run")
    assert code == 2 and "a.txt has 30 lines" in told and "b.txt has more" in told
    assert not (tmp_path / "run").exists()


def test_a_decoder_is_refused(tmp_path):
    decoder = write_model(tmp_path / "llama", family="llama")
    with pytest.raises(ig.InputError, match="is a decoder; align trains masked language models"):
        ig.align(decoder, train_bitext=write_pairs(tmp_path), **SMALL)
