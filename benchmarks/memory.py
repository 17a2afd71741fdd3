"""Peak memory of `isogloss map` on 5,000 and on 50,000 parallel sentences: it must hardly grow.

Each run is a process of its own, so the peaks do not mix. The text is invented: only its length matters.

    python benchmarks/memory.py [--small 5000] [--large 50000]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.invented import invented


def peak(folder, sentences):
    """Run the command on so many sentences: (peak resident memory in MB, seconds)."""
    paths = []
    for corpus in invented(("qaa", "qab"), sentences=sentences, seed=0):
        paths.append(folder / f"{corpus.language}.{sentences}.txt")
        paths[-1].write_text("\n".join(corpus.sentences) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "isogloss", "map", "--quiet", "--languages", "qaa,qab", "--bitext", paths[0]]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--bitext", paths[1], "--out", folder / f"run{sentences}"], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"isogloss map failed with status {status}")
    return usage.ru_maxrss / 1024, time.perf_counter() - begin


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", type=int, default=5_000)
    parser.add_argument("--large", type=int, default=50_000)
    given = parser.parse_args()
    print("| sentences | peak memory, MB | seconds |")
    print("|---|---|---|")
    found = []
    with tempfile.TemporaryDirectory() as place:
        for size in (given.small, given.large):
            memory, seconds = peak(Path(place), size)
            found.append(memory)
            print(f"| {size:,} | {memory:,.0f} | {seconds:.0f} |", flush=True)
    print(f"\nratio {found[1] / found[0]:.3f} (target: under 1.2)")


if __name__ == "__main__":
    main()
