"""Alignment against transformers' own outputs and explicit loops: TLM, contrast, momentum, coins, rows, pieces."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.invented import invented
from scipy.special import logsumexp
from torch.nn.functional import normalize

from isogloss.stack.load import load_language_model
from isogloss.stack.stack import first_position, tells_types
from isogloss.text.masking import IGNORE, masking_of
from isogloss.text.streams import borders_of, pack_pairs
from isogloss.training.alignment import (
    Aligner,
    Alignment,
    align_pairs,
    batch_loss,
    coins,
    distance,
    enqueue,
    fill,
    fitting,
    queue_loss,
    read_sides,
    repeats,
)
from isogloss.training.cuda_graphs import CapturedUpdates
from isogloss.training.loop import Optimisation, Processes, Settings, Training
from isogloss.training.probes import Probe
from tiny_alignment import LONGEST, own_states, pack_invented, write_models
from tiny_training import ALONE

CPU = torch.device("cpu")
BATCH = 6
SMALL = Alignment(layer=2, queue=16, projection_width=8, temperature=0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("alignment")


@pytest.fixture(scope="module")
def models(folder):
    return write_models(folder, bert=2, modernbert=3, roberta=3)


@pytest.fixture(scope="module")
def pairs(models):
    return pack_invented(models["bert"], ("qaa", "qab"), ("qaa", "qac"), sentences=24)


def made(models, pairs, how=SMALL, *, seed=0, batch=BATCH, family="bert", shared=True, piece=None, **settings):
    """An aligner, its objective, and a training of it; shared: sentences share rows."""
    stack = load_language_model(models[family], device="cpu")
    stack = stack if shared else replace(stack, family=replace(stack.family, packs=False))
    aligner = Aligner(stack, how, seed=seed)
    objective = align_pairs(
        aligner, pairs, borders=borders_of(stack.tokenizer), batch=batch, longest=LONGEST, seed=seed, device=CPU,
        masking=masking_of(stack.tokenizer), piece=piece,
    )  # fmt: skip
    way = Optimisation(rate=1e-2, clip=0.0)
    return (
        aligner,
        objective,
        Training(aligner, objective, Settings(**{"steps": 4, "seed": seed} | settings, optimisation=way), ALONE),
    )


def weights(module):
    return {name: one.detach().clone() for name, one in module.named_parameters()}


def rows_of(objective, step=0):
    (part,) = objective.draw(step)
    return part.rows


def slots_of(rows, number, side=""):
    """Where the tokens of one sentence, or pair of TLM, are in the rows of a pass, read row by row."""
    return (rows[f"{side}texts"].flatten() == number).nonzero().squeeze(1)


def tokens(rows, side):
    """The ids of each sentence of one side."""
    ids = rows[f"{side}_ids"].flatten()
    return [tuple(ids[slots_of(rows, number, f"{side}_")].tolist()) for number in range(BATCH)]


def masked_pair(rows, number):
    """What TLM reads of one pair, what was there, where it is asked, and where the second sentence begins."""
    slots, used = slots_of(rows, number), rows["labels"] != IGNORE
    mine = torch.isin(rows["asked"], slots) & used
    places = rows["asked"][mine] - slots[0]
    inputs = rows["inputs"].flatten()[slots]
    original = inputs.clone()
    original[places] = rows["labels"][mine]
    return inputs, original, places, len(slots) - int(rows["types"].flatten()[slots].sum())


def test_tlm_masks_only_content_of_both_sides_and_its_loss_is_transformers_own(models, pairs):
    aligner, objective, _ = made(models, pairs, replace(SMALL, contrastive=0.0))
    stack = aligner.stack
    special = set(masking_of(stack.tokenizer).marks)
    seen = [0, 0]
    for step in range(12):
        rows = rows_of(objective, step)
        total, used = 0.0, 0
        for row in range(BATCH):
            inputs, original, places, second = masked_pair(rows, row)
            length, labels = len(inputs), original[places]
            assert not special & set(labels.tolist()) and int(places.max()) < length
            content = sum(int(one) not in special for one in original[:length])
            assert len(labels) == max(1, round(0.15 * content)) and len(set(places.tolist())) == len(places)
            assert original[0] == 2 and original[second - 1] == 3 and original[length - 1] == 3
            seen[0] += int((places < second).sum())
            seen[1] += int((places >= second).sum())
            wanted = torch.full((length,), IGNORE)
            wanted[places] = labels
            types = (torch.arange(length) >= second).long()[None]
            with torch.no_grad():
                mean = aligner.model(input_ids=inputs[None], token_type_ids=types, labels=wanted[None]).loss
            total, used = total + float(mean) * len(labels), used + len(labels)
        with torch.no_grad():
            found = float(objective.loss(rows, ""))
        assert found / BATCH == pytest.approx(total / used, rel=1e-5)
    assert min(seen) > 0.3 * sum(seen), "both sides are masked"


def test_tlm_predicts_no_unknown_word(models, folder):
    stack = load_language_model(models["bert"], device="cpu")
    unknown = stack.tokenizer.unk_token_id
    some = [(f"\u2603 {one} \u2603 {one}", f"{other} \u2603") for one, other in (("lapi mu", "ta"), ("mu", "lapi"))]
    pairs = {"qaa-qab": pack_pairs(stack.tokenizer, some, folder / "unknown.npy", languages=("qaa", "qab"), longest=64)}
    assert (pairs["qaa-qab"].ids == unknown).sum() >= 6
    _, objective, _ = made(models, pairs, replace(SMALL, contrastive=0.0, mask_share=0.5))
    for step in range(6):
        labels = rows_of(objective, step)["labels"]
        assert (labels != IGNORE).any() and not (labels == unknown).any()


@pytest.mark.parametrize("pool", ["first", "mean"])
@pytest.mark.parametrize("layer", [1, 2])
def test_contrast_is_an_explicit_loop_over_transformers_own_states(models, pairs, pool, layer):
    how = replace(SMALL, tlm=0.0, pooling=pool, layer=layer)
    aligner, objective, _ = made(models, pairs, how)
    with torch.no_grad():
        for one in aligner.key.parameters():
            one.mul_(1.1)  # so that the two encoders differ
    rows = rows_of(objective)

    def vector(encoder, projection, side, row):
        ids = torch.tensor(tokens(rows, side)[row])
        length = len(ids)
        states = own_states(encoder, ids, length, layer)
        pooled = states[0] if pool == "first" else states[1 : length - 1].mean(dim=0)
        with torch.no_grad():
            return normalize(projection(pooled), dim=0).double().numpy()

    whole = copy.deepcopy(aligner.stack.model)
    slow = copy.deepcopy(whole)
    slow.load_state_dict(aligner.key.state_dict(), strict=False)
    total = 0.0
    for row in range(BATCH):
        query = vector(whole, aligner.projection, "query", row)
        key = vector(slow, aligner.key_projection, "key", row)
        own = query @ key / 0.2
        total -= own - logsumexp([own, *(aligner.queue.double().numpy() @ query / 0.2)])
    assert float(objective.loss(rows, "").detach()) == pytest.approx(total, rel=1e-5)


def test_gradients_reach_the_query_encoder_only(models, pairs):
    aligner, objective, _ = made(models, pairs, replace(SMALL, tlm=0.0))
    objective.loss(rows_of(objective), "").backward()
    assert all(one.grad is None for module in (aligner.key, aligner.key_projection) for one in module.parameters())
    reached = [name for name, one in aligner.stack.model.named_parameters() if one.grad is not None and one.grad.any()]
    assert any("embeddings" in name for name in reached) and any("layer.1" in name for name in reached)
    assert all(one.grad is not None for one in aligner.projection.parameters())
    assert not aligner.queue.requires_grad and not aligner.pending[0][0].requires_grad


def test_after_a_step_the_key_encoder_follows_the_moved_weights_and_keys_enter_the_queue_in_order(models, pairs):
    aligner, objective, training = made(models, pairs, replace(SMALL, momentum=0.75))
    queue = aligner.queue.clone()
    for step in range(3):
        slow, slower = weights(aligner.key), weights(aligner.key_projection)
        objective.loss(rows_of(objective, step), "")
        keys, _ = aligner.pending.pop()
        training.update()
        fast = dict(aligner.stack.model.named_parameters())
        for name, one in aligner.key.named_parameters():
            torch.testing.assert_close(one, 0.75 * slow[name] + 0.25 * fast[name].detach())
        for name, one in aligner.key_projection.named_parameters():
            other = dict(aligner.projection.named_parameters())[name].detach()
            torch.testing.assert_close(one, 0.75 * slower[name] + 0.25 * other)
        for number, key in enumerate(keys):
            queue[(step * BATCH + number) % 16] = key  # 18 keys into 16 places: the last two at the beginning
        torch.testing.assert_close(aligner.queue, queue)
        assert int(aligner.pointer) == (step + 1) * BATCH % 16 and not aligner.pending
    assert any(not torch.equal(weights(aligner.key)[name], slow[name]) for name in slow)


@pytest.fixture(scope="module")
def repeated(folder, models):
    """Pairs of so few sentences that every batch and the queue hold some of them again; one is its own translation."""
    stack = load_language_model(models["bert"], device="cpu")
    text = invented(("qaa", "qab"), sentences=5, seed=3)
    some = list(zip(*(one.sentences for one in text), strict=True))
    some += [(some[0][0], some[1][1]), (some[2][0], some[2][0])]
    path = folder / "repeated.npy"
    return {
        "qaa-qab": pack_pairs(stack.tokenizer, iter(some), path, languages=("qaa", "qab"), longest=LONGEST)
    }  # fmt: skip


@pytest.mark.parametrize("negatives", ["queue", "batch"])
def test_a_sentence_that_occurs_again_is_no_negative_of_itself(models, repeated, negatives):
    how = replace(SMALL, tlm=0.0, negatives=negatives, queue=18)
    aligner, objective, training = made(models, repeated, how)
    aligner.eval()  # the loop below computes each vector again
    held, left_out = [None] * 18, 0
    for step in range(4):
        rows = rows_of(objective, step)
        asked, right = tokens(rows, "query"), tokens(rows, "key")
        with torch.no_grad():
            run = objective.loss(rows, "")
            keys = aligner.pending.pop()[0] if negatives == "queue" else None
        vectors = [side_vectors(aligner, rows, side, own=negatives == "batch" or side == "query") for side in SIDES]
        table = vectors[0] @ vectors[1].T / how.temperature
        total = 0.0
        for i in range(BATCH):
            own = {asked[i], right[i]}
            if negatives == "queue":
                queue = aligner.queue.double().numpy() @ vectors[0][i] / how.temperature
                rest = [score for score, sentence in zip(queue, held, strict=True) if sentence not in own]
                left_out += 18 - len(rest)
                total -= table[i, i] - logsumexp([table[i, i], *rest])
            else:
                there = [table[i, j] for j in range(BATCH) if j == i or right[j] not in own]
                back = [table[j, i] for j in range(BATCH) if j == i or asked[j] not in own]
                left_out += 2 * BATCH - len(there) - len(back)
                total -= table[i, i] - (logsumexp(there) + logsumexp(back)) / 2
        assert float(run) == pytest.approx(total, rel=1e-5)
        aligner.train()
        training.update()
        aligner.eval()
        for number, sentence in enumerate(right):
            held[(step * BATCH + number) % 18] = sentence
        assert keys is None or len(keys) == BATCH
    assert left_out > 10


SIDES = ("query", "key")


def side_vectors(aligner, rows, side, *, own):
    """Vectors of length 1 of one side, by transformers' own model, row by row."""
    encoder = copy.deepcopy(aligner.stack.model)
    if not own:
        encoder.load_state_dict(aligner.key.state_dict(), strict=False)
    projection = aligner.projection if own else aligner.key_projection
    found = []
    for ids in map(torch.tensor, tokens(rows, side)):
        with torch.no_grad():
            found.append(normalize(projection(own_states(encoder, ids, len(ids), 2)[0]), dim=0).double().numpy())
    return np.stack(found)


