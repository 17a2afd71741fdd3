"""What `isogloss drift` spends its time on besides training, stage by stage.

A random BERT in the shape of multilingual BERT (12 layers, 768 wide, 119,547 pieces) is tuned for a few updates on
made-up sentences, as the command does it, from imports to the page. Every stage is counted without the stages inside
it. The aim: under 10 seconds for all but updates, on a GPU machine, of which the page may come later (`isogloss
report`). On a CPU the passes of the model take most of it, and a small model is the default.

With --paper it is one training of Hussain & Dudev (2020) as the paper has it: 100,000 sentences, three epochs of batch
8, 30,000 updates; perplexity on 10,000 held-out sentences and 667 of each of 15 languages every 50 updates, distances
to a native model every 500. The aim there: 10 minutes on one H200.

    python -m benchmarks.start [--device cuda] [--sentences 200] [--paper] [--out numbers.json]
"""

import functools
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from benchmarks.commandline import make_parser, quiet_on_one_gpu, read
from benchmarks.evaluation import make_model, wait
from benchmarks.pretraining import SPECIAL, make_tokenizer
from tokenizers import pre_tokenizers, processors

from isogloss.recipes.drift import drift
from isogloss.report import write_page

SIZES = {  # on a GPU, on a CPU
    "depth": (12, 2), "width": (768, 64), "vocabulary": (119_547, 2_000), "sentences": (200, 60), "words": (2_000, 50),
}  # fmt: skip
STAGES = {  # module, function -> stage
    ("stack.load", "_read"): "loading",
    ("stack.stack", "hash_weights"): "hashing",
    ("stack.load", "hash_weights"): "hashing",
    ("recipes.drift", "tokenise_corpora"): "tokenising",
    ("recipes.drift", "word_samples"): "vectors of the start",
    ("training.perplexities", "_Reader.nats"): "passes for perplexities",
    ("training.checkpoints", "save_checkpoint"): "checkpoints",
    ("training.loop", "_take"): "readings while training, the first and the last",
    ("training.distances", "_distance"): "distances of them",
    ("training.loop", "Training.update"): "updates",
    ("training.checkpoints", "export_best"): "writing the best model",
    ("report.page", "_write_files"): "figures",
    ("report.page", "render"): "page",
}
UPDATES = "updates"
AIM, PAPER_AIM = 10, 600  # seconds
PAPER = {"held_out": 0.1, "epochs": 3, "others": 15, "watched": 667, "distance": 500}
SHORT = {"held_out": 0.4, "epochs": 1, "others": 1, "watched": None, "distance": 250}
LANGUAGES = ("en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
IMPORTS = """
import gc
gc.set_threshold(10_000)  # as the command line does
import isogloss.recipes.drift, isogloss.report.page
from transformers import BertForMaskedLM, AutoTokenizer
"""


class Clock:
    """Seconds of stages, each without those inside it, and how often each was entered.

    Updates are only queued on a GPU: what it still does of them when the next stage begins is counted as theirs. The
    waiting between stages makes the whole slower than it is without a clock.
    """

    def __init__(self, device):
        self.device, self.inside, self.spent, self.queued = device, [], {}, False

    def timed(self, function, stage):
        """The function, whose seconds are those of a stage."""

        @functools.wraps(function)
        def run(*args, **kwargs):
            if stage != UPDATES and self.queued:
                begin = self._now()
                wait(self.device)
                self._spend(UPDATES, begin, times=0)
            self.queued = stage == UPDATES
            begin = self._now()
            self.inside.append((0.0, 0.0))
            try:
                return function(*args, **kwargs)
            finally:
                if stage != UPDATES:
                    wait(self.device)
                self._spend(stage, begin, inside=self.inside.pop())

        return run

    def _spend(self, stage, begin, *, inside=(0.0, 0.0), times=1):
        """Count the time since `begin`, less what was counted inside, for a stage."""
        whole = [now - then for now, then in zip(self._now(), begin, strict=True)]
        if self.inside:
            self.inside[-1] = tuple(a + b for a, b in zip(self.inside[-1], whole, strict=True))
        wall, processor, before = self.spent.get(stage, (0.0, 0.0, 0))
        self.spent[stage] = (wall + whole[0] - inside[0], processor + whole[1] - inside[1], before + times)

    def _now(self):
        return time.perf_counter(), time.process_time()


def write_model(given, folder):
    """A model and a tokenizer of words between spaces, as a folder that commands load."""
    make_model(given).save_pretrained(folder)
    tokenizer = make_tokenizer(given.vocabulary)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(mark, SPECIAL.index(mark)) for mark in ("[CLS]", "[SEP]")]
    frame = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    tokenizer.backend_tokenizer.post_processor = frame
    tokenizer.save_pretrained(folder)


