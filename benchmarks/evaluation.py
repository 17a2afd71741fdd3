"""One evaluation pass of a masked LM over sentences: perplexity as `isogloss drift` takes it beside Trainer.evaluate.

Same model (BERT in the shape of multilingual BERT: 12 layers, 768 wide, 119,547 pieces; random weights, since speed
does not depend on them), same ids, same precision (float32 weights, bfloat16 autocast on a GPU). Two texts of 10,000
sentences, tokenised beforehand for both sides. What differs is what a user of either gets: isogloss draws the masks
once, keeps the batches on the GPU, runs sentences end to end without padding and asks the vocabulary head at masked
places only; Trainer collates and masks on the host (`DataCollatorForLanguageModeling`), pads to the longest of a batch
in file order, and runs the head on every token. It is told `prediction_loss_only`: else it would gather all scores.

Sentences are made up: lengths are lognormal, 27 tokens on average with the two special ones, half of them between 19
and 32, as in newspapers and Wikipedia; ids are independent draws, the k-th piece in proportion to 1/k. `loss` is nats
a predicted token: masks differ, so the lines should agree within a few hundredths. `prepared` is what isogloss needs
once before the first pass, to draw masks and lay out batches.

    python -m benchmarks.evaluation [--device cuda] [--rounds 5] [--profile] [--out rows.json]
    python -m benchmarks.evaluation --device cpu --depth 2 --width 64 --vocabulary 2000 --sentences 100
"""

import argparse
import json
import math
import statistics
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
import transformers
from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from benchmarks.pretraining import SPECIAL, make_tokenizer
from torch.profiler import ProfilerActivity, profile
from transformers.trainer_callback import PrinterCallback

from isogloss.text.batches import Sentences
from isogloss.text.masking import masking_of
from isogloss.training.perplexities import perplexity_probe

SIZES = {  # on a GPU, on a CPU
    "depth": (12, 2), "width": (768, 64), "vocabulary": (119_547, 2_000), "sentences": (10_000, 100), "rounds": (5, 2),
}  # fmt: skip
BATCHES = ((16, 256), (16, 64))
LANGUAGES = ("nl", "en")
LENGTH, SPREAD, LONGEST = 25.0, 0.45, 510  # tokens without the special ones: mean, sd of the logarithm, most
AIM = 20_000


@dataclass(frozen=True)
class Result:
    """One line of the table: seconds are of a pass, the median of `rounds`; prepared, once before the first."""

    name: str
    sentences_per_second: float
    seconds: float
    fastest: float
    loss: float
    memory: float
    rounds: int
    prepared: float = 0.0


def make_text(language, sentences, vocabulary, seed, spread=SPREAD):
    """Made-up sentences as ids, special tokens around each; spread: of their lengths."""
    draw = np.random.default_rng(seed)
    drawn = draw.lognormal(math.log(LENGTH) - spread**2 / 2, spread, sentences)
    lengths = drawn.round().clip(3, LONGEST).astype(np.int64) + 2
    ends = np.cumsum(1 / np.arange(1, vocabulary - len(SPECIAL) + 1))
    places = np.searchsorted(ends, draw.random(int(lengths.sum())) * ends[-1]).clip(max=len(ends) - 1)
    ids = (places + len(SPECIAL)).astype(np.int32)
    last = np.cumsum(lengths) - 1
    ids[last - lengths + 1], ids[last] = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    words = int(lengths.sum()) - 2 * sentences
    return Sentences(language, language, ids, lengths, words, 5 * words, 0)


