"""Plans: what they say, which layers move at which step, and that everything else stays as it is to the bit."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from isogloss.errors import InputError
from isogloss.stack.edit import reinitialise
from isogloss.stack.families import FAMILIES
from isogloss.text.masking import Masking
from isogloss.training import plans
from isogloss.training.checkpoints import Checkpoints, latest
from isogloss.training.language_modelling import language_modelling
from isogloss.training.loop import Optimisation, Settings, Training, rate_at
from isogloss.training.plans import Plan, apply_plan, frozen_at, parse_plan
from isogloss.training.sharing import build, parse, stack_of
from tiny_models import DEPTH, ENCODERS, tiny_config
from tiny_training import ALONE, run, same, weights

VOCABULARY, STEPS = 60, 6
TEXT = np.random.default_rng(0).integers(5, VOCABULARY, 400).astype(np.uint16)
OPTIMISATION = Optimisation(rate=0.01, weight_decay=0.1, decay="linear")


def masked_training(family="bert"):
    """A tiny masked LM about to be trained, and its encoder as a stack."""
    models = build(tiny_config(family, VOCABULARY), ["en"], sharing=parse("nothing"), seed=0)
    mask = None if FAMILIES[family].kind == "decoder" else 4
    objective = language_modelling(
        models, {"en": TEXT}, batch=2, length=8, masking={"en": Masking(mask, range(5), torch.arange(5, VOCABULARY))},
        device=torch.device("cpu"), seed=0,
    )  # fmt: skip
    settings = Settings(steps=STEPS, seed=0, optimisation=OPTIMISATION)
    return Training(models, objective, settings, ALONE), stack_of(models, "en", None, "tiny")


def part_of(stack, model):
    """For each weight the layer it is of: 0 the embeddings, k block k, `norm` and `head` what lies over the blocks."""
    names = {id(weight): "head" for weight in model.parameters()}
    for name, weight in stack.model.named_parameters():
        names[id(weight)] = "norm" if name.startswith(f"{stack.family.norm}.") else 0
    for number, block in enumerate(stack.blocks, 1):
        names |= {id(weight): number for weight in block.parameters()}
    return {name: names[id(weight)] for name, weight in model.named_parameters()}


def movement(family, text, epoch=2):
    """For each step the parts in which any weight changed, in a run under this plan."""
    one, stack = masked_training(family)
    parts = part_of(stack, one.model)
    apply = apply_plan(stack, parse_plan(text), epoch=epoch, seed=0)
    apply(0)
    one = Training(one.model, one.objective, one.settings, ALONE)  # its optimiser is made while layers are frozen
    seen = []

    def plan(step):
        apply(step)
        seen.append(weights(one.model))

    run(one, plan=plan)
    seen.append(weights(one.model))
    steps = zip(seen, seen[1:], strict=False)
    return [{parts[name] for name in parts if not torch.equal(old[name], new[name])} for old, new in steps]


def layers(family, *numbers):
    """These layers and what is above all blocks."""
    return {*numbers, "head", *(["norm"] if FAMILIES[family].norm else [])}


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("freeze:8", Plan(freeze=8)),
        ("freeze:0", Plan(freeze=0)),
        ("freeze:-1", Plan()),
        ("last:6", Plan(last=6)),
        ("train:3-6", Plan(train=(3, 6))),
        ("last:3+train:10-11+unfreeze:1/20", Plan(last=3, train=(10, 11), unfreeze=1, every=20)),
        ("reinit:1-2", Plan(reinit=(1, 2))),
        ("reinit:10-12", Plan(reinit=(10, 11, 12))),
        ("reinit:1-2/torch", Plan(reinit=(1, 2), initialiser="torch")),
        ("reinit:1-1/torch+reinit:3-3/torch+freeze:0", Plan(reinit=(1, 3), freeze=0, initialiser="torch")),
        ("unfreeze:4/epoch", Plan(unfreeze=4)),
        ("unfreeze:4/500", Plan(unfreeze=4, every=500)),
        ("lora:8", Plan(lora=8)),
        ("last:3+lora:16", Plan(last=3, lora=16)),
        ("reinit:1-2+freeze:0", Plan(reinit=(1, 2), freeze=0)),
        ("reinit:1-2+reinit:5-5+last:3+unfreeze:1/20", Plan(reinit=(1, 2, 5), last=3, unfreeze=1, every=20)),
    ],
)
def test_a_plan_is_read_as_written_and_written_as_read(text, plan):
    assert parse_plan(text) == plan
    assert str(plan) == text


def test_one_plan_has_one_text_however_it_was_written():
    texts = ["freeze:0+reinit:3+reinit:1-2", "reinit:1-3 + freeze:0", "reinit:2-3+freeze:00+reinit:1-2"]
    assert {str(parse_plan(text)) for text in texts} == {"reinit:1-3+freeze:0"}
    assert len({parse_plan(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "+", "freeze", "freeze:", "freeze:-2", "freeze:two", "freeze:1.5", "Freeze:1", "last:-1", "last:6,7",
        "reinit:1-", "reinit:1-2-3", "reinit:[10]{2}", "unfreeze:4", "unfreeze:4/0", "unfreeze:0/epoch",
        "unfreeze:4/epochs", "freeze:1+", "freeze:1++last:2", "thaw:3", "last:99999999999",
        "reinit:1-2/numpy", "freeze:1/torch", "reinit:/torch",
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_the_forms(text):
    with pytest.raises(InputError) as error:
        parse_plan(text)
    assert "is no plan" in str(error.value) and repr(text) in str(error.value)
    for form in (
        "freeze:8",
        "freeze:-1 nothing",
        "last:6",
        "train:3-6",
        "reinit:1-2",
        "unfreeze:4/epoch",
        "unfreeze:4/500",
    ):
        assert form in str(error.value)


@pytest.mark.parametrize("text", ["reinit:0-1", "reinit:0", "reinit:2-1", "train:0-3", "train:4-3"])
def test_blocks_are_numbered_from_1_and_upwards(text):
    with pytest.raises(InputError, match=f"'{text}' names no blocks; they are numbered from 1"):
        parse_plan(text)


def test_fresh_blocks_are_drawn_one_way():
    with pytest.raises(InputError, match="draws some blocks with /torch and some without"):
        parse_plan("reinit:1-2/torch+reinit:3-4")


def test_a_form_said_twice_is_refused():
    with pytest.raises(InputError, match="says freeze twice"):
        parse_plan("freeze:1+freeze:2")


@pytest.mark.parametrize(
    "text", ["freeze:13", "last:13", "train:2-13", "reinit:12-13", "unfreeze:13/epoch", "reinit:1-2+last:13"]
)
def test_layers_that_are_not_there_are_refused(text):
    with pytest.raises(InputError, match=r"asks for 13 blocks in \w+, but the model has 12; name at most 12"):
        frozen_at(parse_plan(text), 0, depth=12, epoch=10)


def test_a_refused_plan_changes_nothing():
    one, stack = masked_training()
    before = weights(one.model)
    for text in ("reinit:1-2+freeze:4", "reinit:2-4"):
        with pytest.raises(InputError, match="asks for 4 blocks in .*, but the model has 3"):
            apply_plan(stack, parse_plan(text), epoch=1, seed=0)
    assert same(weights(one.model), before)
    assert all(weight.requires_grad for weight in one.model.parameters())


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("freeze:-1", [-1] * 8),
        ("freeze:8", [8] * 8),
        ("last:12", [0] * 8),
        ("last:0", [12] * 8),
        ("reinit:1-2", [-1] * 8),
        ("unfreeze:4/epoch", [8, 8, 4, 4, 0, 0, -1, -1]),
        ("unfreeze:4/3", [8, 8, 8, 4, 4, 4, 0, 0]),
        ("unfreeze:5/1", [7, 2, 0, -1, -1, -1, -1, -1]),
        ("unfreeze:12/epoch", [0, 0, -1, -1, -1, -1, -1, -1]),
        ("unfreeze:4/epoch+freeze:0", [8, 8, 4, 4, 0, 0, 0, 0]),
        ("unfreeze:4/epoch+freeze:6", [8, 8, 6, 6, 6, 6, 6, 6]),
        ("unfreeze:4/epoch+last:10", [8, 8, 4, 4, 2, 2, 2, 2]),
        ("train:3-6", [2] * 8),
        ("train:5", [4] * 8),
        ("train:3-12+unfreeze:4/epoch", [8, 8, 4, 4, 2, 2, 2, 2]),
        ("freeze:3+last:6", [6] * 8),
        ("last:6+freeze:9", [9] * 8),
    ],
)
def test_what_is_frozen_at_each_step_of_twelve_blocks(text, numbers):
    """Epochs of two steps."""
    assert [frozen_at(parse_plan(text), step, depth=12, epoch=2) for step in range(8)] == numbers


def test_gradual_unfreezing_is_that_of_hussain_and_dudev():
    """Their code: floor((step + steps of an epoch) / all steps * 12) blocks at the start of each of three epochs."""
    plan = parse_plan("unfreeze:4/epoch")
    for step in range(30_000):
        start = step // 10_000 * 10_000
        assert frozen_at(plan, step, depth=12, epoch=10_000) == 12 - math.floor((start + 10_000) / 30_000 * 12)


@settings(derandomize=True)
@given(
    depth=st.integers(1, 24), epoch=st.integers(1, 5), blocks=st.integers(1, 24), every=st.none() | st.integers(1, 5),
    freeze=st.integers(-1, 24), last=st.none() | st.integers(0, 24),
)  # fmt: skip
def test_a_layer_once_trained_is_never_frozen_again(depth, epoch, blocks, every, freeze, last):
    """So no stale momentum is ever kept for one; and the plan holds whatever order it is written in."""
    plan = Plan(
        freeze=min(freeze, depth), last=None if last is None else min(last, depth), unfreeze=min(blocks, depth),
        every=every,
    )  # fmt: skip
    numbers = [frozen_at(plan, step, depth=depth, epoch=epoch) for step in range(depth * 5 + 6)]
    assert numbers == sorted(numbers, reverse=True)
    assert all(-1 <= number <= depth for number in numbers)
    alone = replace(plan, unfreeze=None, every=None)
    assert numbers[-1] == frozen_at(alone, 0, depth=depth, epoch=epoch), "all groups are unfrozen in the end"
    backwards = "+".join(reversed(str(plan).split("+")))
    assert parse_plan(backwards) == plan


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize(
    ("text", "trained"),
    [("freeze:2", [3]), ("last:3", [1, 2, 3]), ("train:1-2", [1, 2]), ("train:2", [2]), (f"freeze:{DEPTH}", [])],
)
def test_frozen_layers_stay_to_the_bit_and_the_others_move(family, text, trained):
    """With weight decay and momentum, over all steps; the head and the last norm are above the blocks and train."""
    assert movement(family, text) == [layers(family, *trained)] * STEPS


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_of_adapters_only_those_of_blocks_that_train_move(family):
    one, stack = masked_training(family)
    before = weights(one.model)
    apply = apply_plan(stack, parse_plan("last:2+lora:4"), epoch=2, seed=0)
    one = Training(one.model, one.objective, one.settings, ALONE)
    start = weights(one.model)
    run(one, plan=apply)
    moved = {name for name, weight in weights(one.model).items() if not torch.equal(weight, start[name])}
    assert moved and all(".lora_" in name for name in moved)
    parts = part_of(stack, one.model)
    assert {parts[name] for name in moved} == {2, 3}
    kept = [weight for name, weight in weights(one.model).items() if ".lora_" not in name]
    assert all(torch.equal(*pair) for pair in zip(kept, before.values(), strict=True)), "the model itself stays"


@pytest.mark.parametrize("family", ["bert", "modernbert", "mpnet"])
@pytest.mark.parametrize("every", ["epoch", 2])
def test_a_layer_unfrozen_late_moves_from_that_step_on_and_not_before(family, every):
    found = movement(family, f"unfreeze:2/{every}", epoch=2)
    groups = [layers(family, 2, 3), layers(family, 1, 2, 3), layers(family, 0, 1, 2, 3)]
    assert found == [group for group in groups for _ in range(2)]
    kept = movement(family, f"unfreeze:2/{every}+freeze:0", epoch=2)
    assert kept == [groups[0]] * 2 + [groups[1]] * 4


def test_a_layer_unfrozen_late_begins_without_momentum_or_decay_from_before():
    """Its first update is AdamW's first: w (1 - rate * decay) - rate * g / (|g| + epsilon), whatever step it is."""
    one, stack = masked_training()
    apply = apply_plan(stack, parse_plan("unfreeze:2/4"), epoch=1, seed=0)
    late = stack.blocks[0].intermediate.dense.weight
    start, take, gradients = late.detach().clone(), one.optimiser.step, []

    def step():
        gradients.append(None if late.grad is None else late.grad.clone())
        take()

    one.optimiser.step = step
    for number in range(5):
        assert late not in one.optimiser.state
        apply(number)
        one.update()
    assert gradients[:4] == [None] * 4
    rate = rate_at(4, steps=STEPS, optimisation=OPTIMISATION)
    moved = rate * gradients[4] / (gradients[4].abs() + OPTIMISATION.epsilon)
    torch.testing.assert_close(late.detach(), start * (1 - rate * 0.1) - moved, rtol=1e-5, atol=1e-7)
    assert int(one.optimiser.state[late]["step"]) == 1
    assert int(one.optimiser.state[stack.blocks[1].intermediate.dense.weight]["step"]) == 5


