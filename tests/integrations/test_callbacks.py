"""Callbacks in a Trainer of one's own: perplexity, balance, drift, and unfreezing by a plan."""

import ast
import math
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    TrainerCallback,
    TrainingArguments,
)

import isogloss
from isogloss import integrations
from isogloss.errors import InputError
from isogloss.integrations import BalanceStopCallback, DriftCallback, PerplexityCallback, UnfreezeCallback
from isogloss.integrations.callbacks import FEWEST, SHARE, _drawn, stack_of
from isogloss.runs.table import frame
from isogloss.stack import load
from isogloss.stack.edit import freeze
from isogloss.text.batches import tokenise
from isogloss.text.corpora import Corpus
from isogloss.text.masking import Masking
from isogloss.training.distances import distance_probe, sample_vectors
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.plans import parse_plan
from tiny_models import DEPTH, tiny_config
from tiny_trainer import (
    CORPORA,
    EN,
    MARKS,
    NL,
    POOL,
    TOKENIZER,
    TRAIN,
    logged,
    moved,
    sentences,
    tiny,
    trainer,
    weights,
)


def perplexities(model):
    """What the probe says of a model, by name in the log."""
    corpora = [one if isinstance(one, Corpus) else Corpus(language, one) for language, one in CORPORA.items()]
    probe = perplexity_probe(
        model, [tokenise(TOKENIZER, one, max_length=64) for one in corpora], target="nl", every=1, seed=0,
        masking=Masking(TOKENIZER.mask_token_id, MARKS, POOL), device="cpu",
    )  # fmt: skip
    ends = {"token": "", "word": "_word", "character": "_character"}
    return {f"eval_{one['target']}_perplexity{ends[one['unit']]}": one["value"] for one in probe.take()}


def test_perplexity_is_logged_at_evaluations_under_its_names_and_is_the_probes(tmp_path):
    model = tiny()
    start = perplexities(model)
    callback = PerplexityCallback(TOKENIZER, CORPORA, target="nl", limit=None)
    one = trainer(tmp_path, model, [callback], eval_strategy="steps", eval_steps=3)
    one.train()
    end = perplexities(model)
    assert len(end) == 12
    for name in end:
        found = logged(one, name)
        assert list(found) == [0, 3, 6, 8]
        assert (found[0], found[8]) == (start[name], end[name])
    balance = math.log(end["eval_nl_perplexity"]) + math.log(end["eval_others_perplexity"])
    assert logged(one, "eval_balance")[8] == pytest.approx(balance)
    table = frame(callback.rows)
    assert len(table) == 4 * 12 and set(table.step) == {0, 3, 6, 8}
    last = table[(table.step == 8) & (table.target == "others") & (table.unit == "character")]
    assert last.value.item() == end["eval_others_perplexity_character"]
    assert last.low.item() < last.value.item() < last.high.item() and last.data.item() == "en+held out"
    assert {len(list(map(float, parts.split()))) for parts in table.parts} <= {0, 20}, "as a run's table has them"
    assert one.evaluate()["eval_nl_perplexity"] == end["eval_nl_perplexity"] and len(callback.rows) == 48


def test_perplexity_every_so_many_updates_with_accumulation_and_through_trainers_own_log(tmp_path):
    class Reported(TrainerCallback):
        def __init__(self):
            self.names = set()

        def on_log(self, args, state, control, logs=None, **rest):
            self.names |= set(logs)

    one = trainer(tmp_path, tiny(), [Reported()], gradient_accumulation_steps=2, max_steps=5)
    callback = PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=2, limit=None, log=one.log)
    one.add_callback(callback)
    one.train()
    assert list(logged(one, "eval_en_perplexity")) == [0, 2, 4, 5]
    assert {"eval_en_perplexity", "eval_balance"} <= one.callback_handler.callbacks[1].names
    assert logged(one, "eval_en_perplexity")[5] == perplexities(one.model)["eval_en_perplexity"]


