"""Memory of word type vectors over a small and a large text, at every layer: it must not grow with the text.

    python benchmarks/wordtypes.py [--small 2000] [--large 20000] [--device cpu]

Each size is a process of its own. The text is made up: words of a vocabulary of 30,000 drawn by Zipf's law, vectors of
the 20,000 most frequent of which are kept; 20,000 sentences have nearly all of them. Besides the peak of all resident
memory there is that of the process's own (anonymous) memory: the rest are pages of the memory-mapped sums, of the types
met so far, which the system may write out at any time.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import isogloss as ig
from isogloss.progress import listening
from isogloss.vectors.static import type_vectors

SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
KNOWN, KEPT, WORDS = 30_000, 20_000, 12


def vocabulary():
    """Made-up words, the first the most frequent."""
    chance = random.Random(0)
    found = {}
    while len(found) < KNOWN:
        found["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4)))] = None
    return list(found)


def sentences(count, words):
    """A stream of sentences, none of which is kept."""
    chance = random.Random(1)
    weights = [1 / (place + 10) for place in range(len(words))]
    total, sums = 0.0, []
    for one in weights:
        total += one
        sums.append(total)
    for _ in range(count):
        yield " ".join(chance.choices(words, cum_weights=sums, k=WORDS))


def held(kind):
    """Memory of this process in MB, as the system counts it: VmHWM, RssAnon, RssFile."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024


def measure(given):
    """Print one line of the table."""
    words, most = vocabulary(), 0.0

    def watch(stage, done, total):
        nonlocal most
        most = max(most, held("RssAnon"))

    stack = ig.load(given.model, device=given.device)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        start = time.perf_counter()
        text = sentences(given.sentences, words)
        with listening(watch):
            found = type_vectors(stack, text, "en", types=words[:KEPT], folder=Path(folder), total=given.sentences)
        seconds = time.perf_counter() - start
        sums = len(stack.cuts) * len(words[:KEPT]) * stack.width * 8  # in float64, gone when the means are known
        disk = ((Path(folder) / "en.npy").stat().st_size + sums) / 2**20
    met = len(found.words)
    cells = (
        f"{given.sentences:,}",
        f"{held('VmHWM'):,.0f}",
        f"{most:,.0f}",
        f"{disk:,.0f}",
        f"{met:,}",
        f"{seconds:.0f}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=2_000)
    parser.add_argument("--large", type=int, default=20_000)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", help="where the files of sums are made; default the system's")
    parser.add_argument("--sentences", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sentences:
        measure(given)
        return
    print("| sentences | peak, MB | own memory at its peak, MB | on disk, MB | types met | seconds |")
    print("|---:|---:|---:|---:|---:|---:|", flush=True)
    for size in (given.small, given.large):
        own = ["--sentences", str(size), "--model", given.model, "--device", given.device]
        own += ["--folder", given.folder] if given.folder else []
        subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
