"""`isogloss pretrain` from text to model: variants load, one seed is one model, kills and full disks lose nothing."""

import errno
import json
import os
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from benchmarks.invented import invented
from safetensors.torch import load_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForMaskedLM

import isogloss as ig
from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.recipes.model_card import perplexity_lines
from isogloss.recipes.packed_text import repeat_files
from isogloss.recipes.pretrain import pretrain
from isogloss.recipes.recipe import describe_files
from isogloss.runs import read_facts, read_rows, row
from isogloss.stack.families import FAMILIES
from isogloss.text.tokenizers import train_tokenizers
from isogloss.training import checkpoints as kept, perplexities
from isogloss.training.loop import Training
from tiny_commands import command_line, run_and_kill
from tiny_pretraining import LANGUAGES, SMALL, options, weights_of, write_lexicon, write_texts

ENCODERS = [name for name, family in FAMILIES.items() if family.kind == "encoder"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("text"))


@pytest.fixture
def isogloss(monkeypatch, capsys):
    return command_line(monkeypatch, capsys)


def made(files, out, **changes):
    return pretrain(files, out=out, **SMALL | changes)


def stack_and_text(folder, language):
    stack = ig.load(folder)
    return stack, ig.Corpus(language, invented(LANGUAGES, sentences=3, seed=1)[language].sentences)


def test_one_seed_gives_one_model_and_one_table_and_another_seed_others(files, tmp_path):
    before = torch.get_rng_state()
    tables = [made(files, tmp_path / str(number), seed=seed, dropout=0.1) for number, seed in enumerate((0, 0, 1))]
    assert torch.equal(torch.get_rng_state(), before)
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)
    models = [weights_of(tmp_path / str(number) / "model") for number in range(3)]
    assert models[0] == models[1]
    assert models[0] != models[2]


def test_a_run_leaves_a_model_its_rows_and_a_card(files, tmp_path):
    table = made(files, tmp_path / "run", licence="apache-2.0", steps=5)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "run.json",
        "rows.csv",
        "rows.parquet",
        "checkpoints",
        "model",
    }
    steps = {name: sorted(set(rows.step)) for name, rows in table.groupby("measure")}
    assert steps == {"loss": [2, 4, 5], "perplexity": [0, 2, 4, 5]}
    perplexity = table[table.measure == "perplexity"]
    assert set(perplexity.unit) == {"token", "word", "character"}
    assert set(perplexity.target) == {*LANGUAGES, "all"}
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-0000004"]
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    facts = read_facts(tmp_path / "run")
    versions = [f"{name} {facts['versions'][name]}" for name in ("python", "torch", "transformers", "isogloss")]
    last = table[table.measure == "loss"].value.iloc[-1]
    for part in (
        "- qaa\n- qab\n",
        "license: apache-2.0",
        "Local language qaa, Local language qab",
        "qaa.txt",
        "qab.txt",
        "| vocabulary | 150 pieces, wordpiece, of all languages together |",
        f"{os.cpu_count()} CPUs",
        "| steps | 5 |",
        f"| tokens seen | {5 * 4 * 16} |",
        f"{last:.3f} nats a predicted token",
        *versions,
        f"| all | {perplexity[(perplexity.target == 'all') & (perplexity.step == 5)].value.iloc[0]:.2f} |",
    ):
        assert part in card


def test_the_card_is_read_as_it_is_meant_whatever_languages_files_and_licences_are_called(files, tmp_path):
    odd = tmp_path / "a|b.txt"
    odd.write_bytes(files["qaa"].read_bytes())
    made({"no": odd, "qab": files["qab"]}, tmp_path / "run", steps=0, licence="other: see LICENCE")
    _, front, card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["language"] == ["no", "qab"] and facts["license"] == "other: see LICENCE"
    assert "| no | a\\|b.txt |" in card


def test_the_card_says_from_where_perplexity_rises():
    def curve(target, values):
        return [
            row("perplexity", value, target=target, unit=unit, step=100 * number)
            for number, value in enumerate(values)
            for unit in ("token", "word", "character")
        ]

    shown = "\n".join(perplexity_lines([*curve("nl", [9, 3, 2, 2.5]), *curve("ru", [9, 5, 4, 3.5])]))
    assert "nl was lowest at step 200 (2.000 a character) and rose from there." in shown
    assert "ru was" not in shown
    assert "after step 300" in shown
    assert "No language's perplexity had risen by the end." in "\n".join(perplexity_lines(curve("nl", [9, 3, 2, 2])))
    assert perplexity_lines([]) == ["No perplexity was measured."]


