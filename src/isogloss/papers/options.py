"""Options of single papers: the keyword arguments of a paper's `plan`, each annotated with its help.

All of them are None unless given, which lets the paper and the scale decide. An option of another paper is refused with
the list of those that this one takes.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from isogloss.errors import InputError
from isogloss.papers.paper import Paper
from isogloss.papers.registry import find, names


@dataclass(frozen=True)
class Option:
    """An option of one or several papers: the type of its value, and its help by paper."""

    name: str
    kind: Any
    help: Mapping[str, str]


def options_of(paper: Paper) -> dict[str, Option]:
    """The options of one paper.

    >>> "native" in options_of(find("hussain2020"))
    True
    """
    found = {}
    for one in list(inspect.signature(paper.plan).parameters.values())[1:]:
        kind, text = get_args(one.annotation) if get_origin(one.annotation) is Annotated else (one.annotation, "")
        found[one.name] = Option(one.name, kind, {paper.name: text})
    return found


def every_option() -> dict[str, Option]:
    """The options of all papers by name; several papers may have one of the same name, for values of one type."""
    found: dict[str, Option] = {}
    for paper in map(find, names()):
        for name, one in options_of(paper).items():
            shared = found.get(name, one)
            found[name] = Option(name, one.kind, {**shared.help, **one.help})
    return found


def taken(paper: Paper, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, without those left at None; one that the paper does not take is refused."""
    known = options_of(paper)
    asked = {name: value for name, value in given.items() if value is not None}
    for name in asked:
        if name not in known:
            listed = ", ".join(_spelt(one) for one in known) or "none"
            raise InputError(f"{_spelt(name)} is no option of {paper.name}, whose own are: {listed}")
    return asked


def _spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"
