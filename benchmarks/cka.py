"""Debiased linear CKA beside ckatorch, in one run: agreement, seconds, ratio.

    python benchmarks/cka.py [--threads 2]

ckatorch builds two n x n Gram matrices; `cka` needs d x d sums once there are more items than dimensions.
"""

import argparse
import time

import torch
from ckatorch import cka_base

from isogloss.measures.cka import cka

WIDTH = 384


def seconds(function):
    """How long one call takes, and its value."""
    start = time.perf_counter()
    value = float(function())
    return time.perf_counter() - start, value


def compare(n, repeats):
    """One row: items, both times, their ratio, the difference of the values.

    The two take turns, equally often, and the best run of each counts, since other work on the machine only adds time.
    """
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)
    y = x + torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)
    theirs, ours = [], []
    for _ in range(repeats):
        theirs.append(seconds(lambda: cka_base(x, y, unbiased=True)))
        ours.append(seconds(lambda: cka(x, y)))
    slow, fast = min(theirs)[0], min(ours)[0]
    return n, slow, fast, slow / fast, abs(theirs[0][1] - ours[0][1])


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--items", type=int, nargs="+", default=[5_000, 10_000])
    parser.add_argument("--repeats", type=int, default=5, help="turns; the best run counts")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"Debiased linear CKA, float64, d = {WIDTH}, {arguments.threads} threads, torch {torch.__version__}\n")
    print("| items | ckatorch, s | isogloss, s | ratio | difference |")
    print("|---:|---:|---:|---:|---:|")
    for n in arguments.items:
        n, theirs, ours, ratio, difference = compare(n, arguments.repeats)
        print(f"| {n:,} | {theirs:.2f} | {ours:.3f} | {ratio:.0f} | {difference:.1e} |", flush=True)
        if not difference < 1e-10:
            raise SystemExit(f"the values differ by {difference:.1e}")


if __name__ == "__main__":
    main()
