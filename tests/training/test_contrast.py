"""Contrastive losses against explicit loops; queue, momentum and pull on cases that are checked by eye."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch.nn.functional import normalize

from isogloss.training.alignment import batch_loss, distance, enqueue, follow, queue_loss, repeats


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


def test_slow_weights_follow_by_hand():
    slow, fast = [torch.tensor([1.0, 2.0]), torch.tensor([[4.0]])], [torch.tensor([3.0, 2.0]), torch.tensor([[0.0]])]
    follow(slow, fast, momentum=0.9)
    assert slow[0].tolist() == pytest.approx([0.9 * 1 + 0.1 * 3, 2.0]) and float(slow[1]) == pytest.approx(3.6)
    assert fast[0].tolist() == [3.0, 2.0]
    follow(slow, fast, momentum=0.0)
    assert torch.equal(slow[0], fast[0]) and torch.equal(slow[1], fast[1])


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
