"""The command line: every recipe's signature defines its command, and every error is one sentence.

Modules are imported only when a command needs them, so `isogloss --help` and `isogloss --version` are fast. Exit codes:
0 success, 1 failure of the machine (a full disk), 2 invalid input, 130 interrupted, 143 terminated.
"""

import ast
import errno
import gc
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from isogloss.errors import InputError, JobsFailed, ended_in_order
from isogloss.progress import bar
from isogloss.recipes import RECIPES

INTERRUPTED = 130
UNKNOWN = 70  # the exit code of an unexpected error
DEBUG = "ISOGLOSS_DEBUG"  # if this variable is set, errors are shown with their traceback
STOPPED = {INTERRUPTED: "interrupted", 143: "terminated"}  # exit codes of a command that was stopped
PLAIN: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
DataFolder = Annotated[str | None, typer.Option("--data", envvar="ISOGLOSS_DATA", help="folder of data sets")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars", rich_help_panel="Run folder")]


# --- commands that are created when they are called ------------------------------------------------------------------


class PlainCommand(TyperCommand):
    """A command whose help is plain text in sections: in a table of 80 columns, names of options would be cut."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, grouped by the titles of their panels."""
        sections: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or kind, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class LazyGroup(TyperGroup):
    """A group whose commands are created when they are called; its help only needs their names and first lines.

    `entries` maps the name of a command to the first line of its help and the function that creates it.
    """

    entries: Mapping[str, tuple[str, Callable[[], Any]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands in order."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command with its name and first line, for the help of the group."""
        return TyperCommand(cmd_name, short_help=self.entries[cmd_name][0]) if cmd_name in self.entries else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Create the command that is called."""
        if args and args[0] in self.entries:
            with _starting():
                return args[0], self.entries[args[0]][1](), args[1:]
        return super().resolve_command(ctx, args)


@contextmanager
def _starting() -> Iterator[None]:
    """Say on a terminal that the command starts, while its packages are imported, which takes seconds."""
    shown = sys.stderr.isatty() and "--quiet" not in sys.argv
    sys.stderr.write("starting ...\r" * shown)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\x1b[2K" * shown)  # clears the line


def lazy_group(entries: Mapping[str, tuple[str, Callable[[], Any]]], text: str, **settings: Any) -> typer.Typer:
    """A Typer application whose commands are `entries`."""
    group = type("Group", (LazyGroup,), {"entries": entries})
    return typer.Typer(cls=group, no_args_is_help=True, help=text, **PLAIN | settings)


def command_of(function: Callable[..., None], name: str) -> Any:
    """A command from a function with typer's annotations."""
    single = typer.Typer(**PLAIN)
    single.command(name, cls=PlainCommand)(function)
    return typer.main.get_command(single)


def plain_entry(name: str, function: Callable[..., None]) -> tuple[str, Callable[[], Any]]:
    """The entry of a function in a lazy group: its first line, and the function that creates the command."""
    return (function.__doc__ or "").partition("\n")[0], partial(command_of, function, name)


def papers() -> dict[str, str]:
    """The first line of each paper's module by the paper's name, without importing it."""
    files = sorted((Path(__file__).parent / "papers").glob("*[0-9].py"))
    return {file.stem: (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n")[0] for file in files}


def with_parameters(
    run: Callable[..., None], parameters: Sequence[inspect.Parameter], name: str, text: str | None
) -> Any:
    """A command that calls `run(**given)` with these parameters."""
    run.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    parts = inspect.cleandoc(text or "").partition("\n\n>>>")[0].split("\n\n")
    # An example is always one line, so that it can be copied.
    run.__doc__ = "\n\n".join(
        "\b\n" + " ".join(part.split()) if part.startswith("Example:") else part for part in parts
    )
    return command_of(run, name)


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A keyword-only parameter."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option_parameters(options: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Typer's parameters for the options of a function, with the types of the command line, help and panels."""
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
    no_page: bool,
) -> None:
    """Run `work` in a run folder, draw its page and print the findings; failures of jobs are raised last.

    work: `work(out=folder, resume=resume)` returns the table. usual: the default folder. sentences: returns the
    sentences to print for a table, by default the verdict of the run. no_page: whether to leave out the page, which
    is also left out if the packages for it are not installed.
    """
    from isogloss.report import can_draw, verdict, write_page
    from isogloss.runs.run import check_folder, is_first_process, read_facts, read_rows

    folder = Path(out) if out else _default_folder(usual, resume=resume)
    first, failure, page = is_first_process(), None, None
    if first:
        check_folder(folder, resume=resume)
        if resume and not (folder / "run.json").is_file():
            typer.echo(f"isogloss: there is no run at {folder} to resume, so it begins", err=True)
    with nullcontext() if quiet or not first else bar():
        try:
            table = work(out=folder, resume=resume)
        except JobsFailed as error:
            failure, table = error, read_rows(folder) if (folder / "rows.csv").is_file() else ()
            if not len(table):
                raise
        if not first:
            return
        if len(table) and can_draw() and not no_page:
            page = write_page([folder], folder / "report.html")
    findings = (sentences(table) if sentences else verdict(folder)) if len(table) else []
    for sentence in [*findings, *(f"Note: {note}." for note in read_facts(folder)["notes"])]:
        typer.echo(sentence)
    typer.echo(f"\n{len(table):,} row{'s' * (len(table) != 1)}: {folder / 'rows.csv'}")
    if (folder / "model").is_dir():
        typer.echo(f"model: {folder / 'model'}")
    how = "" if no_page else ", with isogloss[report] installed"
    typer.echo(f"report: {page or f'not drawn; `isogloss report {folder}` draws it{how}'}")
    if failure:
        raise failure


QUIET = keyword("quiet", Quiet, False)
LATER = "do not draw the page and its figures; `isogloss report RUN` draws them later"
NoPage = Annotated[bool, typer.Option("--no-page", help=LATER, rich_help_panel="Run folder")]
NO_PAGE = keyword("no_page", NoPage, False)
RUN_ONLY = ("out", "resume", "quiet", "no_page")


def recipe_parameters(recipe: Any) -> list[inspect.Parameter]:
    """The parameters of a recipe's command: those of the recipe, and those of the run folder."""
    folder = {name: recipe.options[name] for name in ("out", "resume")}
    return [*option_parameters({**recipe.parameters, **folder}), QUIET, NO_PAGE]


def recipe_command(name: str) -> Any:
    """Create the command of a recipe from its signature."""
    from isogloss.recipes.recipe import find_recipe

    recipe = find_recipe(name)

    def run(more: Sequence[str] = (), **given: Any) -> None:
        how = {each: given.pop(each) for each in RUN_ONLY}
        given |= {"model": [given["model"], *more]} if more else {}
        carry_out(partial(recipe.run, given), Path("runs") / name, **how)

    first, *rest = recipe_parameters(recipe)
    more = typer.Argument(help="further models to compare on the same text")
    several = [keyword("more", Annotated[list[str], more], [])] if next(iter(recipe.options.values())).several else []
    return with_parameters(run, [first, *several, *rest], name, recipe.call.__doc__)


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="print the jobs, and their estimated time if known; run nothing")
]


def sweep_command(name: str) -> Any:
    """Create the command that sweeps a recipe over a grid: the recipe's options, all optional, and those of a sweep."""
    from isogloss.recipes.recipe import find_recipe, options_of
    from isogloss.recipes.sweep import plan_sweep, sweep

    recipe = find_recipe(name)
    shared = {each: option for each, option in options_of(sweep).items() if option.help}
    parameters = []
    for each in (*recipe_parameters(recipe), *option_parameters(shared)):
        if each.default is each.empty:  # optional here, since the grid may have it
            kind: Any = each.annotation.__origin__ | None
            each = keyword(each.name, Annotated[(kind, *each.annotation.__metadata__)], None)
        parameters.append(each)

    def run(dry_run: bool, **given: Any) -> None:
        from isogloss.recipes.jobs import job_lines

        own = [each for each in parameters if each.name not in (*shared, *RUN_ONLY)]
        options = {each.name: given[each.name] for each in own if str(given[each.name]) != str(each.default)}
        usual = Path("runs/sweep")
        if dry_run:
            _, _, jobs = plan_sweep(name, given["grid"] or [], out=given["out"] or usual, options=options)
            typer.echo("\n".join([f"{len(jobs)} job{'s' * (len(jobs) != 1)}:", *job_lines(jobs)]))
            return
        work = partial(sweep, name, **{each: given[each] for each in shared}, **options)
        carry_out(work, usual, **{each: given[each] for each in RUN_ONLY})

    example = re.search(r"Example: isogloss (.*?)(\n\s*\n|\Z)", recipe.call.__doc__ or "", re.DOTALL)
    usual_words = " ".join(example[1].split()) if example else name
    text = f"Run {name} with every combination of the values in --grid."
    text += f"\n\nExample: isogloss sweep {usual_words} --grid seed=0..4"
    return with_parameters(run, [*parameters, keyword("dry_run", DryRun, False)], name, text)


def reproduce_command(name: str) -> Any:
    """Create the command of a paper: the options of `reproduce`, and those of this paper."""
    from isogloss.papers.paper import find, reproduce
    from isogloss.recipes.recipe import options_of

    paper = find(name)
    shared = {each: option for each, option in options_of(reproduce).items() if option.help}
    special = dict(paper.options)
    parameters = [
        *option_parameters(shared | special),
        keyword("out", Annotated[str | None, typer.Option(help="run folder; default runs/PAPER-SCALE")], None),
        keyword("resume", Annotated[bool, typer.Option("--resume", help="resume an unfinished run")], False),
        keyword("dry_run", DryRun, False),
        QUIET,
        NO_PAGE,
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
        how = {each: given[each] for each in RUN_ONLY}
        carry_out(work, usual, lambda table: [f"{part}\n" for part in summary(paper, table)], **how)

    text = f"{paper.about}\n\n{REPRODUCE}\n\n"
    return with_parameters(run, parameters, name, f"{text}Example: isogloss reproduce {name} --scale smoke")


# --- report, export and data -----------------------------------------------------------------------------------------


def report_command(
    runs: Annotated[list[Path], typer.Argument(help="run folders", metavar="RUN...")],
    out: Annotated[Path | None, typer.Option(help="path of the page; default: in the first run folder")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run again, or one page for several runs.

    Example: isogloss report runs/mini runs/mbert --out both.html
    """
    from isogloss.report import write_page

    with nullcontext() if quiet else bar():
        page = write_page(runs, out or runs[0] / "report.html")
    typer.echo(f"report: {page}")


def export_command() -> Any:
    """Create the command of `ig.export` from its signature."""
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

    model = typer.Argument(help="mini, a folder, a hub id, or a run folder with a subfolder model")
    parameters = [
        keyword("model", Annotated[str, model]),
        keyword("folder", Annotated[str, typer.Argument(help="folder to write")]),
    ]
    declared = {name: option for name, option in options_of(export).items() if option.help}
    return with_parameters(
        run, [*parameters, *option_parameters(declared), keyword("quiet", Quiet, False)], "export", export.__doc__
    )


def data_list(data: DataFolder = None) -> None:
    """List the data sets in the data folder.

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
    """Read all files of the data folder and list errors by file and line; exits with 1 if there are any.

    Example: isogloss data check --data ~/data
    """
    from isogloss.text.catalog import check, data_dir

    with bar():
        checked = check(data_dir(data))
    for problem in checked.problems:
        typer.echo(problem)
    if checked.unchecked:
        typer.echo("not checked: " + ", ".join(str(path) for path in checked.unchecked))
    typer.echo(f"{checked.count:,} problems in {len(checked.checked):,} files")
    raise typer.Exit(1 if checked.problems else 0)


# --- the application -------------------------------------------------------------------------------------------------


SWEEP = "Run a recipe with every combination of some arguments' values; one table at the end."
REPRODUCE = "Reproduce the experiments of a paper, with its published numbers beside the measured ones."
DATA = "Data sets in a folder (--data or ISOGLOSS_DATA)."
SWEPT = f"{SWEEP}\n\nExample: isogloss sweep map --grid model=mini,./other --grid seed=0..4"
sweep_app = lazy_group({name: (text, partial(sweep_command, name)) for name, text in RECIPES.items()}, SWEPT)
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
        bool, typer.Option("--debug", help="show the traceback of an error, as ISOGLOSS_DEBUG=1 does")
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
    """The command for the words of a command line after `isogloss`, and its remaining words."""
    command, rest = typer.main.get_command(app), list(words)
    while isinstance(command, LazyGroup):
        _, command, rest = command.resolve_command(None, rest)
    return command, rest


def main() -> None:
    """Run the command line; an error is one sentence on standard error and a non-zero exit code."""
    # Importing torch and transformers makes half a million objects that stay. At its default, Python's collector of
    # garbage searches them again and again, which takes a quarter of that time.
    gc.set_threshold(10_000)
    # oneDNN caches primitives for up to 1,024 shapes of tensors. Batches of text have ever new shapes, and the cached
    # objects fragment the heap between their tensors, so that memory grew with the text.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    # Threads that wait for each other keep their cores busy. If other programs use all cores, the thread that is waited
    # for cannot run meanwhile: beside two trainings on two cores, the demo took three times as long.
    if hasattr(os, "getloadavg") and os.getloadavg()[0] >= (os.cpu_count() or 1):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        # Schedulers end a command with SIGTERM; handled like an interrupt, it closes what is open.
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
        ended = stop.code if isinstance(stop, SystemExit) else INTERRUPTED  # the parser also raises SystemExit
        if isinstance(stop.__cause__, EOFError):  # the parser takes it for an abort by the user
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
        if not sentence:  # help was shown, as without any arguments
            sys.exit(2)
        if sentence.startswith("No such command") and context is not None:
            sentence = f"{sentence.rstrip('.')}; there is {', '.join(context.command.list_commands(context))}"
        _fail(sentence, 2)


def _afterwards(resumed: str) -> str:
    """The end of the message for a stopped command: exports are atomic, and some commands have no --resume."""
    endings = {"export": "; nothing was left behind", "report": "; the rows are as they were", "data": ""}
    return endings.get("".join(sys.argv[1:2]), f"; {resumed}")


def _fail(sentence: str, code: int) -> NoReturn:
    if os.environ.get(DEBUG):
        traceback.print_exc()
    typer.echo(f"isogloss: {sentence}", err=True)
    sys.exit(code)


def _default_folder(folder: Path, *, resume: bool) -> Path:
    """`folder`, or the first of folder-2, folder-3 ... that does not exist yet; to resume, the last existing one."""
    numbered = [folder, *(folder.with_name(f"{folder.name}-{number}") for number in range(2, 10_000))]
    free = next(number for number, path in enumerate(numbered) if not path.exists())
    if resume and free == 0:
        raise InputError(f"there is no run at {folder} to resume; name it with --out")
    return numbered[free - 1 if resume else free]
