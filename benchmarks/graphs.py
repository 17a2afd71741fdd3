"""CUDA graphs: updates a second of fine-tuning and of alignment with whole updates captured, and without, in turn.

The embedded model, all of it trained: with a head for NLI on made-up pairs of XNLI's lengths, and aligned with made-up
pairs of 12 to 40 tokens a side, by queue and TLM as the command does, or by in-batch negatives alone. Both sides begin
from the same weights and see the same batches in the same order, with AdamW in bfloat16. The first round captures and
is not timed; its mean losses are printed, which agree but for rounding. Then both take their turn over the same batches
again, and of each the fastest round counts. With --compiled the blocks of an alignment are compiled before they are
captured, with --profile the kernels are shown that updates with graphs spend their time in. Needs a GPU; on a CPU
nothing is captured, and small batches run once, to see that it works.

    python -m benchmarks.graphs [--device cuda] [--model FOLDER] [--out rows.json]
    python -m benchmarks.graphs --tasks --pairs 384 --compiled
    python -m benchmarks.graphs --device cpu
"""

import gc
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
import transformers
from benchmarks.alignment import BETAS, CLIP, EPSILON, RATE, SCALE, WEIGHT_DECAY, make_pairs
from benchmarks.commandline import make_parser, read
from benchmarks.pretraining import print_profile
from benchmarks.transfer import LABELS, make_examples

from isogloss.stack.load import load, load_language_model, locate
from isogloss.tasks import TASKS
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.tasks.task import Item, join_items
from isogloss.text.masking import masking_of
from isogloss.text.streams import borders_of, pack_pairs
from isogloss.training.alignment import Aligner, Alignment, align_pairs
from isogloss.training.loop import Optimisation, Processes, Settings, Training

SIZES = {  # on a GPU, on a CPU
    "steps": (12, 2), "rounds": (2, 1), "queue": (49_152, 48), "tasks": ((8, 32), (2,)), "pairs": ((128, 384), (4,)),
}  # fmt: skip
LONGEST = 128  # tokens of a pair at most
IN_BATCH = {"tlm": 0.0, "negatives": "batch", "projection": "none", "pooling": "mean", "temperature": 1 / SCALE}


@dataclass(frozen=True)
class Line:
    """One line of the table: updates a second and mean losses, without graphs and with; memory with them, in GB."""

    name: str
    batch: int
    without: float
    captured: float | None
    loss_without: float
    loss_captured: float | None
    memory: float


def tuning(given, batch, *, graphs):
    """A model with a head, in training on `steps` batches of its own."""
    stack = load(given.model, dtype="float32", device=given.device)
    ids, labels = make_examples(batch * given.steps, stack.model.config.vocab_size, 0)
    items = join_items(
        [Item(one, [0], [[label]], [[0]], 1, n) for n, (one, label) in enumerate(zip(ids, labels, strict=True))]
    )
    stack = replace(stack, pack=None if given.dtype is None else True)
    model = TaskModel(stack, TASKS["nli"], LABELS, seed=0)
    return in_training(given, model, task_objective(model, items, batch=batch, seed=0), graphs=graphs)


def aligning(given, batch, stream, *, graphs, **how):
    """A model that is being aligned, as the command does it."""
    stack = load_language_model(given.model, dtype="float32", device=given.device)
    aligner = Aligner(stack, Alignment(layer=stack.cuts[-1], **how), seed=0)
    objective = align_pairs(
        aligner, {"en-nl": stream}, borders=borders_of(stack.tokenizer), batch=batch,
        longest=min(LONGEST, stack.max_length), seed=0, device=given.device, compiled=given.compiled,
        masking=masking_of(stack.tokenizer),
    )  # fmt: skip
    return in_training(given, aligner, objective, graphs=graphs)


def in_training(given, model, objective, *, graphs):
    """The training that both kinds share; graphs: whether its updates are captured."""
    optimisation = Optimisation(RATE, 0, "constant", WEIGHT_DECAY, CLIP, BETAS, EPSILON)
    model.train()
    objective = objective if graphs else replace(objective, captured=False)
    return Training(model, objective, Settings(given.steps, 0, optimisation, dtype=given.dtype), _alone(given))