def make_model(given):
    """BERT in this size, always with the same weights."""
    config = transformers.BertConfig(
        vocab_size=given.vocabulary, hidden_size=given.width, num_hidden_layers=given.depth,
        num_attention_heads=max(1, given.width // 64), intermediate_size=4 * given.width, pad_token_id=0,
        attn_implementation="sdpa",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return transformers.BertForMaskedLM(config).to(given.device).eval()


def timed(given, once, *, rounds, first=None):
    """Seconds of each pass after a first one that is not timed, and what the last one gave."""
    (first or once)()
    times = []
    for _ in range(rounds):
        wait(given.device)
        begin = time.perf_counter()
        found = once()
        wait(given.device)
        times.append(time.perf_counter() - begin)
    return times, found


def wait(device):
    """Until the device has done what it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def line(name, given, times, loss, **more):
    """A line of the table from the times of some passes over both texts."""
    middle, total = statistics.median(times), len(LANGUAGES) * given.sentences
    memory = torch.cuda.max_memory_allocated() / 1e9 if given.device.type == "cuda" else 0.0
    return Result(name, total / middle, middle, min(times), loss, memory, len(times), **more)


def run_ours(given, model, texts):
    """The probe of `isogloss drift`, taken again and again."""
    begin = time.perf_counter()
    probe = perplexity_probe(
        model, texts, target=LANGUAGES[0], every=1, seed=0, device=given.device, dtype=given.dtype,
        tokens=given.tokens, masking=masking_of(make_tokenizer(given.vocabulary)),
    )  # fmt: skip
    wait(given.device)
    prepared = time.perf_counter() - begin
    times, readings = timed(given, lambda: list(probe.take()), rounds=given.rounds)
    both = [one for one in readings if one["unit"] == "token" and one["target"] in LANGUAGES]
    loss = sum(math.log(one["value"]) * one["n"] for one in both) / sum(one["n"] for one in both)
    if given.profile:
        print_profile(given, probe)
    return line("isogloss", given, times, loss, prepared=prepared)


def run_trainer(given, model, texts, *, batch, folder):
    """Trainer.evaluate on both texts as one data set, as people call it."""
    rows = []
    for text in texts:
        pieces = np.split(text.ids, np.cumsum(text.lengths)[:-1])
        rows += [{"input_ids": piece.tolist(), "attention_mask": [1] * len(piece)} for piece in pieces]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), per_device_eval_batch_size=batch, bf16=given.dtype is not None,
        use_cpu=given.device.type == "cpu", report_to="none", disable_tqdm=True, prediction_loss_only=True, seed=0,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=model, args=arguments, eval_dataset=rows,
        data_collator=transformers.DataCollatorForLanguageModeling(make_tokenizer(given.vocabulary)),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    times, found = timed(
        given, trainer.evaluate, rounds=given.trainer_rounds, first=lambda: trainer.evaluate(rows[: 4 * batch])
    )
    return line(f"Trainer.evaluate, batch {batch}", given, times, found["eval_loss"])


def print_profile(given, probe):
    """The kernels of one more pass; on a CPU the operators."""
    cuda = given.device.type == "cuda"
    try:
        with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiler:
            list(probe.take())
            wait(given.device)
        averages, order = profiler.key_averages(), "self_device_time_total" if cuda else "self_cpu_time_total"
        print(averages.table(sort_by=order, row_limit=40, max_name_column_width=60))
        print(f"{sum(getattr(one, order) for one in averages) / 1000:.1f} ms of a pass in kernels\n")
    except Exception:  # a profiler that is not allowed to look must not cost the numbers
        traceback.print_exc()


def attempt(given, run, **more):
    """A result from a device with nothing else on it; None, with the traceback shown, if it failed."""
    if given.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        found = run(given, **more)
    except Exception:  # one that fails, for want of memory say, must not cost the others' numbers
        traceback.print_exc()
        return None
    print(f"{found.name}: {found.sentences_per_second:,.0f} sentences/s", flush=True)
    return found


def print_table(found):
    """A Markdown table; a ratio is isogloss's speed over that line's."""
    ours = max((one.sentences_per_second for one in found if one.prepared), default=float("nan"))
    print("\n| | sentences/s | s a pass | fastest | isogloss over it | prepared, s | peak GPU memory, GB | loss |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for one in found:
        print(
            f"| {one.name} | {one.sentences_per_second:,.0f} | {one.seconds:.3f} | {one.fastest:.3f} "
            f"| {ours / one.sentences_per_second:.1f} | {one.prepared:.2f} | {one.memory:.1f} | {one.loss:.3f} |",
            flush=True,
        )


def read_arguments():
    """The command line; sizes not given are the benchmark's own on a GPU, and small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--tokens", type=int, nargs="+", help="tokens of our batches, each tried; default: the probe's")
    parser.add_argument("--batches", type=int, nargs="*", help="batch sizes of Trainer; default: 16 256; none to skip")
    parser.add_argument("--trainer-rounds", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="also print where our time goes, by kernel")
    given = read(parser, SIZES)
    small = given.device.type == "cpu"
    given.batches = BATCHES[small] if given.batches is None else given.batches
    return given


def main():
    """Print a Markdown table, and write its numbers where asked to."""
    quiet_on_one_gpu()
    given = read_arguments()
    model = make_model(given)
    texts = [make_text(one, given.sentences, given.vocabulary, seed) for seed, one in enumerate(LANGUAGES)]
    lengths = np.concatenate([one.lengths for one in texts])
    low, middle, high = np.percentile(lengths, [25, 50, 75])
    facts = {
        "model": f"BERT {given.depth}x{given.width}, {given.vocabulary:,} pieces, "
        f"{sum(one.numel() for one in model.parameters()) / 1e6:.0f}M weights",
        "text": f"{len(LANGUAGES)} x {given.sentences:,} sentences, {lengths.mean():.1f} tokens "
        f"(quartiles {low:.0f}, {middle:.0f}, {high:.0f})",
        "precision": "float32 weights, bfloat16 autocast" if given.dtype else "float32",
        "device": torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU",
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
    }
    print("; ".join(facts.values()) + "\n", flush=True)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for tokens in given.tokens or [None]:
            own = argparse.Namespace(**{**vars(given), "tokens": tokens})
            one = attempt(own, run_ours, model=model, texts=texts)
            found.append(one if one is None or not given.tokens else replace(one, name=f"isogloss, {tokens:,} tokens"))
        for batch in given.batches:
            found.append(attempt(given, run_trainer, model=model, texts=texts, batch=batch, folder=folder))
    done = [one for one in found if one is not None]
    print_table(done)
    print(f"\nThe aim on one H200 is {AIM:,} sentences/s.")
    if given.out:
        given.out.write_text(json.dumps(facts | {"rows": [asdict(one) for one in done]}, indent=1), encoding="utf-8")
    if len(done) < len(found):
        raise SystemExit(f"{len(found) - len(done)} of {len(found)} failed; the tracebacks are above")


if __name__ == "__main__":
    main()
