"""Blocks as graphs: rounded up to a size they give the states and gradients of the stack itself."""

import warnings
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForMaskedLM

from isogloss.stack.families import FAMILIES
from isogloss.stack.load import load, load_masked_lm
from isogloss.stack.packing import packed_positions
from isogloss.tasks.model import TaskModel, task_batch
from isogloss.tasks.task import join_items
from isogloss.text.masking import mask
from isogloss.training import checkpoints, cuda_graphs
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.cuda_graphs import Captured, CudaGraphs, filled_up, size_of
from isogloss.training.masked_lm import masked_loss, row_loss
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
        stack = load(tiny(family), dtype="float32", device=device)
        return stack, task, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64)), labels

    return make


def losses_and_gradients(model, items, batches):
    """The loss of some batches, and the gradients of the last of them."""
    found = []
    model.train()
    for chosen in batches:
        model.zero_grad()
        asked = task_batch(items, chosen, device=model.stack.device)
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
    lengths, first = [3, 1, 5], 2
    places, borders = packed_positions(torch.tensor(lengths), tokens=9, first=first)
    assert places.tolist() == [first + place for length in lengths for place in range(length)]
    assert borders.tolist() == [0, 3, 4, 9]


def test_sizes_are_few_and_little_is_left_over():
    for tokens in range(1, 40_000, 7):
        size = size_of(tokens)
        assert tokens <= size == size_of(size) and size % cuda_graphs.SIZE == 0
        assert size - tokens < max(cuda_graphs.SIZE, tokens / 16 + 1)
    assert len({size_of(tokens) for tokens in range(15_000, 17_000)}) <= 5


def test_what_is_left_over_are_sentences_no_longer_than_others(nli):
    """A batch of 16,385 tokens leaves 1,023 over, which is longer than any sentence of it."""
    stack, _, _, _ = nli("bert")
    seen, rows = [], 400
    graphs = Captured(stack, rows=rows, longest=64, capture=lambda *given: seen.append(given) or None)
    lengths = torch.full((rows,), 40)
    lengths[:385] = 41
    places, borders = packed_positions(lengths, tokens=16_385, first=0)
    assert graphs.run(0, torch.zeros(16_385, stack.width), places, borders) is None
    sizes = [len(sample[0]) for _, sample in seen]
    assert sizes == [20_480, 17_408], "the first is larger, so that others find room in its memory"
    for blocks, (hidden, spots, ends) in seen:
        assert blocks.longest == 64 and int(ends.diff().max()) <= blocks.longest
        assert len(hidden) == len(spots) == int(ends[-1]) and len(ends) == rows + 1 + 1_024 // 64


def test_whatever_is_left_over_is_filled_up_to_its_end():
    for longest in (1, 7, 64, 100, 512):
        ends = set()
        for tokens in range(16_385, 17_408, 13):
            found = filled_up(torch.tensor([0, tokens]), tokens, 17_408, longest=longest)
            more = found.diff()[1:].tolist()
            assert found[:2].tolist() == [0, tokens] and found[-1] == 17_408 and 0 <= min(more) <= max(more) <= longest
            ends.add(len(found))
        assert len(ends) == 1, "a graph is of one number of sentences"


def test_checkpoints_put_weights_back_where_graphs_read_them(nli, tmp_path):
    stack, task, _, labels = nli("bert")
    model = TaskModel(stack, task, labels, seed=1)
    optimiser = torch.optim.AdamW(model.parameters())
    place = Checkpoints(tmp_path, lambda folder: None, 1)
    saved = checkpoints.save_checkpoint(place, model, optimiser, state={"step": 1})
    before = {name: (one.data_ptr(), one.detach().clone()) for name, one in model.named_parameters()}
    with torch.no_grad():
        for one in model.parameters():
            one.add_(1.0)
    checkpoints.restore_checkpoint(saved, model, optimiser)
    for name, one in model.named_parameters():
        assert one.data_ptr() == before[name][0] and torch.equal(one, before[name][1]), name


