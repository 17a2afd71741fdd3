"""The passes of an alignment as graphs: what one leaves its next run overwrites, and no other pass may see it."""

from dataclasses import replace

import pytest
import torch
from torch.utils._triton import has_triton

from isogloss.stack.load import load_masked_lm
from isogloss.text.masking import masking_of
from isogloss.text.streams import borders_of
from isogloss.training import cuda_graphs
from isogloss.training.alignment import Aligner, Alignment, align_pairs, graphs_of
from isogloss.training.loop import Optimisation, Processes, Settings, Training
from tiny_alignment import LONGEST, pack_invented, write_models
from tiny_drift import write_model

HAS_GPU = torch.cuda.is_available()  # asked before the tests hide it
BATCH, STEPS = 6, 3
QUEUE = Alignment(layer=3, queue=18, projection_width=8, temperature=0.2)
IN_BATCH = replace(QUEUE, negatives="batch", pooling="mean")
CASES = {
    "queue": QUEUE,
    "in-batch": IN_BATCH,
    "no TLM": replace(IN_BATCH, tlm=0.0),
    "TLM alone": replace(QUEUE, contrastive=0.0, reset_positions=True),
    "below the top": replace(QUEUE, layer=1, pooling="mean", reset_positions=True),
    "pull": replace(IN_BATCH, pull=0.1),
}


class StaticGraph:
    """A stand-in for a CUDA graph: inputs, states and gradients have one place each, which every run overwrites.

    The way back goes from whatever the last run left, as a captured one does.
    """

    def __init__(self, blocks, sample):
        self.blocks, self.inputs, self.out, self.gradients = blocks, sample, None, None
        self.weights = list(blocks.parameters())
        self.held = torch.zeros_like(sample[0])
        self.sought = [one for one in (*sample, *self.weights) if one.requires_grad]
        self.back = torch.is_grad_enabled() and bool(self.sought)
        graph, count = self, len(sample)

        class Run(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *given):
                return graph.run(given[:count])

            @staticmethod
            def backward(ctx, gradient):
                return graph.run_back(gradient)

        self.function = Run

    def __call__(self, *given):
        return self.function.apply(*given, *self.weights)

    def run(self, given):
        with torch.no_grad():
            for kept, one in zip(self.inputs, given, strict=True):
                kept.copy_(one)
        with torch.set_grad_enabled(self.back):
            self.out = self.blocks(*self.inputs)
        self.held.copy_(self.out.detach())
        return self.held.detach()

    def run_back(self, gradient):
        assert self.back, "no way back was captured"
        found = torch.autograd.grad(self.out, self.sought, gradient, allow_unused=True, retain_graph=True)
        if self.gradients is None:
            self.gradients = [None if one is None else torch.empty_like(one) for one in found]
        for kept, one in zip(self.gradients, found, strict=True):
            if one is not None:
                kept.copy_(one)
        left = iter(self.gradients)
        every = (next(left) if one.requires_grad else None for one in (*self.inputs, *self.weights))
        return tuple(None if one is None else one.detach() for one in every)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("models"), bert=3, modernbert=3)


@pytest.fixture(scope="module")
def pairs(models):
    return pack_invented(models["bert"], ("qaa", "qab"), sentences=40)


def made(model, pairs, how, graphs, *, device="cpu", half=False, piece=None):
    """A training without dropout; graphs(aligner): what its passes run through."""
    source, stack = load_masked_lm(model, device=device)
    for one in source.modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    aligner = Aligner(source, stack, how, seed=0)
    objective = align_pairs(
        aligner, pairs, borders=borders_of(stack.tokenizer), batch=BATCH, longest=LONGEST, seed=0,
        device=torch.device(device), half=half, graphs=graphs(aligner), masking=masking_of(stack.tokenizer),
    )  # fmt: skip
    settings = Settings(STEPS, 0, Optimisation(rate=1e-3, warm_up=0, clip=0.0), half=half, piece=piece)
    training = Training(aligner, objective, settings, Processes(0, 1, torch.device(device)))
    aligner.train()
    return training


