"""What the callbacks cost: a Trainer's training with them and without, in turn, in one run.

BERT with random weights (12 layers, 768 wide, 119,547 pieces on a GPU; small on a CPU) on made-up sentences of the
lengths that newspapers have, batches of 8, as fine-tuning studies train; `PerplexityCallback` on the language trained
on and six others at Trainer's own evaluations, `DriftCallback` to the start, both with their default sampling, and
`BalanceStopCallback`. Trainer evaluates on nothing else. The same training runs without and with them, again and again;
of each the fastest counts, since whatever else the machine does only adds. Readings before the first update are part
of the time, which on a CPU is the processor's. On a busy machine two trainings alike differ by more than the callbacks
take; `inside the callbacks` is the time of their own calls over that of the training they are part of.

    python -m benchmarks.callbacks [--device cuda] [--steps 1500] [--every 500]
    python -m benchmarks.callbacks --device cpu --steps 100 --every 50
"""

import argparse
import json
import tempfile
import time
from functools import partial

import numpy as np
import torch
import transformers
from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from benchmarks.evaluation import make_model, make_text, wait
from benchmarks.pretraining import make_tokenizer
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers.trainer_callback import PrinterCallback

from isogloss.integrations import BalanceStopCallback, DriftCallback, PerplexityCallback
from isogloss.text.corpora import Corpus

SIZES = {  # on a GPU, on a CPU
    "depth": (12, 4), "width": (768, 128), "vocabulary": (119_547, 2_000), "steps": (1_500, 500), "every": (500, 250),
    "rounds": (3, 1),
}  # fmt: skip
LANGUAGES = ("nl", "en", "de", "fr", "es", "ru", "zh")
HELD_OUT = 2_000  # sentences of each language, of which the callbacks take what they think right
AIM = 0.05


def sentences_of(text):
    """The sentences as words that the made-up tokenizer takes apart into the same ids."""
    pieces = np.split(text.ids, np.cumsum(text.lengths)[:-1])
    return [" ".join(f"word{one}" for one in piece[1:-1]) for piece in pieces]


def timed(callback, device, spent):
    """The callback, with the seconds of each of its own calls added to `spent`."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter

    def call(method, *args, **more):
        if method.__name__ != "on_step_end":  # which is called too often to wait each time
            wait(device)
        begin = clock()
        found = method(*args, **more)
        spent.append(clock() - begin)
        return found

    for name in ("on_init_end", "on_train_begin", "on_step_end", "on_evaluate"):
        if name in vars(type(callback)):
            setattr(callback, name, partial(call, getattr(callback, name)))
    return callback


def train(given, tokenizer, rows, corpora, *, watched, folder):
    """Seconds of a training, those inside the callbacks, and how many readings were taken."""
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=given.steps, per_device_train_batch_size=given.batch, learning_rate=5e-5,
        bf16=given.dtype is not None, use_cpu=given.device.type == "cpu", report_to="none", disable_tqdm=True, seed=0,
        save_strategy="no", logging_steps=given.every, eval_strategy="steps" if watched else "no",
        eval_steps=given.every, prediction_loss_only=True,
    )  # fmt: skip
    callbacks, spent = [], []
    if watched:
        perplexity = PerplexityCallback(tokenizer, corpora, target=LANGUAGES[0])
        callbacks = [perplexity, DriftCallback(tokenizer, corpora[LANGUAGES[0]])]
        callbacks.append(BalanceStopCallback(perplexity, patience=1_000))
    trainer = transformers.Trainer(
        model=make_model(given), args=arguments, train_dataset=rows, eval_dataset=rows[:1],
        callbacks=[timed(one, given.device, spent) for one in callbacks],
        data_collator=transformers.DataCollatorForLanguageModeling(tokenizer),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    clock = time.process_time if given.device.type == "cpu" else time.perf_counter
    wait(given.device)
    begin = clock()
    trainer.train()
    wait(given.device)
    seconds = clock() - begin
    return seconds, sum(spent), [len({one["step"] for one in callback.rows}) for callback in callbacks[:2]]


def read_arguments():
    """The command line; sizes not given are the benchmark's own on a GPU, and small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--batch", type=int, default=8)
    given = read(parser, SIZES)
    return given


def main():
    """Print both times and what part of the training the callbacks are."""
    quiet_on_one_gpu()
    given = read_arguments()
    tokenizer = make_tokenizer(given.vocabulary)
    tokenizer.backend_tokenizer.pre_tokenizer = WhitespaceSplit()
    text = make_text(LANGUAGES[0], given.steps * given.batch, given.vocabulary, seed=0)
    rows = [{"input_ids": one.tolist()} for one in np.split(text.ids, np.cumsum(text.lengths)[:-1])]
    corpora = {
        language: Corpus(language, sentences_of(make_text(language, HELD_OUT, given.vocabulary, seed)))
        for seed, language in enumerate(LANGUAGES, 1)
    }
    times, inside, read = {False: [], True: []}, [], []
    with tempfile.TemporaryDirectory() as folder:
        train(argparse.Namespace(**{**vars(given), "steps": 3}), tokenizer, rows, corpora, watched=False, folder=folder)
        for _ in range(given.rounds):
            for watched in times:
                seconds, spent, found = train(given, tokenizer, rows, corpora, watched=watched, folder=folder)
                times[watched].append(seconds)
                read, inside = found or read, [*inside, spent / seconds] if watched else inside
                print(f"{'with' if watched else 'without'} callbacks: {seconds:.2f} s", flush=True)
    plain, watched = min(times[False]), min(times[True])
    facts = {
        "model": f"BERT {given.depth}x{given.width}, {given.vocabulary:,} pieces",
        "training": f"{given.steps:,} updates of {given.batch} sentences, readings every {given.every:,}",
        "device": torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU",
        "without": plain,
        "with": watched,
        "cost": watched / plain - 1,
        "inside": min(inside),
        "readings": read,
    }
    print(f"\n{facts['model']}; {facts['training']}; {facts['device']}; torch {torch.__version__}")
    print("\n| without, s | with, s | cost of training time | inside the callbacks | readings of perplexity, drift |")
    print("|---:|---:|---:|---:|---:|")
    shares = f"{100 * facts['cost']:.1f}% | {100 * facts['inside']:.1f}%"
    print(f"| {plain:.2f} | {watched:.2f} | {shares} | {read[0]}, {read[1]} |")
    print(f"\nThe aim is under {100 * AIM:.0f}%.")
    if given.out:
        given.out.write_text(json.dumps(facts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
