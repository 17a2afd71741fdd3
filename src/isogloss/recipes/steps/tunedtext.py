"""The text of a drift run: what is tuned on, what is held out of it, what of other languages is watched, and as ids.

Which sentences are held out is decided by the sentences themselves, by a hash: sorted by it, the first share is the
test, the next as many the validation, the rest in its own order the training text. So neither the order of the file nor
a seed changes it, and copies of a sentence are never on both sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import joined_corpus, language_files
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.sampling import hash_fraction
from isogloss.training.masked_lm import Sentences, masking_of, tokenise


@dataclass(frozen=True)
class Corpora:
    """Training, validation and test sentences of the target language, and a corpus of each other language."""

    train: Corpus
    validation: Corpus
    test: Corpus
    others: tuple[Corpus, ...] = ()

    @property
    def language(self) -> str:
        """The language that is tuned on."""
        return self.train.language

    @property
    def languages(self) -> list[str]:
        """That language first, then the others in the order given."""
        return [self.language, *(one.language for one in self.others)]

    @property
    def fingerprints(self) -> dict[str, str]:
        """A hash of every corpus."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: one.fingerprint for name, one in named.items()} | {
            one.language: one.fingerprint for one in self.others
        }


@dataclass(frozen=True)
class Tokenised:
    """The same sentences as ids of one tokenizer, and what masking them needs: mask_id, marks, pool."""

    train: Sentences | None
    validation: Sentences
    test: Sentences
    others: tuple[Sentences, ...]
    masking: Mapping[str, Any]

    @property
    def notes(self) -> list[str]:
        """Which texts have sentences that were cut to the model's length."""
        texts = [one for one in (self.train, self.validation, self.test, *self.others) if one is not None]
        return [
            f"{one.shortened:,} of {len(one):,} sentences of {one.name} ({one.language}) were cut to the model's length"
            for one in texts
            if one.shortened
        ]


def overlap_notes(corpora: Corpora, parallel: Sequence[Bitext]) -> list[str]:
    """Which parallel texts have sentences that are tuned on: their retrieval is not of new text."""
    tuned, told = set(corpora.train.sentences), []
    for text in parallel:
        if corpora.language in text.languages:
            side = text[corpora.language].sentences
            if same := sum(one in tuned for one in side):
                told.append(
                    f"{same:,} of {len(side):,} sentences of {text.name} ({corpora.language}) are tuned on, too: "
                    "retrieval there is not of new text"
                )
    return told


def read_corpora(
    target: str | Mapping[str, Any], others: Sequence[str] | Mapping[str, Any], *, share: float, batch: int
) -> Corpora:
    """Read the text: target `LANG=FILE[,FILE]`, others the same once a language; or files by language.

    share: of the target's sentences, for the test, and as many for the validation. batch: the fewest to train on.
    """
    read = language_files([target] if isinstance(target, str) else target, option="target")
    if len(read) != 1:
        raise InputError(f"--target is one language, LANG=FILE, not {len(read)} ({', '.join(read)})")
    elsewhere = language_files(others, option="others")
    (language, files), *_ = read.items()
    if language in elsewhere:
        raise InputError(f"--others has text of {language}, the language of --target; it is for other languages")
    whole = joined_corpus(language, files)
    test, validation, train = split(whole, share)
    if len(train) < batch:
        raise InputError(
            f"{whole.name} has {len(whole):,} sentences, {len(train):,} of them to train on, fewer than one batch of "
            f"{batch}; give more sentences, or a smaller --batch or --held-out"
        )
    return Corpora(train, validation, test, tuple(joined_corpus(one, paths) for one, paths in elsewhere.items()))


def split(corpus: Corpus, share: float) -> tuple[Corpus, Corpus, Corpus]:
    """Test, validation and training sentences of a corpus, named so.

    Test and validation are in the order of their places, so that the first 16 of them are the same whatever the order
    of the file. A few more than the share go there where copies of a sentence would be parted.

    >>> test, validation, train = split(Corpus("en", ["a", "b", "c", "d", "e"]), 0.2)
    >>> test.sentences, validation.sentences, train.sentences
    (['a'], ['c'], ['b', 'd', 'e'])
    """
    places = [hash_fraction(sentence) for sentence in corpus]
    order = sorted(range(len(corpus)), key=places.__getitem__)
    wanted = round(share * len(corpus))
    first = _whole(order, places, wanted)
    second = _whole(order, places, first + wanted)
    if not 0 < first < second:
        raise InputError(
            f"{corpus.name or corpus.language} has {len(corpus)} sentences, too few to hold out {share:g} of them "
            "twice; give more sentences or a larger --held-out"
        )
    parts = {"test": order[:first], "validation": order[first:second], "train": sorted(order[second:])}
    test, validation, train = (
        Corpus(corpus.language, [corpus.sentences[row] for row in rows], name=name) for name, rows in parts.items()
    )
    return test, validation, train


def tokenise_corpora(stack: Stack, corpora: Corpora, *, native: bool = False, progress: Progress = silent) -> Tokenised:
    """Every corpus as ids of the stack's tokenizer; native: only what a native model is evaluated on."""
    tokenizer, length = stack.tokenizer, stack.max_length
    train = None if native else tokenise(tokenizer, corpora.train, max_length=length, progress=progress)
    validation, test = (tokenise(tokenizer, one, max_length=length) for one in (corpora.validation, corpora.test))
    others = () if native else corpora.others
    read = tuple(tokenise(tokenizer, one, max_length=length, progress=progress) for one in others)
    masking = masking_of(tokenizer)
    for one in (train, validation, test, *read):
        if one is not None and np.isin(one.ids, masking["marks"]).all():
            raise InputError(
                f"the corpus {one.name} ({one.language}) has no token that could be masked; {stack.name} knows none of "
                "its words: give other text"
            )
    return Tokenised(train, validation, test, read, masking)


def _whole(order: Sequence[int], places: Sequence[float], count: int) -> int:
    """The count, or a few more so that no copies are parted."""
    while 0 < count < len(order) and places[order[count]] == places[order[count - 1]]:
        count += 1
    return count
