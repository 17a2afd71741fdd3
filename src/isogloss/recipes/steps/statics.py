"""Static word vectors beside a model's: made from the same text by counting, or read from files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.progress import Progress
from isogloss.recipes.steps.lexicontext import Text
from isogloss.recipes.steps.texts import describe, read_texts
from isogloss.text.readers.dictionaries import read_word_vectors
from isogloss.vectors.static import cooccurrences, ppmi_vectors

TRAIN = "train"
MOST_READ = 200_000  # lines of a file of word vectors, the usual cut
WIDTH, WINDOW = 300, 5


@dataclass(frozen=True)
class Static:
    """Where static vectors come from: a file a language, or none of them for counting in the text."""

    files: Mapping[str, Path]

    def names(self, source: str, target: str) -> tuple[str, str | None]:
        """What tables call the vectors of two languages."""
        if not self.files:
            return "static: PPMI", None
        return f"static: {self.files[source].name}", f"static: {self.files[target].name}"

    def hashes(self, progress: Progress) -> Any:
        """What a run records of it."""
        return describe({language: [path] for language, path in self.files.items()}, progress) or TRAIN


def read_static(given: Sequence[str] | Mapping[str, Any], languages: Sequence[str]) -> Static:
    """`train`, or a file of word vectors for every language."""
    if list(given) == [TRAIN]:
        return Static({})
    if TRAIN in given:
        raise InputError("--static train stands alone; leave it out, or the files")
    files = read_texts(given, option="static")
    missing = [one for one in languages if one not in files]
    if missing:
        raise InputError(f"--static has no word vectors of {', '.join(missing)}; give LANG=FILE for each, or train")
    several = [one for one in languages if len(files[one]) > 1]
    if several:
        raise InputError(f"--static {several[0]}: one file of word vectors was expected, not {len(files[several[0]])}")
    return Static({one: files[one][0] for one in languages})


def static_vectors(
    static: Static,
    texts: Mapping[str, Text],
    words: Mapping[str, Sequence[str]],
    *,
    seed: int,
    progress: Progress,
) -> dict[str, tuple[Sequence[str], Tensor]]:
    """Words and vectors of every language: those of its vocabulary that have one."""
    found: dict[str, tuple[Sequence[str], Tensor]] = {}
    for language, text in texts.items():
        if static.files:
            read = read_word_vectors(static.files[language], keep=set(words[language]), most=MOST_READ)
            found[language] = read.words, torch.from_numpy(read.values)
        else:
            counts = cooccurrences(
                text, language, types=words[language], window=WINDOW, total=len(text), progress=progress
            )
            width = min(WIDTH, *(len(one) - 1 for one in words.values()))
            found[language] = words[language], torch.from_numpy(ppmi_vectors(counts, width=width, seed=seed))
    return found
