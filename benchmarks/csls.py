"""CSLS over 50,000 x 50,000 words of width 300: seconds, and memory beyond the inputs.

    python benchmarks/csls.py [--items 50000] [--threads 2]

The full matrix of scores would take 10 GB in float32.
"""

import argparse
import resource
import time

import torch

from isogloss.measures import nearest, retrieve


def peak():
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name, function):
    """Run, print one line of the table, and return the result."""
    before, start = peak(), time.perf_counter()
    result = function()
    print(f"| {name} | {time.perf_counter() - start:.0f} | {peak() - before:.0f} |", flush=True)
    return result


def main():
    """Print a Markdown table. Peak memory only grows, so a second line shows what it needs beyond the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--both", action="store_true", help="also ranks in both directions (retrieve)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    n, d = arguments.items, arguments.width
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator)
    y = torch.randn(n, d, generator=generator).mul_(4).add_(x)
    # The first product of a process loads and warms the linear algebra library; that is no part of the method.
    nearest(x[:1000], y[:1000], method="csls")
    print(f"CSLS, {n:,} x {n:,} x {d}, float32, {arguments.threads} threads, torch {torch.__version__}\n")
    print("| | seconds | MB beyond inputs |")
    print("|---|---:|---:|")
    _, found = measured("ten nearest", lambda: nearest(x, y, method="csls", k=10))
    hits = float((found[:, 0] == torch.arange(n)).double().mean())
    if arguments.both:
        there, back = measured("exact ranks, both ways", lambda: retrieve(x, y, method="csls"))
        print(f"\nP@1 {there.p[1]:.4f} and {back.p[1]:.4f}")
    print(f"\nP@1 of the nearest: {hits:.4f}")


if __name__ == "__main__":
    main()
