"""Which recipes there are, each as its command's name and two functions; a new one adds a line."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.recipes.align import align_job, align_model
from isogloss.recipes.drift import drift, drift_job
from isogloss.recipes.lexicon import lexicon, lexicon_job
from isogloss.recipes.map import map_job, map_layers
from isogloss.recipes.pretrain import pretrain, pretrain_job
from isogloss.recipes.recipe import Job
from isogloss.recipes.rotate import rotate, rotate_job
from isogloss.recipes.stitch import stitch, stitch_job
from isogloss.recipes.transfer import transfer, transfer_job

TEXT = ("bitext", "languages", "links", "data")  # options that say which parallel text to read


@dataclass(frozen=True)
class Recipe:
    """`job(...)` checks what it is given and returns the work; `call(first, ...)` does it, from Python."""

    name: str
    job: Callable[..., Job]
    call: Callable[..., pd.DataFrame]

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Its options, with the model where it takes one, without parallel text."""
        found = inspect.signature(self.job).parameters
        return {name: one for name, one in found.items() if name != "bitext"}

    @property
    def takes_bitext(self) -> bool:
        """Whether it reads parallel text."""
        return "bitext" in inspect.signature(self.job).parameters

    @property
    def first(self) -> str:
        """What stands before the options: the model, or the text that a model is made of."""
        return "model" if "model" in self.parameters else "text"


RECIPES = {
    one.name: one
    for one in (
        Recipe("map", map_job, map_layers),
        Recipe("pretrain", pretrain_job, pretrain),
        Recipe("drift", drift_job, drift),
        Recipe("transfer", transfer_job, transfer),
        Recipe("lexicon", lexicon_job, lexicon),
        Recipe("rotate", rotate_job, rotate),
        Recipe("stitch", stitch_job, stitch),
        Recipe("align", align_job, align_model),
    )
}


def find_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}; there is {', '.join(RECIPES)}")
    return RECIPES[name]


def read_parallel(
    bitext: str | list[str] | None = None,
    languages: str | None = None,
    links: str | None = None,
    data: str | None = None,
) -> list[Any]:
    """The parallel text that the options of a command name; none where nothing is given."""
    from isogloss.text import embedded, read_bitexts, resolve

    wanted = [one.strip() for one in languages.split(",")] if languages else None
    if not bitext:
        if links:
            raise InputError("--links goes with --bitext: the embedded sentences have links of their own")
        return [embedded(wanted)] if wanted else []  # a recipe knows what to take when nothing is given
    files = [bitext] if isinstance(bitext, str) else bitext
    return read_bitexts(*(resolve(path, data) for path in files), languages=wanted, links=links)


def read_options(recipe: Recipe, options: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The parallel text that a recipe's options name, and the options left: the data folder where it asks for one."""
    if not recipe.takes_bitext:
        return [], dict(options)
    left = {name: value for name, value in options.items() if name not in TEXT or name in recipe.parameters}
    return read_parallel(**{name: options.get(name) for name in TEXT}), left