def test_several_evaluation_sets_are_one_reading_and_a_reading_can_choose_the_best_model(tmp_path):
    callback = PerplexityCallback(TOKENIZER, CORPORA, target="nl", limit=None)
    options = {"metric_for_best_model": "eval_nl_perplexity", "load_best_model_at_end": True, "max_steps": 4}
    options |= {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    one = trainer(tmp_path, tiny(), [callback], greater_is_better=False, **options)
    one.eval_dataset = {"a": TRAIN[:4], "b": TRAIN[4:8]}
    one.train()
    found = logged(one, "eval_nl_perplexity")
    assert list(found) == [0, 1, 2, 3, 4] and len(callback.rows) == 5 * 12
    assert one.state.best_metric == min(value for step, value in found.items() if step)
    # After training the best model is back: it is read anew, though the step is still the last.
    assert (
        one.evaluate()["eval_nl_perplexity"] == one.state.best_metric == perplexities(one.model)["eval_nl_perplexity"]
    )
    with pytest.raises(InputError, match="would keep the model with the highest; set greater_is_better=False"):
        trainer(tmp_path, tiny(), [callback], **options).train()


def test_training_with_the_callbacks_gives_the_same_weights_bit_for_bit(tmp_path):
    plain, watched = tiny(), tiny()
    trainer(tmp_path, plain).train()
    after_plain = torch.random.get_rng_state()
    perplexity = PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=1)
    callbacks = [perplexity, DriftCallback(TOKENIZER, Corpus("nl", NL), every=1), BalanceStopCallback(perplexity, 99)]
    modes = []

    class Mode(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **rest):
            modes.append(all(module.training for module in model.modules()))
            modes.append(all(weight.grad is None for weight in model.parameters()))

    trainer(tmp_path, watched, [*callbacks, Mode()]).train()
    assert all(torch.equal(value, weights(watched)[name]) for name, value in weights(plain).items())
    assert torch.equal(after_plain, torch.random.get_rng_state())
    assert len(modes) == 16 and all(modes)


def test_the_default_sample_is_a_sixteenth_of_what_is_trained_on_and_drawn_once():
    many = {language: sentences(2000, number) for number, language in enumerate(("nl", "en"))}
    callback = PerplexityCallback(TOKENIZER, many, target="nl", every=500)
    arguments = TrainingArguments(
        output_dir="x", per_device_train_batch_size=8, gradient_accumulation_steps=2, use_cpu=True
    )
    state = type("State", (), {"eval_steps": 100, "max_steps": 1500})
    trained = 1500 * 16
    # Before the first update and three times.
    assert callback._sample(arguments, state, None) == int(SHARE * trained / 4 / 2)
    at_evaluations = PerplexityCallback(TOKENIZER, many, target="nl")
    arguments.eval_strategy = "steps"
    assert at_evaluations._sample(arguments, state, None) == int(SHARE * trained / 16 / 2)
    arguments.eval_strategy = "epoch"
    assert at_evaluations._sample(arguments, state, range(41)) == max(FEWEST, int(SHARE * trained / 73 / 2))
    state.max_steps = 200  # shorter than its interval: it is read twice all the same, and no more in all
    assert callback._sample(arguments, state, None) == int(SHARE * 200 * 16 / 2 / 2)
    corpus = Corpus("nl", many["nl"])
    assert _drawn(corpus, 50, 0).sentences == _drawn(corpus, 50, 0).sentences != _drawn(corpus, 50, 1).sentences
    assert _drawn(corpus, None, 0) is corpus and len(_drawn(corpus, 50, 0)) == 50


def test_evaluations_after_training_read_all_sentences_as_those_before_it_do(tmp_path):
    model = tiny()
    one = trainer(tmp_path, model, [PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=4)], learning_rate=0)
    before = one.evaluate()["eval_nl_perplexity"]
    one.train()
    assert logged(one, "eval_nl_perplexity")[8] != before, "while training, a sample is read"
    assert one.evaluate()["eval_nl_perplexity"] == before == perplexities(model)["eval_nl_perplexity"]


def test_drift_takes_a_corpus():
    with pytest.raises(InputError, match=r"sentences are given as a Corpus, .* not \['een tekst'\]"):
        DriftCallback(TOKENIZER, ["een tekst"])