def test_in_batch_contrast_has_no_second_encoder_and_reaches_both_sides(models, pairs):
    how = replace(SMALL, tlm=0.0, negatives="batch", projection="none", pooling="mean")
    aligner, objective, training = made(models, pairs, how)
    assert not hasattr(aligner, "key") and not list(aligner.projection.parameters())
    drawn = (rows_of(objective, step) for step in range(50))
    rows = next(one for one in drawn if len({*tokens(one, "query"), *tokens(one, "key")}) == 2 * BATCH)
    vectors = []
    for side in ("query", "key"):
        states = [own_states(aligner.stack.model, torch.tensor(ids), len(ids), 2) for ids in tokens(rows, side)]
        vectors.append(normalize(torch.stack([one[1:-1].mean(dim=0) for one in states])).double().numpy())
    table = vectors[0] @ vectors[1].T / 0.2
    both = [table[i, i] - (logsumexp(table[i]) + logsumexp(table[:, i])) / 2 for i in range(BATCH)]
    assert float(objective.loss(rows, "").detach()) == pytest.approx(-sum(both), rel=1e-5)
    before = weights(aligner.model)
    training.update()
    assert any(not torch.equal(one, before[name]) for name, one in aligner.model.named_parameters())


def test_coins_hang_on_seed_and_step_and_decide_which_side_is_first(models, pairs):
    assert np.array_equal(coins(3, 5, 64), coins(3, 5, 64))
    assert not np.array_equal(coins(3, 5, 64), coins(3, 6, 64)) and not np.array_equal(coins(3, 5, 64), coins(4, 5, 64))
    assert abs(np.mean([coins(0, step, 64).mean() for step in range(50)]) - 0.5) < 0.03
    _, plain, _ = made(models, pairs, replace(SMALL, shuffle=False))
    _, mixed, _ = made(models, pairs)
    for step in range(3):
        left, right, swapped = rows_of(plain, step), rows_of(mixed, step), coins(0, step, BATCH)
        for row in range(BATCH):
            sides = ("key", "query") if swapped[row] else ("query", "key")
            assert tokens(right, "query")[row] == tokens(left, sides[0])[row]
            assert tokens(right, "key")[row] == tokens(left, sides[1])[row]
            _, original, _, second = masked_pair(right, row)
            assert tuple(original[:second].tolist()) == tokens(right, "query")[row], "the query comes first in TLM, too"


