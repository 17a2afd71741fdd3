"""Fine-tuning with frozen layers: a Trainer with the same layers frozen, and isogloss with their states kept, in turn.

The embedded model, or with `--model mbert` a random one in the shape of multilingual BERT, with a classification head,
embeddings and the lower blocks frozen (`--frozen -1`: nothing), on made-up pairs of the lengths that XNLI has; the same
batches' size, rate and precision on both sides. Trainer pads to the longest of a batch, as its collator does by
default. isogloss runs the frozen part once, before the first epoch, and then only what is above; what counts is
examples a second from the second epoch on, and beside it over all epochs with that first pass. Both sides run in turn,
and of each the fastest round counts. On a CPU the time is the processor's.

    python -m benchmarks.transfer [--device cuda] [--frozen 8] [--examples 8192]
    python -m benchmarks.transfer --model mbert --frozen -1 8 --rounds 1 [--examples 4096]
    python -m benchmarks.transfer --device cpu
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from benchmarks.start import write_model
from transformers.trainer_callback import PrinterCallback

from isogloss.stack.load import load, locate
from isogloss.tasks import TASKS
from isogloss.tasks.frozen_prefix import read_prefix
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.tasks.task import Item, join_items
from isogloss.training.loop import Optimisation, Processes, Settings, Training, steps_in_epoch
from isogloss.training.plans import apply_plan, parse_plan

SIZES = {  # on a GPU, on a CPU; the first three of `--model mbert`
    "depth": (12, 2), "width": (768, 64), "vocabulary": (119_547, 2_000), "examples": (8_192, 256), "rounds": (3, 2),
}  # fmt: skip
EPOCHS = 3
RATE = 5e-5
LABELS = ("entailment", "neutral", "contradiction")


def make_examples(count, vocabulary, seed):
    """Ids of made-up pairs whose lengths are spread as those of XNLI are: a mean near 40 tokens, a long tail."""
    generator = np.random.default_rng(seed)
    lengths = np.clip(generator.lognormal(3.6, 0.45, count).round().astype(int), 8, 128)
    return [generator.integers(10, vocabulary, length).tolist() for length in lengths], generator.integers(0, 3, count)


def clock_of(device):
    """The clock, and what waits until the device is done."""
    if device.type == "cpu":
        return time.process_time, lambda: None
    return time.perf_counter, torch.cuda.synchronize


def ours(given, frozen, ids, labels):
    """Examples a second from the second epoch on, and over all epochs, with the frozen part's one pass."""
    clock, wait = clock_of(given.device)
    stack = load(given.model, dtype="float32", device=given.device)
    items = join_items(
        [Item(one, [0], [[label]], [[0]], 1, n) for n, (one, label) in enumerate(zip(ids, labels, strict=True))]
    )
    stack = replace(stack, pack=None if given.dtype is None else True)
    model = TaskModel(stack, TASKS["nli"], LABELS, seed=0)
    apply_plan(stack, parse_plan(f"freeze:{frozen}"), epoch=1, seed=0)(0)
    model.hold(frozen)
    wait()
    begin = clock()
    prefix = read_prefix(model.eval_stack, items, frozen, dtype=given.dtype) if frozen > 0 else None
    objective = task_objective(model, items, batch=given.batch, seed=0, prefix=prefix)
    epoch = steps_in_epoch(items, given.batch)
    settings = Settings(EPOCHS * epoch, 0, Optimisation(RATE), dtype=given.dtype)
    training = Training(model, objective, settings, Processes(0, 1, given.device))
    model.train()
    ends = []
    for _ in range(EPOCHS):
        for _ in range(epoch):
            training.update()
        wait()
        ends.append(clock())
    return (EPOCHS - 1) * len(items) / (ends[-1] - ends[0]), EPOCHS * len(items) / (ends[-1] - begin)


def theirs(given, frozen, ids, labels, folder):
    """Examples a second of a Trainer with the same layers frozen, over the same epochs."""
    clock, wait = clock_of(given.device)
    source = locate(given.model)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=3, dtype=torch.float32)
    stack = load(given.model, dtype="float32", device="cpu")
    still = [f"{stack.family.blocks}.{number}." for number in range(frozen)]
    still += [f"{one}." for one in stack.family.embeddings] if frozen >= 0 else []
    for name, weight in model.base_model.named_parameters():
        weight.requires_grad_(not name.startswith(tuple(still)))
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=given.batch, learning_rate=RATE,
        bf16=given.dtype is not None, use_cpu=given.device.type == "cpu", report_to="none", disable_tqdm=True, seed=0,
        save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    rows = [{"input_ids": one, "labels": int(label)} for one, label in zip(ids, labels, strict=True)]
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows,
        data_collator=transformers.DataCollatorWithPadding(stack.tokenizer),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    wait()
    begin = clock()
    trainer.train()
    wait()
    return EPOCHS * len(ids) / (clock() - begin)


def read_arguments():
    """The command line; sizes not given are small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--frozen", type=int, nargs="+", default=[8])
    parser.add_argument("--batch", type=int, default=32)
    return read(parser, SIZES)


def compare(given, frozen, folder):
    """Both sides in turn, with so many blocks frozen: a line of the table, as numbers by name."""
    vocabulary = transformers.AutoConfig.from_pretrained(locate(given.model)).vocab_size
    ids, labels = make_examples(given.examples, vocabulary, 0)
    later, whole, trainer = [], [], []
    theirs(given, frozen, ids[: given.batch], labels[: given.batch], folder)  # to warm up
    ours(given, frozen, ids[: given.batch], labels[: given.batch])
    for _ in range(given.rounds):
        trainer.append(theirs(given, frozen, ids, labels, folder))
        one, other = ours(given, frozen, ids, labels)
        later.append(one), whole.append(other)
        print(f"freeze:{frozen}: Trainer {trainer[-1]:,.1f}, isogloss {one:,.1f} ({other:,.1f} in all)", flush=True)
    times = max(later) / max(trainer)
    return {"frozen": frozen, "trainer": max(trainer), "later": max(later), "whole": max(whole), "times": times}


def main():
    """Print examples a second on both sides."""
    quiet_on_one_gpu()
    given = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        name = given.model
        if name == "mbert":
            given.model = Path(folder) / "model"
            write_model(given, given.model)
        lines = [compare(given, frozen, folder) for frozen in given.frozen]
    facts = {
        "model": f"{name} {given.depth}x{given.width}" if name == "mbert" else name,
        "training": f"{given.examples:,} examples, batch {given.batch}, {EPOCHS} epochs",
        "precision": "bfloat16" if given.dtype else "float32",
        "device": torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU",
    }
    print(f"\n{'; '.join(facts.values())}")
    print("\n| examples a second | Trainer | isogloss, from epoch 2 | with the first pass | times |")
    print("|---|---:|---:|---:|---:|")
    for line in lines:
        speeds = " | ".join(f"{line[side]:,.1f}" for side in ("trainer", "later", "whole"))
        print(f"| freeze:{line['frozen']} | {speeds} | {line['times']:.2f} |")
    if given.out:
        given.out.write_text(json.dumps(facts | {"lines": lines}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
