"""Alignment: the training of `isogloss align` beside sentence-transformers' with in-batch negatives, in one run.

Both begin from the same weights and see pairs of the same text, with the same batch, AdamW, rate, clipping and
precision (bfloat16 on a GPU, float32 on a CPU). What counts is pairs a second. The lines:

- isogloss, queue and TLM: the paper's way and the command's default. It does more for a pair than the others: besides
  the pass of the query, the translation goes through a second encoder that follows by momentum, the query is held
  against a queue of keys, and both sentences once more through the model in one masked sequence, with the vocabulary.
- isogloss, in-batch: like for like. No TLM, no queue, no projection; a sentence is the mean of its tokens, and the
  temperature is that of sentence-transformers.
- sentence-transformers: `MultipleNegativesRankingLoss` with `SentenceTransformerTrainer`. That class refuses to start
  where `datasets` is not installed; there, transformers' own Trainer runs the same model, collator and loss, and the
  line is called so. It tokenises in the collator, which is on the clock as it is for its users; a second line has
  workers that do it in other processes, so that it does not wait for the tokenizer.

isogloss packs pairs into token ids once, before it trains: that is not on the clock, and its seconds are printed.
Loading and the first steps are not timed either. On a GPU isogloss captures CUDA graphs as sizes of batches occur: it
goes over its batches twice, the second time is timed, and the seconds of both are printed. Everyone takes its turn in
each round, and the fastest counts; no round begins after `--seconds`, so that there is a table in any case. `loss` is
the mean contrastive loss of a pair over all steps; the in-batch lines should agree within a few tenths, since the
order of pairs differs, isogloss takes both directions, and sentence-transformers has special tokens in the mean. On a
CPU the time is the processor's, and there are no workers.

    python -m benchmarks.alignment [--device cuda] [--model FOLDER] [--pairs en-nl=FILE.tsv] [--out rows.json]
    python -m benchmarks.alignment --device cpu
"""

import gc
import importlib
import importlib.util
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
import transformers
from benchmarks.commandline import make_parser, read
from transformers.trainer_callback import PrinterCallback

from isogloss.errors import InputError
from isogloss.stack.load import load_language_model, locate
from isogloss.text.masking import masking_of
from isogloss.text.readers.parallel import find_pairs
from isogloss.text.streams import borders_of, pack_pairs
from isogloss.training.alignment import Aligner, Alignment, align_pairs
from isogloss.training.loop import Optimisation, Processes, Settings, Training

SIZES = {  # on a GPU, on a CPU
    "batch": (128, 8), "steps": (60, 4), "warm_up": (10, 1), "rounds": (2, 2), "workers": (8, 0),
    "queue": (65_536, 1_024), "seconds": (60, 600),
}  # fmt: skip
RATE, BETAS, EPSILON, WEIGHT_DECAY, CLIP = 5e-5, (0.9, 0.98), 1e-6, 0.01, 1.0
SCALE = 20.0  # of similarities in MultipleNegativesRankingLoss; one over the temperature
SHORTEST, LONGEST = 10, 38  # words of a made-up sentence; two special tokens come to them
PIECES = 2_000  # that made-up sentences are of


@dataclass(frozen=True)
class Line:
    """One line of the table: the fastest of its rounds; memory: the most of a GPU's, in GB; loss: of a pair."""

    name: str
    pairs_per_second: float
    memory: float
    loss: float


class Clock:
    """Seconds from the end of one update to the end of another; on a CPU the processor's."""

    def __init__(self, given):
        self.device, self.ends = given.device, {given.warm_up: 0.0, given.warm_up + given.steps: 0.0}
        self.pairs = given.steps * given.batch

    def tick(self, step):
        """An update is done."""
        if step in self.ends:
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            self.ends[step] = time.process_time() if self.device.type == "cpu" else time.perf_counter()

    def line(self, name, loss):
        """What the clock says, as a line of the table."""
        begin, end = self.ends.values()
        memory = torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else 0.0
        return Line(name, self.pairs / (end - begin), memory, loss)


class Listener(transformers.TrainerCallback):
    """Tells the clock of a Trainer's updates."""

    def __init__(self, clock):
        self.clock = clock

    def on_step_end(self, args, state, control, **more):
        """An update is done."""
        self.clock.tick(state.global_step)