def _alone(given):
    return Processes(0, 1, given.device)


def a_round(given, training):
    """Seconds of an update, over the first batches; on a CPU the processor's."""
    clock = time.process_time if given.device.type == "cpu" else time.perf_counter
    wait = torch.cuda.synchronize if given.device.type == "cuda" else lambda: None
    training.step = 0
    wait()
    begin = clock()
    for _ in range(given.steps):
        training.update()
    wait()
    return (clock() - begin) / given.steps


def compare(given, name, batch, make):
    """Both sides of one line; make(graphs): a training."""
    gc.collect()
    if given.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    sides = {graphs: make(graphs=graphs) for graphs in ((False, True) if given.device.type == "cuda" else (False,))}
    losses, memory = {}, 0.0
    for graphs, training in sides.items():
        print(f"{name}, first round: {given.steps * a_round(given, training):.1f} s", file=sys.stderr, flush=True)
        total, count = training.losses()
        losses[graphs] = total / count
        if given.device.type == "cuda":
            memory = torch.cuda.max_memory_reserved() / 1e9
    seconds = {graphs: [] for graphs in sides}
    for _ in range(given.rounds):
        for graphs, training in sides.items():
            seconds[graphs].append(a_round(given, training))
    if given.profile:
        training.step = 0
        print_profile(training)  # the last side's
    speeds = {graphs: 1 / min(some) for graphs, some in seconds.items()}
    line = Line(name, batch, speeds[False], speeds.get(True), losses[False], losses.get(True), memory)
    print(row_of(line), flush=True)
    return line


def row_of(line):
    """A line as a row of a Markdown table."""
    speed, loss = (
        [f"{one:,.{digits}f}" if one is not None else "" for one in some]
        for some, digits in (((line.without, line.captured), 1), ((line.loss_without, line.loss_captured), 4))
    )
    times = "" if line.captured is None else f"{line.captured / line.without:.2f}"
    return f"| {line.name}, batch {line.batch} | {' | '.join([*speed, times, *loss])} | {line.memory:.1f} |"


def read_arguments():
    """The command line; sizes not given are small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--model", default="mini", help="an encoder with a masked-LM head: mini, or a folder")
    parser.add_argument("--compiled", action="store_true", help="compile the blocks of an alignment")
    parser.add_argument("--profile", action="store_true", help="show the kernels of a few updates")
    parser.add_argument("--tasks", type=int, nargs="*", help="batches of fine-tuning")
    parser.add_argument("--pairs", type=int, nargs="*", help="batches of alignment")
    given = read(parser, SIZES)
    if min(given.steps, given.rounds, *given.tasks, *given.pairs) < 1 or any(given.queue % one for one in given.pairs):
        parser.error("sizes must be at least 1, and --queue a multiple of every batch of --pairs")
    return given


def main():
    """Print a Markdown table, and write its numbers where asked to."""
    transformers.logging.set_verbosity_error()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    given = read_arguments()
    device = torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU"
    facts = {
        "model": str(given.model), "device": device, "precision": "bfloat16" if given.dtype else "float32",
        "training": f"{given.steps} updates a round, {given.rounds} rounds", "torch": torch.__version__,
    }  # fmt: skip
    print("; ".join(facts.values()), flush=True)
    head = "| updates/s | without graphs | with graphs | times | loss without | loss with | GPU memory reserved, GB |"
    print(f"\n{head}\n|---|---:|---:|---:|---:|---:|---:|")
    lines = [compare(given, "fine-tuning", batch, partial(tuning, given, batch)) for batch in given.tasks]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = transformers.AutoTokenizer.from_pretrained(locate(given.model))
        pairs = make_pairs(given.steps * max(given.pairs, default=1), tokenizer, 0)
        stream = pack_pairs(tokenizer, pairs, Path(folder) / "pairs.npy", languages=("en", "nl"), longest=LONGEST)
        for name, how in (("queue and TLM", {"queue": given.queue}), ("in-batch", IN_BATCH)):
            lines += [
                compare(given, f"alignment, {name}", batch, partial(aligning, given, batch, stream, **how))
                for batch in given.pairs
            ]
    if given.out:
        given.out.write_text(json.dumps(facts | {"rows": [asdict(one) for one in lines]}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