def test_terms_add_up_and_pieces_change_nothing_but_rounding(models, pairs):
    rows = rows_of(made(models, pairs)[1])
    loss = {}
    terms = {"both": {"tlm": 2.0, "contrastive": 0.5}, "tlm": {"contrastive": 0.0}, "contrast": {"tlm": 0.0}}
    for name, change in terms.items():
        aligner, objective, _ = made(models, pairs, replace(SMALL, **change))
        loss[name] = float(objective.loss(rows, "").detach())
    assert loss["both"] == pytest.approx(2 * loss["tlm"] + 0.5 * loss["contrast"], rel=1e-5)
    whole, parts = made(models, pairs)[2], made(models, pairs, piece=4)[2]
    for one in (whole, parts):
        one.update(), one.update()
    for (name, one), other in zip(weights(whole.model).items(), weights(parts.model).values(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3, msg=name)
    torch.testing.assert_close(whole.model.queue, parts.model.queue, atol=1e-3, rtol=1e-3)
    assert whole.losses()[0] == pytest.approx(parts.losses()[0], rel=1e-4)


def test_the_pull_adds_its_gradient_whatever_the_number_of_rows(models, pairs):
    plain, _, _ = made(models, pairs, replace(SMALL, contrastive=0.0))
    pulled, _, _ = made(models, pairs, replace(SMALL, contrastive=0.0, pull=0.5))
    grads, moved = [], 0.1
    for aligner in (plain, pulled):
        first = next(aligner.model.parameters())
        with torch.no_grad():
            first[0, 0] += moved
        objective = made_objective(aligner, pairs)
        total = objective.loss(rows_of(objective), "") / BATCH
        total.backward()
        grads.append({name: one.grad.clone() for name, one in aligner.model.named_parameters() if one.grad is not None})
    name = next(name for name, _ in plain.model.named_parameters())
    difference = grads[1][name] - grads[0][name]
    assert float(difference[0, 0]) == pytest.approx(0.5, rel=1e-3), "the only weight that moved has all of the gradient"
    assert float(difference.abs().sum()) == pytest.approx(0.5, rel=1e-2)


def made_objective(aligner, pairs):
    tokenizer = aligner.stack.tokenizer
    return align_pairs(
        aligner, pairs, borders=borders_of(tokenizer), batch=BATCH, longest=LONGEST, seed=0, device=CPU,
        masking=masking_of(tokenizer),
    )  # fmt: skip


def test_one_seed_is_one_training_and_the_global_state_is_left_alone(models, pairs):
    before = torch.get_rng_state()
    found = []
    for seed in (0, 0, 1):
        aligner, _, training = made(models, pairs, seed=seed)
        training.update(), training.update()
        found.append((weights(aligner), aligner.queue.clone()))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(found[0][0][name], found[1][0][name]) for name in found[0][0])
    assert torch.equal(found[0][1], found[1][1]) and not torch.equal(found[0][1], found[2][1])
    assert any(not torch.equal(found[0][0][name], found[2][0][name]) for name in found[0][0])


