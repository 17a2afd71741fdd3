"""`isogloss data`: what a folder of data sets holds, what is wrong in it, and pairs of sentences that say the same."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isogloss.errors import InputError
from isogloss.progress import bar

data_app = typer.Typer(no_args_is_help=True, help="Data sets in a folder (--data or ISOGLOSS_DATA).")
DataFolder = Annotated[str | None, typer.Option("--data", envvar="ISOGLOSS_DATA", help="folder of data sets")]


@data_app.command("list")
def data_list(data: DataFolder = None) -> None:
    """What the data folder holds.

    Example: isogloss data list --data ~/data
    """
    from isogloss.text.catalog import data_dir, listing

    table = Table("name", "kind", "languages", "rows", "MB", "about", box=None, header_style="bold")
    with bar() as bars:
        sets = listing(data_dir(data), bars)
    for one in sets:
        languages = " ".join(one.languages[:12]) + (f" ... ({len(one.languages)})" if len(one.languages) > 12 else "")
        cells = (one.name, ", ".join(one.kinds), languages, f"{one.rows:,}", f"{one.bytes / 1e6:.1f}", one.about)
        table.add_row(*(escape(cell) for cell in cells))
    Console().print(table)


@data_app.command("check")
def data_check(data: DataFolder = None) -> None:
    """Read every file of the data folder and name what is wrong, by file and line; exits with 1 if anything is.

    Example: isogloss data check --data ~/data
    """
    from isogloss.text.catalog import data_dir
    from isogloss.text.checks import check

    with bar() as bars:
        found = check(data_dir(data), bars)
    for problem in found.problems:
        typer.echo(problem)
    if found.unchecked:
        typer.echo("not checked: " + ", ".join(str(one) for one in found.unchecked))
    typer.echo(f"{len(found.problems)} problems in {len(found.checked)} files")
    raise typer.Exit(1 if found.problems else 0)


@data_app.command("paraphrases")
def data_paraphrases(
    text: Annotated[list[str], typer.Argument(help="parallel text: a folder, a table, or the name of a data set")],
    out: Annotated[Path, typer.Option(help="the table to write")],
    language: Annotated[str, typer.Option(help="the language whose sentences are paired")] = "en",
    data: DataFolder = None,
) -> None:
    """Write pairs of different sentences of one language that share a translation, as a table of en and en2.

    Example: isogloss data paraphrases tatoeba_train --out en-en2.tsv
    """
    from isogloss.files import write_text
    from isogloss.text import read_bitexts, resolve
    from isogloss.text.corpora import paraphrases

    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"--out {out} cannot be written: it must be a file in a folder that is there")
    found = paraphrases((bitext for one in text for bitext in read_bitexts(resolve(one, data))), language)
    rows = zip(*(corpus.sentences for corpus in found), strict=True)
    lines = ("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (found.languages, *rows))
    write_text(out, "".join(lines))
    typer.echo(f"{found.rows:,} pairs in {out}")
