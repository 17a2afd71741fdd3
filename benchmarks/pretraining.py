"""Pretraining: the loop of `isogloss pretrain` beside a `run_mlm` recipe on transformers' Trainer, in one run.

Both train the same model from the same weights (ModernBERT with global attention in every layer; 12 layers, 384 wide,
6 heads, 32,000 pieces unless other sizes are given) on the same packed rows of 128 tokens, with the same batch, AdamW,
rate, clipping and precision (bfloat16 on a GPU). What differs is what a user of either gets: isogloss keeps the text
on the GPU, masks there, asks the vocabulary head only where there is a label and compiles the step; Trainer collates
and masks on the host (`DataCollatorForLanguageModeling`), with no workers and with some, and runs the head on every
token, as it is and with `torch_compile=True`.

With `--texts` the model is a BERT with dropout 0.1 and every row is one text between its special tokens, at most 128
long and 50 on average: isogloss puts several texts into a row, Trainer pads them to the longest of the batch, as
`run_mlm --line_by_line` does. Tokens are those of the texts, padding not counted.

The text is made up: independent draws, the k-th word in proportion to 1/k. Speed does not depend on it, and the loss
has somewhere to fall to. Warm-up steps are left out of the time everywhere. `loss` is the mean of a few steps up to
the same step on every line, so the lines should agree within a few hundredths; masks and the order of rows differ.
`share of the peak` is the arithmetic that real tokens need (`useful_flops`), over what the GPU could do in that time by
its vendor's datasheet.

    python -m benchmarks.pretraining [--device cuda] [--texts] [--only ours] [--profile] [--out rows.json]
    python -m benchmarks.pretraining --device cpu --depth 2 --width 64 --vocabulary 2000 --batch 8 --steps 5
"""

import gc
import json
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile
from transformers.trainer_callback import PrinterCallback

from isogloss.progress import listening
from isogloss.stack.families import configure
from isogloss.text.masking import Masking
from isogloss.training.language_modelling import language_modelling
from isogloss.training.loop import Optimisation, Settings, Training, join, train
from isogloss.training.sharing import Sharing, build