def test_losses_of_both_terms_are_read_and_cleared(models, pairs):
    aligner, _, training = made(models, pairs)
    probe = Probe(2, aligner.losses)
    assert list(probe.take()) == []
    training.update(), training.update()
    tlm, contrast = probe.take()
    assert (tlm["task"], tlm["unit"], contrast["task"], contrast["unit"], contrast["n"]) == (
        "tlm", "token", "contrastive", "pair", 2 * BATCH
    )  # fmt: skip
    total, count = training.losses()
    assert total / count == pytest.approx(tlm["value"] + contrast["value"], rel=0.05)  # batches differ in tokens
    assert list(probe.take()) == []


def drawn(rows, width=5, seed=0):
    return normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_the_loss_against_a_queue_is_that_of_an_explicit_loop(temperature):
    queries, keys, queue = drawn(4), drawn(4, seed=1), drawn(9, seed=2)
    q, k, others = (one.double().numpy() for one in (queries, keys, queue))
    total = 0.0
    for i in range(4):
        own = float(q[i] @ k[i]) / temperature
        rest = [float(q[i] @ other) / temperature for other in others]
        total -= own - logsumexp([own, *rest])
    assert float(queue_loss(queries, keys, queue, temperature=temperature)) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_loss_within_a_batch_is_that_of_an_explicit_loop_both_ways(temperature):
    x, y = drawn(6), drawn(6, seed=1)
    table = (x @ y.T).double().numpy() / temperature
    total = 0.0
    for i in range(6):
        total -= (table[i, i] - logsumexp(table[i])) / 2 + (table[i, i] - logsumexp(table[:, i])) / 2
    assert float(batch_loss(x, y, temperature=temperature)) == pytest.approx(total, rel=1e-5)
    assert float(batch_loss(y, x, temperature=temperature)) == pytest.approx(total, rel=1e-5)


