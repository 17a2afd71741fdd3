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
    for data_set in sets:
        count = len(data_set.languages)
        languages = " ".join(data_set.languages[:12]) + (f" ... ({count})" if count > 12 else "")
        kinds, size = ", ".join(data_set.kinds), f"{data_set.bytes / 1e6:.1f}"
        cells = (data_set.name, kinds, languages, f"{data_set.rows:,}", size, data_set.about)
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
        report = check(data_dir(data), bars)
    for problem in report.problems:
        typer.echo(problem)
    if report.unchecked:
        typer.echo("not checked: " + ", ".join(report.unchecked))
    typer.echo(f"{len(report.problems)} problems in {len(report.checked)} files")
    raise typer.Exit(1 if report.problems else 0)


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
    bitext = paraphrases((bitext for given in text for bitext in read_bitexts(resolve(given, data))), language)
    rows = zip(*(corpus.sentences for corpus in bitext), strict=True)
    lines = ("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (bitext.languages, *rows))
    write_text(out, "".join(lines))
    typer.echo(f"{bitext.rows:,} pairs in {out}")
