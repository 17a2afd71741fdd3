"""The command line: every recipe's signature is its command, and every mistake is one sentence.

A parameter annotated Bitext is read from paths (`--bitext`, `--languages`, `--data`); the string beside an annotated
type is its help. Exit codes: 0 done, 1 the machine failed (a full disk), 2 something given cannot be used, 130
interrupted, 143 terminated.
"""

import errno
import inspect
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from isogloss import progress
from isogloss.datacommands import DataFolder, data_app
from isogloss.errors import InputError
from isogloss.exportcommand import export_command
from isogloss.papers import Request, every_option, find, outline_lines, outline_of, reproduce, selected, summary
from isogloss.recipes import Job, execute, registry, sweep
from isogloss.recipes.registry import TEXT, read_parallel
from isogloss.runs import check_folder, read_facts
from isogloss.sweepcommand import dry_lines, given_options, rows_there, sweep_app, sweep_help, sweep_parameters
from isogloss.training.processes import launched

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown",
    help="Maps the languages inside a transformer: at which layer they meet, and how training moves them.",
)  # fmt: skip
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")

RECIPES: dict[str, Callable[..., Job]] = {name: one.job for name, one in registry.RECIPES.items()}
INTERRUPTED, TERMINATED = 130, 143  # exit codes of a command that was stopped
STOPPED = {INTERRUPTED: "interrupted", TERMINATED: "terminated"}
READ = {"bitext"}  # parameters that are read from paths
ONLY = inspect.Parameter.KEYWORD_ONLY
SHARED: list[tuple[str, Any, Any]] = [
    ("out", Annotated[str | None, typer.Option(help="run folder; default runs/NAME")], None),
    ("resume", Annotated[bool, typer.Option("--resume", help="go on with a run that was stopped")], False),
    ("quiet", Annotated[bool, typer.Option("--quiet", help="no progress bars")], False),
]


def recipe_command(name: str, recipe: Callable[..., Job]) -> Callable[..., None]:
    """Make a command of a recipe: its keyword arguments become options, with the ones every recipe shares."""
    texts = TEXT if READ & set(inspect.signature(recipe).parameters) else ()
    own = set(inspect.signature(recipe).parameters) - READ

    def run(**given: Any) -> None:
        arguments = {key: value for key, value in given.items() if key not in ("out", "resume", "quiet")}
        shared = {key: given.pop(key, None) for key in ("out", "resume", "quiet", *texts)}
        model = [given.pop("model")] if "model" in given else []
        folder = Path(shared["out"]) if shared["out"] else _default_folder(Path("runs") / name, resume=shared["resume"])
        first = launched()[0] == 0
        if first:
            check_folder(folder, resume=shared["resume"])
        bitexts = read_parallel(**{key: shared[key] for key in texts})
        given |= {key: shared[key] for key in texts if key in own}
        job = recipe(*model, *bitexts, **given)
        with _bars(shared["quiet"] or not first) as bars:
            table = execute(
                job,
                command=name,
                arguments=arguments,
                seed=given["seed"],
                out=folder,
                resume=shared["resume"],
                progress=bars,
            )
            page = _report([folder], folder / "report.html", bars) if first and _can_draw() else None
        if first:
            from isogloss.report import verdict

            _tell(verdict(folder), table, folder, page)

    run.__signature__ = inspect.Signature(_parameters(recipe))  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in _parameters(recipe)}
    run.__doc__ = inspect.cleandoc(recipe.__doc__ or "")
    run.__name__ = name
    return run


