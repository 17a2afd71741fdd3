"""Code-switched training examples: which of them an epoch changes, and how, and all of them as items again.

The training set is the source's examples, then each translation's, row by row. An example is switched in the same way
whenever its seed, epoch and number are the same. Development and test sets are never switched.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isogloss.errors import InputError
from isogloss.progress import silent
from isogloss.recipes.lexicon import fingerprint
from isogloss.recipes.recipe import language_files, one_of
from isogloss.recipes.steps.taskfitting import Text
from isogloss.recipes.steps.tasktexts import Set, Sets, tokenise_set
from isogloss.recipes.steps.translations import need_segments
from isogloss.tasks.task import Example, Items, Segments, Task, chain_items
from isogloss.text import read_lexicon
from isogloss.text.corpora import Lexicon
from isogloss.text.switching import (
    AS_IT_IS,
    LanguageDictionary,
    Switched,
    joined_dictionary,
    known_words,
    segment_draws,
    switch_words,
    word_chance,
)
from isogloss.text.words import spans

SWITCH_TO = ("source", "any")
LOOKED_AT = 10_000  # training examples that tell how much of the text the dictionaries know


@dataclass(frozen=True)
class Switching:
    """What is switched: a segment with probability `share`, from the source's text or `any` other's; words, `words`."""

    share: float = 0.0
    to: str = "source"
    words: float = 0.0
    lexicons: Sequence[Lexicon] = ()
    dictionary: LanguageDictionary = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is."""
        return self.share > 0 or self.words > 0

    @property
    def condition(self) -> str:
        """As it stands in the rows.

        >>> Switching(0.5).condition, Switching(0.5, "any", 0.25).condition, Switching().condition
        ('switch:0.5', 'switch:0.5/any switch-words:0.25', '')
        """
        segment = f"switch:{self.share:g}{'' if self.to == 'source' else f'/{self.to}'}" if self.share else ""
        return " ".join(filter(None, (segment, f"switch-words:{self.words:g}" if self.words else "")))

    @property
    def hashes(self) -> dict[str, str]:
        """A hash of every dictionary."""
        return {f"{one.target} {one.name}": fingerprint(one) for one in self.lexicons}


def read_switching(task: Task, sets: Sets, *, share: float, to: str, words: float, lexicon: Any) -> Switching:
    """Check the options and read the dictionaries, `LANG=FILE[,FILE]`, from the source to each language."""
    for name, value in (("switch", share), ("switch-words", words)):
        if not 0 <= value <= 1:
            raise InputError(f"--{name} is a probability, from 0 to 1, not {value}")
    one_of("switch_to", to, SWITCH_TO)
    files = language_files(lexicon or [], option="lexicon")
    for name, given in (("switch", share), ("switch-words", words), ("lexicon", files)):
        if given:
            need_segments(task, f"--{name}")
    if share and not sets.translated:
        raise InputError("--switch takes a segment from an example's translation; give --translated LANG=FILE")
    if words and not files:
        raise InputError("--switch-words takes words from dictionaries; give --lexicon LANG=FILE")
    lexicons = [read_lexicon(path, sets.source, language) for language, paths in files.items() for path in paths]
    return Switching(share, to, words, lexicons, joined_dictionary(lexicons))


def known_share(task: Task, sets: Sets, switching: Switching) -> str:
    """A sentence on how much of the training text the dictionaries know; refused where that is nothing."""
    known = total = 0
    for example in sets.train.examples[:LOOKED_AT]:
        for text, _ in need_segments(task, "--switch-words").texts(example):
            total += len(spans(text, sets.source))
            known += len(known_words(text, switching.dictionary, language=sets.source))
    names = ", ".join(one.name for one in switching.lexicons)
    if not known:
        raise InputError(
            f"none of the {total:,} words of {sets.train.name} ({sets.source}) that were looked up is in {names}; "
            "check the languages of --lexicon"
        )
    return f"{known / total:.0%} of the words of {sets.train.name} ({sets.source}), signs included, are in {names}"


def changed_examples(
    segments: Segments, sets: Sets, switching: Switching, *, seed: int, epoch: int
) -> Iterator[tuple[int, Example]]:
    """Number and new form of every example that is another in this epoch, in order."""
    trained = [one.examples for one in sets.trained]
    count = len(trained[0])
    draws = segment_draws(
        seed, epoch, count=count * len(trained), share=switching.share, segments=len(segments.switched),
        others=max(1, len(trained) - 1),
    )  # fmt: skip
    for number, (segment, drawn) in enumerate(zip(*(one.tolist() for one in draws), strict=True)):
        own, row = divmod(number, count)
        old = example = trained[own][row]
        spoken = [own] * len(segments.texts(example))
        other = 0 if switching.to == "source" else drawn + (drawn >= own)  # the others, numbered without this one
        if segment != AS_IT_IS and other != own:
            which = segments.switched[segment]
            example = segments.swap(example, trained[other][row], which)
            spoken[which] = other
        if switching.words and 0 in spoken:
            chance = word_chance(seed, epoch, number)
            example = _in_other_words(segments, example, spoken, sets.source, switching, chance)
        if example != old:
            yield number, example


def changing_items(
    task: Task, sets: Sets, items: Items, switching: Switching, *, tokenizer: Any, length: int
) -> Callable[[int, int], Items]:
    """The training items of a seed and an epoch: those of `items` that stay, and the others tokenised again."""
    segments = need_segments(task, "--switch")

    def of(seed: int, epoch: int) -> Items:
        changed = dict(changed_examples(segments, sets, switching, seed=seed, epoch=epoch))
        if not changed:
            return items
        numbers = np.array(list(changed))
        some = Set(sets.source, sets.train.name, list(changed.values()), ())
        new = tokenise_set(task, some, sets.labels, tokenizer=tokenizer, length=length, progress=silent)
        kept = items.take(np.flatnonzero(~np.isin(items.owners, numbers)))
        both = chain_items([kept, replace(new, owners=numbers[new.owners])])
        return both.take(np.argsort(both.owners, kind="stable"))

    return of


def training_text(
    task: Task, sets: Sets, found: Sequence[Items], switching: Switching, *, tokenizer: Any, length: int
) -> Text:
    """What is trained on and scored, of the items of every set: translations after the source, as one training set."""
    trained, count = len(sets.trained), len(sets.train.examples)
    moved = [replace(one, owners=one.owners + number * count) for number, one in enumerate(found[:trained])]
    items = chain_items(moved)
    text = Text([items, *found[trained:]])
    if switching:
        text.changing = changing_items(task, sets, items, switching, tokenizer=tokenizer, length=length)
        text.longest = length
    return text


def _in_other_words(
    segments: Segments,
    example: Example,
    spoken: Sequence[int],
    language: str,
    switching: Switching,
    chance: np.random.Generator,
) -> Example:
    """An example with words of its source-language segments replaced."""
    now = [
        switch_words(
            text, switching.dictionary, language=language, share=switching.words, chance=chance, kept=kept
        ) if own == 0 else Switched(text)
        for own, (text, kept) in zip(spoken, segments.texts(example), strict=True)
    ]  # fmt: skip
    return segments.rebuild(example, now)
