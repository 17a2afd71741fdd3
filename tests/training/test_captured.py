"""Blocks as graphs: rounded up to a size they give the states and gradients of the stack itself."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForMaskedLM

from isogloss.stack.families import FAMILIES
from isogloss.stack.load import load, load_masked_lm
from isogloss.tasks.task import join_items
from isogloss.text.masking import mask
from isogloss.training import captured
from isogloss.training.captured import Captured, layout
from isogloss.training.heads import HEADS
from isogloss.training.objectives import masked_loss, packed_loss
from isogloss.training.taskmodels import ask, task_model
from tiny_models import ENCODERS, tiny_config, tiny_tokenizer
from tiny_tasks import read_task, write_task

HAS_GPU = torch.cuda.is_available()  # asked before the tests hide it
TOKENIZER = tiny_tokenizer()
PACKING = [family for family in ENCODERS if FAMILIES[family].packs]


@pytest.fixture
def nli(tiny, tmp_path):
    """`nli(family, device)`: a stack, a task, its items and labels."""
    task, examples, labels = read_task("nli", write_task(tmp_path, "nli", count=13))

    def make(family, device="cpu"):
        stack = load(tiny(family), device=device)
        return stack, task, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64)), labels

    return make


def losses_and_gradients(model, items, batches):
    """The loss of some batches, and the gradients of the last of them."""
    found = []
    model.train()
    for chosen in batches:
        model.zero_grad()
        asked = ask(items, chosen, device=model.stack.device)
        with torch.autocast("cuda", torch.bfloat16, enabled=model.stack.device.type == "cuda"):
            scores = model(asked)
        loss = model.task.loss(tuple(one.float() for one in scores), asked.gold, asked.present)
        loss.backward()
        found.append(loss.item())
    return found, {name: one.grad for name, one in model.named_parameters() if one.grad is not None}


def without_dropout(model):
    for one in model.modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    return model


def test_layout_is_that_of_an_explicit_loop():
    lengths, size, first = [3, 1, 5], 12, 2
    places, borders = layout(torch.tensor(lengths), size=size, first=first)
    rest = size - sum(lengths)
    assert places.tolist() == [first + place for length in [*lengths, rest] for place in range(length)]
    assert borders.tolist() == [0, 3, 4, 9, 12]


def test_layout_without_anything_left_over():
    places, borders = layout(torch.tensor([2, 2]), size=4, first=0)
    assert places.tolist() == [0, 1, 0, 1]
    assert borders.tolist() == [0, 2, 4, 4]


@pytest.mark.parametrize("family", PACKING)
def test_rounded_up_batches_change_nothing(family, nli):
    stack, task, items, labels = nli(family)
    batches = [[0, 3, 5, 1], [2, 4, 6, 7]]
    plain = without_dropout(task_model(stack, task, labels, seed=1))
    expected, gradients = losses_and_gradients(plain, items, batches)
    model = without_dropout(task_model(stack, task, labels, seed=1))
    asked = []

    def capture(blocks, sample):
        asked.append([len(one) for one in sample])
        return blocks

    model.captured = Captured(stack, rows=4, longest=64, capture=capture)
    found, same = losses_and_gradients(model, items, batches)
    assert asked == [[captured.SIZE, captured.SIZE, 4 + 2]], "both batches have the size of one graph"
    assert found == pytest.approx(expected, rel=1e-5)
    assert same.keys() == gradients.keys()
    for name, one in gradients.items():
        torch.testing.assert_close(same[name], one, rtol=1e-4, atol=1e-6, msg=name)


def test_another_graph_for_other_weights_and_none_for_other_rows(nli):
    stack, task, items, labels = nli("bert")
    model = task_model(stack, task, labels, seed=1)
    count = []
    model.captured = Captured(stack, rows=3, longest=64, capture=lambda blocks, sample: count.append(1) or blocks)
    losses_and_gradients(model, items, [[0, 1, 2]])
    losses_and_gradients(model, items, [[0, 1]])  # the last of an epoch is smaller
    assert len(count) == 1
    for one in stack.blocks[0].parameters():
        one.requires_grad_(False)
    losses_and_gradients(model, items, [[0, 1, 2]])
    assert len(count) == 2
    for block in stack.blocks:
        block.requires_grad_(False)
    losses_and_gradients(model, items, [[0, 1, 2]])
    assert len(count) == 2, "nothing of the blocks trains"


def test_what_cannot_be_captured_runs_all_the_same(nli):
    stack, task, items, labels = nli("modernbert")
    expected, _ = losses_and_gradients(without_dropout(task_model(stack, task, labels, seed=1)), items, [[0, 1]])
    model = without_dropout(task_model(stack, task, labels, seed=1))

    def fail(blocks, sample):
        raise RuntimeError("no graph today")

    model.captured = Captured(stack, rows=2, longest=64, capture=fail)
    with pytest.warns(UserWarning, match="without a CUDA graph.*no graph today"):
        found, _ = losses_and_gradients(model, items, [[0, 1]])
    assert found == pytest.approx(expected, rel=1e-6)


def masked_rows(seed=0):
    """Rows of a masked batch of three sentences, padded, as `masked_sentences` draws them."""
    lengths = torch.tensor([9, 4, 7])
    ids = torch.randint(5, 40, (3, 9), generator=torch.Generator().manual_seed(seed))
    text = torch.arange(9) < lengths[:, None]
    ids = ids.masked_fill(~text, 0)
    found = mask(ids, text, mask_id=4, pool=torch.arange(5, 40), generator=torch.Generator().manual_seed(1), share=0.3)
    rows = {"inputs": found.inputs, "places": found.places, "labels": found.labels}
    return rows | {"attention": text.long(), "lengths": lengths}


@pytest.mark.parametrize("family", [one for one in PACKING if one in HEADS])
def test_masked_sentences_end_to_end_have_the_loss_and_gradients_of_padded_ones(family, tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        AutoModelForMaskedLM.from_config(tiny_config(family, len(TOKENIZER))).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    model, stack = load_masked_lm(tmp_path, device="cpu")
    without_dropout(model).train()
    rows = masked_rows()
    expected = masked_loss(model, rows)
    expected.backward()
    gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad()
    graphs = Captured(replace(stack, pack=True), rows=3, longest=9, capture=lambda blocks, sample: blocks)
    found = packed_loss(graphs, model, rows)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, one in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(one.grad, gradients[name], rtol=1e-4, atol=1e-5, msg=name)
    assert packed_loss(graphs, model, {key: one[:2] for key, one in rows.items()}) is None, "a smaller batch"


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
def test_a_graph_gives_the_losses_and_gradients_of_the_blocks(nli):
    stack, task, items, labels = nli("modernbert", torch.device("cuda"))
    batches = [[0, 3, 5, 1], [2, 4, 6, 7], [1, 2, 3, 4]]
    plain = without_dropout(task_model(stack, task, labels, seed=1, half=True))
    assert plain.stack.packs
    expected, gradients = losses_and_gradients(plain, items, batches)
    model = without_dropout(task_model(stack, task, labels, seed=1, half=True))
    model.captured = Captured(model.stack, rows=4, longest=64)
    found, same = losses_and_gradients(model, items, batches)
    assert any(graph is not None for graph in model.captured._graphs.values())
    assert found == pytest.approx(expected, rel=0.02)
    for name, one in gradients.items():
        assert torch.cosine_similarity(same[name].flatten(), one.flatten(), dim=0) > 0.99, name