def test_repeated_sentences_of_a_queue_are_left_out_as_in_an_explicit_loop():
    queries, keys, queue = drawn(4), drawn(4, seed=1), drawn(9, seed=2)
    asked, right, held = [10, 11, 12, 13], [20, 21, 22, 20], [20, 11, 99, 21, 20, 0, 13, 22, 22]
    same = repeats(torch.tensor(held), (torch.tensor(asked), torch.tensor(right)))
    q, k, others = (one.double().numpy() for one in (queries, keys, queue))
    total = 0.0
    for i in range(4):
        rest = [float(q[i] @ others[j]) / 0.2 for j in range(9) if held[j] not in (asked[i], right[i])]
        assert 9 - len(rest) == int(same[i].sum()) > 0
        own = float(q[i] @ k[i]) / 0.2
        total -= own - logsumexp([own, *rest])
    assert float(queue_loss(queries, keys, queue, temperature=0.2, same=same)) == pytest.approx(total, rel=1e-5)
    assert float(queue_loss(queries, keys, queue, temperature=0.2)) > total
    every = torch.ones(4, 9, dtype=torch.bool)
    assert float(queue_loss(queries, keys, queue, temperature=0.2, same=every)) == 0, (
        "with no negative, nothing to learn"
    )


def test_repeated_sentences_of_a_batch_are_left_out_as_in_an_explicit_loop_both_ways():
    x, y = drawn(6).requires_grad_(), drawn(6, seed=1).requires_grad_()
    left, right = [1, 2, 1, 4, 5, 9], [6, 7, 8, 6, 6, 1]  # 0 and 2 on the left; 0, 3, 4 on the right; 5 translates as 0
    table = (x @ y.T).detach().double().numpy() / 0.5
    total = 0.0
    for i in range(6):
        own = {left[i], right[i]}
        there = [table[i, j] for j in range(6) if j == i or right[j] not in own]
        back = [table[j, i] for j in range(6) if j == i or left[j] not in own]
        total -= table[i, i] - (logsumexp(there) + logsumexp(back)) / 2
    names = torch.tensor(left), torch.tensor(right)
    found = batch_loss(x, y, temperature=0.5, names=names)
    assert found.item() == pytest.approx(total, rel=1e-5)
    found.backward()
    assert torch.isfinite(x.grad).all() and torch.isfinite(y.grad).all()
    apart = torch.arange(6), torch.arange(10, 16)
    assert torch.equal(batch_loss(x, y, temperature=0.5, names=apart), batch_loss(x, y, temperature=0.5))


