"""Updates as graphs, and sentences laid out for them: the same training as without."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from isogloss.stack.families import FAMILIES, language_model_class
from isogloss.stack.load import load, load_language_model
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.tasks.task import join_items
from isogloss.text.batches import Sentences, layout_of, size_of
from isogloss.text.masking import IGNORE, masking_of
from isogloss.training import checkpoints, cuda_graphs
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.cuda_graphs import CapturedUpdates, CudaGraphs
from isogloss.training.language_modelling import sentence_modelling
from isogloss.training.loop import Optimisation, Processes, Settings, Training
from tiny_models import ENCODERS, tiny_config, tiny_tokenizer
from tiny_tasks import read_task, write_task

TOKENIZER = tiny_tokenizer()
PACKING = [family for family in ENCODERS if FAMILIES[family].packs]
CPU, BATCH = torch.device("cpu"), 5


@pytest.fixture
def nli(tiny, tmp_path):
    """`nli(family, device)`: a stack, a task, its items and labels."""
    task, examples, labels = read_task("nli", write_task(tmp_path, "nli", count=13))

    def make(family, device="cpu"):
        stack = load(tiny(family), dtype="float32", device=device)
        return stack, task, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64)), labels

    return make


def sentences(count=23, seed=0):
    """Sentences of 1 to 30 words between their special tokens."""
    random = np.random.default_rng(seed)
    texts = [[2, *random.integers(5, len(TOKENIZER), random.integers(1, 31)), 3] for _ in range(count)]
    return Sentences("qaa", "text", np.concatenate(texts).astype(np.int32), np.array([*map(len, texts)]), 99, 99, 0)


@pytest.fixture
def masked_lm(tmp_path):
    """`masked_lm(family, dropout, device)`: a small random masked LM, or decoder, on a device."""

    def make(family, dropout=0.0, device=CPU):
        config = tiny_config(family, len(TOKENIZER))
        for name in FAMILIES[family].dropout:
            setattr(config, name, dropout)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            language_model_class(config).from_config(config).save_pretrained(tmp_path / family)
        TOKENIZER.save_pretrained(tmp_path / family)
        return load_language_model(tmp_path / family, dtype="float32", device=device).language_model

    return make


def tuning(model, *, table=True, graphs=None, device=CPU, steps=40, seed=0, dtype=None, text=None, rate=1e-3):
    """A training of a masked LM on sentences; graphs: what its updates run through, none by default."""
    masking = masking_of(TOKENIZER, causal=FAMILIES[model.config.model_type].kind == "decoder")
    objective = sentence_modelling(
        model, text or sentences(), batch=BATCH, seed=0, masking=masking, device=device, table=table
    )
    settings = Settings(steps, seed, Optimisation(rate=rate), dtype=dtype)
    training = Training(model, objective, settings, Processes(0, 1, device))
    if graphs is not None or device == CPU:
        training._graphs = graphs
    model.train()
    return training


def losses_of(training, steps):
    """The loss of each of some updates."""
    found, before = [], 0.0
    for _ in range(steps):
        training.update()
        total = training.losses()[0]
        found.append(total - before)
        before = total
    return found


def test_tables_hold_every_token_once_where_an_explicit_loop_puts_it():
    random = np.random.default_rng(0)
    for _ in range(50):
        lengths = random.integers(1, 150, random.integers(1, 40))
        table = layout_of(lengths)
        assert len(set(table.slots.tolist())) == lengths.sum() and table.texts.shape[1] % 64 == 0
        slots, texts, positions = iter(table.slots), table.texts.ravel(), table.positions.ravel()
        for number, length in enumerate(lengths):
            own = [int(next(slots)) for _ in range(length)]
            assert own == list(range(own[0], own[0] + length)), "a sentence is whole"
            assert own[0] // table.texts.shape[1] == own[-1] // table.texts.shape[1], "and in one row"
            assert (texts[own] == number).all() and positions[own].tolist() == list(range(length))
        assert (texts == -1).sum() == texts.size - lengths.sum()
        assert table.spread(np.arange(lengths.sum()), -1).ravel()[table.slots].tolist() == list(range(lengths.sum()))


def test_sizes_are_few_and_little_is_left_over():
    for count in range(1, 3_000):
        size = size_of(count)
        assert count <= size == size_of(size) and size - count <= max(1, count // 4)
    assert len({size_of(count) for count in range(1, 1_000)}) < 40


@pytest.mark.parametrize("family", [*PACKING, "llama"])
def test_sentences_in_a_table_have_the_losses_and_gradients_of_padded_ones(family, masked_lm):
    found = []
    for table in (False, True):
        model = masked_lm(family)
        training = tuning(model, table=table)
        model.eval()
        rows = training.objective.draw(0)[0].rows
        loss = training.objective.loss(rows, "")
        loss.backward()
        assert ("texts" in rows) == table and training.objective.captured == table
        gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
        found.append((loss.item(), int(training.objective.count(rows)), gradients))
    (padded, count, expected), (laid, same, gradients) = found
    assert laid == pytest.approx(padded, rel=1e-5) and count == same and gradients.keys() == expected.keys()
    for name, one in expected.items():
        torch.testing.assert_close(gradients[name], one, rtol=1e-4, atol=1e-5, msg=name)


def test_places_that_are_asked_for_have_room_even_in_sentences_of_one_word(masked_lm):
    ids, lengths = np.tile(np.array([2, 7, 3], dtype=np.int32), 40), np.full(40, 3)
    text = Sentences("qaa", "short", ids, lengths, 40, 40, 0)
    objective = sentence_modelling(
        masked_lm("bert"), text, batch=40, seed=0, masking=masking_of(TOKENIZER), device=CPU, table=True
    )
    rows = objective.draw(0)[0].rows
    assert int(objective.count(rows)) == 40 and (rows["labels"] != IGNORE).sum() == 40


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_replayed_updates_are_the_training_without_graphs(family, masked_lm):
    """The stand-in computes a captured update again from the memory that the graph would read."""
    captured = []
    graphs = CapturedUpdates(capture=lambda function: captured.append(1) or function)
    expected = losses_of(tuning(masked_lm(family, dropout=0.1)), 12)
    training = tuning(masked_lm(family, dropout=0.1), graphs=graphs)
    assert losses_of(training, 12) == expected, "dropout too is the same"
    shapes = [tuple(training.objective.draw(step)[0].rows["inputs"].shape) for step in range(12)]
    assert len(captured) == sum(shapes.count(shape) > 1 for shape in set(shapes)) > 0, "each from its second batch on"


def test_other_weights_and_modes_have_graphs_of_their_own(nli):
    stack, task, items, labels = nli("bert")
    model, captured = TaskModel(stack, task, labels, seed=1), []
    objective = task_objective(model, items, batch=13, seed=1, table=True)
    training = Training(model, objective, Settings(20, 0, Optimisation(rate=0.0)), Processes(0, 1, CPU))
    training._graphs = CapturedUpdates(capture=lambda function: captured.append(1) or function)
    model.train()

    def twice():
        training.update(), training.update()
        return len(captured)

    assert twice() == 1 == twice(), "every batch has all items, so all have one shape"
    stack.blocks[0].requires_grad_(False)
    assert twice() == 2
    model.hold(1)
    assert twice() == 3 == twice(), "a frozen block drops nothing any more"


def test_a_captured_update_reads_tensors_with_the_strides_of_the_first_one():
    """Code that was compiled for other strides would be compiled again, which breaks the capture."""
    strides, repeated = [], torch.arange(4).expand(3, -1)
    graphs = CapturedUpdates(capture=lambda function: function)
    for _ in range(3):
        graphs.run(lambda batch: strides.append([tensor.stride() for tensor in batch]), [repeated], kind="causal")
    assert strides == 3 * [[(4, 1)]]


def test_the_number_of_graphs_is_bounded(masked_lm, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MOST", 1)
    captured = []
    graphs = CapturedUpdates(capture=lambda function: captured.append(1) or function)
    expected = losses_of(tuning(masked_lm("bert")), 12)
    assert losses_of(tuning(masked_lm("bert"), graphs=graphs), 12) == expected and len(captured) == 1


def test_what_cannot_be_captured_runs_all_the_same(masked_lm):
    def fail(function):
        function()  # a capture that breaks off leaves gradients behind
        raise RuntimeError("no graph today")

    model, text = masked_lm("bert"), sentences(count=BATCH)  # every batch has all of them, in one shape
    expected = losses_of(tuning(masked_lm("bert"), rate=0.0, text=text), 12)
    tried = []
    with pytest.warns(UserWarning, match="without a CUDA graph.*no graph today"):
        graphs = CapturedUpdates(capture=lambda function: tried.append(1) or fail(function))
        training = tuning(model, graphs=graphs, rate=0.0, text=text)
        found = losses_of(training, 12)
    assert all(weight.grad is None for weight in model.parameters()) and len(tried) == 1, "it is not tried again"
    assert found[0] == expected[0]


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

    class Graph:
        replay = None

    class Capturing:
        def __init__(self, graph, *, pool, capture_error_mode):
            pools.append(pool)

        def __enter__(self):
            if len(pools) == 3:
                raise RuntimeError("no graph today")

        def __exit__(self, *_):
            return False

    for name, stand_in in {
        "graph_pool_handle": lambda: next(handles), "graph": Capturing, "CUDAGraph": Graph,
        "current_stream": lambda: "the stream of the step", "set_stream": streams.append,
        "device": lambda device: nullcontext(),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    capture, other = CudaGraphs(torch.device("cpu")), CudaGraphs(torch.device("cpu"))
    capture(list), capture(list)
    with pytest.raises(RuntimeError, match="no graph today"):
        capture(list)
    assert streams == ["the stream of the step"], "torch may leave its own current"
    capture(list), other(list), capture(list)
    assert pools == [0, 0, 0, 1, 2, 1]


# --- on a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["bert", "modernbert", "roberta"])
def test_losses_agree_with_those_without_graphs_over_300_updates(family, masked_lm):
    gpu = torch.device("cuda")
    curves = []
    for captured in (False, True):
        training = tuning(masked_lm(family, device=gpu), device=gpu, steps=300, dtype=torch.bfloat16)
        if not captured:
            training._graphs = None
        curves.append(np.array(losses_of(training, 300)).reshape(30, 10).mean(axis=1) / BATCH)
    assert any(graph is not None for graph in training._graphs._graphs.values())
    np.testing.assert_allclose(curves[1], curves[0], atol=0.01 * curves[0].max())
    assert curves[0][-1] < curves[0][0]


@pytest.mark.gpu
def test_dropout_of_replays_differs_between_updates_and_follows_the_seed(masked_lm):
    gpu, text = torch.device("cuda"), sentences(count=BATCH)  # every batch has all of them, in one shape
    found = {}
    for name, seed, rate in (("one", 1, 0.5), ("again", 1, 0.5), ("another", 2, 0.5), ("none", 1, 0.0)):
        training = tuning(masked_lm("bert", dropout=rate, device=gpu), device=gpu, seed=seed, text=text, rate=0.0)
        training.objective = fixed_masks(training.objective)
        found[name] = losses_of(training, 8)
        assert sum(graph is not None for graph in training._graphs._graphs.values()) == 1
    assert found["one"] == pytest.approx(found["again"], rel=1e-5)
    assert len({round(value, 3) for value in found["one"]}) == 8, "weights and masks are the same: dropout is not"
    assert found["none"] == pytest.approx([found["none"][0]] * 8, rel=1e-5)
    assert all(abs(one - other) > 1e-3 for one, other in zip(found["one"], found["another"], strict=True))


def fixed_masks(objective):
    """The objective with the batch of its first step at every step."""
    rows = objective.draw(0)
    object.__setattr__(objective, "draw", lambda step: rows)
    return objective


@pytest.mark.gpu
def test_no_update_waits_for_the_gpu(masked_lm):
    gpu = torch.device("cuda")
    training = tuning(
        masked_lm("bert", dropout=0.1, device=gpu), device=gpu, dtype=torch.bfloat16, text=sentences(count=BATCH)
    )
    losses_of(training, 3)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            training.update()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert training.losses()[1] > 0


@pytest.mark.gpu
def test_the_rate_of_replays_follows_the_schedule(masked_lm):
    gpu = torch.device("cuda")
    training = tuning(masked_lm("bert", device=gpu), device=gpu, steps=20, text=sentences(count=BATCH))
    moved = []
    for _ in range(20):
        before = [weight.detach().clone() for weight in training.model.parameters()]
        training.update()
        after = training.model.parameters()
        moved.append(max(float((one - other).abs().max()) for one, other in zip(after, before, strict=True)))
    assert moved[-1] < 0.3 * moved[5], "the rate falls to nothing, and so do the steps"