def reproduce_command() -> Callable[..., None]:
    """Make a command of `reproduce`: its keyword arguments and those of papers become options.

    `--dry-run` tells what would be done.
    """
    own = [one for one in inspect.signature(reproduce).parameters.values() if get_origin(one.annotation) is Annotated]
    special = every_option()

    def run(**given: Any) -> None:
        arguments = {one.name: given[one.name] for one in own}
        options = {name: given[name] for name in special}
        paper = find(given["paper"])
        place = Path("runs") / f"{paper.name}-{given['scale']}"
        if given["dry_run"]:
            asked = {name: value for name, value in arguments.items() if name in Request.__dataclass_fields__}
            _, outline = outline_of(paper.name, Request(out=Path(given["out"] or place), **asked), **options)
            jobs = selected(outline.jobs, arguments["only"], arguments["only_seeds"])
            typer.echo("\n".join(outline_lines(outline, jobs)))
            return
        folder = Path(given["out"]) if given["out"] else _default_folder(place, resume=given["resume"])
        with _bars(given["quiet"]) as bars:
            table = reproduce(paper.name, out=folder, resume=given["resume"], progress=bars, **arguments, **options)
            draw = given["report"] and len(table) > 0 and _can_draw()
            page = _report([folder], folder / "report.html", bars) if draw else None
        _tell([f"{part}\n" for part in summary(paper, table)] if len(table) else [], table, folder, page)

    found = [inspect.Parameter("paper", ONLY, annotation=Annotated[str, typer.Argument(help="such as hussain2020")])]
    for one in own:
        kind, text = _parts(one.annotation)
        option = DataFolder if one.name == "data" else Annotated[kind, typer.Option(help=text)]
        found.append(one.replace(annotation=option, kind=ONLY))
    found += [inspect.Parameter(name, ONLY, default=default, annotation=each) for name, each, default in SHARED]
    for name, mine in special.items():
        panel = f"Options of {', '.join(mine.help)}"
        shown = typer.Option(help="; ".join(dict.fromkeys(mine.help.values())), rich_help_panel=panel)
        found.append(inspect.Parameter(name, ONLY, default=None, annotation=Annotated[mine.kind, shown]))
    flags = {"dry_run": (False, "print what would be run and what it costs; run nothing"), "report": (True, "draw it")}
    for name, (default, text) in flags.items():
        spelt = f"--{name.replace('_', '-')}" if not default else f"--{name}/--no-{name}"
        each = Annotated[bool, typer.Option(spelt, help=text)]
        found.append(inspect.Parameter(name, ONLY, default=default, annotation=each))
    run.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in found}
    run.__doc__ = inspect.cleandoc(reproduce.__doc__ or "").partition("\n\n>>>")[0]
    return run


def sweep_command(name: str) -> Callable[..., None]:
    """Make a command of a recipe over a grid: its options, none of them required, and those of a sweep."""
    known = sweep_parameters(_parameters(RECIPES[name]))

    def run(**given: Any) -> None:
        folder = Path(given["out"]) if given["out"] else _default_folder(Path("runs/sweep"), resume=given["resume"])
        options = given_options(known, given)
        if given["dry_run"]:
            typer.echo("\n".join(dry_lines(name, given["grid"], folder, options)))
            return
        how = {key: given[key] for key in ("grid", "parallel", "devices", "cluster", "gpus", "cpus", "resume")}
        failed = None
        with _bars(given["quiet"]) as bars:
            try:
                table = sweep(name, out=folder, progress=bars, **how, **options)
            except InputError as error:
                failed, table = error, rows_there(folder)
                if not len(table):
                    raise
            page = _report([folder], folder / "report.html", bars) if _can_draw() else None
        from isogloss.report import verdict

        _tell(verdict(folder), table, folder, page)
        if failed:
            raise failed

    run.__signature__ = inspect.Signature(known)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in known}
    run.__doc__ = sweep_help(name)
    return run


