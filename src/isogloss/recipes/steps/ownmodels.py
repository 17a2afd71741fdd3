"""Languages that have parts of a model of their own, in a transfer: what the plan freezes is the language's own.

A model that was pretrained with `--separate`, or with a vocabulary for each language, is a folder for each of them. The
source's is trained. A target is tested with its own tokenizer and, of what the plan freezes, with its own embeddings
and blocks; above them stand the blocks and the head as they were trained (Conneau, Wu et al. 2020, Table 1).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.recipes.recipe import language_entries
from isogloss.recipes.steps.tasktexts import Sets
from isogloss.stack.load import load
from isogloss.stack.stack import Stack
from isogloss.training.plans import Plan, frozen_at


def read_own(
    given: Any, sets: Sets, stack: Stack, *, plans: Sequence[Plan], device: torch.device, half: bool
) -> dict[str, Stack]:
    """The models of target languages, `LANG=FOLDER` or folders by language; stack is the source's, which they must fit.

    half: whether they compute in bfloat16, so that a GPU runs their sentences end to end.
    """
    found: dict[str, Stack] = {}
    for language, folders in language_entries(given or [], "own"):
        if language == sets.source or language not in [one.language for one in sets.tests]:
            raise InputError(f"--own {language}: it is for a language of --test other than {sets.source}")
        if language in [one.language for one in sets.translated]:
            raise InputError(f"--own {language} is only tested, so --translated cannot have {language}; leave one out")
        if language in found or len(folders) != 1:
            raise InputError(f"--own {language}: one folder of a model was expected, {language}=FOLDER")
        own = load(folders[0], dtype="float32", device=device)
        _refuse_others(own, stack, language)
        found[language] = replace(own, pack=half) if device.type == "cuda" else own
    for plan in plans if found else ():
        _refuse_plan(plan, stack, found)
    return found


def _refuse_others(own: Stack, stack: Stack, language: str) -> None:
    mine, theirs = ((one.family.kind, one.last, one.width) for one in (own, stack))
    if mine != theirs:
        raise InputError(
            f"--own {language}: {own.name} is {own.width} wide with {own.last} layers and {stack.name} {stack.width} "
            f"wide with {stack.last}; layers of one cannot stand on those of the other"
        )


def _refuse_plan(plan: Plan, stack: Stack, found: dict[str, Stack]) -> None:
    """A part that is the target's own must stay as it was pretrained, and ids must mean what was trained."""
    frozen = frozen_at(plan, 0, depth=stack.last, epoch=1)
    if plan.unfreeze is not None or any(block <= frozen for block in plan.reinit):
        raise InputError(
            f"the plan {plan} changes frozen layers, which --own takes from the target's model; freeze:N goes with it"
        )
    if frozen < 0:
        for language, own in found.items():
            if pieces(own) != pieces(stack):
                raise InputError(
                    f"--own {language} has {pieces(own):,} pieces and {stack.name} {pieces(stack):,}; with embeddings "
                    f"of its own they must be frozen, as with --plans freeze:0, not {plan}"
                )


def pieces(stack: Stack) -> int:
    """Rows of the embedding matrix."""
    return int(stack.model.get_input_embeddings().weight.shape[0])
