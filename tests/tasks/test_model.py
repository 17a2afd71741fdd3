"""A head on a stack: scores are those of an explicit loop, frozen layers stay, and a kept prefix changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from isogloss.mappings.normalise import normalisation
from isogloss.stack.families import FAMILIES
from isogloss.stack.load import load
from isogloss.stack.stack import tells_types
from isogloss.tasks import TASKS, frozen_prefix
from isogloss.tasks.frozen_prefix import read_prefix
from isogloss.tasks.model import TaskModel, predict, task_batch, task_objective
from isogloss.tasks.task import join_items
from isogloss.training.loop import Optimisation, Processes, Settings, Training, train
from isogloss.training.plans import apply_plan, frozen_at, parse_plan
from tiny_models import ENCODERS
from tiny_tasks import read_task, write_task


@pytest.fixture(params=["nli", "ner"])
def prepared(request, tiny, tmp_path):
    """`prepared(family)`: stack, task, items, labels."""
    task, examples, labels = read_task(request.param, write_task(tmp_path, request.param, count=13))

    def make(family="bert"):
        stack = load(tiny(family), device="cpu")
        return stack, task, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64)), labels

    return make


def fit(stack, task, items, labels, *, plan, cut=None, steps=4, dropout=False, file=None):
    """Losses of a few steps under a plan, with the states of `cut` kept where it is given."""
    model = TaskModel(stack, task, labels, seed=1, dropout=dropout)
    parsed = parse_plan(plan)
    planned = apply_plan(stack, parsed, epoch=3, seed=1)
    prefix = None if cut is None else read_prefix(stack, items, cut, file=file)
    objective = task_objective(model, items, batch=5, seed=1, prefix=prefix)
    settings = Settings(steps, 1, Optimisation(rate=1e-2), report=1)
    training = Training(model, objective, settings, Processes(0, 1, stack.device))

    def before(step):
        planned(step)
        model.hold(frozen_at(parsed, step, depth=stack.last, epoch=3))

    losses = [one["value"] for some in train(training, plan=before) for one in some if one["measure"] == "loss"]
    return model, losses


@pytest.mark.parametrize("family", [family for family in ENCODERS if FAMILIES[family].packs])
@pytest.mark.parametrize("cut", [None, 0, 1, 2])
def test_items_in_a_table_have_the_losses_and_gradients_of_a_batch(family, cut, prepared):
    stack, task, items, labels = prepared(family)
    prefix = None if cut is None else read_prefix(stack, items, cut)
    found = []
    for table in (False, True):
        model = TaskModel(stack, task, labels, seed=1).eval()
        objective = task_objective(model, items, batch=5, seed=1, prefix=prefix, table=table)
        model.zero_grad()
        (part,) = objective.draw(0)
        loss, count = objective.loss(part.rows, ""), objective.count(part.rows)
        loss.backward()
        gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
        found.append((loss.item(), int(count), gradients))
    (expected, targets, gradients), (laid, same, others) = found
    assert laid == pytest.approx(expected, rel=1e-5) and same == targets and others.keys() == gradients.keys()
    for name, one in gradients.items():
        torch.testing.assert_close(others[name], one, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", ["length", "iterative"])
def test_states_are_turned_token_by_token_in_a_table(kind, prepared):
    stack, _, items, _ = prepared("bert")
    prefix = read_prefix(stack, items, 1)
    turned = replace(prefix, turn=normalisation(prefix.kept, kind))
    tokens = torch.arange(12).view(3, 4)
    torch.testing.assert_close(turned.at(tokens).flatten(0, 1), turned.turn(prefix.kept[:12]))


def test_texts_share_rows_only_where_attention_takes_a_mask_of_bools(tiny):
    stack = load(tiny("bert"), device="cpu")
    assert stack.tables
    stack.model.set_attn_implementation("eager")
    assert not stack.tables, "eager attention would add the mask to its scores"
    stack.model.set_attn_implementation("sdpa")
    assert not replace(stack, family=replace(stack.family, norm="pooler")).tables, "no tested family"


@pytest.mark.parametrize("family", ENCODERS)
def test_scores_are_those_of_the_model_run_item_by_item(family, prepared):
    stack, task, items, labels = prepared(family)
    model = TaskModel(stack, task, labels, seed=0).eval()
    border, start = np.cumsum(items.counts), np.cumsum(items.lengths) - items.lengths
    chosen = [3, 0, 7]
    with torch.no_grad():
        found = model(task_batch(items, chosen, device=stack.device))[0]
        for row, number in enumerate(chosen):
            ids = torch.from_numpy(items.ids[start[number] :][: items.lengths[number]].astype(np.int64))[None]
            given = {"input_ids": ids}
            if tells_types(stack.model, stack.family):
                types = items.types[start[number] :][: items.lengths[number]].astype(np.int64)
                given["token_type_ids"] = torch.from_numpy(types)[None]
            states = stack.model(**given)[0][0]
            places = items.places[border[number] - items.counts[number] : border[number]]
            alone = model.head(states[places][None], torch.ones(1, len(places), dtype=torch.bool))[0][0]
            torch.testing.assert_close(found[row, : len(places)], alone, atol=2e-5, rtol=1e-4)


def test_the_second_sentence_of_a_pair_is_told_apart_where_the_model_can(tiny, tmp_path):
    task, examples, labels = read_task("nli", write_task(tmp_path, "nli", count=4))
    stack = load(tiny("bert"), device="cpu")
    items = join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64))
    items.types[:] = 0
    model = TaskModel(stack, task, labels, seed=0).eval()
    with torch.no_grad():
        before = model(task_batch(items, [0, 1], device=stack.device))[0]
        items.types[items.lengths[0] // 2 : items.lengths[0]] = 1
        after = model(task_batch(items, [0, 1], device=stack.device))[0]
    assert not torch.allclose(before[0], after[0])
    torch.testing.assert_close(before[1], after[1])


@pytest.mark.parametrize("plan", ["freeze:-1", "freeze:0", "freeze:2", "freeze:3", "train:2-2", "reinit:1-1+freeze:1"])
def test_frozen_layers_are_the_same_to_the_bit_and_all_others_move(plan, prepared):
    stack, task, items, labels = prepared()
    before = {name: one.clone() for name, one in stack.model.named_parameters()}
    model, _ = fit(stack, task, items, labels, plan=plan)
    after = dict(stack.model.named_parameters())
    frozen = frozen_at(parse_plan(plan), 0, depth=3, epoch=3)
    until = parse_plan(plan).until
    renewed = [f"encoder.layer.{number - 1}." for number in parse_plan(plan).reinit]
    for name, one in after.items():
        if name.startswith("pooler") or name.startswith(tuple(renewed)):
            continue
        block = int(name.split(".")[2]) + 1 if name.startswith("encoder.layer") else 0
        still = block <= frozen or (until is not None and block > until)
        if name == "embeddings.position_embeddings.weight" and not still:
            continue  # only the positions that are reached have a gradient
        assert torch.equal(before[name], one) is still or "key.bias" in name, name


def test_re_initialised_blocks_change_and_only_those_and_are_drawn_as_a_new_model_is(tiny):
    stack = load(tiny("bert"), device="cpu")
    before = {name: one.clone() for name, one in stack.model.named_parameters()}
    apply_plan(stack, parse_plan("reinit:2-3"), epoch=1, seed=5)
    for name, one in stack.model.named_parameters():
        inside = name.startswith(("encoder.layer.1.", "encoder.layer.2."))
        plain = inside and one.dim() > 1
        if plain:
            assert not torch.equal(before[name], one)
            assert float(one.detach().std()) == pytest.approx(stack.model.config.initializer_range, rel=0.15)
        elif not inside:
            assert torch.equal(before[name], one)


def test_frozen_layers_are_in_evaluation_mode_unless_their_dropout_is_wanted(prepared):
    stack, task, items, labels = prepared()
    model = TaskModel(stack, task, labels, seed=0)
    model.train()
    model.hold(2)
    blocks = stack.blocks
    assert [one.training for one in (stack.model.embeddings, *blocks)] == [False, False, False, True]
    assert not blocks[0].attention.self.dropout.training
    model.hold(-1)
    assert all(one.training for one in (stack.model.embeddings, *blocks, model.head))
    kept = TaskModel(stack, task, labels, seed=0, dropout=True)
    kept.train()
    kept.hold(2)
    assert all(one.training for one in (stack.model.embeddings, *blocks))
    model.hold(3)
    assert not any(one.training for one in model.eval().modules())


@pytest.mark.parametrize("family", ["gpt2", "xglm"])
def test_dropout_between_embeddings_and_blocks_is_held_with_them(family, prepared):
    """It is no part of the embeddings: GPT-2 has a module of its own for it, XGLM drops in the model's forward pass."""
    stack, task, items, labels = prepared(family)
    model = TaskModel(stack, task, labels, seed=0)
    model.train()
    batch = items.batch(np.arange(3), stack.device)
    for frozen in (-1, 0, 2):
        model.hold(frozen)
        with torch.no_grad():
            one, other = (stack.read(batch) for _ in range(2))
        assert [cut for cut in stack.cuts if torch.equal(one[cut], other[cut])] == list(range(frozen + 1))


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_kept_prefix_gives_the_losses_and_weights_of_none(family, cut, prepared):
    runs = []
    for kept in (None, cut):
        stack, task, items, labels = prepared(family)
        model, losses = fit(stack, task, items, labels, plan=f"freeze:{cut}", cut=kept)
        runs.append((losses, [one.detach().clone() for one in model.parameters()]))
    assert runs[0][0] == pytest.approx(runs[1][0], rel=1e-4)
    for one, other in zip(runs[0][1], runs[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-2)


def test_dropout_in_frozen_layers_changes_the_losses(prepared):
    found = []
    for dropout in (False, True):
        stack, task, items, labels = prepared()
        found.append(fit(stack, task, items, labels, plan="freeze:2", dropout=dropout)[1])
    assert found[0] != found[1]


def test_a_prefix_that_memory_has_no_room_for_is_read_from_its_file(prepared, tmp_path, monkeypatch):
    stack, task, items, _ = prepared()
    inside = read_prefix(stack, items, 2)
    monkeypatch.setattr(frozen_prefix, "free_bytes", lambda device: 0.0)
    file = tmp_path / "cut-2.states"
    outside = read_prefix(stack, items, 2, file=file)
    assert (tmp_path / "cut-2-float32.states").stat().st_size == items.lengths.sum() * stack.width * 4
    chosen = [5, 1, 1, 0]
    assert torch.equal(inside.states(chosen, stack.device), outside.states(chosen, stack.device))
    monkeypatch.setattr(frozen_prefix, "_fill", lambda *_, **__: pytest.fail("it was there already"))
    again = read_prefix(stack, items, 2, file=file)
    assert torch.equal(again.kept, outside.kept)


def test_an_epoch_sees_every_item_once_and_the_order_hangs_on_seed_and_epoch(prepared):
    stack, task, items, labels = prepared()
    model = TaskModel(stack, task, labels, seed=0)
    orders = {}
    for seed in (0, 1):
        draw = task_objective(model, items, batch=5, seed=seed).draw
        for epoch in (0, 1):
            steps = [draw(3 * epoch + step)[0].rows["items"].tolist() for step in range(3)]
            assert [len(one) for one in steps] == [5, 5, 3]
            assert sorted(sum(steps, [])) == list(range(13))
            orders[seed, epoch] = tuple(map(frozenset, steps))
    assert len(set(orders.values())) == 4


def test_what_is_found_does_not_hang_on_how_items_are_batched(prepared, monkeypatch):
    stack, task, items, labels = prepared()
    model = TaskModel(stack, replace(task, decode=lambda example, predictions, labels: predictions), labels, seed=0)
    examples = range(max(items.owners) + 1)
    together = predict(model, examples, items)
    monkeypatch.setattr("isogloss.tasks.model.batch_tokens", lambda device: 1)
    for predictions, others in zip(together, predict(model, examples, items), strict=True):
        for prediction, other in zip(predictions, others, strict=True):
            assert np.array_equal(prediction.units, other.units)
            assert np.array_equal(prediction.guess[0], other.guess[0])


def test_every_task_has_a_head_that_begins_the_same_from_one_seed(tiny):
    stack = load(tiny("bert"), device="cpu")
    for task in TASKS.values():
        state = torch.random.get_rng_state()
        heads = [TaskModel(stack, task, ("a", "b"), seed=seed).head.state_dict() for seed in (3, 3, 4)]
        assert torch.equal(state, torch.random.get_rng_state())
        assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0])


def test_a_stack_of_another_layout_may_stand_for_it_in_evaluation_mode(prepared):
    stack, task, items, labels = prepared()
    model = TaskModel(stack, task, labels, seed=0)
    model.stack, model.eval_stack = replace(stack, pack=False), replace(stack, pack=True)
    asked = task_batch(items, [4, 2, 9], device=stack.device)
    model.eval()
    packed = model(asked)[0]
    for one in model.modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    stack.model.config.attention_probs_dropout_prob = 0.0
    assert not model.stack.packs and model.eval_stack.packs
    model.train()
    for block in stack.blocks:
        block.attention.self.eval()  # fused attention is given its dropout as a number
    padded = model(asked)[0]
    torch.testing.assert_close(packed, padded, atol=2e-5, rtol=1e-4)
    cut = read_prefix(model.eval_stack, items, 2)
    for mode in (True, False):
        model.train(mode)
        for block in stack.blocks:
            block.attention.self.eval()
        found = model(asked, cut)[0]
        torch.testing.assert_close(found, packed, atol=2e-5, rtol=1e-4)
