"""What `lexicon` reads: text of each language, of which some sentences are drawn, its vocabulary, and dictionaries."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError
from isogloss.progress import Progress
from isogloss.seeds import seed_of
from isogloss.stack.stack import Stack
from isogloss.text import read_lexicon
from isogloss.text.catalog import VARIABLE, data_dir, find_lexicon
from isogloss.text.corpora import Lexicon
from isogloss.text.readers.lines import languages_of
from isogloss.text.streams import paragraphs
from isogloss.vectors.types import count_types


@dataclass(frozen=True)
class Text:
    """Files of one language, a sentence a line, and which of their sentences were drawn, (sentences,) of truth."""

    language: str
    files: Sequence[Path]
    drawn: NDArray[np.bool_]

    def __len__(self) -> int:
        """Number of sentences drawn."""
        return int(self.drawn.sum())

    def __iter__(self) -> Iterator[str]:
        """The sentences drawn, one at a time; the files are read again each time."""
        return (one for one, kept in zip(paragraphs(self.files), self.drawn, strict=True) if kept)


@dataclass(frozen=True)
class Entries:
    """The pairs of two dictionaries that two vocabularies know, as row numbers (pairs, 2).

    words: how many source words each dictionary has, known: how many of them are left. alike: how many of those in the
    test have a translation that is written like them. shared: pairs of the training dictionary left out because their
    source word is in the test.
    """

    pairs: Mapping[str, Tensor]
    words: Mapping[str, int]
    known: Mapping[str, int]
    alike: int
    shared: int


def draw_sentences(language: str, files: Sequence[Path], *, most: int, seed: int) -> Text:
    """At most so many sentences of the files, drawn by the seed; all where there are no more."""
    count = sum(1 for _ in paragraphs(files))
    drawn = np.ones(count, dtype=np.bool_)
    if count > most:
        drawn[:] = False
        chance = np.random.default_rng(seed_of(seed, "sentences", language))
        drawn[chance.choice(count, size=most, replace=False)] = True
    return Text(language, files, drawn)


def frequent_words(text: Text, *, most: int, least: int, progress: Progress) -> list[str]:
    """The most frequent words, seen at least so often, most frequent first; ties by alphabet."""
    progress(f"counting words of {text.language}", 0, 1)
    counts = count_types(text, text.language)
    progress(f"counting words of {text.language}", 1, 1)
    found = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    if not found:
        raise InputError(
            f"the text of {text.language} has no word that occurs {least} times; give more text or a smaller --least"
        )
    return found[:most]


def read_lexicons(
    given: Mapping[str, Sequence[str] | None], source: str, targets: Sequence[str], *, data: str | None
) -> dict[tuple[str, str], Lexicon]:
    """The dictionary of every (split, target): of the files given for a split, or else one found in the data folder."""
    found = {}
    for split, files in given.items():
        for target in targets:
            if files is None:
                if data is None and not os.environ.get(VARIABLE):
                    raise InputError(f"give a dictionary with --{split} FILE, or a folder to find one in with --data")
                path = find_lexicon(data_dir(data), source, target, split=split)
            else:
                path = _file_for(split, files, source, target, alone=len(targets) == 1)
            found[split, target] = read_lexicon(path, source, target)
    return found


def _file_for(split: str, files: Sequence[str], source: str, target: str, *, alone: bool) -> Path:
    """The file among these that joins two languages, by its name; the only one, where only one is needed."""
    for file in files:
        told = languages_of(Path(file))
        if (told is not None and set(told) == {source, target}) or (told is None and alone and len(files) == 1):
            return Path(file)
    raise InputError(
        f"--{split}: none of {', '.join(Path(one).name for one in files)} is a dictionary of {source} and {target} by "
        f"its name; name it as in {source}-{target}.txt"
    )


def entries(
    train: Lexicon | None, test: Lexicon, words: tuple[Sequence[str], Sequence[str]], *, identical: bool = True
) -> Entries:
    """Which pairs of the dictionaries two vocabularies know; a dictionary of unknown words is refused.

    identical: whether pairs written alike count.
    """
    numbers = [{word: place for place, word in enumerate(side)} for side in words]
    asked = {one.lower() for one, _ in test}
    pairs, sizes, known, shared = {}, {}, {}, 0
    for split, lexicon in (("train", train), ("test", test)):
        if lexicon is None:
            continue
        lower = list(dict.fromkeys((one.lower(), other.lower()) for one, other in lexicon))
        lower = [pair for pair in lower if identical or pair[0] != pair[1]]
        sizes[split] = len({one for one, _ in lower})
        if split == "train":
            shared = sum(one in asked for one, _ in lower)
            lower = [pair for pair in lower if pair[0] not in asked]
            if shared and not lower:
                raise InputError(
                    f"{lexicon.name}: all its words are asked by {test.name}, and what is asked is not learned "
                    "from; give a dictionary of other words"
                )
        there = [
            (numbers[0][one], numbers[1][other]) for one, other in lower if one in numbers[0] and other in numbers[1]
        ]
        if not there:
            raise InputError(
                f"{lexicon.name}: of its {len(lower):,} pairs none has both words among the {len(words[0]):,} words of "
                f"{lexicon.source} and {len(words[1]):,} of {lexicon.target} in the text; check the languages, or give "
                "more text"
            )
        pairs[split] = torch.tensor(there, dtype=torch.long)
        known[split] = len({one for one, _ in there})
    alike = len({one for one, other in pairs["test"].tolist() if words[0][one] == words[1][other]})
    return Entries(pairs, sizes, known, alike, shared)


def single_pieces(stack: Stack, words: Sequence[str]) -> tuple[list[int], Tensor]:
    """Which words are a single piece of the model's vocabulary, and their rows of its embedding matrix.

    Returns the words' places and (words found, width), float32. A word that is no piece as it is may be one with a
    capital: German nouns are.
    """
    tokenizer = stack.tokenizer
    found: dict[int, int] = {}
    for spell in (str, str.capitalize):
        left = [place for place in range(len(words)) if place not in found]
        if not left:
            break
        encoded = tokenizer([spell(words[place]) for place in left], add_special_tokens=False)["input_ids"]
        found |= {
            place: ids[0]
            for place, ids in zip(left, encoded, strict=True)
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id
        }
    places = sorted(found)
    matrix = stack.model.get_input_embeddings().weight
    rows = torch.tensor([found[place] for place in places], dtype=torch.long, device=matrix.device)
    return places, matrix.detach()[rows].float().cpu()