def followed(training):
    """The loss of each update and the gradients it is made with."""
    losses, gradients = [], []
    plain = training.optimiser.step

    def step():
        every = training.model.named_parameters()
        gradients.append({name: one.grad.clone() for name, one in every if one.grad is not None})
        plain()

    training.optimiser.step = step
    for _ in range(STEPS):
        training.update()
        losses.append(training.losses()[0])
    return losses, gradients


def stand_in(aligner):
    return graphs_of(aligner, rows=BATCH, longest=LONGEST, capture=StaticGraph)


def nothing(aligner):
    return {}


# BERT has weights without a gradient but rounding's, which AdamW makes large and the pull's gradient goes by.
@pytest.mark.parametrize(
    ("family", "case"), [("modernbert", one) for one in CASES] + [("bert", one) for one in CASES if one != "pull"]
)
def test_graphs_that_overwrite_what_they_left_change_nothing(models, pairs, family, case, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "SIZE", 32)  # so that steps have sizes of their own
    expected, gradients = followed(made(models[family], pairs, CASES[case], nothing))
    training = made(models[family], pairs, CASES[case], stand_in)
    found, same = followed(training)
    assert found == pytest.approx(expected, rel=1e-5)
    for step in range(STEPS):
        assert same[step].keys() == gradients[step].keys()
        for name, one in gradients[step].items():
            torch.testing.assert_close(same[step][name], one, rtol=1e-3, atol=2e-5, msg=f"{step} {name}")


@pytest.mark.parametrize("how", [QUEUE, IN_BATCH], ids=["queue", "in-batch"])
def test_every_pass_runs_through_graphs_of_its_own(models, pairs, how, monkeypatch):
    """All sizes are rounded up to one here, so passes that shared a `Captured` would share a graph."""
    monkeypatch.setattr(cuda_graphs, "SIZE", 512)
    made_for = {}

    def counted(aligner):
        found = stand_in(aligner)
        made_for.update(found)
        return found

    followed(made(models["modernbert"], pairs, how, counted))
    graphs = [graph for one in made_for.values() for graph in one._graphs.values()]
    assert made_for.keys() == {"tlm", "query", "key"} and len(graphs) == 3 == len(set(map(id, graphs)))
    assert {len(graph.held) for graph in graphs} == {cuda_graphs.SIZE}
    assert [graph.back for graph in graphs] == [True, True, how.negatives == "batch"]
    assert all(graph.gradients is not None for graph in graphs if graph.back)


@pytest.mark.parametrize("shared", [("query", "key"), ("tlm", "query")])
def test_passes_that_share_a_graph_have_wrong_gradients(models, pairs, shared, monkeypatch):
    """What the tests above would miss if the stand-in were kinder than a graph is."""
    monkeypatch.setattr(cuda_graphs, "SIZE", 512)

    def sharing(aligner):
        found = stand_in(aligner)
        return found | {shared[1]: found[shared[0]]}

    _, gradients = followed(made(models["modernbert"], pairs, IN_BATCH, nothing))
    _, wrong = followed(made(models["modernbert"], pairs, IN_BATCH, sharing))
    name = next(name for name in gradients[0] if "layers.1" in name)
    assert not torch.allclose(wrong[0][name], gradients[0][name], rtol=0.1)


def test_the_key_encoder_is_read_where_it_is_and_follows(models, pairs):
    training = made(models["modernbert"], pairs, replace(QUEUE, momentum=0.5), stand_in)
    aligner = training.model
    places = [one.data_ptr() for one in aligner.key.parameters()]
    plain = made(models["modernbert"], pairs, replace(QUEUE, momentum=0.5), nothing)
    followed(training), followed(plain)
    assert [one.data_ptr() for one in aligner.key.parameters()] == places
    torch.testing.assert_close(aligner.queue, plain.model.queue, rtol=1e-3, atol=1e-4)
    assert not any(one.requires_grad for one, _ in aligner.pending)


