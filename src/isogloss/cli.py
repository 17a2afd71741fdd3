"""The command line: every recipe's signature is its command, and every mistake is one sentence.

Nothing is imported before a command needs it, so `isogloss --help` and `isogloss --version` answer at once. Exit codes:
0 done, 1 the machine failed (a full disk), 2 something given cannot be used, 130 interrupted, 143 terminated.
"""

import ast
import errno
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from isogloss.errors import InputError, JobsFailed, ended_in_order
from isogloss.progress import bar
from isogloss.recipes import RECIPES

INTERRUPTED = 130
UNKNOWN = 70  # the exit code of a mistake that nobody foresaw
DEBUG = "ISOGLOSS_DEBUG"  # where this variable is set, a mistake is told with its traceback
STOPPED = {INTERRUPTED: "interrupted", 143: "terminated"}  # exit codes of a command that was stopped
PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
DataFolder = Annotated[str | None, typer.Option("--data", envvar="ISOGLOSS_DATA", help="folder of data sets")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars", rich_help_panel="Run folder")]


# --- commands that are made when they are asked for ------------------------------------------------------------------


class PlainCommand(TyperCommand):
    """A command whose help is plain text in sections: at 80 columns a table would cut the names of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, those of a panel below its title."""
        sections: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class LazyGroup(TyperGroup):
    """A group whose commands are made when one is called; its help needs their names and first lines alone.

    `entries` maps the name of a command to its first line and the function that makes it.
    """

    entries: Mapping[str, tuple[str, Callable[[], Any]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in their order."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the help shows of a command: its name and its first line."""
        return TyperCommand(cmd_name, short_help=self.entries[cmd_name][0]) if cmd_name in self.entries else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        if args and args[0] in self.entries:
            return args[0], self.entries[args[0]][1](), args[1:]
        return super().resolve_command(ctx, args)


def lazy_group(entries: Mapping[str, tuple[str, Callable[[], Any]]], text: str, **settings: Any) -> typer.Typer:
    """A Typer application whose commands are `entries`."""
    group = type("Group", (LazyGroup,), {"entries": entries})
    return typer.Typer(cls=group, no_args_is_help=True, help=text, **PLAIN | settings)


def command_of(function: Callable[..., None], name: str) -> Any:
    """A function with typer's annotations as a command."""
    single = typer.Typer(**PLAIN)
    single.command(name, cls=PlainCommand)(function)
    return typer.main.get_command(single)


def plain_entry(name: str, function: Callable[..., None]) -> tuple[str, Callable[[], Any]]:
    """The entry of a function with typer's annotations in a lazy group: its first line, and how the command is made."""
    return (function.__doc__ or "").partition("\n")[0], partial(command_of, function, name)


def papers() -> dict[str, str]:
    """The papers by name, each with the first line of its file; none of them is imported."""
    files = sorted((Path(__file__).parent / "papers").glob("*[0-9].py"))
    return {file.stem: (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n")[0] for file in files}


def with_parameters(
    run: Callable[..., None], parameters: Sequence[inspect.Parameter], name: str, text: str | None
) -> Any:
    """A command that calls `run(**given)` with these parameters."""
    run.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    parts = inspect.cleandoc(text or "").partition("\n\n>>>")[0].split("\n\n")
    # An example is one line whatever its length, so that it can be pasted.
    run.__doc__ = "\n\n".join(
        "\b\n" + " ".join(part.split()) if part.startswith("Example:") else part for part in parts
    )
    return command_of(run, name)


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A parameter that is given by its name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option_parameters(options: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Typer's parameters for what a function declares: the types that the command line reads, help and panels."""
    parameters = []
    for name, option in options.items():
        annotation: Any = DataFolder
        if name == "model" and option.default == "mini":
            annotation = Annotated[str, typer.Argument(help="mini, a folder, or a hub id")]
        elif name != "data":
            names = ["--resume"] if name == "resume" else []
            how: dict[str, Any] = {"help": option.help, "rich_help_panel": option.panel, "hidden": option.hidden}
            annotation = Annotated[option.kind, typer.Option(*names, **how)]
        parameters.append(keyword(name, annotation, option.default))
    return parameters


# --- recipes, sweeps and reproductions -------------------------------------------------------------------------------


def carry_out(
    work: Callable[..., Any],
    usual: Path,
    sentences: Callable[[Any], Sequence[str]] | None = None,
    *,
    out: str | None,
    resume: bool,
    quiet: bool,
    report: bool = True,
) -> None:
    """Do work in a run folder, draw its page and say what came out; of jobs that failed it is said last.

    work: `work(out=folder, resume=resume)` returns the table. usual: the folder where `out` names none.
    sentences: what to say of the table, by default the verdict on the run. report: whether the page is drawn, where the
    packages for that are installed.
    """
    from isogloss.report import can_draw, verdict, write_page
    from isogloss.runs.run import check_folder, is_first_process, read_facts, read_rows

    folder = Path(out) if out else _default_folder(usual, resume=resume)
    first, failure, page = is_first_process(), None, None
    if first:
        check_folder(folder, resume=resume)
    with nullcontext() if quiet or not first else bar():
        try:
            table = work(out=folder, resume=resume)
        except JobsFailed as error:
            failure, table = error, read_rows(folder) if (folder / "rows.csv").is_file() else ()
            if not len(table):
                raise
        if not first:
            return
        if report and len(table) and can_draw():
            page = write_page([folder], folder / "report.html")
    findings = (sentences(table) if sentences else verdict(folder)) if len(table) else []
    for sentence in [*findings, *(f"Note: {note}." for note in read_facts(folder)["notes"])]:
        typer.echo(sentence)
    typer.echo(f"\n{len(table):,} row{'s' * (len(table) != 1)}: {folder / 'rows.csv'}")
    if (folder / "model").is_dir():
        typer.echo(f"model: {folder / 'model'}")
    missing = f"not drawn here; `isogloss report {folder}` draws it where isogloss[report] is installed"
    typer.echo(f"report: {page or missing}")
    if failure:
        raise failure


def recipe_parameters(recipe: Any) -> list[inspect.Parameter]:
    """The parameters of a recipe's command: its own, and those of the run folder."""
    folder = {name: recipe.options[name] for name in ("out", "resume")}
    return [*option_parameters({**recipe.parameters, **folder}), keyword("quiet", Quiet, False)]


def recipe_command(name: str) -> Any:
    """Make the command of a recipe from its signature."""
    from isogloss.recipes.recipe import find_recipe

    recipe = find_recipe(name)

    def run(out: str | None, resume: bool, quiet: bool, more: Sequence[str] = (), **given: Any) -> None:
        given |= {"model": [given["model"], *more]} if more else {}
        carry_out(partial(recipe.run, given), Path("runs") / name, out=out, resume=resume, quiet=quiet)

    first, *rest = recipe_parameters(recipe)
    more = typer.Argument(help="more models, to be compared on the same text")
    several = [keyword("more", Annotated[list[str], more], [])] if next(iter(recipe.options.values())).several else []
    return with_parameters(run, [first, *several, *rest], name, recipe.call.__doc__)


DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would be run and what it costs; run nothing")]
RUN_ONLY = ("out", "resume", "quiet")


def sweep_command(name: str) -> Any:
    """Make a command of a recipe over a grid: its options, none of them required, and those of a sweep."""
    from isogloss.recipes.recipe import find_recipe, options_of
    from isogloss.recipes.sweep import plan_sweep, sweep

    recipe = find_recipe(name)
    shared = {each: option for each, option in options_of(sweep).items() if option.help}
    parameters = []
    for each in (*recipe_parameters(recipe), *option_parameters(shared)):
        if each.default is each.empty:  # it may be left out: the grid may have it
            kind: Any = each.annotation.__origin__ | None
            each = keyword(each.name, Annotated[(kind, *each.annotation.__metadata__)], None)
        parameters.append(each)

    def run(dry_run: bool, **given: Any) -> None:
        from isogloss.recipes.jobs import job_lines

        own = [each for each in parameters if each.name not in (*shared, *RUN_ONLY)]
        options = {each.name: given[each.name] for each in own if given[each.name] != each.default}
        usual = Path("runs/sweep")
        if dry_run:
            _, _, jobs = plan_sweep(name, given["grid"] or [], out=given["out"] or usual, options=options)
            typer.echo("\n".join([f"{len(jobs)} job{'s' * (len(jobs) != 1)}:", *job_lines(jobs)]))
            return
        work = partial(sweep, name, **{each: given[each] for each in shared}, **options)
        carry_out(work, usual, **{each: given[each] for each in RUN_ONLY})

    example = re.search(r"Example: isogloss (.*)", recipe.call.__doc__ or "", re.DOTALL)
    usual_words = example[1].strip() if example else name
    text = f"Run {name} with every combination of the values in --grid."
    text += f"\n\nExample: isogloss sweep {usual_words} --grid seed=0..4"
    return with_parameters(run, [*parameters, keyword("dry_run", DryRun, False)], name, text)


def reproduce_command(name: str) -> Any:
    """Make the command of a paper: the options of `reproduce`, and those that this paper alone has."""
    from isogloss.papers.paper import find, reproduce
    from isogloss.recipes.recipe import options_of

    paper = find(name)
    shared = {each: option for each, option in options_of(reproduce).items() if option.help}
    special = dict(paper.options)
    parameters = [
        *option_parameters(shared | special),
        keyword("out", Annotated[str | None, typer.Option(help="run folder; default runs/PAPER-SCALE")], None),
        keyword("resume", Annotated[bool, typer.Option("--resume", help="go on with a run that was stopped")], False),
        keyword("quiet", Quiet, False),
        keyword("dry_run", DryRun, False),
        keyword("report", Annotated[bool, typer.Option("--report/--no-report", help="draw it")], True),
    ]

    def run(dry_run: bool, **given: Any) -> None:
        from isogloss.papers.paper import Request, outline_lines, selected, summary

        options = {each: given[each] for each in special}
        usual = Path("runs") / f"{name}-{Path(given['scale']).stem}"
        if dry_run:
            asked = {each: given[each] for each in shared if each in Request.__dataclass_fields__}
            outline = paper.plan(Request(out=Path(given["out"] or usual), **asked), **options)
            jobs = selected(outline.jobs, given["only"])
            typer.echo("\n".join(outline_lines(outline, jobs)))
            return
        work = partial(reproduce, name, **{each: given[each] for each in shared}, **options)
        how = {each: given[each] for each in (*RUN_ONLY, "report")}
        carry_out(work, usual, lambda table: [f"{part}\n" for part in summary(paper, table)], **how)

    text = f"{paper.about}\n\nRun what the paper ran, and set its published numbers beside the measured ones.\n\n"
    return with_parameters(run, parameters, name, f"{text}Example: isogloss reproduce {name} --scale smoke")


# --- report, export and data -----------------------------------------------------------------------------------------


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="run folders", metavar="RUN...")],
    out: Annotated[Path | None, typer.Option(help="where the page goes; default: into the first run")] = None,
    quiet: Quiet = False,
) -> None:
    """Make the report of a run again, or one page over several runs.

    Example: isogloss report runs/mini runs/mbert --out both.html
    """
    from isogloss.report import write_page

    with nullcontext() if quiet else bar():
        page = write_page(runs, out or runs[0] / "report.html")
    typer.echo(f"report: {page}")


def export_command() -> Any:
    """Make the command of `ig.export` from its signature."""
    from isogloss.integrations.export import export
    from isogloss.recipes.recipe import options_of

    def run(**given: Any) -> None:
        model, folder, quiet = (given.pop(each) for each in ("model", "folder", "quiet"))
        with nullcontext() if quiet else bar():
            done = export(model, folder, **given)
        for name, value in done.facts.items():
            if not name.startswith("hash"):
                typer.echo(f"{name}: {value}")
        if done.difference is None:
            typer.echo("not checked against isogloss' vectors: the package that reads it is not installed here")
        else:
            typer.echo(f"checked: its vectors differ from isogloss' by {done.difference:.1g} at most")
        typer.echo(f"folder: {Path(done.folder)}")

    model = typer.Argument(help="mini, a folder, a hub id, or a run folder that holds model/")
    parameters = [
        keyword("model", Annotated[str, model]),
        keyword("folder", Annotated[str, typer.Argument(help="folder to write")]),
    ]
    declared = {name: option for name, option in options_of(export).items() if option.help}
    return with_parameters(
        run, [*parameters, *option_parameters(declared), keyword("quiet", Quiet, False)], "export", export.__doc__
    )


def data_list(data: DataFolder = None) -> None:
    """What the data folder holds.

    Example: isogloss data list --data ~/data
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from isogloss.text.catalog import data_dir, listing

    console = Console()
    heads = ("name", "kind", "languages", "rows", "MB", *(("about",) if console.width >= 120 else ()))
    table = Table(*heads, box=None, header_style="bold")
    with bar():
        sets = listing(data_dir(data))
    for entry in sets:
        languages = " ".join(entry.languages[:8])
        languages += f" ... ({len(entry.languages)})" if len(entry.languages) > 8 else ""
        sizes = f"{entry.rows:,}", f"{entry.bytes / 1e6:.1f}"
        cells = (entry.name, ", ".join(entry.kinds), languages, *sizes, entry.about)
        table.add_row(*(escape(cell) for cell in cells[: len(heads)]))
    console.print(table)


def data_check(data: DataFolder = None) -> None:
    """Read every file of the data folder and name what is wrong, by file and line; exits with 1 if anything is.

    Example: isogloss data check --data ~/data
    """
    from isogloss.text.catalog import check, data_dir

    with bar():
        checked = check(data_dir(data))
    for problem in checked.problems:
        typer.echo(problem)
    if checked.unchecked:
        typer.echo("not checked: " + ", ".join(str(path) for path in checked.unchecked))
    typer.echo(f"{len(checked.problems)} problems in {len(checked.checked)} files")
    raise typer.Exit(1 if checked.problems else 0)


# --- the application -------------------------------------------------------------------------------------------------


SWEEP = "Run a recipe with every combination of some arguments' values; one table at the end."
REPRODUCE = "Run what a paper ran, and set its published numbers beside the measured ones."
DATA = "Data sets in a folder (--data or ISOGLOSS_DATA)."
sweep_app = lazy_group({name: (text, partial(sweep_command, name)) for name, text in RECIPES.items()}, SWEEP)
reproduce_app = lazy_group(
    {name: (text, partial(reproduce_command, name)) for name, text in papers().items()}, REPRODUCE
)
data_app = lazy_group({"list": plain_entry("list", data_list), "check": plain_entry("check", data_check)}, DATA)
for _app in (sweep_app, reproduce_app, data_app):
    _app.callback()(lambda: None)
app = lazy_group(
    {
        **{name: (text, partial(recipe_command, name)) for name, text in RECIPES.items()},
        "sweep": (SWEEP, partial(typer.main.get_command, sweep_app)),
        "reproduce": (REPRODUCE, partial(typer.main.get_command, reproduce_app)),
        "report": plain_entry("report", report_command),
        "export": ("Write a model, cut at a layer, for other libraries to load.", export_command),
        "data": (DATA, partial(typer.main.get_command, data_app)),
    },
    "Maps the languages inside a transformer: at which layer they meet, and how training moves them.",
    add_completion=True,
)


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="show where a mistake came from, as ISOGLOSS_DEBUG=1 does")
    ] = False,
) -> None:
    """Maps the languages inside a transformer: at which layer they meet, and how training moves them."""
    if debug:
        os.environ[DEBUG] = "1"
    if version:
        from isogloss import __version__

        typer.echo(f"isogloss {__version__}")
        raise typer.Exit


def find_command(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that a command line names, without `isogloss`, and the words that are left for it."""
    command, rest = typer.main.get_command(app), list(words)
    while isinstance(command, LazyGroup):
        _, command, rest = command.resolve_command(None, rest)
    return command, rest


def main() -> None:
    """Run the command line; a mistake is one sentence on standard error and a non-zero exit."""
    # oneDNN keeps what it makes for each shape of a tensor, up to 1,024. Batches of text have ever new shapes, and what
    # is kept lies between their tensors on the heap, so that their memory cannot be used again: it grew with the text.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    # Threads that wait for each other keep their cores busy. If other programs use all cores, the thread that is waited
    # for cannot run meanwhile: beside two trainings on two cores, the demo took three times as long.
    if hasattr(os, "getloadavg") and os.getloadavg()[0] >= (os.cpu_count() or 1):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        # Schedulers end a command with SIGTERM; as an interrupt, it closes what is open.
        with ended_in_order():
            code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _fail(str(error), 2)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        reason = error.strerror or str(error)
        if error.strerror is None and re.fullmatch(r"\d+ requested and \d+ written", reason):  # numpy, on a full disk
            reason = f"{os.strerror(errno.ENOSPC)} ({error})"
        what = _afterwards("what was measured is kept, --resume goes on")
        _fail(f"could not read or write{where}: {reason}{what}", 1)
    except (KeyboardInterrupt, typer.Abort, SystemExit) as stop:
        ended = stop.code if isinstance(stop, SystemExit) else INTERRUPTED  # the parser may end so by itself, too
        if isinstance(stop.__cause__, EOFError):  # which the parser takes for a person's
            _fail(f"a file ended too early ({stop.__cause__}){_afterwards('--resume goes on where it can')}", 1)
        if not isinstance(ended, int) or ended not in STOPPED:
            raise
        _fail(f"{STOPPED[ended]}{_afterwards('run the same command with --resume to go on')}", ended)
    except Exception as error:
        if not hasattr(error, "format_message"):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
            _fail(
                f"this is a mistake of isogloss or of a library, {kind}; `isogloss --debug ...` shows the traceback",
                UNKNOWN,
            )
        sentence, context = str(error.format_message()), getattr(error, "ctx", None)
        if not sentence:  # help was shown, as for no arguments at all
            sys.exit(2)
        if sentence.startswith("No such command") and context is not None:
            sentence = f"{sentence.rstrip('.')}; there is {', '.join(context.command.list_commands(context))}"
        _fail(sentence, 2)


def _afterwards(resumed: str) -> str:
    """What a stop leaves: a folder of an export appears whole or not at all, and some commands have no --resume."""
    endings = {"export": "; nothing was left behind", "report": "; the rows are as they were", "data": ""}
    return endings.get("".join(sys.argv[1:2]), f"; {resumed}")


def _fail(sentence: str, code: int) -> NoReturn:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    typer.echo(f"isogloss: {sentence}", err=True)
    sys.exit(code)


def _default_folder(folder: Path, *, resume: bool) -> Path:
    """`folder`, or the first of folder-2, folder-3 ... that is not there yet; to resume, the last that is."""
    numbered = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 10_000))]
    free = next(number for number, path in enumerate(numbered) if not path.exists())
    if resume and free == 0:
        raise InputError(f"there is no run at {folder} to resume; name it with --out")
    return numbered[free - 1 if resume else free]