def test_angles_checked_by_eye():
    east, north, west = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[-1.0, 0.0]])
    queue = torch.cat([north, west])
    found = float(queue_loss(east, east, queue, temperature=0.5))
    assert found == pytest.approx(-math.log(math.exp(2) / (math.exp(2) + 1 + math.exp(-2))), rel=1e-6)


def test_a_queue_is_first_in_first_out_and_goes_on_at_its_beginning():
    queue, pointer = torch.arange(-5.0, 0.0)[:, None].clone(), torch.tensor(0)
    held = queue.flatten().tolist()  # the oldest first
    number = 0.0
    for size in (2, 2, 3, 5, 1, 4):  # the third and fifth begin before the end and go on after it
        keys = torch.arange(number, number + size)[:, None]
        number += size
        enqueue(queue, pointer, keys)
        held = (held + keys.flatten().tolist())[-5:]
        order = [queue[(int(pointer) + i) % 5, 0].item() for i in range(5)]
        assert order == held


def test_names_enter_a_queue_with_their_keys():
    queue, pointer, names = torch.zeros(3, 1), torch.tensor(2), torch.tensor([7, 8, 9])
    enqueue(queue, pointer, torch.tensor([[1.0], [2.0]]), names=(names, torch.tensor([1, 2])))
    assert names.tolist() == [2, 8, 1] and queue.flatten().tolist() == [2.0, 0.0, 1.0]