def test_drift_is_logged_per_layer_and_is_the_probes(tmp_path, tiny_reference):
    model, corpus = tiny(), Corpus("nl", NL)
    sampling = {"seed": 0, "words": 60}
    start = sample_vectors(stack_of(tiny(), TOKENIZER), corpus, **sampling)
    own = DriftCallback(TOKENIZER, corpus, every=3, words=60)
    away = DriftCallback(TOKENIZER, corpus, reference=tiny_reference, every=3, words=60, measures=("cka",), layers=(2,))
    one = trainer(tmp_path, model, [own, away])
    one.train()
    stack = stack_of(model, TOKENIZER)
    expected = list(distance_probe(stack, start, every=1, other="start", measures=("l2", "cosine")).take())
    names = {"l2_drift": "l2", "cosine_drift": "cosine"}
    for reading in expected:
        found = logged(one, f"eval_layer{reading['layer']}_{names[reading['measure']]}")
        assert list(found) == [0, 3, 6, 8]
        assert found[0] == pytest.approx(0, abs=1e-6) and found[8] == reading["value"] > 0
    assert {(row["layer"], row["measure"]) for row in own.rows} == {(k, m) for k in range(DEPTH + 1) for m in names}
    assert {row["other_model"] for row in own.rows} == {"start"}
    assert [(row["step"], row["layer"], row["other_model"]) for row in away.rows] == [
        (step, 2, tiny_reference.name) for step in (0, 3, 6, 8)
    ]
    assert list(logged(one, "eval_layer2_cka")) == [0, 3, 6, 8]


@pytest.fixture
def tiny_reference(request):
    return load(request.getfixturevalue("tiny")("bert"), device="cpu")


@pytest.mark.parametrize("plan", ["unfreeze:1/3", "reinit:2-2+last:2"])
def test_a_resumed_training_ends_with_the_same_weights_rows_and_start(tmp_path, plan):
    def run(folder, resume=None, **changes):
        model = tiny()
        perplexity = PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=2, limit=None)
        drift = DriftCallback(TOKENIZER, Corpus("nl", NL), every=2, words=60)
        one = trainer(
            folder, model, [UnfreezeCallback(plan), perplexity, drift], save_strategy="steps", save_steps=4, **changes
        )
        one.train(resume_from_checkpoint=resume)
        return weights(model), perplexity.rows, drift.rows

    whole, rows, distances = run(tmp_path / "a")
    found, later_rows, later_distances = run(tmp_path / "b", resume=str(tmp_path / "a" / "checkpoint-4"))
    assert all(torch.equal(value, found[name]) for name, value in whole.items())
    for ours, theirs in ((rows, later_rows), (distances, later_distances)):
        places = [
            {name: one.get(name) for name in ("step", "measure", "value", "layer", "target", "unit")} for one in ours
        ]
        assert places == [{name: one.get(name) for name in places[0]} for one in theirs]
    assert [one for one in later_rows if one["step"] > 4] == [one for one in rows if one["step"] > 4]
    results = {"low", "high", "floor", "n", "parts"}
    assert not any(results & set(one) for one in [*later_rows, *later_distances] if one["step"] <= 4)
    assert any("parts" in one for one in later_distances)


def scripted(monkeypatch, values):
    """Perplexities (target, others) at each reading, whatever the model."""
    left = iter(values)

    def take(self, state):
        if self._step != state.global_step:
            self._step = state.global_step
            nl, others = next(left)
            balance = math.log(nl) + math.log(others)
            state.log_history.append({"eval_balance": balance, "step": state.global_step})

    monkeypatch.setattr("isogloss.integrations.callbacks.ReadingsCallback._read", take)


def test_training_stops_when_the_balance_no_longer_improves(tmp_path, monkeypatch):
    scripted(monkeypatch, [(8.0, 8.0), (4.0, 9.0), (3.0, 11.0), (2.5, 16.0), (2.4, 20.0), (2.3, 30.0)])
    perplexity = PerplexityCallback(TOKENIZER, CORPORA, target="nl")
    stop = BalanceStopCallback(perplexity, 2)
    one = trainer(tmp_path, tiny(), [perplexity, stop], eval_strategy="steps", eval_steps=1)
    one.train()
    assert one.state.global_step == 4
    assert "has not improved since step 2 (patience 2)" in stop.reason


def test_a_resumed_training_stops_where_it_would_have_stopped(tmp_path, monkeypatch):
    curve = [(8.0, 8.0), (4.0, 9.0), (4.0, 10.0), (4.0, 11.0), (4.0, 12.0), (4.0, 13.0), (4.0, 14.0), (4.0, 15.0)]
    ends = []
    for resume, values in ((None, curve), (str(tmp_path / "checkpoint-2"), curve[3:])):
        scripted(monkeypatch, values)
        perplexity = PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=1)
        stop = BalanceStopCallback(perplexity, patience=3)
        start = {"eval_on_start": True, "eval_strategy": "epoch"} if resume else {}
        one = trainer(tmp_path, tiny(), [perplexity, stop], save_strategy="steps", save_steps=2, **start)
        one.train(resume_from_checkpoint=resume)
        ends.append((one.state.global_step, stop.reason))
    assert ends[0] == ends[1] and ends[0][0] == 4


