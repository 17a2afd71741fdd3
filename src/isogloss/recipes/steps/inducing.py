"""Spaces of words, and how well each finds the translations of a test dictionary, as rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures import induction
from isogloss.measures.retrieval import INDUCTION_METHODS
from isogloss.recipes.steps.layers import LayerMean, compared
from isogloss.recipes.steps.lexicontext import Entries
from isogloss.recipes.steps.ways import Way
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Stack

KS = (1, 5, 10)


@dataclass(frozen=True)
class Fits:
    """How maps are fitted: the ways, rounds of refinement, the strength of ridge, and where it is computed."""

    ways: Sequence[Way]
    refine: int
    strength: float
    device: torch.device


@dataclass
class Found:
    """What one space gives besides rows: which queries each variant got right (queries,), with the floor; and notes."""

    hits: dict[str, Tensor] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def check_widths(names: tuple[str, str], widths: tuple[int, int], ways: Sequence[Way]) -> None:
    """Refuse ways that cannot lead from a space to one of another width."""
    free = ("least-squares", "ridge")
    bound = [way.name for way in ways if way.method not in free]
    if widths[0] != widths[1] and bound:
        raise InputError(
            f"{names[0]} is {widths[0]} wide and {names[1]} {widths[1]}; {bound[0]} needs equal widths: choose others "
            f"with --ways, such as {'+centred,'.join(free)}+centred"
        )


def shared_layers(stacks: Sequence[Stack], chosen: Sequence[int] | None) -> list[int]:
    """The layers to read in each of two models: those chosen, or all where both are equally deep."""
    first, other = stacks
    if chosen is None and first.cuts != other.cuts:
        raise InputError(
            f"{first.name} has {first.cuts[-1]} layers and {other.name} has {other.cuts[-1]}; layer k of one is "
            "compared with layer k of the other, so choose models of one depth, or some layers of both with --layers"
        )
    return list(first.cuts if chosen is None else chosen)


def space_rows(
    sides: tuple[Tensor, Tensor], entries: Entries, fits: Fits, *, place: Mapping[str, Any], found: Found
) -> Iterator[Row]:
    """P@k of every way and method: sides (n, d) and (m, d) are the vectors of both vocabularies."""
    x, y = (side.to(fits.device) for side in sides)
    test = entries.pairs["test"]
    for way in fits.ways:
        train = entries.pairs["train"] if way.learns else torch.zeros((0, 2), dtype=torch.long)
        mapping = way.fit(
            x[train[:, 0].to(x.device)],
            y[train[:, 1].to(y.device)],
            spaces=(x, y),
            refine=fits.refine,
            strength=fits.strength,
        )
        if mapping.underdetermined:
            found.notes.append(underdetermined_note(way.name, mapping.pairs, x.shape[1], "the dictionary"))
        mapped, goal = mapping(x), mapping.target(y)
        for method in INDUCTION_METHODS:
            one = induction(mapped, goal, test, method=method, ks=KS)
            variant = f"{way.name} {method}"
            found.hits[variant], found.floors[variant] = (one.ranks == 1).double(), one.floor[1]
            for k in KS:
                low, high = one.p_interval[k]
                yield row(f"p@{k}", one.p[k], low=low, high=high, floor=one.floor[k], n=one.n, variant=variant, **place)


def underdetermined_note(way: str, pairs: int, width: int, what: str) -> str:
    """What it means that a map was fitted on fewer pairs than there are directions."""
    return (
        f"{way} was fitted on {pairs:,} pairs for {width:,} directions: where the pairs do not reach, the map is "
        f"arbitrary, and {what} should be larger before these scores are read as what the spaces allow"
    )


def behind_rows(found: Mapping[int, Found], *, base: Mapping[str, Any], unit: str) -> Iterator[Row]:
    """How far each layer is behind the best, on the same queries, for every variant."""
    if len(found) < 2:
        return
    for variant in next(iter(found.values())).hits:
        means = {}
        for layer, one in found.items():
            hits = one.hits[variant]
            without = (hits.sum() - hits) / max(1, len(hits) - 1)
            means[layer] = LayerMean(float(hits.mean()), without, one.floors[variant])
        rows = compared("p@1", variant, means, n=len(hits), base=base, unit=unit)
        yield from (one for one in rows if one["measure"] == "p@1_behind")  # the mean over one direction is p@1


def coverage_rows(entries: Entries, *, base: Mapping[str, Any]) -> Iterator[Row]:
    """Which share of a dictionary's source words has a translation that the vocabularies know, or one written alike."""
    for split in ("train", "test"):
        if split in entries.words:
            n = entries.words[split]
            yield row("coverage", entries.known[split] / n, n=n, variant=split, **base)
    n = entries.known["test"]
    yield row("identical", entries.alike / n, n=n, variant="test", **base)
