"""What a short `isogloss drift` spends its time on besides training, stage by stage.

A random BERT in the shape of multilingual BERT (12 layers, 768 wide, 119,547 pieces) is tuned for a few updates on
made-up sentences, as the command does it, from imports to the page. Every stage is counted without the stages inside
it. The aim: under 10 seconds for all but updates, on a GPU machine. On a CPU the passes of the model take most of it,
and a small model is the default.

    python -m benchmarks.start [--device cuda] [--sentences 200] [--out numbers.json]
"""

import functools
import importlib
import json
import os
import random
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
    ("training.loop", "_take"): "readings while training, the first and the last",
    ("training.distances", "_distance"): "distances of them",
    ("training.loop", "Training.update"): "updates",
    ("training.checkpoints", "export_best"): "writing the best model",
    ("report.page", "_write_files"): "figures",
    ("report.page", "render"): "page",
}
AIM = 10  # seconds
IMPORTS = "import isogloss.recipes.drift, isogloss.report.page; from transformers import BertForMaskedLM, AutoTokenizer"


class Clock:
    """Seconds of stages, each without those inside it, and how often each was entered."""

    def __init__(self, device):
        self.device, self.inside, self.spent = device, [], {}

    def timed(self, function, stage):
        """The function, whose seconds are those of a stage."""

        @functools.wraps(function)
        def run(*args, **kwargs):
            begin = self._now()
            self.inside.append((0.0, 0.0))
            try:
                return function(*args, **kwargs)
            finally:
                whole = [now - then for now, then in zip(self._now(), begin, strict=True)]
                own = [a - b for a, b in zip(whole, self.inside.pop(), strict=True)]
                if self.inside:
                    self.inside[-1] = tuple(a + b for a, b in zip(self.inside[-1], whole, strict=True))
                wall, processor, times = self.spent.get(stage, (0.0, 0.0, 0))
                self.spent[stage] = (wall + own[0], processor + own[1], times + 1)

        return run

    def _now(self):
        wait(self.device)
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


def write_text(given, path, seed):
    """Sentences of 10 to 38 made-up words, in any order."""
    chance = random.Random(seed)
    lines = [
        " ".join(f"word{chance.randrange(len(SPECIAL), given.vocabulary)}" for _ in range(chance.randint(10, 38)))
        for _ in range(given.sentences)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    """Run it once and print a Markdown table."""
    given = read(make_parser(__doc__, SIZES), SIZES)
    quiet_on_one_gpu()
    clock = Clock(given.device)
    begin, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    clock.spent["imports, in a process of their own"] = (time.perf_counter() - begin, processor, 1)
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(passing)
        write_model(given, folder / "model")
        for seed, language in enumerate(("nl", "en")):
            write_text(given, folder / f"{language}.txt", seed)

        def command():
            drift(
                folder / "model", target={"nl": folder / "nl.txt"}, others={"en": folder / "en.txt"}, held_out=0.4,
                epochs=1, plans="last:6" if given.depth > 6 else "last:1", words=given.words, device=str(given.device),
                out=folder / "run",
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
    all_but = sum(wall for stage, (wall, _, _) in clock.spent.items() if stage != "updates")
    print(f"\nAll but updates: {all_but:.1f} s. The aim is under {AIM} on a GPU machine.")
    if given.out:
        given.out.write_text(json.dumps(clock.spent, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