def test_a_batch_that_is_larger_than_what_is_left_is_split():
    queue, pointer = torch.zeros(4, 2), torch.tensor(3)
    enqueue(queue, pointer, torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    assert queue[:, 0].tolist() == [2, 3, 0, 1] and int(pointer) == 2


def test_the_pull_has_a_gradient_of_length_one_and_none_at_the_start():
    weights = [torch.tensor([3.0, 0.0], requires_grad=True), torch.tensor([4.0], requires_grad=True)]
    start = [torch.zeros(2), torch.zeros(1)]
    found = distance(weights, start)
    found.backward()
    assert found.item() == pytest.approx(5.0)
    assert weights[0].grad.tolist() == pytest.approx([0.6, 0.0]) and weights[1].grad.tolist() == pytest.approx([0.8])
    still = [torch.tensor([1.0, 2.0], requires_grad=True)]
    distance(still, [torch.tensor([1.0, 2.0])]).backward()
    assert still[0].grad.tolist() == [0.0, 0.0]


def test_the_gradient_of_the_loss_is_that_of_differences():
    queries, keys, queue = (drawn(3, seed=seed).double() for seed in (0, 1, 2))
    queries.requires_grad_()
    assert torch.autograd.gradcheck(lambda q: queue_loss(q, keys, queue, temperature=0.5), (queries,))
    assert np.isfinite(queue_loss(queries, keys, queue, temperature=0.01).item())


BORDERS = {1: [(2,), (3,)], 2: [(2,), (3,), (3,)]}
DOUBLE = {1: [(2,), (3,)], 2: [(2,), (3, 3), (3,)]}


def texts(*sentences):
    return np.concatenate(sentences), np.array([len(one) for one in sentences])


def test_rows_are_laid_out_by_hand():
    one, two = np.array([7, 8, 9]), np.array([5])
    ids, content, *_ = fill([texts(one, two)], BORDERS, 0)
    assert ids.tolist() == [[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]]
    assert content.tolist() == [[False, True, True, True, False], [False, True, False, False, False]]
    ids, content, lengths, second = fill((texts(one, two), texts(two, two)), BORDERS, 0, longest=20)
    assert ids.tolist() == [[2, 7, 8, 9, 3, 5, 3], [2, 5, 3, 5, 3, 0, 0]]
    assert lengths.tolist() == [7, 5] and second.tolist() == [5, 3]
    assert content[0].nonzero()[0].tolist() == [1, 2, 3, 5]
    ids, _, _, second = fill((texts(one), texts(two)), DOUBLE, 0, longest=20)
    assert ids.tolist() == [[2, 7, 8, 9, 3, 3, 5, 3]] and second.tolist() == [5]
    assert fill((texts(one), texts(one)), BORDERS, 0, longest=7)[0].tolist() == [[2, 7, 8, 3, 7, 8, 3]]


def test_sides_are_read_from_the_streams_they_are_of_and_change_places(pairs):
    streams, groups, numbers = list(pairs.values()), np.array([1, 0, 1, 0, 0]), np.array([3, 23, 0, 5, 5])
    swapped = np.array([False, True, True, False, True])
    sides = read_sides(streams, groups, numbers, swapped)
    found = [np.split(ids, np.cumsum(sizes)[:-1]) for ids, sizes in sides]
    for row in range(5):
        stream = streams[groups[row]]
        sides = np.split(stream.ids, stream.begins[1:-1])[2 * numbers[row] :][:2]
        expected = sides[::-1] if swapped[row] else sides
        assert [side[row].tolist() for side in found] == [one.tolist() for one in expected]


def test_sentences_that_fit_stay_and_others_share_the_room():
    for first in range(1, 12):
        for second in range(1, 12):
            a, b = fitting(first, second, 9)
            assert a <= first and b <= second and a + b == min(9, first + second)
            assert a >= min(first, 4) and b >= min(second, 4)


CASES = {
    "queue": SMALL,
    "in-batch": replace(SMALL, negatives="batch", pooling="mean"),
    "no TLM": replace(SMALL, negatives="batch", pooling="mean", tlm=0.0),
    "TLM alone": replace(SMALL, contrastive=0.0, reset_positions=True),
    "below the top": replace(SMALL, layer=1, pooling="mean", reset_positions=True),
    "pull": replace(SMALL, negatives="batch", pull=0.1),
}


def gradients_of(training):
    """The loss of the first batch and its gradients, without dropout."""
    training.model.eval()
    parts = training.objective.draw(0)
    loss = sum(training.objective.loss(part.rows, part.name) for part in parts)
    loss.backward()
    named = training.model.named_parameters()
    return float(loss), {name: one.grad for name, one in named if one.grad is not None}


@pytest.mark.parametrize("family", ["bert", "modernbert", "roberta"])
@pytest.mark.parametrize("case", CASES)
def test_sentences_that_share_rows_have_the_losses_and_gradients_of_padded_ones(models, pairs, family, case):
    expected, gradients = gradients_of(made(models, pairs, CASES[case], family=family, shared=False)[2])
    found, same = gradients_of(made(models, pairs, CASES[case], family=family)[2])
    assert found == pytest.approx(expected, rel=1e-5) and same.keys() == gradients.keys()
    for name, one in gradients.items():
        torch.testing.assert_close(same[name], one, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("piece", [None, 4])
def test_replayed_updates_are_the_training_without_graphs(models, pairs, case, piece):
    if piece and CASES[case].negatives == "batch":
        pytest.skip("negatives of the batch are those of the whole batch")
    captured, found = [], []
    for graphs in (None, CapturedUpdates(capture=lambda function: captured.append(1) or function)):
        aligner, _, training = made(models, pairs, CASES[case], piece=piece)
        training._graphs = graphs
        aligner.train()
        for _ in range(8):
            training.update()
        found.append((weights(aligner), training.losses(), aligner.sums.tolist()))
    assert captured and found[0][1:] == found[1][1:]
    assert all(torch.equal(one, found[1][0][name]) for name, one in found[0][0].items())


def test_a_capture_that_breaks_off_leaves_no_keys_for_the_queue(models, pairs):
    aligner, objective, training = made(models, pairs, replace(SMALL, queue=48))

    def fail(function):
        objective.loss(objective.draw(training.step)[0].rows, "")  # as far as it came
        raise RuntimeError("no graph today")

    training._graphs = CapturedUpdates(capture=fail)
    aligner.train()
    with pytest.warns(UserWarning, match="no graph today"):
        for _ in range(8):
            training.update()
    assert int(aligner.pointer) == 8 * BATCH % 48 and not aligner.pending


@pytest.mark.parametrize("family", ["bert", "modernbert", "roberta"])
@pytest.mark.parametrize("reset", [False, True])
def test_states_of_pairs_are_those_of_each_pair_alone(models, pairs, family, reset):
    how = replace(SMALL, contrastive=0.0, reset_positions=reset)
    for shared in (False, True):
        aligner, objective, _ = made(models, pairs, how, family=family, shared=shared)
        rows, stack = rows_of(objective), aligner.stack[:1]
        if not shared:
            texts = torch.where(rows["attention"] > 0, torch.arange(BATCH)[:, None], -1)
        with torch.no_grad():
            states = stack.read_table(rows | {"ids": rows["inputs"]})
        for number in range(BATCH):
            slots = slots_of(rows if shared else {"texts": texts}, number)
            later = rows["types"].flatten()[slots] > 0
            places = torch.arange(len(slots))
            positions = torch.where(later & reset, places - int((~later).sum()), places)
            more = {"position_ids": positions[None] + first_position(stack.model, stack.family)}
            if tells_types(stack.model, stack.family):
                more["token_type_ids"] = later.long()[None]
            expected = own_states(aligner.stack.model, rows["inputs"].flatten()[slots], len(slots), 1, **more)
            torch.testing.assert_close(states[slots], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["queue", "in-batch"])
@pytest.mark.parametrize("compiled", [False, True], ids=["as they are", "compiled"])
def test_an_alignment_on_a_gpu_has_the_losses_it_has_without_graphs(models, pairs, case, compiled):
    gpu, curves = torch.device("cuda"), []
    for captured in (False, True):
        stack = load_language_model(models["bert"], dtype="float32", device=gpu)
        without_dropout(stack.language_model)
        aligner = Aligner(stack, CASES[case], seed=0)
        drawing = {"borders": borders_of(stack.tokenizer), "masking": masking_of(stack.tokenizer), "longest": LONGEST}
        objective = align_pairs(aligner, pairs, batch=BATCH, seed=0, device=gpu, compiled=compiled, **drawing)
        settings = Settings(40, 0, Optimisation(rate=1e-3), dtype=torch.bfloat16)
        training = Training(aligner, objective, settings, Processes(0, 1, gpu))
        training._graphs = training._graphs if captured else None
        aligner.train()
        for _ in range(40):
            training.update()
        curves.append((training.losses()[0], aligner.sums.tolist()))
    assert sum(graph is not None for graph in training._graphs._graphs.values()) > 0
    assert curves[1][0] == pytest.approx(curves[0][0], rel=0.02)
    assert curves[1][1] == pytest.approx(curves[0][1], rel=0.02)


def without_dropout(model):
    for one in model.modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    return model