def test_graphs_share_a_pool_until_a_capture_breaks_off_in_it(monkeypatch):
    pools, streams, handles = [], [], iter(range(9))

    def graphed(blocks, sample, *, pool, **_):
        pools.append(pool)
        if len(pools) == 3:
            raise RuntimeError("no graph today")
        return blocks

    for name, stand_in in {
        "graph_pool_handle": lambda: next(handles), "make_graphed_callables": graphed,
        "current_stream": lambda: "the stream of the step", "set_stream": streams.append,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    mismatch = "set_warn_on_accumulate_grad_stream_mismatch"
    monkeypatch.setattr(torch.autograd.graph, mismatch, lambda warn: None, raising=False)
    capture, other = CudaGraphs(), CudaGraphs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # autocast finds no GPU
        capture(None, ()), capture(None, ())
        with pytest.raises(RuntimeError, match="no graph today"):
            capture(None, ())
        assert streams == ["the stream of the step"], "torch may leave its own current"
        capture(None, ()), other(None, ()), capture(None, ())
    assert pools == [0, 0, 0, 1, 2, 1]


def test_modes_and_gradients_have_graphs_of_their_own(nli):
    """A graph of evaluation mode drops nothing, one without gradients has no way back."""
    stack, task, items, labels = nli("bert")
    count = []
    graphs = Captured(stack, rows=3, longest=64, capture=lambda blocks, sample: count.append(sample[0]) or blocks)
    batch = task_batch(items, [0, 1, 2], device=stack.device).batch
    for number, training in enumerate((True, False), 1):
        stack.model.train(training)
        assert graphs.top(batch).requires_grad and graphs.top(batch).requires_grad
        assert len(count) == number and count[-1].requires_grad
    with torch.no_grad():
        assert not graphs.top(batch).requires_grad
    assert len(count) == 3 and not count[-1].requires_grad
    assert graphs.top(batch).requires_grad and len(count) == 3


def test_a_capture_leaves_the_draws_of_its_step_alone(nli):
    stack, _, items, _ = nli("bert")
    batch = task_batch(items, [0, 1, 2], device=stack.device).batch

    def capture(blocks, sample):
        torch.rand(7)
        return blocks

    graphs, drawn = Captured(stack, rows=3, longest=64, capture=capture), []
    stack.model.eval()
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            graphs.top(batch)
            drawn.append(torch.rand(1))
    assert torch.equal(*drawn)


@pytest.mark.parametrize("family", PACKING)
def test_rounded_up_batches_change_nothing(family, nli):
    stack, task, items, labels = nli(family)
    batches = [[0, 3, 5, 1], [2, 4, 6, 7]]
    plain = without_dropout(TaskModel(stack, task, labels, seed=1))
    expected, gradients = losses_and_gradients(plain, items, batches)
    model = without_dropout(TaskModel(stack, task, labels, seed=1))
    asked = []

    def capture(blocks, sample):
        asked.append([len(one) for one in sample])
        return blocks

    model.captured = Captured(stack, rows=4, longest=64, capture=capture)
    found, same = losses_and_gradients(model, items, batches)
    assert asked == [[cuda_graphs.SIZE, cuda_graphs.SIZE, 4 + 1 + cuda_graphs.SIZE // 64]], (
        "both batches have the size of one graph"
    )
    assert found == pytest.approx(expected, rel=1e-5)
    assert same.keys() == gradients.keys()
    for name, one in gradients.items():
        torch.testing.assert_close(same[name], one, rtol=1e-4, atol=1e-6, msg=name)


def test_another_graph_for_other_weights_and_none_for_other_rows(nli):
    stack, task, items, labels = nli("bert")
    model = TaskModel(stack, task, labels, seed=1)
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
    expected, _ = losses_and_gradients(without_dropout(TaskModel(stack, task, labels, seed=1)), items, [[0, 1]])
    model = without_dropout(TaskModel(stack, task, labels, seed=1))

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


@pytest.mark.parametrize("family", PACKING)
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
    found = row_loss(model, stack, rows, end_to_end=True, graphs=graphs)
    found.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, one in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(one.grad, gradients[name], rtol=1e-4, atol=1e-5, msg=name)
    smaller = {key: one[:2] for key, one in rows.items()}  # no graph takes it
    assert graphs.run(0, torch.zeros(13, stack.width), torch.arange(13), torch.tensor([0, 9, 13])) is None
    without_graph = row_loss(model, stack, smaller, end_to_end=True, graphs=graphs)
    assert without_graph.item() == pytest.approx(masked_loss(model, smaller).item(), rel=1e-5)


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
def test_a_graph_gives_the_losses_and_gradients_of_the_blocks(nli, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # hidden, it would switch autocast off
    stack, task, items, labels = nli("modernbert", torch.device("cuda"))
    batches = [[0, 3, 5, 1], [2, 4, 6, 7], [1, 2, 3, 4]]
    plain = without_dropout(TaskModel(stack, task, labels, seed=1, half=True))
    assert plain.stack.packs
    expected, gradients = losses_and_gradients(plain, items, batches)
    model = without_dropout(TaskModel(stack, task, labels, seed=1, half=True))
    model.captured = Captured(model.stack, rows=4, longest=64)
    found, same = losses_and_gradients(model, items, batches)
    assert any(graph is not None for graph in model.captured._graphs.values())
    assert found == pytest.approx(expected, rel=0.02)
    for name, one in gradients.items():
        assert torch.cosine_similarity(same[name].flatten(), one.flatten(), dim=0) > 0.99, name