def test_the_real_balance_stops_a_training_that_harms_both(tmp_path):
    perplexity = PerplexityCallback(TOKENIZER, CORPORA, target="nl", every=1, limit=None)
    stop = BalanceStopCallback(perplexity, patience=2)
    one = trainer(tmp_path, tiny(), [perplexity, stop], learning_rate=1.0, max_steps=50)
    one.train()
    assert one.state.global_step < 10 and stop.reason


def test_perplexity_of_a_decoder_is_that_of_each_next_token(tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(tiny_config("llama", len(TOKENIZER)))
    callback = PerplexityCallback(TOKENIZER, CORPORA, target="nl", limit=None, every=4)
    assert stack_of(model, TOKENIZER).tokenizer is TOKENIZER, "whatever the loss of a first token would be"
    one = trainer(tmp_path, model, [callback, UnfreezeCallback("last:2")])
    one.data_collator = DataCollatorForLanguageModeling(TOKENIZER, mlm=False)
    one.train()
    nats, count = 0.0, 0
    for sentence in NL:
        ids = torch.tensor([TOKENIZER(sentence)["input_ids"]])
        with torch.no_grad():
            logs = model.eval()(input_ids=ids).logits[0].double().log_softmax(-1)
        places = [place for place in range(1, ids.shape[1]) if int(ids[0, place]) not in MARKS]
        nats -= sum(float(logs[place - 1, ids[0, place]]) for place in places)
        count += len(places)
    found = logged(one, "eval_nl_perplexity")
    assert list(found) == [0, 4, 8] and found[8] < found[0]
    assert found[8] == pytest.approx(math.exp(nats / count), rel=1e-4)


def test_mistakes_get_a_sentence(tmp_path):
    def refuse(match, *callbacks, kind=AutoModelForMaskedLM, **changes):
        with pytest.raises(InputError, match=match):
            trainer(tmp_path, tiny(kind), callbacks, **changes).train()

    def made(**changes):
        return PerplexityCallback(TOKENIZER, **{"corpora": CORPORA, "target": "nl", "every": 2} | changes)

    for match, changes in {
        "the target de is not among the corpora": {"target": "de"},
        "the corpus of nl is one text": {"corpora": {"nl": "een tekst"}},
        "the corpus given as nl has the language en": {"corpora": {"nl": Corpus("en", EN)}},
        "no corpus can be called 'others'": {"corpora": {"nl": NL, "others": EN}},
        "at least one sentence of each corpus": {"limit": 0},
        "every is the number of updates between readings": {"every": 0},
    }.items():
        with pytest.raises(InputError, match=match):
            made(**changes)
    with pytest.raises(InputError, match="the balance needs languages other than nl"):
        BalanceStopCallback(made(corpora={"nl": NL}))
    refuse("eval_strategy='no' turns them off", made(every=None))
    refuse("perplexity needs a model with a language modelling head", made(), kind=AutoModelForSequenceClassification)
    refuse("asks for 4 blocks in unfreeze", UnfreezeCallback())


@pytest.mark.parametrize("plan", ["lora:2", parse_plan("last:2+lora:4")])
def test_unfreezing_refuses_adapters_which_the_optimiser_would_not_hold(plan):
    with pytest.raises(InputError, match="adds no adapters; for lora give Trainer a model of peft"):
        UnfreezeCallback(plan)


def test_nothing_else_imports_the_callbacks():
    source = Path(isogloss.__file__).parent
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "isogloss.integrations.callbacks" in path.read_text()
    }
    assert {Path(one).parent.as_posix() for one in users} == {"integrations"}
    room = ast.parse((source / "integrations" / "__init__.py").read_text())
    assert {one.module for one in room.body if isinstance(one, ast.ImportFrom)} == {"importlib", "typing"}
    assert all(hasattr(integrations, name) for name in integrations.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Callback'"):
        integrations.Callback  # noqa: B018


class Naive(TrainerCallback):
    """What people write: everything from the third step on."""

    def on_step_begin(self, args, state, control, model=None, **rest):
        if state.global_step == 2:
            model.requires_grad_(True)


def test_naive_unfreezing_trains_nothing_and_the_callback_trains_what_it_unfreezes(tmp_path):
    """The optimiser took only what required gradients when it was made."""
    reached = {}
    for name, callback in {"naive": Naive(), "ours": UnfreezeCallback("unfreeze:1/2")}.items():
        model = tiny()
        before = weights(model)
        freeze(stack_of(model), DEPTH - 1)
        trainer(tmp_path, model, [callback], optimizers=(None, None)).train()
        reached[name] = moved(before, model)
        assert all(weight.requires_grad for weight in model.parameters())
    assert reached == {"naive": {DEPTH, "head"}, "ours": {0, 1, 2, 3, "head"}}


@pytest.mark.parametrize("way", ["added", "own optimiser"])
def test_an_optimiser_without_weights_that_the_plan_trains_is_refused_when_training_begins(tmp_path, way):
    """Such weights would never move, and nothing would say so."""
    model, optimizers = tiny(), (None, None)
    callback = UnfreezeCallback("unfreeze:1/2")
    if way == "added":  # too late to see the optimiser made
        freeze(stack_of(model), DEPTH)
    else:
        optimizers = (torch.optim.AdamW(model.cls.predictions.parameters(), lr=1e-2), None)
    one = trainer(tmp_path, model, [callback] * (way != "added"), max_steps=7, optimizers=optimizers)
    if way == "added":
        one.add_callback(callback)
    with pytest.raises(InputError, match="the optimiser lacks weights that the plan trains"):
        one.train()


@pytest.mark.parametrize("way", ["made by Trainer", "own optimiser"])
def test_a_layer_moves_from_the_step_that_unfreezes_it_and_not_before(tmp_path, way):
    model = tiny()
    steps = []

    class Watch(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, **rest):
            self.before = weights(model)

        def on_step_end(self, args, state, control, model=None, **rest):
            steps.append(moved(self.before, model))

    callback, optimizers = UnfreezeCallback("unfreeze:1/2"), (None, None)
    if way == "own optimiser":
        optimizers = (torch.optim.AdamW(model.parameters(), lr=1e-2), None)
    else:
        freeze(stack_of(model), DEPTH)
    one = trainer(tmp_path, model, [callback, Watch()], max_steps=7, optimizers=optimizers)
    one.train()
    expected = [{3}, {3}, {2, 3}, {2, 3}, {1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}]
    # The head's output weight is the embeddings', so what is left of the head always moves.
    assert [found - {"head"} for found in steps] == expected
    assert all("head" in found for found in steps)
    assert len(one.optimizer.param_groups) == (2 if way == "made by Trainer" else 1)


def test_epochs_are_counted_in_updates_with_accumulation(tmp_path):
    model, frozen = tiny(), []

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **rest):
            blocks = model.bert.encoder.layer
            frozen.append(sum(not next(block.parameters()).requires_grad for block in blocks))

    callbacks = [UnfreezeCallback("unfreeze:1/epoch+freeze:0"), Watch()]
    options = {"max_steps": -1, "num_train_epochs": 3, "gradient_accumulation_steps": 3}
    before = weights(model)
    trainer(tmp_path, model, callbacks, **options).train()  # 4 batches an epoch: updates of 3 and of 1
    assert frozen == [2, 2, 1, 1, 0, 0]
    assert 0 not in moved(before, model)


def test_layers_are_watched_and_unfrozen_below_any_head(tmp_path):
    model = tiny(AutoModelForSequenceClassification)
    data = [{**one, "labels": number % 2} for number, one in enumerate(TRAIN)]
    drift = DriftCallback(TOKENIZER, Corpus("nl", NL), every=2, words=60, measures=("l2",))
    one = trainer(tmp_path, model, [UnfreezeCallback("last:1"), drift], data=data, max_steps=2)
    one.data_collator = DataCollatorWithPadding(TOKENIZER)
    one.train()
    found = {(row["step"], row["layer"]): row["value"] > 1e-6 for row in drift.rows}
    assert found == {(step, layer): (step, layer) == (2, DEPTH) for step in (0, 2) for layer in range(DEPTH + 1)}


def test_reinitialised_blocks_are_fresh_once(tmp_path):
    model = tiny()
    before = weights(model)
    one = trainer(tmp_path, model, [UnfreezeCallback("reinit:2-2+freeze:3")], max_steps=1)
    assert moved(before, model) == {2}
    fresh = weights(model)
    one.train()
    assert moved(fresh, model) == {"head"}
