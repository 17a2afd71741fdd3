"""What guessing scores: a model's own answers, given to examples they are not about.

A floor is measured, not assumed: a third is chance in NLI only where a model gives each label equally often and the
labels are equally many. Answers are dealt out anew at random, whole where an example has one, word by word where every
word has one, so that each is given as often as before and nothing ties it to its example any more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from isogloss.seeds import seed_of

DRAWS = 5

Shuffle = Callable[[Sequence[Any], np.random.Generator], list[Any]]
"""(answers, generator) -> as many answers of the same kind, dealt out anew."""


def shuffle_answers(answers: Sequence[Any], generator: np.random.Generator) -> list[Any]:
    """Each answer to another example.

    >>> sorted(shuffle_answers(["yes", "no", "no"], np.random.default_rng(0)))
    ['no', 'no', 'yes']
    """
    return [answers[number] for number in generator.permutation(len(answers))]


def shuffle_words(answers: Sequence[Sequence[Any]], generator: np.random.Generator) -> list[list[Any]]:
    """Answers of words to other words, of any sentence; sentences keep their lengths.

    >>> [len(one) for one in shuffle_words([["DET", "NOUN"], ["VERB"]], np.random.default_rng(0))]
    [2, 1]
    """
    dealt = iter(shuffle_answers([one for some in answers for one in some], generator))
    return [[next(dealt) for _ in some] for some in answers]


def chance_floors(
    task: Any, examples: Sequence[Any], answers: Sequence[Any], language: str, *, name: str = "", draws: int = DRAWS
) -> dict[str, float]:
    """The scores of shuffled answers, their mean over some draws; language and name of the set decide the draws."""
    generator = np.random.default_rng(seed_of(0, "chance", language, name))
    found = [task.score(examples, task.shuffle(answers, generator), language) for _ in range(draws)]
    return {key: float(np.mean([one[key].value for one in found])) for key in found[0]}
