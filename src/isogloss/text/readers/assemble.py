"""Columns of sentences become a bitext: rows with an empty side go, and their words and links with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Link

Pair = tuple[str, str]


def assemble(
    corpora: Sequence[Corpus],
    name: str,
    *,
    links: Mapping[Pair, Sequence[Sequence[Link]]] | None = None,
    dropped: int = 0,
) -> Bitext:
    """A bitext of the rows that have text on every side; `dropped` counts the others (and any given before).

    An empty cell is how many data sets write "not translated". Such a row says nothing about how languages
    meet, so it is left out on every side, and its word links with it.
    """
    if len(corpora) < 2:
        raise InputError(f"{name}: a bitext needs two languages or more, here {', '.join(c.language for c in corpora)}")
    whole = Bitext(tuple(corpora), links or {}, name, dropped)
    rows = [row for row, cells in enumerate(zip(*corpora, strict=True)) if all(map(_has_text, cells))]
    if not rows:
        raise InputError(f"{name}: no row has text in every one of {', '.join(whole.languages)}")
    if len(rows) == whole.rows:
        return whole
    return replace(whole.take(rows), dropped=dropped + whole.rows - len(rows))


def _has_text(cell: str) -> bool:
    return bool(cell) and not cell.isspace()