LANGUAGE = "en"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
RATE, BETAS, EPSILON, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.98), 1e-6, 0.01, 1.0
CONTENDERS = ("ours", "trainer", "trainer-compiled")
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}  # of a GPU in bfloat16, dense, in FLOP/s
MASKED = 0.15
SIZES = {  # on a GPU, on a CPU
    "depth": (12, 2), "width": (384, 64), "vocabulary": (32_000, 2_000), "batch": (512, 8), "steps": (100, 5),
    "warm_up": (20, 2), "workers": (8, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is trained, on which file of token ids, and for how long; the same for everyone.

    last, span: losses are compared after update `last`, as the mean of the `span` updates before.
    """

    depth: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    length: int
    warm_up: int
    steps: int
    last: int
    span: int
    device: torch.device
    dtype: torch.dtype | None
    texts: bool
    text: Path


@dataclass(frozen=True)
class Result:
    """One line of the table; graphs: how many were compiled before the clock ran, and while it ran."""

    name: str
    tokens_per_second: float
    milliseconds: float
    memory: float
    loss: float
    steps: int
    graphs: tuple[int, int]
    altogether: float = 0.0


class Clock:
    """The time between two updates, read when the device has done them."""

    def __init__(self, device, begin, end):
        self.device, self.times, self.graphs = device, {begin: 0.0, end: 0.0}, []

    def tick(self, step):
        """An update is done."""
        if step in self.times:
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            self.times[step] = time.perf_counter()
            self.graphs.append(counters["stats"]["unique_graphs"])

    def result(self, name, case, loss):
        """What the clock says, as a line of the table."""
        (begin, start), (end, stop) = self.times.items()
        steps, seconds = end - begin, stop - start
        memory = torch.cuda.max_memory_allocated() / 1e9 if self.device.type == "cuda" else 0.0
        speed = steps * case.batch * mean_length(case) / seconds
        graphs = (self.graphs[0], self.graphs[1] - self.graphs[0])
        return Result(name, speed, 1000 * seconds / steps, memory, loss, steps, graphs)


class Rows(torch.utils.data.Dataset):
    """Rows as `run_mlm` gives them to the collator, packed by `group_texts` or line by line: lists of whole numbers."""

    def __init__(self, case):
        self.ids = np.load(case.text, mmap_mode="r")
        self.ends = np.arange(case.length, len(self.ids) + 1, case.length)
        if case.texts:
            self.ends = np.flatnonzero(self.ids == SPECIAL.index("[SEP]")) + 1

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, row):
        ids = self.ids[self.ends[row - 1] if row else 0 : self.ends[row]].tolist()
        special = [int(number < len(SPECIAL)) for number in ids]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "special_tokens_mask": special}


def mean_length(case):
    """Tokens of a row on average, of a text with `--texts`."""
    return len(np.load(case.text, mmap_mode="r")) / len(Rows(case))


def useful_flops(model, tokens):
    """Floating-point operations of an update for each token of texts of so many tokens: of products of matrices alone.

    Two for each weight of the blocks, the states of two products of attention, and at masked tokens the head; twice as
    many again for the gradients.
    """
    config = model.config
    blocks = [weight for name, weight in model.base_model.named_parameters() if "layer" in name and weight.dim() == 2]
    weights = sum(weight.numel() for weight in blocks if len(weight) != config.vocab_size)
    head = config.hidden_size * (config.vocab_size + config.hidden_size)
    attention = 2 * config.num_hidden_layers * config.hidden_size * tokens
    return 3 * 2 * (weights + attention + MASKED * head)


def share_of_peak(flops):
    """So many operations a second as a share of what this GPU can do; empty where that is not known."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    peak = next((peak for gpu, peak in PEAKS.items() if gpu in name), None)
    return "" if peak is None else f"{flops / peak:.1%}"


class Listener(transformers.TrainerCallback):
    """Tells the clock of Trainer's updates and keeps its losses."""

    def __init__(self, clock):
        self.clock, self.losses = clock, {}

    def on_step_end(self, args, state, control, **more):
        """An update is done."""
        self.clock.tick(state.global_step)

    def on_log(self, args, state, control, logs=None, **more):
        """A mean loss was read."""
        if "loss" in (logs or {}):
            self.losses[state.global_step] = float(logs["loss"])


def write_text(case):
    """Made-up text, long enough that nobody reads a row twice."""
    ends = np.cumsum(1 / np.arange(1, case.vocabulary - len(SPECIAL) + 1))
    tokens = (case.warm_up + case.steps + 2) * case.batch * case.length
    places = np.searchsorted(ends, np.random.default_rng(0).random(tokens) * ends[-1]).clip(max=len(ends) - 1)
    ids = places + len(SPECIAL)
    if case.texts:
        lengths = np.random.default_rng(1).exponential(46, (case.warm_up + case.steps + 2) * case.batch)
        ends = np.cumsum(lengths.astype(int).clip(3, case.length - 2) + 2)
        ids = ids[: ends[-1]]
        ids[ends[ends <= len(ids)] - 1] = SPECIAL.index("[SEP]")
        ids[np.append(0, ends[ends < len(ids)])] = SPECIAL.index("[CLS]")
    np.save(case.text, ids.astype(np.uint16 if case.vocabulary <= 2**16 else np.uint32))


def make_tokenizer(vocabulary):
    """A tokenizer of made-up words: the collator asks it for the mask, the padding and the number of words."""
    words = [*SPECIAL, *(f"word{number}" for number in range(len(SPECIAL), vocabulary))]
    machine = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    marks = {f"{mark.strip('[]').lower()}_token": mark for mark in SPECIAL}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=machine, **marks)


def fresh(case):
    """The model of this case, always with the same first weights."""
    config = configure(
        "bert" if case.texts else "modernbert", vocabulary=case.vocabulary, depth=case.depth, width=case.width,
        heads=case.heads, length=case.length, dropout=0.1 if case.texts else 0.0,
        tokenizer=make_tokenizer(case.vocabulary),
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    return build(config, [LANGUAGE], sharing=Sharing(), seed=0)


def run_ours(case, *, profiled=False):
    """The loop of `isogloss pretrain`, put together as the command does."""
    models = fresh(case).to(case.device)
    words = torch.arange(len(SPECIAL), case.vocabulary)
    masking = Masking(SPECIAL.index("[MASK]"), range(len(SPECIAL)), words)
    objective = language_modelling(
        models, {LANGUAGE: np.load(case.text, mmap_mode="r")}, batch=case.batch, length=case.length,
        masking={LANGUAGE: masking}, device=case.device, seed=0,
        compiled=case.device.type == "cuda",
        frame=[(SPECIAL.index("[CLS]"),), (SPECIAL.index("[SEP]"),)] if case.texts else None,
    )  # fmt: skip
    steps = case.warm_up + case.steps
    optimisation = Optimisation(RATE, case.warm_up / steps, "constant", WEIGHT_DECAY, CLIP, BETAS, EPSILON)
    settings = Settings(steps, 0, optimisation, report=case.span, dtype=case.dtype)
    training = Training(models, objective, settings, join(case.device))
    clock, losses = Clock(case.device, case.warm_up, settings.steps), {}
    with listening(lambda _, step, total: clock.tick(step)):
        for readings in train(training):
            losses |= {one["step"]: one["value"] for one in readings}
    found = clock.result("isogloss", case, losses[case.last])
    if profiled:
        print_profile(training)
    return found


def run_trainer(case, *, workers=0, compiled=False):
    """`run_mlm` as people run it, less its reading of text."""
    arguments = transformers.TrainingArguments(
        output_dir=str(case.text.parent / "trainer"), max_steps=case.last, per_device_train_batch_size=case.batch,
        learning_rate=RATE, lr_scheduler_type="constant_with_warmup", warmup_steps=case.warm_up,
        weight_decay=WEIGHT_DECAY, adam_beta1=BETAS[0], adam_beta2=BETAS[1], adam_epsilon=EPSILON, max_grad_norm=CLIP,
        optim="adamw_torch_fused", bf16=case.dtype is not None, use_cpu=case.device.type == "cpu",
        torch_compile=compiled, dataloader_num_workers=workers, dataloader_drop_last=True, logging_strategy="steps",
        logging_steps=case.span, save_strategy="no", report_to="none", disable_tqdm=True, seed=0,
    )  # fmt: skip
    listener = Listener(Clock(case.device, case.warm_up, case.last))
    collator = transformers.DataCollatorForLanguageModeling(make_tokenizer(case.vocabulary), mlm_probability=MASKED)
    trainer = transformers.Trainer(
        model=fresh(case).of(LANGUAGE), args=arguments, data_collator=collator,
        train_dataset=Rows(case), callbacks=[listener],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    if compiled and not listener.clock.graphs[-1]:
        raise RuntimeError("Trainer was asked to compile the model, but nothing was compiled")
    name = "Trainer" + (f", {workers} workers" if workers else "") + (", compiled" if compiled else "")
    return listener.clock.result(name, case, listener.losses[case.last])


def print_profile(training, steps=5):
    """The kernels some further updates spend their time in; on a CPU the operators."""
    cuda = training.processes.device.type == "cuda"
    training.model.train()
    try:
        with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiler:
            for _ in range(steps):
                training.update()
            if cuda:
                torch.cuda.synchronize()
        averages, order = profiler.key_averages(), "self_device_time_total" if cuda else "self_cpu_time_total"
        busy = sum(getattr(one, order) for one in averages if not getattr(one, "is_user_annotation", False))
        print(averages.table(sort_by=order, row_limit=60, max_name_column_width=60))
        print(f"{busy / 1000 / steps:.2f} ms a step in kernels (the table below says how long a step takes)\n")
    except Exception:  # a profiler that is not allowed to look must not cost the numbers
        traceback.print_exc()


def attempt(run, case):
    """A result, from a device as clean as before the first; None, with the traceback shown, if it failed."""
    begin = time.perf_counter()
    torch._dynamo.reset()
    counters.clear()
    gc.collect()
    if case.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        found = replace(run(case), altogether=time.perf_counter() - begin)
    except Exception:  # one that fails, for want of memory say, must not cost the others' numbers
        traceback.print_exc()
        return None
    late = f", {found.graphs[1]} of them on the clock: its time is too long" if found.graphs[1] else ""
    print(f"{found.name}: {found.altogether:.0f} s in all, {sum(found.graphs)} graphs compiled{late}", flush=True)
    return found


def compare(case, given):
    """Everyone asked for, one after the other; None stands for one that failed.

    The compiled Trainer comes last, since it leaves word in the environment that every later one would follow, and
    takes the number of workers that served best.
    """
    runs = [partial(run_ours, profiled=given.profile)] if "ours" in given.only else []
    if "trainer" in given.only:
        runs += [partial(run_trainer, workers=workers) for workers in dict.fromkeys((0, given.workers))]
    found = [attempt(run, case) for run in runs]
    if "trainer-compiled" in given.only:
        speeds = {one.name: one.tokens_per_second for one in found if one is not None and one.name != "isogloss"}
        workers = 0 if speeds and max(speeds, key=speeds.get) == "Trainer" else given.workers
        found.append(attempt(partial(run_trainer, workers=workers, compiled=True), case))
    return found


def print_table(found, flops):
    """A Markdown table; a ratio is isogloss's speed over that line's. flops: useful ones of a token."""
    ours = next((one.tokens_per_second for one in found if one.name == "isogloss"), float("nan"))
    heads = ("tokens/s", "ms a step", "isogloss over it", "share of the peak", "GPU memory, GB", "loss", "timed steps")
    print(f"\n| | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for one in found:
        speed, peak = one.tokens_per_second, share_of_peak(flops * one.tokens_per_second)
        cells = (f"{speed:,.0f}", f"{one.milliseconds:.1f}", f"{ours / speed:.2f}", peak, f"{one.memory:.1f}")
        print(f"| {' | '.join((one.name, *cells, f'{one.loss:.3f}', str(one.steps)))} |", flush=True)


def read_arguments():
    """The command line; sizes not given are the benchmark's own on a GPU, and small on a CPU."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--only", choices=CONTENDERS, nargs="+", help="default: all; on a CPU, nothing compiled")
    parser.add_argument("--profile", action="store_true", help="also print where our time goes, by kernel")
    parser.add_argument("--texts", action="store_true", help="a BERT with dropout, every row one text")
    parser.add_argument("--heads", type=int, help="default: one for every 64 of the width")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--trainer-steps", type=int, help="timed steps of Trainer; default: 30, or --steps if fewer")
    given = read(parser, SIZES)
    small = given.device.type == "cpu"
    given.only = given.only or CONTENDERS[: 2 if small else 3]
    given.heads = given.heads or max(1, given.width // 64)
    given.trainer_steps = given.trainer_steps or min(30, given.steps)
    if given.warm_up < 1 or not 1 <= given.trainer_steps <= given.steps:
        parser.error("--warm-up and --steps must be at least 1, and --trainer-steps at most --steps")
    given.last = given.warm_up + given.trainer_steps
    given.span = 10 if given.last % 10 == 0 else 1
    return given


def main():
    """Print a Markdown table, and write its numbers where asked to."""
    quiet_on_one_gpu()
    given = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        known = {name: value for name, value in vars(given).items() if name in Case.__dataclass_fields__}
        case = Case(**known, text=Path(folder) / "ids.npy")
        write_text(case)
        model = fresh(case).of(LANGUAGE)
        facts = {
            "model": f"{type(model).__name__.removesuffix('ForMaskedLM')} {case.depth}x{case.width}, "
            f"{case.vocabulary:,} pieces, {sum(one.numel() for one in model.parameters()) / 1e6:.1f}M weights, "
            f"{model.config._attn_implementation}",
            "batch": f"{case.batch} rows of {mean_length(case):.0f} tokens" + ", texts" * case.texts,
            "precision": "bfloat16" if given.dtype else "float32",
            "device": torch.cuda.get_device_name() if given.device.type == "cuda" else "CPU",
            "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
        }
        print("; ".join(facts.values()) + "\n", flush=True)
        flops = useful_flops(model, mean_length(case))
        found = compare(case, given)
    done = [one for one in found if one is not None]
    print_table(done, flops)
    if given.out:
        given.out.write_text(json.dumps(facts | {"rows": [asdict(one) for one in done]}, indent=1), encoding="utf-8")
    if len(done) < len(found):
        raise SystemExit(f"{len(found) - len(done)} of {len(found)} failed; the tracebacks are above")


if __name__ == "__main__":
    main()