@pytest.mark.parametrize("family", ENCODERS)
def test_a_tied_output_layer_is_frozen_with_the_embeddings_and_its_bias_is_not(family):
    one, stack = masked_training(family)
    apply_plan(stack, parse_plan("freeze:0"), epoch=1, seed=0)(0)
    model = one.model.of("en")
    layer = model.get_output_embeddings()
    assert layer.weight is stack.model.get_input_embeddings().weight
    assert not layer.weight.requires_grad
    assert layer.bias.requires_grad


def test_the_model_is_touched_only_where_the_number_changes(monkeypatch):
    _, stack = masked_training()
    calls, freeze = [], plans.freeze
    monkeypatch.setattr(plans, "freeze", lambda stack, n, until: calls.append(n) or freeze(stack, n, until=until))
    apply = apply_plan(stack, parse_plan("unfreeze:1/epoch"), epoch=3, seed=0)
    assert calls == []
    for step in range(15):
        apply(step)
    assert calls == [2, 1, 0, -1]


@pytest.mark.parametrize("family", ENCODERS)
def test_fresh_weights_are_those_of_reinitialise_in_the_very_modules(family):
    one, stack = masked_training(family)
    expected = reinitialise(stack, [1, 2], seed=7)
    other = reinitialise(stack, [1, 2], seed=8)
    before, held = weights(one.model), dict(one.model.named_parameters())
    state = torch.get_rng_state()
    apply_plan(stack, parse_plan("reinit:1-2+freeze:0"), epoch=1, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(held[name] is weight for name, weight in one.model.named_parameters())
    assert same(weights(stack.model), weights(expected.model))
    assert not same(weights(stack.model), weights(other.model))
    changed = {name for name, weight in weights(one.model).items() if not torch.equal(weight, before[name])}
    parts = part_of(stack, one.model)
    assert {parts[name] for name in changed} == {1, 2}


def test_reinitialised_blocks_train_or_stay_as_the_rest_of_the_plan_says():
    assert movement("bert", "reinit:1-2+freeze:1") == [{2, 3, "head"}] * STEPS
    assert movement("bert", "freeze:0+reinit:1-2") == [{1, 2, 3, "head"}] * STEPS
    assert movement("bert", "reinit:1-2") == [{0, 1, 2, 3, "head"}] * STEPS


@pytest.mark.parametrize("text", ["reinit:2-3+unfreeze:2/2", "reinit:2-3+unfreeze:2/2+lora:2"])
@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_a_training_that_goes_on_continues_the_plan_to_the_bit(tmp_path, stop, text):
    def begun():
        """A training under the plan, its optimiser made after the adapters were."""
        one, stack = masked_training()
        plan = apply_plan(stack, parse_plan(text), epoch=1, seed=0)
        return Training(one.model, one.objective, one.settings, ALONE), plan

    whole, plan = begun()
    run(whole, plan=plan)
    cut, plan = begun()
    for step in range(stop):
        plan(step)
        cut.update()
    cut.save(Checkpoints(tmp_path, lambda folder: None, every=1))
    again, plan = begun()
    again.restore(latest(tmp_path))
    assert again.step == stop
    run(again, plan=plan)
    assert same(weights(again.model), weights(whole.model))
