"""Dictionary induction by CSLS over whole vocabularies: seconds, memory beyond the inputs, and the dense way beside it.

    python benchmarks/csls.py [--items 200000] [--dense 20000] [--threads 2] [--device cpu]

The test words are looked up among all words of the other side. CSLS asks how near each candidate is to everybody, which
takes all pairs of words: at 200,000 words the full matrix of scores would take 160 GB in float32. The dense way makes
that matrix, where it fits, and reads everything from it. Each line is a process of its own, so that peaks do not mix.
"""

import argparse
import resource
import subprocess
import sys
import time

import torch

from isogloss.measures.retrieval import induction, nearest, retrieve

K = 10


def vocabularies(n, d, words, device):
    """Two vocabularies that share something, and the pairs of a test dictionary."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator)
    y = torch.randn(n, d, generator=generator).mul_(3).add_(x)
    gold = torch.randperm(n, generator=generator)[:words]
    return x.to(device), y.to(device), torch.stack([gold, gold], dim=1)


def dense(x, y, gold):
    """P@1 of CSLS from the whole matrix of cosines: ties against us.

    Made as quick as a dense matrix allows: changed in place, and made a second time the other way round, since the
    largest of a column are found many times slower than those of a row.
    """
    x, y = (side / side.norm(dim=1, keepdim=True) for side in (x, y))
    near_y = (y @ x.T).topk(K, dim=1).values.mean(1)
    scores = x @ y.T
    near_x = scores.topk(K, dim=1).values.mean(1)
    scores.mul_(2).sub_(near_x[:, None]).sub_(near_y)
    asked = scores[gold[:, 0].to(scores.device)]
    right = asked.gather(1, gold[:, 1:].to(scores.device))
    return float(((asked >= right - 2e-6).sum(1) == 1).double().mean())


def blocked(x, y, gold):
    """P@1 as the toolkit finds it."""
    return induction(x, y, gold, method="csls", k=K).p[1].value


WAYS = {
    "induction, in blocks": blocked,
    "induction, dense": dense,
    "ten nearest of every word": lambda x, y, gold: float(
        (nearest(x, y, method="csls", k=10)[1][:, 0].cpu() == torch.arange(len(x))).double().mean()
    ),
    "exact ranks of every word, both ways": lambda x, y, gold: retrieve(x, y, method="csls")[0].p[1].value,
}


def measure(way, given):
    """Print one line of the table."""
    torch.set_num_threads(given.threads)
    device = torch.device(given.device)
    x, y, gold = vocabularies(given.items, given.width, min(given.words, given.items), device)
    # The first product of a process loads and warms the linear algebra library; that is no part of the method.
    WAYS[way](x[:1000], y[:1000], torch.arange(100)[:, None].expand(100, 2))
    before = _peak(device)
    seconds = []
    for _ in range(given.repeat):
        start = time.perf_counter()
        found = WAYS[way](x, y, gold)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    more = _peak(device) - before
    print(f"| {way} | {given.items:,} | {min(seconds):.1f} | {more:,.0f} | {found:.4f} |", flush=True)


def _peak(device):
    """The most memory held so far, in MB: of the process, or on a GPU of its tensors."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument(
        "--dense", type=int, default=20_000, help="words for the comparison with the dense way; 0: none"
    )
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--words", type=int, default=1500, help="words of the test dictionary")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each way; the quickest counts")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", action="store_true", help="also the ten nearest, and the ranks, of every word")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        measure(given.way, given)
        return
    where = torch.cuda.get_device_name() if given.device.startswith("cuda") else f"{given.threads} threads"
    print(f"CSLS, K = {K}, width {given.width}, float32, {where}, torch {torch.__version__}\n")
    print("| | words a side | seconds | MB beyond inputs | P@1 |\n|---|---:|---:|---:|---:|", flush=True)
    names = list(WAYS)
    lines = [(name, given.dense) for name in names[:2] if given.dense]
    lines += [(name, given.items) for name in ([names[0], *names[2:]] if given.every else names[:1])]
    for name, items in lines:
        own = ["--way", name, "--items", str(items), "--width", str(given.width), "--words", str(given.words)]
        own += ["--threads", str(given.threads), "--repeat", str(given.repeat), "--device", given.device]
        subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