def test_pieces_of_a_batch_run_without_graphs(models, pairs):
    """Their gradients are summed, and a graph would overwrite those of the piece before."""
    count = []

    def counting(aligner):
        return graphs_of(aligner, rows=BATCH, longest=LONGEST, capture=lambda blocks, sample: count.append(1) or blocks)

    followed(made(models["bert"], pairs, QUEUE, counting, piece=4))
    assert not count


def test_without_a_graph_there_is_a_warning_and_the_same_training(models, pairs):
    def fail(blocks, sample):
        raise RuntimeError("no graph today")

    def failing(aligner):
        return graphs_of(aligner, rows=BATCH, longest=LONGEST, capture=fail)

    expected, _ = followed(made(models["bert"], pairs, QUEUE, nothing))
    with pytest.warns(UserWarning, match="without a CUDA graph.*no graph today"):
        found, _ = followed(made(models["bert"], pairs, QUEUE, failing))
    assert found == expected


def compiling(sizes):
    """Graphs of compiled blocks that are not captured; the size of each is noted."""

    def capture(blocks, sample):
        sizes.append(len(sample[0]))
        return blocks

    return lambda aligner: graphs_of(aligner, rows=BATCH, longest=LONGEST, compiled=True, capture=capture)


def test_compiled_blocks_change_nothing_and_are_compiled_once_for_all_sizes(models, pairs, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "SIZE", 32)
    monkeypatch.setattr(cuda_graphs, "COMPILER", "aot_eager")  # traces as the default does, and needs no C++
    expected, gradients = followed(made(models["modernbert"], pairs, QUEUE, nothing))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    sizes = []
    found, same = followed(made(models["modernbert"], pairs, QUEUE, compiling(sizes)))
    pieces = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert found == pytest.approx(expected, rel=1e-5)
    for step in range(STEPS):
        for name, one in gradients[step].items():
            torch.testing.assert_close(same[step][name], one, rtol=1e-3, atol=2e-5, msg=f"{step} {name}")
    # A block has three or four pieces around attention; the first one, others, and those without gradients differ.
    assert len(set(sizes)) > 3 and 0 < pieces <= 12, (pieces, sizes)


def test_what_cannot_be_compiled_is_captured_all_the_same(models, pairs, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "COMPILER", "no such compiler")
    expected, _ = followed(made(models["bert"], pairs, QUEUE, nothing))
    with pytest.warns(UserWarning, match="not compiled.*no such compiler"):
        found, _ = followed(made(models["bert"], pairs, QUEUE, compiling([])))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
@pytest.mark.parametrize("how", [QUEUE, IN_BATCH], ids=["queue", "in-batch"])
@pytest.mark.parametrize("compiled", [False, True], ids=["as they are", "compiled"])
def test_an_alignment_has_the_losses_and_gradients_it_has_without_graphs(tmp_path, pairs, how, compiled, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # hidden, it would switch autocast off
    has_triton.cache_clear()  # asked in an earlier test, where it was hidden
    # The kernel takes heads that are 8 wide and more, and in some versions of torch no windows.
    kernel = {"num_attention_heads": 2, "layer_types": ["full_attention"] * 3}
    model = write_model(tmp_path / "model", family="modernbert", depth=3, **kernel)
    there = {"device": "cuda", "half": True}
    expected, gradients = followed(made(model, pairs, how, nothing, **there))
    kept = {}

    def graphs(aligner):
        kept.update(graphs_of(aligner, rows=BATCH, longest=LONGEST, compiled=compiled))
        return kept

    found, same = followed(made(model, pairs, how, graphs, **there))
    assert kept.keys() == {"tlm", "query", "key"}
    assert all(graph is not None for one in kept.values() for graph in one._graphs.values())
    assert all(one._graphs and one._compiled == compiled for one in kept.values())
    assert found == pytest.approx(expected, rel=0.02)
    for step in range(STEPS):
        one, other = (torch.cat([some[step][name].flatten() for name in gradients[step]]) for some in (same, gradients))
        assert torch.cosine_similarity(one, other, dim=0) > 0.99, step