@pytest.mark.parametrize("family", [*ENCODERS, "llama"])
def test_every_family_trains_and_loads(files, tmp_path, family):
    table = made(files, tmp_path / "run", architecture=family, steps=2, probe=9)
    assert set(table.model) == {f"{family}-2x16"}
    stack, text = stack_and_text(tmp_path / "run" / "model", "qaa")
    assert isinstance(stack, ig.Stack) and list(stack.cuts) == [0, 1, 2] and stack.width == 16
    assert ig.vectors(stack, text).isfinite().all()


VARIANTS = {
    "no anchors": {"anchors": "none"},
    "extra anchors": {"anchors": "extra"},
    "separate vocabularies": {"vocabularies": "separate"},
    "separate embeddings": {"separate": "embeddings"},
    "a separate block": {"separate": "1-1"},
    "both": {"separate": "embeddings+1-1"},
    "unigram": {"tokenizer": "unigram", "lowercase": True},
    "half precision on disk": {"save_dtype": "float16"},
    "one language": {},
    "text by text": {"rows": "texts", "architecture": "bert", "dropout": 0.1},
    "a separate block, text by text": {"rows": "texts", "separate": "1-1"},
}


@pytest.mark.parametrize("rows", ["streams", "texts"])
def test_a_decoder_learns_to_go_on(files, tmp_path, rows):
    how = {"architecture": "llama", "rows": rows, "steps": 60, "probe": 60, "checkpoint": 60, "rate": 1e-2}
    table = made(files, tmp_path / "run", **how, batch=16)
    perplexity = table[(table.measure == "perplexity") & (table.unit == "token")]
    first, last = (perplexity[perplexity.step == step] for step in (0, 60))
    assert set(first.method) == {"causal"} and (last.value.to_numpy() < first.value.to_numpy() / 2).all()
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "A causal language model of" in card and "every token, from those before it" in card
    assert "Perplexity of each token given those before it" in card and "pipeline_tag: text-generation" in card
    tokens = ig.tokens(tmp_path / "run" / "model", ig.embedded(("en", "nl")).take(range(8)), bits=True)
    assert (tokens[tokens.measure == "bits_per_byte"].method == "causal").all()


@pytest.mark.parametrize("change", [{"rows": "pairs"}, {"whole_words": True}, {"mask_share": 0.3}])
def test_what_is_about_masks_is_refused_for_a_decoder(files, tmp_path, change):
    with pytest.raises(InputError, match="are for masked models, and llama is a decoder"):
        made(files, tmp_path / "run", architecture="llama", **change)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_and_loads_for_each_of_its_languages(files, tmp_path, name):
    changes = dict(VARIANTS[name])
    if name == "extra anchors":
        changes["lexicon"] = [f"qaa-qab={write_lexicon(tmp_path / 'words.txt')}"]
    texts = {"qaa": files["qaa"]} if name == "one language" else files
    table = made(texts, tmp_path / "run", steps=2, probe=9, **changes)
    told = [f"{key}:{changes[key]}" for key in ("vocabularies", "anchors", "separate") if key in changes]
    assert set(table.model) == {" ".join(["bert-2x16", *told])}
    assert set(table.plan) == {""}
    model = tmp_path / "run" / "model"
    parted = {"no anchors", "separate vocabularies", "separate embeddings", "a separate block", "both"}
    parted.add("a separate block, text by text")
    own = {language: model / language if name in parted else model for language in texts}
    stacks = {}
    for language, folder in own.items():
        stacks[language], text = stack_and_text(folder, language)
        assert ig.vectors(stacks[language], text).isfinite().all()
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert ("no tokens are shared" in card) == (name == "no anchors")
        assert ("identical tokens are shared" in card) == (name == "separate vocabularies")
        assert ("extra anchors |" in card) == (changes.get("anchors") == "extra")
    if name in parted:
        check_sharing(name.removesuffix(", text by text"), *own.values())
    if name == "no anchors":
        ids = [set(stacks[one].tokenizer(path.read_text()).input_ids) for one, path in files.items()]
        assert ids[0] & ids[1] <= set(range(5)), "only special tokens are shared"
    if name == "half precision on disk":
        assert {value.dtype for value in load_file(model / "model.safetensors").values()} == {torch.float16}


