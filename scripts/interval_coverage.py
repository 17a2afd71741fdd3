"""Simulate how often intervals cover what they are taken for: the tables of docs/statistics.md.

    python scripts/interval_coverage.py                 # all of it: about ten minutes on one core
    python scripts/interval_coverage.py seeds --trials 2000

Each table is of made data whose true value is known. `seeds`: a claim's interval over seeds and items, for differences
of two systems that answer the same items right or wrong. `walks`: two curves over layers. `cka`: debiased CKA. The same
numbers come out each time; tests/measures has small versions with bounds that can fail.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np
import torch

from isogloss.measures.cka import cka_of_pairs
from isogloss.measures.scores import Score, left_out
from isogloss.measures.statistics import NORMAL, PARTS, correlation, t_quantile, two_way_mean

Line = tuple[str, ...]


# Differences of two systems, over seeds and items


def answers(random: np.random.Generator, seeds: int, items: int, *, training: float, luck: float) -> np.ndarray:
    """Right (1) and wrong (0) answers of two systems, (2, seeds, items): the first is better by about 10 points.

    An item is hard (standard deviation 1, on a logistic scale), and harder for one system than for the other (0.7). A
    seed makes a system better or worse at everything by `training`, and at single items by `luck`.
    """
    level = np.array([0.25, -0.25])[:, None, None]
    hard = random.normal(size=(1, 1, items)) + 0.7 * random.normal(size=(2, 1, items))
    seed = training * random.normal(size=(2, seeds, 1))
    chance = level + hard + seed + luck * random.normal(size=(2, seeds, items))
    return (chance + random.logistic(size=chance.shape) * 0.1 > 0).astype(np.float64)


def true_difference(training: float, luck: float) -> float:
    """The difference over all seeds and items: of two normal variables with a logistic one, by simulation of many."""
    random = np.random.default_rng(99)
    draws = math.sqrt(1 + 0.49 + training**2 + luck**2) * random.normal(size=4_000_000) + 0.1 * random.logistic(
        size=4_000_000
    )
    return float((draws > -0.25).mean() - (draws > 0.25).mean())


def without_parts(right: np.ndarray) -> np.ndarray:
    """The share of right answers without each part of the items: (seeds, items) -> (seeds, parts)."""
    return np.stack([left_out(Score(np.stack([row, np.ones_like(row)], axis=1))) for row in right])


def seeds_table(trials: int) -> Iterator[Line]:
    """Coverage of a difference: over seeds and items, from rows' own intervals, over seeds alone, over items alone."""
    yield ("seeds", "items", "of seeds", "of items", "both", "of the rows", "seeds alone", "items alone")
    items = 1000
    for seeds in (3, 5, 10):
        for training, luck in ((0.0, 0.5), (0.02, 0.5), (0.05, 0.5), (0.1, 0.5), (0.3, 0.5), (0.02, 1.5)):
            random, true = np.random.default_rng(seeds), true_difference(training, luck)
            covered, spread = np.zeros(4), []
            for _ in range(trials):
                first, second = answers(random, seeds, items, training=training, luck=luck)
                values = first.mean(axis=1) - second.mean(axis=1)
                left = without_parts(first) - without_parts(second)
                both, alone = two_way_mean(values, left), two_way_mean(values)
                # What is known of the items where rows have intervals alone: errors of two independent samples.
                error = math.sqrt((first.var(axis=1) + second.var(axis=1)).mean() / items)
                signs = np.sqrt(1 / (PARTS - 1)) * np.tile([1.0, -1.0], PARTS // 2)
                of_rows = two_way_mean(values, values[:, None] + error * signs)
                by_item = (first - second).mean(axis=0)  # (items,)
                reach = NORMAL * by_item.std(ddof=1) / math.sqrt(items)
                spread.append((values.std(ddof=1), by_item.std(ddof=1) / math.sqrt(items)))
                for at, interval in enumerate((both.interval(), of_rows.interval(), alone.interval())):
                    covered[at] += interval.low <= true <= interval.high
                covered[3] += abs(by_item.mean() - true) <= reach
            told = [f"{100 * share / trials:.1f}" for share in covered]
            deviations = [f"{100 * value:.1f}" for value in np.mean(spread, axis=0)]
            yield (str(seeds), str(items), *deviations, *told)


# Two curves over layers


def curves(random: np.random.Generator, layers: int, true: float, kind: str) -> np.ndarray:
    """Two curves (2, layers) whose innovations have this correlation: walks, curves that return, or smooth arcs."""
    steps, noise = random.normal(size=(2, layers))
    both = np.stack([steps, true * steps + math.sqrt(1 - true**2) * noise])
    if kind == "random walks":
        return both.cumsum(axis=1)
    if kind == "independent layers":
        return both
    if kind == "autoregressive, 0.8":
        for layer in range(1, layers):
            both[:, layer] += 0.8 * both[:, layer - 1]
        return both
    along = np.linspace(-1, 1, layers)  # arcs: three smooth shapes and a little noise
    shapes = np.stack([along, along**2 - 1 / 3, along**3 - 0.6 * along]) / np.array([[0.6], [0.3], [0.15]])
    parts = np.array([1.0, 0.7, 0.4]) * random.normal(size=(2, 3))
    parts[1] = true * parts[0] + math.sqrt(1 - true**2) * parts[1]
    return parts @ shapes + 0.2 * random.normal(size=(2, layers))


def walks_table(trials: int) -> Iterator[Line]:
    """How often two curves are told to agree or disagree, where they are independent and where they are not."""
    yield ("curves", "layers", "kind", "independent", "correlation 0.5", "correlation 0.9")
    for kind in ("random walks", "autoregressive, 0.8", "independent layers", "smooth arcs"):
        for layers in (9, 13, 25) if kind == "random walks" else (13,):
            for how in ("spearman", "pearson"):
                random, told = np.random.default_rng(layers), []
                for true in (0.0, 0.5, 0.9):
                    found = [correlation(*curves(random, layers, true, kind), kind=how) for _ in range(trials)]
                    told.append(np.mean([one.low > 0 or one.high < 0 for one in found]))
                yield (kind, str(layers), how, *(f"{100 * share:.1f}" for share in told))


# CKA


def spaces(random: np.random.Generator, n: int, width: int, signal: float, decay: float) -> torch.Tensor:
    """Two spaces (2, n, width) of the same items that share 20 directions; spectra fall as k ** -decay."""
    fixed = np.random.default_rng(7)
    common = random.normal(size=(n, 20)) * np.arange(1, 21) ** -decay
    spectrum = np.arange(1, width + 1) ** -decay
    sides = []
    for _ in range(2):
        turned = common @ fixed.normal(size=(20, width))
        own = (random.normal(size=(n, width)) * spectrum) @ np.linalg.qr(fixed.normal(size=(width, width)))[0]
        sides.append(signal * turned / np.sqrt((turned**2).sum(1).mean()) + own / np.sqrt((own**2).sum(1).mean()))
    return torch.from_numpy(np.stack(sides))


def cka_table(trials: int) -> Iterator[Line]:
    """The standard error of the jackknife over the true one, and coverage of the mean over all trials."""
    yield ("n", "width", "spectrum", "CKA", "true error", "jackknife error / true", "coverage")
    for n, width, decay in ((200, 64, 0.0), (200, 384, 0.0), (200, 384, 0.5), (500, 64, 0.0), (1000, 64, 0.0)):
        for signal in (0.0, 1.0, 2.0):
            random = np.random.default_rng(n)
            found = [cka_of_pairs(spaces(random, n, width, signal, decay), [(0, 1)])[0] for _ in range(trials)]
            values = np.array([one.value for one in found])
            errors = np.array([(one.high - one.low) / (2 * t_quantile(PARTS - 1)) for one in found])
            covered = np.mean([one.low <= values.mean() <= one.high for one in found])
            ratio = math.sqrt((errors**2).mean()) / values.std(ddof=1)
            cells = (f"{values.mean():.3f}", f"{values.std(ddof=1):.4f}", f"{ratio:.2f}", f"{100 * covered:.1f}")
            yield (str(n), str(width), f"k^-{decay:g}", *cells)


TABLES = {"seeds": (seeds_table, 4000), "walks": (walks_table, 10_000), "cka": (cka_table, 400)}


def main() -> None:
    """Print the tables that were asked for, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=TABLES, metavar="TABLE")
    parser.add_argument("--trials", type=int, help="of each line; default: 4,000, 10,000 and 400")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.tables or TABLES:
        make, trials = TABLES[name]
        count = asked.trials or trials
        error = 100 * math.sqrt(0.05 * 0.95 / count)
        print(f"\n{make.__doc__} {count:,} trials a line: a coverage of 95% has an error of {error:.1f} points.\n")
        for number, line in enumerate(make(count)):
            print(f"| {' | '.join(line)} |", flush=True)
            if number == 0:
                print("|" + "---|" * len(line))


if __name__ == "__main__":
    main()
