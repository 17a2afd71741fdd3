"""The text of an alignment: pairs packed into token ids, and what is set aside to measure on.

Pairs are set aside by the hash of their first sentence (`isogloss.text.sampling`), so that neither a seed nor the order
of a file decides. A pair that has any sentence of those is not trained on, whatever languages it is of: English that is
measured with Dutch is not learned with German. Nor is a pair that has a sentence of the text given to measure on.
"""

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, one_at_a_time, write_text
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import describe_files
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.readers.parallel import Pair, PairSource
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import PairStream, open_pairs, pack_pairs

MOST = 1_000  # pairs of two languages that are kept to measure on
LEAST = 8  # pairs that retrieval is worth measuring on
HELD = "held-out"


@dataclass(frozen=True)
class Aligned:
    """PairSource to train on by their languages (`en-nl`), pairs set aside, and how many were left out because of them.

    measured: pairs that have a sentence of the text given to measure on.
    """

    pairs: Mapping[str, PairStream]
    held: Mapping[str, Sequence[Pair]]
    measured: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """What was left out or cut."""
        told = []
        for title, stream in self.pairs.items():
            counts = {
                "have an empty side and were left out": stream.left_out,
                "are longer than the model reads, and are cut": stream.cut,
                "have a sentence that is measured on, and were left out": self.measured[title],
            }
            told += [f"{title}: {count:,} pairs {what}" for what, count in counts.items() if count]
        return told

    def bitexts(self) -> list[Bitext]:
        """The pairs set aside, as text to measure retrieval on; too few are none."""
        found = []
        for title, some in self.held.items():
            if len(some) >= LEAST:
                named = zip(self.pairs[title].languages, zip(*some, strict=True), strict=True)
                found.append(Bitext(tuple(Corpus(language, list(side)) for language, side in named), name=title))
        return found

    def corpora(self) -> list[Corpus]:
        """The sentences set aside, each once, by language, as text to measure perplexity on."""
        sentences: dict[str, dict[str, None]] = {}
        for title, some in self.held.items():
            for number, language in enumerate(self.pairs[title].languages):
                sentences.setdefault(language, {}).update((pair[number], None) for pair in some)
        return [Corpus(language, list(several), name=HELD) for language, several in sentences.items() if several]


def languages_of(sources: Sequence[PairSource]) -> list[str]:
    """Every language of the pairs, in order of appearance."""
    return list(dict.fromkeys(language for one in sources for language in one.languages))


def first_sentences(sources: Sequence[PairSource], most: int) -> Iterator[Corpus]:
    """Both sides of the first pairs of each source."""
    for one in sources:
        pairs = list(islice(one.open(), most))
        for number, language in enumerate(one.languages):
            yield Corpus(language, [pair[number] for pair in pairs], name=one.name)


def pair_facts(sources: Sequence[PairSource], progress: Progress = silent) -> dict[str, Any]:
    """What tells these pairs from any other: hashes of every file, or of text in memory."""
    files = {title: [path for one in some for path in one.files] for title, some in _by_title(sources).items()}
    marks = [(one.title, one.mark) for one in sources if one.mark]
    return {**describe_files(files, progress), **({"in memory": marks} if marks else {})}


def pack_aligned(
    sources: Sequence[PairSource],
    folder: Path,
    *,
    stack: Stack,
    longest: int,
    share: float,
    known: Sequence[str],
    progress: Progress = silent,
) -> Aligned:
    """Pack the pairs into `folder`, or go on with what is there. known: sentences that are measured on."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "pairs.json"
    if not done.is_file():
        clear_leftovers(folder)
        aside = {title: _held(some, share) if share else [] for title, some in _by_title(sources).items()}
        places = {hash_fraction(side) for pairs in aside.values() for pair in pairs for side in pair}
        given = {hash_fraction(one) for one in known}
        facts = {}
        for title, some in _by_title(sources).items():
            sift = _Sift(places, given)
            pairs = sift.kept(one for source in some for one in source.open())
            how: dict[str, Any] = {"languages": some[0].languages, "longest": longest, "progress": progress}
            stream = pack_pairs(stack.tokenizer, pairs, folder / f"{title}.npy", **how)
            if not len(stream):
                same = sift.measured > sift.aside
                raise InputError(
                    f"--train {title}: no pair is left to train on: {stream.left_out:,} have an empty side, "
                    f"{sift.aside:,} a sentence that is held out, {sift.measured:,} one of the text given to measure "
                    f"on; give {'--bitext or --evaluate other text' if same else 'more text or a smaller --held-out'}"
                )
            facts[title] = {"held": aside[title], "measured": sift.measured}
        write_text(done, json.dumps(facts, ensure_ascii=False))
    found = json.loads(done.read_text(encoding="utf-8"))
    held = {title: [(one, other) for one, other in facts["held"]] for title, facts in found.items()}
    measured = {title: facts["measured"] for title, facts in found.items()}
    return Aligned({title: open_pairs(folder / f"{title}.npy") for title in found}, held, measured)


def pack_shared(
    sources: Sequence[PairSource],
    folder: Path,
    *,
    stack: Stack,
    longest: int,
    share: float,
    known: Sequence[str],
    progress: Progress = silent,
) -> Aligned:
    """The same in a folder that runs share, in which everything that decides the packed pairs names their own folder.

    Of several processes that need the same pairs at once, one packs while the others wait.
    """
    facts = {
        "pairs": pair_facts(sources, progress),
        "tokenizer": stack.tokenizer.backend_tokenizer.to_str(),
        "longest": longest,
        "share": share,
        "known": sorted(hash_fraction(one) for one in known),
    }
    own = folder / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    with one_at_a_time(own):
        return pack_aligned(sources, own, stack=stack, longest=longest, share=share, known=known, progress=progress)


def _held(sources: Sequence[PairSource], share: float) -> list[Pair]:
    """The pairs whose first sentence has the lowest places, below the share, at most MOST of them."""
    usable = (pair for one in sources for pair in one.open() if all(side.strip() for side in pair))
    pairs = ((hash_fraction(pair[0]), pair) for pair in usable)
    return [pair for _, pair in heapq.nsmallest(MOST, (one for one in pairs if one[0] < share))]


class _Sift:
    """Lets pairs through that may be trained on, and counts those that have a sentence in `known` or in `held`."""

    def __init__(self, held: set[float], known: set[float]) -> None:
        self.held, self.known, self.measured, self.aside = held, known, 0, 0

    def kept(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs to train on, one at a time."""
        for pair in pairs:
            sides = [hash_fraction(side) for side in pair]
            if not all(side.strip() for side in pair):
                yield "", ""  # packing counts what is empty
            elif any(one in self.known for one in sides):
                self.measured += 1
            elif any(one in self.held for one in sides):
                self.aside += 1
            else:
                yield pair


def _by_title(sources: Sequence[PairSource]) -> dict[str, list[PairSource]]:
    found: dict[str, list[PairSource]] = {}
    for one in sources:
        found.setdefault(one.title, []).append(one)
    return found