class PlainTrainer(transformers.Trainer):
    """A Trainer that asks a loss of sentence-transformers for the batches of its collator."""

    def __init__(self, *, loss, **more):
        super().__init__(**more)
        self.loss, self.model_accepts_loss_kwargs = loss, False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The loss of a batch, whose keys begin with the name of a column."""
        sides = [
            {key.removeprefix(f"{side}_"): value for key, value in inputs.items() if key.startswith(f"{side}_")}
            for side in ("anchor", "positive")
        ]
        found = self.loss(sides, None)
        return (found, {}) if return_outputs else found


def make_pairs(count, tokenizer, seed):
    """Made-up pairs of 12 to 40 tokens a side, special ones included; the second side is the first, word for word.

    Words are pieces of the tokenizer that it gives back whole. Each has one translation, so that pairs can be learned.
    """
    generator = np.random.default_rng(seed)
    words = []
    for number in generator.permutation(len(tokenizer)).tolist():
        text = tokenizer.decode([number]).strip()
        if text.isalnum() and tokenizer(f"{text} {text}", add_special_tokens=False)["input_ids"] == [number] * 2:
            words.append(text)
        if len(words) == PIECES:
            break
    if len(words) < 2:
        raise InputError("the tokenizer has no pieces that are whole words to make pairs of; give --pairs")
    lengths = np.clip(generator.lognormal(3.0, 0.4, count).round().astype(int), SHORTEST, LONGEST)
    numbers = [generator.integers(0, len(words), length) for length in lengths]
    beyond = (len(words) + 1) // 2
    return [
        (" ".join(words[one] for one in some), " ".join(words[(one + beyond) % len(words)] for one in some))
        for some in numbers
    ]


def read_pairs(given, tokenizer):
    """The pairs of `--pairs`, or made-up ones; as many as nobody reads twice, where there are so many."""
    count = (given.warm_up + given.steps) * given.batch
    if given.pairs is None:
        return make_pairs(count, tokenizer, 0)
    every = chain.from_iterable(one.open() for one in find_pairs(given.pairs, option="pairs"))
    found = list(islice(((one, other) for one, other in every if one.strip() and other.strip()), count))
    if len(found) < given.batch:
        raise InputError(f"--pairs {given.pairs}: {len(found):,} pairs do not fill a batch of {given.batch}")
    return found


def ours(given, stream, *, name, **how):
    """The training of `isogloss align`, put together as the command does."""
    stack = load_language_model(given.model, dtype="float32", device=given.device)
    aligner = Aligner(stack, Alignment(layer=stack.cuts[-1], **how), seed=0)
    objective = align_pairs(
        aligner, {"en-nl": stream}, borders=borders_of(stack.tokenizer), batch=given.batch, longest=stack.max_length,
        seed=0, device=given.device, compiled=given.compiled, masking=masking_of(stack.tokenizer),
    )  # fmt: skip
    optimisation = Optimisation(RATE, 0, "constant", WEIGHT_DECAY, CLIP, BETAS, EPSILON)
    settings = Settings(given.warm_up + given.steps, 0, optimisation, dtype=given.dtype)
    training, clock = Training(aligner, objective, settings, Processes(0, 1, given.device)), Clock(given)
    aligner.train()
    taken, losses = [], []
    for _ in range(2 if given.device.type == "cuda" else 1):
        begin, training.step = time.perf_counter(), 0
        for step in range(1, settings.steps + 1):
            training.update()
            clock.tick(step)
        nats, count = aligner.sums[2:].tolist()
        losses.append(nats / count)
        taken.append(f"{time.perf_counter() - begin:.1f} s")
    print(f"{name}, all steps: {', then '.join(taken)}", flush=True)
    return clock.line(name, losses[0])


def theirs(given, pairs, folder, *, workers):
    """The training of sentence-transformers, with its own model, collator, loss and, where it can be, Trainer."""
    import sentence_transformers as other

    # Its tokenizer may use all cores, unless it runs in workers, which are as many already.
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if workers else "true"
    model = other.SentenceTransformer(
        str(locate(given.model)), device=str(given.device), model_kwargs={"dtype": torch.float32}
    )
    clock = Clock(given)
    arguments = other.SentenceTransformerTrainingArguments(
        output_dir=str(folder), max_steps=given.warm_up + given.steps, per_device_train_batch_size=given.batch,
        learning_rate=RATE, lr_scheduler_type="constant", weight_decay=WEIGHT_DECAY, adam_beta1=BETAS[0],
        adam_beta2=BETAS[1], adam_epsilon=EPSILON, max_grad_norm=CLIP, optim="adamw_torch_fused",
        bf16=given.dtype is not None, use_cpu=given.device.type == "cpu", dataloader_num_workers=workers,
        dataloader_drop_last=True, dataloader_persistent_workers=workers > 0, remove_unused_columns=False,
        save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, seed=0,
    )  # fmt: skip
    known = {
        "model": model, "args": arguments, "loss": module_of("losses").MultipleNegativesRankingLoss(model, scale=SCALE),
        "callbacks": [Listener(clock)],
    }  # fmt: skip
    if whole_library():
        from datasets import Dataset

        columns = dict(zip(("anchor", "positive"), map(list, zip(*pairs, strict=True)), strict=True))
        trainer = other.SentenceTransformerTrainer(train_dataset=Dataset.from_dict(columns), **known)
    else:
        rows = [{"anchor": one, "positive": another} for one, another in pairs]
        read = model.preprocess if hasattr(model, "preprocess") else model.tokenize
        collator = module_of("data_collator").SentenceTransformerDataCollator(read)
        trainer = PlainTrainer(train_dataset=rows, data_collator=collator, **known)
    trainer.remove_callback(PrinterCallback)
    loss = trainer.train().training_loss
    name = "sentence-transformers" + ("" if whole_library() else " with a plain Trainer")
    return clock.line(name + (f", {workers} workers" if workers else ""), loss)


def module_of(name):
    """A module of sentence-transformers, which moved between its versions."""
    try:
        return importlib.import_module(f"sentence_transformers.sentence_transformer.{name}")
    except ModuleNotFoundError:
        return importlib.import_module(f"sentence_transformers.{name}")


def whole_library():
    """Whether `SentenceTransformerTrainer` can start."""
    return importlib.util.find_spec("datasets") is not None


def fastest(runs, given):
    """Everyone in turn, as often as asked for: of each the fastest round, with the most memory of any."""
    found, device, begin = {}, given.device, time.perf_counter()
    for number in range(given.rounds):
        if number and time.perf_counter() - begin > given.seconds:
            print(f"{number} rounds took {given.seconds} s and more", flush=True)
            break
        for run in runs:
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            line = run()
            print(f"round {number + 1}, {line.name}: {line.pairs_per_second:,.1f} pairs/s", flush=True)
            best = max(line, found.get(line.name, line), key=lambda one: one.pairs_per_second)
            found[line.name] = replace(best, memory=max(line.memory, found.get(line.name, line).memory))
    return list(found.values())


def read_arguments():
    """The command line; sizes not given are small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--model", default="mini", help="an encoder with a masked-LM head: mini, or a folder")
    parser.add_argument("--pairs", help="pairs to train on, as `isogloss align --train` takes them; default: made up")
    parser.add_argument("--compiled", action="store_true", help="compile the blocks of isogloss' lines, on a GPU")
    given = read(parser, SIZES)
    if min(given.steps, given.warm_up, given.rounds) < 1 or given.batch < 2 or given.queue % given.batch:
        parser.error("sizes must be at least 1, --batch at least 2, and --queue a multiple of --batch")
    if given.workers < 0 or (given.workers and given.device.type == "cpu"):
        parser.error("--workers are for a GPU: on a CPU the time is the processor's, and theirs would not count")
    return given