@app.command("report")
def report_command(
    runs: Annotated[list[Path], typer.Argument(help="run folders", metavar="RUN...")],
    out: Annotated[Path | None, typer.Option(help="where the page goes; default: into the first run")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress bars")] = False,
) -> None:
    """Make the report of a run again, or one page over several runs.

    Example: isogloss report runs/mini runs/mbert --out both.html
    """
    with _bars(quiet) as bars:
        page = _report(runs, out or runs[0] / "report.html", bars)
    typer.echo(f"report: {page}")


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Maps the languages inside a transformer."""
    if version:
        try:
            typer.echo(f"isogloss {installed_version('isogloss')}")
        except PackageNotFoundError:
            typer.echo("isogloss, not installed (run from its source)")
        raise typer.Exit


def main() -> None:
    """Run the command line; a mistake is one sentence on standard error and a non-zero exit."""
    try:
        with _termination_is_an_exit():
            code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _fail(str(error), 2)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        what = _afterwards("what was measured is kept, --resume goes on")
        _fail(f"could not read or write{where}: {_reason(error)}{what}", 1)
    except (KeyboardInterrupt, typer.Abort, SystemExit) as stop:
        ended = stop.code if isinstance(stop, SystemExit) else INTERRUPTED  # the parser may end so by itself, too
        if not isinstance(ended, int) or ended not in STOPPED:
            raise
        _fail(f"{STOPPED[ended]}{_afterwards('run the same command with --resume to go on')}", ended)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if not error.format_message():  # help was shown, as for no arguments at all
            sys.exit(2)
        _fail(_complaint(error), 2)


@contextmanager
def _termination_is_an_exit() -> Iterator[None]:
    """Inside the block SIGTERM, with which schedulers end a command, closes what is open, as an interrupt does."""
    if threading.current_thread() is not threading.main_thread():  # no other may say what signals do
        yield
        return

    def leave(*_: Any) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _complaint(error: Any) -> str:
    """What the parser says, as about an unknown option; of an unknown command, with those there are."""
    said, context = str(error.format_message()), getattr(error, "ctx", None)
    if said.startswith("No such command") and context is not None:
        return f"{said.rstrip('.')}; there is {', '.join(context.command.list_commands(context))}"
    return said


def _afterwards(resumed: str) -> str:
    """What a stop leaves: a folder of an export appears whole or not at all, and some commands have no --resume."""
    told = {"export": "; nothing was left behind", "report": "; the rows are as they were", "data": ""}
    return told.get("".join(sys.argv[1:2]), f"; {resumed}")


def _reason(error: OSError) -> str:
    """A full disk by its name: numpy says only how much of an array was written."""
    if error.strerror is None and re.fullmatch(r"\d+ requested and \d+ written", str(error)):
        return f"{os.strerror(errno.ENOSPC)} ({error})"
    return error.strerror or str(error)


def _fail(sentence: str, code: int) -> None:
    typer.echo(f"isogloss: {sentence}", err=True)
    sys.exit(code)


def _parameters(recipe: Callable[..., Job]) -> list[inspect.Parameter]:
    """Typer's parameters for a recipe's: plain help strings become options, texts become paths."""
    found = []
    for parameter in inspect.signature(recipe).parameters.values():
        if parameter.name in READ:
            continue
        kind, text = _parts(parameter.annotation)
        annotation: Any = Annotated[kind, typer.Option(help=text or SHARED_HELP.get(parameter.name, ""))]
        if parameter.name == "model":
            annotation = Annotated[str, typer.Argument(help="mini, a folder, or a hub id")]
        elif parameter.name == "data":
            annotation = DataFolder
        found.append(parameter.replace(annotation=annotation, kind=ONLY))
    options: list[tuple[str, Any, Any]] = [
        ("bitext", Annotated[list[str] | None, typer.Option(help="parallel text: once a language, or once for a table, "
         "a Tatoeba folder, or the name of a data set")], None),
        ("languages", Annotated[str | None, typer.Option(help="codes in order, as in en,nl")], None),
        ("links", Annotated[str | None, typer.Option(help="word links of the two languages, a Pharaoh file")], None),
        ("data", DataFolder, None),
    ]  # fmt: skip
    takes_text = READ & set(inspect.signature(recipe).parameters)
    known = {one.name for one in found}
    options = [one for one in options if takes_text and one[0] not in known] + SHARED
    return found + [inspect.Parameter(name, ONLY, default=default, annotation=each) for name, each, default in options]


SHARED_HELP = {
    "seed": "draws the sample, the shuffles and the map",
    "device": "auto, cpu, cuda or mps",
    "dtype": "float32, bfloat16 or float16; default float32 on a CPU, bfloat16 on a GPU",
}


def _parts(annotation: Any) -> tuple[Any, str]:
    """The type typer should parse, and the help beside it; a union with str is given as text."""
    text = ""
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        text = next((note for note in notes if isinstance(note, str)), "")
    kinds = get_args(annotation) if get_origin(annotation) is not list else ()
    if str in kinds:
        return (str | None if type(None) in kinds else str), text
    return annotation, text


def _default_folder(folder: Path, *, resume: bool) -> Path:
    """`folder`, or the first of folder-2, folder-3 ... that is not there yet; to resume, the last that is."""
    numbered = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 10_000))]
    free = next(place for place, one in enumerate(numbered) if not one.exists())
    if resume and free == 0:
        raise InputError(f"there is no run at {folder} to resume; name it with --out")
    return numbered[free - 1 if resume else free]


def _report(runs: list[Path], page: Path, bars: progress.Progress) -> Path:
    from isogloss.report import write_page

    return write_page(runs, page, bars)


def _can_draw() -> bool:
    """Whether the packages of the extra `report` are here; a bare GPU node measures and leaves drawing to others."""
    return all(find_spec(name) is not None for name in ("jinja2", "matplotlib", "PIL"))


def _tell(sentences: Sequence[str], table: Any, folder: Path, page: Path | None) -> None:
    missing = f"not drawn here; `isogloss report {folder}` draws it where isogloss[report] is installed"
    for sentence in [*sentences, *(f"Note: {note}." for note in read_facts(folder)["notes"])]:
        typer.echo(sentence)
    typer.echo(f"\n{len(table):,} row{'s' * (len(table) != 1)}: {folder / 'rows.csv'}")
    if (folder / "model").is_dir():
        typer.echo(f"model: {folder / 'model'}")
    typer.echo(f"report: {page or missing}")


@contextmanager
def _bars(quiet: bool) -> Iterator[progress.Progress]:
    if quiet:
        yield progress.silent
    else:
        with progress.bar() as show:
            yield show


for name, recipe in RECIPES.items():
    app.command(name)(recipe_command(name, recipe))
    sweep_app.command(name)(sweep_command(name))
app.command("reproduce")(reproduce_command())
app.command("export")(export_command(_parts))