def check_sharing(name, first, second):
    """Which weights two languages' models have in common: all but what is separate."""
    left, right = (load_file(folder / "model.safetensors") for folder in (first, second))
    differ = {key for key in left if left[key].shape != right[key].shape or not torch.equal(left[key], right[key])}
    embeddings = {
        key for key in left if "embeddings" in key or key.startswith("cls.predictions.") and "transform" not in key
    }
    block = {key for key in left if ".layer.0." in key}
    expected = {"separate embeddings": embeddings, "a separate block": block, "both": embeddings | block}.get(
        name, set()
    )
    biases = {key for key in expected if "bias" in key or "LayerNorm" in key}  # drawn alike, moved a little by training
    assert differ <= expected
    assert expected - biases <= differ


def test_no_steps_leave_a_random_encoder(files, tmp_path):
    table = made(files, tmp_path / "run", steps=0)
    assert set(table.measure) == {"perplexity"} and set(table.step) == {0}
    stack, text = stack_and_text(tmp_path / "run" / "model", "qaa")
    assert ig.vectors(stack, text).isfinite().all()
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "| steps | 0 |" in card and "| last training loss | none |" in card


def test_a_tokenizer_that_exists_is_taken(files, tmp_path):
    made(files, tmp_path / "first", steps=0)
    made(files, tmp_path / "second", steps=0, tokenizer=str(tmp_path / "first" / "model"), seed=1)
    first, second = (ig.load(tmp_path / name / "model").tokenizer for name in ("first", "second"))
    assert first.get_vocab() == second.get_vocab()


def test_a_model_is_named_by_the_shape_it_has(files, tmp_path):
    (tmp_path / "more.json").write_text(json.dumps({"num_hidden_layers": 1, "hidden_size": 24}))
    table = made(files, tmp_path / "run", steps=0, config=str(tmp_path / "more.json"))
    assert set(table.model) == {"bert-1x24"} and read_facts(tmp_path / "run")["depth"] == 1


def test_pieces_limit_what_probes_run_at_a_time_too(files, tmp_path, monkeypatch):
    make, sizes = perplexities.AskedBatch, []
    monkeypatch.setattr(
        perplexities, "AskedBatch", lambda *given: sizes.append(given[0]["input_ids"].numel()) or make(*given)
    )
    made(files, tmp_path / "run", steps=0, micro_batch=3)
    assert 2 * SMALL["length"] < max(sizes) <= 3 * SMALL["length"]


def test_held_out_files_and_parallel_text_are_measured(files, tmp_path):
    aside = write_texts(tmp_path / "aside", languages=("qaa", "qac"), sentences=40)["qaa"]
    both = invented(LANGUAGES, sentences=12, seed=4)
    changes = {"evaluate": [f"qaa={aside}"], "steps": 2, "device": "cpu"}
    table = pretrain(files, both, out=tmp_path / "run", **SMALL | changes)
    assert set(table[table.measure == "perplexity"].target) == {"qaa"}
    assert "no perplexity is measured for qab" in " ".join(read_facts(tmp_path / "run")["notes"])
    retrieval = table[table.measure == "p@1"]
    assert set(retrieval.method) == {"centred"}
    assert set(retrieval.layer) == {0, 1, 2} and set(retrieval.n) == {12} and set(retrieval.step) == {0, 2}


def test_hashing_and_packing_and_training_show_how_far_they_are(files, tmp_path):
    seen = {}
    with listening(lambda stage, *how_far: seen.setdefault(stage, []).append(how_far)):
        made(files, tmp_path / "run")
    stages = {stage.partition(":")[0] for stage in seen}
    assert {"hashing the text", "tokenizer of qaa, qab", "packing qaa", "packing qab", "training"} == stages
    size = sum(path.stat().st_size for path in files.values())
    assert seen["hashing the text"][-1] == (size, size)
    assert list(seen)[0] == "hashing the text"
    done, total = seen["packing qaa"][-1]  # of text to train on; what is held out is packed without a word
    assert done == total > 0
    assert seen["training"] == [(1, 4), (2, 4)]  # then the loss is known, and told
    assert seen["training: measuring"] == [(0, 4), (2, 4), (4, 4)]
    told = [stage for stage in seen if stage.startswith("training: loss")]
    losses = read_rows(tmp_path / "run").query("measure == 'loss'")
    assert told == [f"training: loss {loss:.3f}" for loss in losses.value]
    assert [seen[stage] for stage in told] == [[(3, 4), (4, 4)], [(4, 4)]]


