"""Which papers there are: each is a module or folder of this package, named author and year, that holds `PAPER`.

A new one is one more file, `papers/muller2021.py`, and nothing else is edited.
"""

import re
from importlib import import_module
from pathlib import Path

from isogloss.errors import InputError
from isogloss.papers.paper import Paper


def names() -> list[str]:
    """The papers there are.

    >>> "hussain2020" in names()
    True
    """
    here = Path(__file__).parent
    found = [path.stem for path in here.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return sorted(name for name in found if re.fullmatch(r"[a-z]+[0-9]{4}", name))


def find(name: str) -> Paper:
    """The paper of this name."""
    if name not in names():
        raise InputError(f"there is no paper {name!r} to reproduce; there is {', '.join(names())}")
    paper: Paper = import_module(f"isogloss.papers.{name}").PAPER
    return paper
