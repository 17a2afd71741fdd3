"""Unfreezing in real runs of transformers' Trainer: what moves from which step on, and at which rate."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, TrainerCallback

from isogloss.integrations import DriftCallback, UnfreezeCallback
from isogloss.integrations.callbacks import add_weights, stack_of
from isogloss.stack.edit import freeze
from isogloss.text.corpora import Corpus
from tiny_models import DEPTH
from tiny_trainer import NL, TOKENIZER, TRAIN, moved, tiny, trainer, weights


class Naive(TrainerCallback):
    """What people write: everything from the third step on."""

    def on_step_begin(self, args, state, control, model=None, **rest):
        if state.global_step == 2:
            model.requires_grad_(True)


class Rates(TrainerCallback):
    """The rate of every group at each update."""

    def __init__(self):
        self.seen = []

    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **rest):
        self.seen.append([group["lr"] for group in optimizer.param_groups])


def test_naive_unfreezing_trains_nothing_and_the_callback_trains_what_it_unfreezes(tmp_path):
    """The optimiser took only what required gradients when it was made."""
    reached = {}
    for name, callback in {"naive": Naive(), "ours": UnfreezeCallback("unfreeze:1/2")}.items():
        model = tiny()
        before = weights(model)
        freeze(stack_of(model), DEPTH - 1)
        one = trainer(tmp_path, model, optimizers=(None, None))
        one.add_callback(callback)  # too late to see the optimiser made
        one.train()
        reached[name] = moved(before, model)
        groups = one.optimizer.param_groups
        assert all(weight.requires_grad for weight in model.parameters())
    assert reached == {"naive": {DEPTH, "head"}, "ours": {0, 1, 2, 3, "head"}}
    assert [group["weight_decay"] for group in groups] == [0.01, 0.0] * 4
    assert not set(map(id, groups[2]["params"])) & set(map(id, groups[3]["params"]))
    assert all(weight.dim() == 2 for group in groups[2::2] for weight in group["params"])


@pytest.mark.parametrize("way", ["constructor", "added", "own optimiser"])
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
        optimizers = (torch.optim.AdamW(model.cls.predictions.parameters(), lr=1e-2), None)
    else:
        freeze(stack_of(model), DEPTH)
    one = trainer(tmp_path, model, [callback] * (way != "added"), max_steps=7, optimizers=optimizers)
    if way == "added":
        one.add_callback(callback)
    one.add_callback(Watch())
    one.train()
    expected = [{3}, {3}, {2, 3}, {2, 3}, {1, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}]
    # The head's output weight is the embeddings', so what is left of the head always moves.
    assert [found - {"head"} for found in steps] == expected
    assert all("head" in found or way == "own optimiser" for found in steps)
    groups = one.optimizer.param_groups
    held = [id(weight) for group in groups for weight in group["params"]]
    assert len(held) == len(set(held))
    if way == "constructor":
        assert len(groups) == 2


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


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant_with_warmup"])
def test_the_rate_of_new_groups_follows_the_schedule(tmp_path, kind):
    model, rates = tiny(), Rates()
    freeze(stack_of(model), 2)
    one = trainer(tmp_path, model, lr_scheduler_type=kind, warmup_steps=2)
    one.add_callback(UnfreezeCallback("unfreeze:1/3"))
    one.add_callback(rates)
    one.train()
    assert [len(seen) for seen in rates.seen] == [2] * 3 + [4] * 3 + [6] * 2
    assert all(len(set(seen)) == 1 for seen in rates.seen)
    plain = Rates()
    trainer(tmp_path, tiny(), [plain], lr_scheduler_type=kind, warmup_steps=2).train()
    assert [seen[0] for seen in rates.seen] == [seen[0] for seen in plain.seen]
    assert one.lr_scheduler.get_last_lr() == [group["lr"] for group in one.optimizer.param_groups]


def test_a_schedule_of_schedules_and_named_weights_take_new_groups():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2), torch.nn.Linear(2, 1))
    named = [(f"2.{name}", weight) for name, weight in model[2].named_parameters()]
    optimizer = torch.optim.SGD(named, lr=1.0, weight_decay=0.1)
    parts = [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step, by=by: by**step) for by in (0.5, 0.1)]
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
    late = {name: weight for name, weight in model.named_parameters() if not name.startswith("2.")}
    add_weights(model, late, optimizer=optimizer, schedule=schedule)
    assert [group["param_names"] for group in optimizer.param_groups[1:]] == [
        ["0.weight"], ["0.bias", "1.weight", "1.bias"]
    ]  # fmt: skip
    for expected in (0.5, 1.0, 0.1):
        optimizer.step()
        schedule.step()
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([expected] * 3)


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
