"""Masked-LM fine-tuning with dropout: the loop of `isogloss drift` beside transformers' Trainer.

Same model (BERT in the shape of multilingual BERT: 12 layers, 768 wide, 119,547 pieces; random weights), dropout 0.1,
embeddings frozen, as the plan `last:12` has it, made-up sentences of 27 tokens on average (`benchmarks.evaluation`),
float32 weights and bfloat16 autocast on a GPU. Nothing is read meanwhile. Speed is the difference of two whole runs,
such as of 3,000 and 1,000 updates, so that what a run begins with (captured graphs, a compiler) is left out; `start` is
the time of the shorter run beyond its updates at that speed. A few updates before both are not timed. In a longer run
further shapes of batches may be captured, so the difference of short runs counts captures, too. Trainer runs as people
run it (masks drawn by its collator, padded to the longest of a batch, the head on every token) and, as `best`,
with a fused optimiser, four workers and torch_compile. With --ways the loop of isogloss alone, in the ways that an
update could be run: kernel by kernel, as a captured graph, compiled and then captured, and by torch.compile's own
graphs. Sentences are of one length there and a way trains one model throughout, so that it compiles one shape once.
Needs a GPU; on a CPU it runs at a tiny size, to see that it works.

    python -m benchmarks.tuning [--device cuda] [--batches 8 64] [--updates 3000] [--fewer 1000] [--only ours trainer]
    python -m benchmarks.tuning --only best --updates 300 --fewer 100
    python -m benchmarks.tuning --ways captured reduce-overhead --updates 300 --fewer 150
"""

import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
import transformers
from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from benchmarks.evaluation import make_model, make_text, wait
from benchmarks.pretraining import make_tokenizer, print_profile
from transformers.trainer_callback import PrinterCallback

from isogloss.recipes.drift import sentence_training
from isogloss.stack.load import wrap
from isogloss.training.language_modelling import token_loss
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, train

SIZES = {  # on a GPU, on a CPU
    "depth": (12, 2), "width": (768, 64), "vocabulary": (119_547, 2_000), "sentences": (20_000, 200),
    "updates": (3_000, 6), "fewer": (1_000, 3),
}  # fmt: skip
RATE = 5e-5
WARM_UP = 8  # updates of a run before the timed ones
WAYS = {  # name -> whether whole updates are captured, arguments of torch.compile for the loss
    "eager": (False, None), "captured": (True, None), "compiled": (True, {"dynamic": False}),
    "reduce-overhead": (False, {"mode": "reduce-overhead", "dynamic": False}),
    "max-autotune": (False, {"mode": "max-autotune", "dynamic": False}),
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line of the table: sentences a second, seconds before the first update, the loss of all updates, memory."""

    name: str
    batch: int
    sentences_per_second: float
    start: float
    loss: float
    memory: float


def frozen_model(given):
    """The model of both sides, in training, its embeddings frozen; the head stays tied to them."""
    model = make_model(given).train()
    model.base_model.embeddings.requires_grad_(False)
    return model


def run_ours(given, text, batch, updates, *, way=None, model=None):
    """So many updates of the loop of `isogloss drift`, or in one of the `WAYS`; returns their mean loss."""
    model = model or frozen_model(given)
    stack = wrap(model, make_tokenizer(given.vocabulary))
    settings = Settings(updates, 0, Optimisation(RATE, 0, "linear", 0.0, 1.0, *FINE_TUNING), updates, dtype=given.dtype)
    training = sentence_training(stack, text, settings, batch=batch, attend_padding=False)
    if way is not None:
        captured, options = way
        loss = token_loss if options is None else torch.compile(token_loss, **options)
        objective = replace(training.objective, captured=captured, loss=lambda rows, name: loss(model, rows))
        training = Training(model, objective, settings, training.processes)
    loss = [reading["value"] for readings in train(training) for reading in readings][-1]
    if given.profile and updates > WARM_UP:  # after both timed runs, whose difference is without it
        print_profile(training)
    return loss


def run_trainer(given, text, batch, updates, *, folder, best=False):
    """So many updates of a Trainer; returns their mean loss."""
    ends = text.lengths.cumsum()
    rows = [{"input_ids": text.ids[end - n : end].tolist()} for end, n in zip(ends, text.lengths, strict=True)]
    settings = {"optim": "adamw_torch_fused", "dataloader_num_workers": 4, "torch_compile": True} if best else {}
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=updates, per_device_train_batch_size=batch, learning_rate=RATE,
        bf16=given.dtype is not None, use_cpu=given.device.type == "cpu", report_to="none", disable_tqdm=True, seed=0,
        save_strategy="no", logging_strategy="no", **settings,
    )  # fmt: skip
    collator = transformers.DataCollatorForLanguageModeling(make_tokenizer(given.vocabulary))
    model = frozen_model(given)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    trainer.remove_callback(PrinterCallback)
    return trainer.train().training_loss


def measure(given, name, batch, run):
    """A line of the table: run(updates) twice, with fewer updates first."""
    seconds, loss = [], run(WARM_UP)
    for updates in (given.fewer, given.updates):
        if given.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        loss = run(updates)
        wait(given.device)
        seconds.append(time.perf_counter() - begin)
    each = (seconds[1] - seconds[0]) / (given.updates - given.fewer)
    memory = torch.cuda.max_memory_allocated() / 1e9 if given.device.type == "cuda" else 0.0
    line = Line(name, batch, batch / each, seconds[0] - given.fewer * each, loss, memory)
    print(f"{name}, batch {batch}: {line.sentences_per_second:,.0f} sentences/s, start {line.start:.1f} s", flush=True)
    return line


def main():
    """Measure both sides and print a Markdown table."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--only", choices=("ours", "trainer", "best"), nargs="+", default=["ours", "trainer"])
    parser.add_argument("--profile", action="store_true", help="also print the kernels of five updates after each run")
    parser.add_argument("--ways", choices=WAYS, nargs="+", help="instead: ours, as updates could be run")
    given = read(parser, SIZES)
    quiet_on_one_gpu()
    spread = {"spread": 0.0} if given.ways else {}
    text, lines = make_text("nl", given.sentences, given.vocabulary, 0, **spread), []
    with tempfile.TemporaryDirectory() as folder:
        trainer = partial(run_trainer, folder=folder)
        sides = {"ours": ("isogloss", run_ours), "trainer": ("Trainer", trainer)}
        sides["best"] = "Trainer, best settings", partial(trainer, best=True)
        for batch in given.batches:
            runs = [sides[side] for side in given.only]
            if given.ways:
                runs = [(way, partial(run_ours, way=WAYS[way], model=frozen_model(given))) for way in given.ways]
            lines += [measure(given, name, batch, partial(run, given, text, batch)) for name, run in runs]
    print("\n| | batch | sentences/s | isogloss over it | start, s | peak GPU memory, GB | loss |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for line in lines:
        ours = [one for one in lines if one.name in ("isogloss", "captured") and one.batch == line.batch]
        times = f"{ours[0].sentences_per_second / line.sentences_per_second:.1f}" if ours else ""
        numbers = f"{line.sentences_per_second:,.0f} | {times} | {line.start:.1f} | {line.memory:.1f} | {line.loss:.3f}"
        print(f"| {line.name} | {line.batch} | {numbers} |")
    if given.out:
        given.out.write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
