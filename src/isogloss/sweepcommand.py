"""`isogloss sweep RECIPE`: a recipe's own options, and the grid that some of them are taken from."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from isogloss.recipes.sweep import plan_sweep
from isogloss.runs import frame, read_rows
from isogloss.runs.jobs import job_lines

sweep_app = typer.Typer(
    no_args_is_help=True, help="Run a recipe with every combination of some arguments' values; one table at the end."
)

ONLY = inspect.Parameter.KEYWORD_ONLY
OWN: Mapping[str, tuple[Any, Any]] = {
    "grid": (Annotated[list[str] | None, typer.Option(
        help="NAME=A,B,C: values of an argument, once each; A;B where they hold commas; 0..4 for 0 to 4")], None),
    "parallel": (Annotated[int | None, typer.Option(help="jobs at a time; default: one a GPU, or one")], None),
    "devices": (Annotated[str | None, typer.Option(
        help="GPUs that take turns, as in cuda:0,cuda:1; default: all there are")], None),
    "cluster": (Annotated[str | None, typer.Option(
        help="run the jobs on a Ray cluster: auto, local, or HOST:PORT of its head")], None),
    "gpus": (Annotated[float | None, typer.Option(
        help="GPUs a job asks of the cluster, 0 to 1; default: 1 where it has any")], None),
    "cpus": (Annotated[float | None, typer.Option(help="CPUs a job asks of the cluster; default: 1")], None),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="print the jobs and run nothing")], False),
}  # fmt: skip
SHARED = ("out", "resume", "quiet")
EXAMPLES = {
    "map": "isogloss sweep map --grid model=mini,./mine --bitext en.txt --bitext nl.txt --languages en,nl",
    "pretrain": "isogloss sweep pretrain --text en=en.txt --text nl=nl.txt --grid depth=3,6,12 --steps 2000",
    "drift": "isogloss sweep drift mini --target nl=nl.txt --others en=en.txt --grid plans=last:1,last:6",
    "align": "isogloss sweep align mini --train en-nl=en.txt,nl.txt --grid negatives=queue,batch --grid seed=0..2",
    "lexicon": "isogloss sweep lexicon --grid model=mini,./mine --text en=en.txt --text nl=nl.txt --data data",
    "rotate": "isogloss sweep rotate --grid model=mini,./mine --bitext tatoeba/ --languages nl,de --train europarl.tsv",
    "stitch": "isogloss sweep stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv "
    "--test en=en.tsv --test nl=nl.tsv --bitext europarl.tsv --languages en,nl --grid restore=raw,recentred",
    "transfer": "isogloss sweep transfer mini --task nli --train en=mnli.tsv --dev en=dev.tsv --test en=en.tsv "
    "--test nl=nl.tsv --grid plans=freeze:-1..11 --grid seed=0..2",
}


def sweep_parameters(recipe: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters of a sweep's command: the recipe's, any of which may be in the grid instead, and its own."""
    optional = [one.replace(default=None) if one.default is one.empty else one for one in recipe]
    own = [inspect.Parameter(name, ONLY, default=default, annotation=kind) for name, (kind, default) in OWN.items()]
    return [*[_optional(one) for one in optional], *own]


def given_options(known: Sequence[inspect.Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of the recipe's own options: those that are not as by default."""
    own = [one for one in known if one.name not in (*OWN, *SHARED)]
    return {one.name: given[one.name] for one in own if given[one.name] != one.default}


def dry_lines(recipe: str, grid: Sequence[str] | None, folder: Path, options: Mapping[str, Any]) -> list[str]:
    """The jobs a sweep would run, as text."""
    _, _, jobs = plan_sweep(recipe, grid or [], out=folder, options=options)
    return [f"{len(jobs)} job{'s' * (len(jobs) != 1)}:", *job_lines(jobs)]


def rows_there(folder: Path) -> pd.DataFrame:
    """The rows of a sweep that failed in part; none where it never began."""
    return read_rows(folder) if (folder / "rows.csv").is_file() else frame([])


def sweep_help(recipe: str) -> str:
    """The text above a command's options."""
    example = EXAMPLES.get(recipe, f"isogloss sweep {recipe} --grid seed=0..4")
    return f"Run {recipe} with every combination of the values in --grid.\n\nExample: {example}"


def _optional(one: inspect.Parameter) -> inspect.Parameter:
    if one.default is not None or one.annotation.__origin__ is None:
        return one
    kind = one.annotation.__origin__ | None
    return one.replace(annotation=Annotated[kind, *one.annotation.__metadata__])