def compare(given, folder):
    """What was compared, and the lines of the table."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(locate(given.model))
    pairs = read_pairs(given, tokenizer)
    longest = load_language_model(given.model, device="cpu").max_length
    begin = time.perf_counter()
    stream = pack_pairs(tokenizer, pairs, folder / "pairs.npy", languages=("en", "nl"), longest=longest)
    packing = time.perf_counter() - begin
    facts = {
        "model": str(given.model),
        "training": f"{len(pairs):,} pairs, batch {given.batch}, {given.steps} timed steps, {given.rounds} rounds",
        "tokens": f"{len(stream.ids) / 2 / len(stream):.1f} tokens a side",
        "precision": "bfloat16" if given.dtype else "float32",
        "device": torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU",
    }
    print("; ".join(facts.values()) + f"; packed in {packing:.2f} s\n", flush=True)
    alike = {"tlm": 0.0, "negatives": "batch", "projection": "none", "pooling": "mean", "shuffle": False}
    runs = [
        partial(ours, given, stream, name="isogloss, queue and TLM", queue=given.queue),
        partial(ours, given, stream, name="isogloss, in-batch", temperature=1 / SCALE, **alike),
        *(partial(theirs, given, pairs, folder, workers=some) for some in dict.fromkeys((0, given.workers))),
    ]
    return {**facts, "packing": packing}, fastest(runs, given)


def main():
    """Print a Markdown table, and write its numbers where asked to."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # Trainer would spread over all there are
    transformers.logging.set_verbosity_error()
    if importlib.util.find_spec("sentence_transformers") is None:
        raise SystemExit("sentence-transformers is not installed; it is what isogloss is compared to")
    given = read_arguments()
    try:
        with tempfile.TemporaryDirectory() as folder:
            facts, lines = compare(given, Path(folder))
    except InputError as error:
        raise SystemExit(str(error)) from error
    best = max(one.pairs_per_second for one in lines if one.name.startswith("sentence-transformers"))
    print("\n| | pairs/s | times the faster sentence-transformers | peak GPU memory, GB | loss |")
    print("|---|---:|---:|---:|---:|")
    for one in lines:
        times = one.pairs_per_second / best
        print(f"| {one.name} | {one.pairs_per_second:,.1f} | {times:.2f} | {one.memory:.1f} | {one.loss:.3f} |")
    if given.out:
        rows = [asdict(one) | {"times": one.pairs_per_second / best} for one in lines]
        given.out.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