def write_text(given, path, seed, sentences):
    """Sentences of 10 to 38 made-up words, in any order; returns the path."""
    chance = random.Random(seed)
    lines = [
        " ".join(f"word{chance.randrange(len(SPECIAL), given.vocabulary)}" for _ in range(chance.randint(10, 38)))
        for _ in range(sentences)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main():
    """Run it once and print a Markdown table."""
    parser = make_parser(__doc__, SIZES)
    parser.add_argument("--paper", action="store_true", help="one training of Hussain & Dudev (2020), whole")
    given = read(parser, SIZES)
    quiet_on_one_gpu()
    how, sentences = (PAPER, 500 * given.sentences) if given.paper else (SHORT, given.sentences)
    clock = Clock(given.device)
    begin, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    clock.spent["imports, in a process of their own"] = (time.perf_counter() - begin, processor, 1)
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(passing)
        write_model(given, folder / "model")
        languages = ["nl", *LANGUAGES[: how["others"]]]
        sizes = [sentences, *[how["watched"] or sentences] * how["others"]]
        each = enumerate(zip(languages, sizes, strict=True))
        texts = {code: write_text(given, folder / f"{code}.txt", seed, size) for seed, (code, size) in each}
        if given.paper:
            shutil.copytree(folder / "model", folder / "native")
        target = {"nl": texts.pop("nl")}

        def command():
            drift(
                folder / "model", target=target, others=texts, native=str(folder / "native") if given.paper else None,
                **{name: how[name] for name in ("held_out", "epochs", "distance")}, words=given.words, checkpoint=5_000,
                plans="last:6" if given.depth == 12 and not given.paper else f"last:{given.depth // 2 * 2}",
                device=str(given.device), out=folder / "run",
            )  # fmt: skip
            write_page([folder / "run"], folder / "run" / "report.html")

        with ExitStack() as patches:
            for (module, name), stage in STAGES.items():
                owner = importlib.import_module(f"isogloss.{module}")
                *above, name = name.split(".")
                owner = functools.reduce(getattr, above, owner)
                patches.enter_context(mock.patch.object(owner, name, clock.timed(getattr(owner, name), stage)))
            clock.timed(command, "everything else")()
    print("| stage | seconds | of the processor | times |\n|---|---:|---:|---:|")
    for stage, (wall, processor, times) in sorted(clock.spent.items(), key=lambda each: -each[1][0]):
        print(f"| {stage} | {wall:.2f} | {processor:.2f} | {times} |")
    whole = sum(wall for wall, *_ in clock.spent.values())
    all_but = whole - clock.spent[UPDATES][0]
    if given.paper:
        print(f"\nAll: {whole:.0f} s. The aim is {PAPER_AIM} on one H200.")
    else:
        later = sum(clock.spent[stage][0] for stage in ("figures", "page"))
        print(f"\nAll but updates: {all_but:.1f} s, {all_but - later:.1f} without the page. The aim on a GPU: {AIM}.")
    if given.out:
        given.out.write_text(json.dumps(clock.spent, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