def test_packed_text_alone_gives_the_model_the_text_gives(files, tmp_path):
    streams = tmp_path / "streams"
    made(files, tmp_path / "text", streams=str(streams))
    made(None, tmp_path / "packed", streams=str(streams))
    assert weights_of(tmp_path / "text" / "model") == weights_of(tmp_path / "packed" / "model")
    pd.testing.assert_frame_equal(read_rows(tmp_path / "text"), read_rows(tmp_path / "packed"))
    made(files, tmp_path / "again", streams=str(tmp_path / "twin"), steps=0)
    both = [
        {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        for folder in (streams, tmp_path / "twin")
    ]
    assert both[0] == both[1]
    assert not any(path.startswith(".") for path in both[0])


def test_packing_that_was_stopped_goes_on_with_the_same_text_and_refuses_other(files, tmp_path):
    streams = tmp_path / "streams"
    made(files, tmp_path / "whole", streams=str(streams), steps=0)
    before = {path.name: path.read_bytes() for path in streams.iterdir() if path.is_file()}
    for name in ("streams.json", "train.qab.json"):
        (streams / name).unlink()
    (streams / "held.qab.npy").unlink()
    (streams / ".train.qab.npy.7.part").write_bytes(b"half")
    with pytest.raises(ig.InputError, match="packed from other text or with other options; choose another --streams"):
        made(files, tmp_path / "other", streams=str(streams), steps=0, vocabulary=140)
    assert not (tmp_path / "other").exists()
    made(files, tmp_path / "again", streams=str(streams), steps=0)
    assert {path.name: path.read_bytes() for path in streams.iterdir() if path.is_file()} == before


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_to_the_same_model(isogloss, files, tmp_path):
    rhythm = {"steps": 13, "checkpoint": 3, "report": 4, "probe": 5, "dropout": 0.2}
    command = ("pretrain", *options(files, **rhythm))
    assert isogloss(*command, "--out", tmp_path / "whole")[0] == 0
    out = tmp_path / "killed"
    run_and_kill(*command, "--out", out)
    kept_there = sorted(
        path.name.split(".")[1] if path.name[0] == "." else path.name for path in (out / "checkpoints").iterdir()
    )
    assert kept_there == ["step-0000006", "step-0000009"]
    assert not (out / "model").exists()
    seen = read_rows(out)
    assert seen.step.max() == 8, "rows from after the last checkpoint are there, and will be made again"
    code, _, told = isogloss(*command, "--out", out, "--resume")
    assert code == 0, told
    assert weights_of(out / "model") == weights_of(tmp_path / "whole" / "model")
    for name in ("rows.csv", "model/README.md", "model/tokenizer.json", "model/config.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-0000012"]
    facts = [read_facts(folder) for folder in (out, tmp_path / "whole")]
    assert facts[0]["status"] == "finished" and facts[0]["hashes"] == facts[1]["hashes"]


@pytest.mark.parametrize("where", ["checkpoint", "model"])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(
    isogloss, files, tmp_path, monkeypatch, where
):
    command = ("pretrain", *options(files, steps=5, dropout=0.2))
    assert isogloss(*command, "--out", tmp_path / "whole")[0] == 0
    out, write = tmp_path / "run", kept.save_file
    if where == "checkpoint":

        def full(tensors, path):
            if "step-0000004" in str(path):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            write(tensors, path)

        monkeypatch.setattr(kept, "save_file", full)
    else:
        monkeypatch.setattr(sys.modules["isogloss.recipes.pretrain"], "write_cards", no_room)
    code, shown, told = isogloss(*command, "--out", out)
    assert code == 1, told
    assert told.count("\n") == 1 and told.startswith("isogloss: could not read or write ")
    assert "No space left on device" in told and "--resume goes on" in told and shown == ""
    last = kept.latest(out / "checkpoints")
    assert last.name == ("step-0000002" if where == "checkpoint" else "step-0000004")
    assert not (out / "model").exists() and not list(out.rglob(".*.part"))
    monkeypatch.undo()
    monkeypatch.setattr("isogloss.report.can_draw", lambda: False)
    code, _, told = isogloss(*command, "--out", out, "--resume")
    assert code == 0, told
    assert weights_of(out / "model") == weights_of(tmp_path / "whole" / "model")
    pd.testing.assert_frame_equal(read_rows(out), read_rows(tmp_path / "whole"))


def no_room(*_, **__):
    """As safetensors says it, whose errors are no OSError."""
    raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")


def test_a_loss_that_is_no_number_is_one_sentence_and_keeps_the_checkpoint(isogloss, files, tmp_path):
    command = options(files, rate=1e30, clip=0, warm_up=0, held_out=0, report=100, steps=9, checkpoint=1)
    code, shown, told = isogloss("pretrain", *command, "--out", tmp_path / "run")
    assert code == 2 and shown == ""
    assert told.count("\n") == 1 and "the loss is no number any more at step" in told and "lower --rate" in told
    last = kept.latest(tmp_path / "run" / "checkpoints")
    assert last is not None, "a run without rows is kept for its checkpoint"
    assert all(value.isfinite().all() for value in load_file(last / "training.safetensors").values())


def test_a_finished_run_is_only_told_again(isogloss, files, tmp_path):
    command = ("pretrain", *options(files, steps=2), "--out", tmp_path / "run")
    assert isogloss(*command)[0] == 0
    before = (tmp_path / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    code, shown, _ = isogloss(*command, "--resume")
    assert code == 0 and "rows.csv" in shown
    assert (tmp_path / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


def test_a_run_interrupted_before_its_first_checkpoint_begins_again(isogloss, files, tmp_path, monkeypatch):
    command = ("pretrain", *options(files, dropout=0.2, checkpoint=3), "--out", tmp_path / "run")
    update = Training.update

    def stopped(training):
        update(training)
        if training.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Training, "update", stopped)
    code, _, told = isogloss(*command)
    assert code == 130 and "--resume" in told
    assert kept.latest(tmp_path / "run" / "checkpoints") is None
    monkeypatch.setattr(Training, "update", update)
    assert isogloss(*command, "--resume")[0] == 0
    table = made(files, tmp_path / "whole", dropout=0.2, checkpoint=3)
    assert weights_of(tmp_path / "run" / "model") == weights_of(tmp_path / "whole" / "model")
    pd.testing.assert_frame_equal(read_rows(tmp_path / "run"), table)


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_next_sentences_are_learned_beside_a_plain_masked_model_and_go_on_alike(files, tmp_path, monkeypatch, separate):
    how = {"rows": "pairs", "next_sentence": True, "separate": separate, "report": 3, "steps": 7, "dropout": 0.1}
    whole = made(files, tmp_path / "whole", **how)
    measured = whole[whole.measure == "next_sentence_loss"]
    assert measured.step.tolist() == [3, 6, 7] and set(measured.unit) == {"pair"}
    assert measured.value.tolist() == pytest.approx([0.69] * 3, abs=0.2), "hardly better than chance yet"
    assert measured.n.tolist()[0] > measured.n.tolist()[2], "of the pairs since the reading before"
    update = Training.update

    def stopped(training):
        update(training)
        if training.step == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Training, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        made(files, tmp_path / "again", **how)
    monkeypatch.setattr(Training, "update", update)
    assert kept.latest(tmp_path / "again" / "checkpoints").name == "step-0000004"
    pd.testing.assert_frame_equal(made(files, tmp_path / "again", **how, resume=True), whole, check_exact=True)
    assert weights_of(tmp_path / "again" / "model") == weights_of(tmp_path / "whole" / "model")
    folder = tmp_path / "whole" / "model" / ("" if separate == "nothing" else "qaa")
    model, about = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not about["unexpected_keys"] and not about["missing_keys"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "next sentence" in card and "4 of at most 16 tokens a step" in card
    if separate == "nothing":
        assert f"{sum(weight.numel() for weight in model.parameters()):,}" in card, "the head is none of its weights"


def test_pairs_without_the_objective_are_true_neighbours_and_the_card_does_not_speak_of_it(files, tmp_path):
    table = made(files, tmp_path / "run", rows="pairs")
    assert "next_sentence_loss" not in set(table.measure)
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "next sentence" not in card and "| pairs |" in card


def tokenizer_with(files, folder, single, pair):
    """The folder of a tokenizer that puts these special tokens around a text, and around two."""
    made = train_tokenizers({code: path.read_text().splitlines for code, path in files.items()}, size=150)["qaa"]
    special = [(name, number) for name, number in (("[CLS]", 2), ("[SEP]", 3)) if name in single + pair]
    made.backend_tokenizer.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=special)
    made.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("rows", ["texts", "pairs"])
@pytest.mark.parametrize("marks", [("[CLS] $A", "[CLS] $A [CLS] $B"), ("$A [SEP]", "$A [SEP] $B [SEP]")])
def test_texts_stand_between_the_special_tokens_that_the_tokenizer_has(files, tmp_path, rows, marks):
    how = {"rows": rows, "next_sentence": rows == "pairs", "steps": 2}
    table = made(files, tmp_path / "run", tokenizer=tokenizer_with(files, tmp_path / "tokenizer", *marks), **how)
    assert table[table.measure.isin(["loss", "perplexity"])].value.gt(0).all() and len(table)
    assert set(table[table.measure == "perplexity"].target) == {"qaa", "qab", "all"}


@pytest.mark.parametrize("rows", ["texts", "pairs"])
def test_texts_without_any_special_token_are_refused_in_a_sentence(files, tmp_path, rows):
    tokenizer = tokenizer_with(files, tmp_path / "tokenizer", "$A", "$A $B")
    with pytest.raises(ig.InputError, match=f"--rows {rows}: --tokenizer puts no special token before or after a text"):
        made(files, tmp_path / "run", tokenizer=tokenizer, rows=rows)
    assert not (tmp_path / "run").exists()
    assert len(made(files, tmp_path / "run", tokenizer=tokenizer, rows="streams", steps=1))


@pytest.mark.parametrize("rows", ["streams", "texts"])
def test_next_sentences_need_pairs(files, tmp_path, rows):
    with pytest.raises(ig.InputError, match=f"--next-sentence goes with --rows pairs, not with --rows {rows}"):
        made(files, tmp_path / "run", rows=rows, next_sentence=True)
    assert not (tmp_path / "run").exists()


def test_looking_and_keeping_do_not_change_what_is_learned(files, tmp_path):
    """Probes leave mode, random state and gradients alone, and so do checkpoints."""
    often = {"probe": 1, "checkpoint": 1, "report": 1}
    both = invented(LANGUAGES, sentences=8, seed=4)
    pretrain(files, both, out=tmp_path / "watched", **SMALL | often, dropout=0.2)
    seldom = {"probe": None, "checkpoint": 99, "report": 99}
    table = pretrain(files, out=tmp_path / "alone", **SMALL | seldom, dropout=0.2)
    assert set(table[table.measure == "perplexity"].step) == {0, 4}
    assert weights_of(tmp_path / "watched" / "model") == weights_of(tmp_path / "alone" / "model")
    assert not (tmp_path / "alone" / "checkpoints").exists()


@pytest.mark.parametrize("rows", ["streams", "texts", "pairs"])
def test_pieces_and_half_precision_follow_the_same_curve(files, tmp_path, rows):
    how = {"report": 1, "rows": rows, "next_sentence": rows == "pairs"}
    whole = made(files, tmp_path / "whole", **how)
    pieces = made(files, tmp_path / "pieces", **how, micro_batch=3)
    half = made(files, tmp_path / "half", **how, dtype="bfloat16")
    for table, tolerance in ((pieces, 1e-5), (half, 3e-2)):
        assert table.value.tolist() == pytest.approx(whole.value.tolist(), rel=tolerance)
        assert not table.value.equals(whole.value)
    stored = load_file(tmp_path / "half" / "model" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float32}, "weights stay in full precision"


TEXTS = {"en": [Path("help.en.txt"), Path("books.en.txt")], "nl": [Path("help.nl.txt")]}


def test_files_are_repeated_by_their_names():
    found = repeat_files(TEXTS, ["help.*=2", "*.en.txt=3"])
    assert found == {"en": [Path("help.en.txt")] * 3 + [Path("books.en.txt")] * 3, "nl": [Path("help.nl.txt")] * 2}
    assert repeat_files(TEXTS, []) == TEXTS
    assert repeat_files(TEXTS, ["books.en.txt=0"])["en"] == [Path("help.en.txt")]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["help.*"], "--repeat takes PATTERN=N"),
        (["=3"], "--repeat takes PATTERN=N"),
        (["help.*=-1"], "--repeat takes PATTERN=N"),
        (["laws.*=2"], "--repeat laws.*=2: no file of --text is named so"),
        (["help.nl.txt=0"], "--repeat leaves no text of nl"),
    ],
)
def test_mistakes_of_repeat_are_named(given, sentence):
    with pytest.raises(ig.InputError) as caught:
        repeat_files(TEXTS, given)
    assert sentence in str(caught.value)


def test_a_run_records_a_file_once_with_how_often_it_is_taken(tmp_path):
    path = tmp_path / "help.en.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    (once,) = describe_files({"en": [path]})["en"]
    (twice,) = describe_files({"en": [path, path]})["en"]
    assert "times" not in once and twice == {**once, "times": 2}
