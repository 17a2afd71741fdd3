"""Recipes: ONE typed function defines a command, a Python function and the arguments that a run records.

    @recipe
    def map(model: Model = "mini", *bitext: Bitext | Corpus, sample: Annotated[int, "sentences ..."] = 2000,
            seed: Seed = 0, out: Out = None, resume: Resume = False) -> Work:
        '''Map a model ...'''
        ...  # check every argument
        return Work(name, rows, hashes)

The function checks its arguments and returns `Work`, which has a generator of rows. `@recipe` turns it into a function
with the same parameters that does the work in a run folder and returns the table. The command line is built from the
same signature, so `help(ig.map)`, `isogloss map --help` and `run.json` agree. Arguments are recorded in one form,
however they were given, and text in memory is recorded by its languages and its hash. So a run that was started by the
command can be resumed from Python, and vice versa.

Options that several recipes share are defined here, and options of training in `training_options`.
"""

import hashlib
import importlib
import inspect
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, Union, cast, get_args, get_origin

import pandas as pd

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.recipes import RECIPES
from isogloss.runs.run import Run, is_first_process, read_facts, start
from isogloss.runs.table import Row, number_or_text, records
from isogloss.stack.load import STEP_FILE
from isogloss.stack.stack import Chain, Stack
from isogloss.text.batches import language_token
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import code
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.readers.lines import language_of, paragraphs

P = ParamSpec("P")

# --- the record ------------------------------------------------------------------------------------------------------

Hashes = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """The work of a recipe after its arguments were checked: `rows(run)` yields lists of rows.

    Args:
        model: The model's name in the table.
        rows: Yields the rows, which are appended to the run; a resumed run knows which rows it has already.
        hashes: Hashes of model and data, or a function that computes them if that takes long.
        notes: Sentences shown to readers of the run.
        depth: The model's number of blocks.
    """

    model: str
    rows: Callable[[Run], Iterator[Sequence[Row]]]
    hashes: Hashes | Callable[[], Hashes]
    notes: Sequence[str] = ()
    depth: int | None = None


@dataclass(frozen=True)
class Option:
    """The annotation of a parameter in addition to its type.

    Args:
        help: Help text of the option.
        panel: Section of the help that lists the option.
        recorded: Whether a run records it; the path of a shared folder, for instance, does not affect any row.
        hidden: Whether it is hidden in the help of the command and of the function, since only papers use it.
        several: Whether the command takes several models, each with its own run and all of them in one table.
        least: Smallest allowed value; the value must then also be finite.
        above: Lower bound, exclusive.
        below: Upper bound, exclusive; needs `least` or `above`.
        choices: Allowed values, if they are words; those of a `Literal`.
        kind: Type of the option on the command line: one value, a text, or a text given several times. `option_of` sets
            it from the annotation.
        default: The parameter's default, `inspect.Parameter.empty` if it has none.
    """

    help: str = ""
    panel: str | None = None
    recorded: bool = True
    hidden: bool = False
    several: bool = False
    least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Sequence[str] = ()
    kind: Any = str
    default: Any = inspect.Parameter.empty

    def __repr__(self) -> str:
        """Its help text alone, which keeps `help(ig.map)` and `inspect.signature` readable."""
        return repr(self.help)

    def check(self, name: str, value: Any) -> None:
        """Raise InputError for a value outside the limits; name: as spelt on the command line. None is not checked."""
        option, low = f"--{name.replace('_', '-')}", self.least if self.above is None else self.above
        if value is None:
            return
        require(not self.choices or value in self.choices, f"{option} takes {' or '.join(self.choices)}, not {value!r}")
        if low is None:
            return
        large = value >= low if self.above is None else value > low
        if self.below is not None and not (large and value < self.below):
            begin = "from" if self.above is None else "above"
            raise InputError(f"{option} must be {begin} {low} to below {self.below}, not {value}")
        require(large, f"{option} must be {'at least' if self.above is None else 'above'} {low}, not {value}")
        require(value != math.inf, f"{option} must be a finite number, not {value}")


@dataclass(frozen=True)
class Recipe:
    """A recipe: `check(...)` checks the arguments and returns the work, `call(...)` does the work.

    `run` does the work for the options of a job or of the command.

    Args:
        name: Name of the command.
        check: Checks the arguments and returns the work.
        call: Does the work and returns the table.
        options: The option of each parameter of the function.
        parameters: The options of a job or the command: `options` without those of the run folder, and with options
            that name parallel text instead of the text itself.
    """

    name: str
    check: Callable[..., Work]
    call: Callable[..., pd.DataFrame]
    options: Mapping[str, Option]
    parameters: Mapping[str, Option]

    def run(self, given: Mapping[str, Any], *, out: str | Path, resume: bool) -> pd.DataFrame:
        """Do the work in a run folder and return the table; given: options as `read_options` takes them."""
        arguments, options = read_options(self, given)
        return self.call(*arguments, **options, out=out, resume=resume)


def recipe(function: Callable[P, Work]) -> Callable[P, pd.DataFrame]:
    """Turn a function that checks arguments and returns `Work` into one that does the work and returns the table.

    The work is done in the folder `out`, or in a temporary one. An error before the first row leaves no folder behind;
    a run that fails later can be resumed with `resume`.
    """
    signature, options = inspect.signature(function), options_of(function)
    parameters = {name: option for name, option in options.items() if name not in ("bitext", *RUN_OPTIONS)}
    parameters |= {name: parameters.get(name, option) for name, option in TEXT_OPTIONS.items() if "bitext" in options}

    @wraps(function)
    def check(*args: P.args, **kwargs: P.kwargs) -> Work:
        bound = signature.bind(*args, **kwargs)
        check_arguments(function, bound.arguments)
        if isinstance(bound.arguments.get("model"), list | tuple):
            chosen = find_recipe(function.__name__)
            require(chosen.options["model"].several, f"{chosen.name} takes one model; sweep runs it for several")
            return _work_of_models(chosen, bound)
        return function(*args, **kwargs)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given, work = bound.arguments, check(*args, **kwargs)
        out, resume = (given[name] for name in RUN_OPTIONS)
        facts = {
            "command": function.__name__,
            "arguments": recorded_arguments(options, given),
            "seed": given.get("seed", 0),
            "model": work.model,
            "hashes": _known(work.hashes),
            "depth": work.depth,
        }
        with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as above:
            folder = Path(above, "run") if out is None else Path(above)
            with start(folder, facts, resume=resume, writes=is_first_process()) as run:
                if run.finished:
                    return run.finish()
                if run.writes:
                    run.scratch.mkdir(exist_ok=True)
                for sentence in work.notes:
                    run.note(sentence)
                for rows in work.rows(run):
                    run.append(rows)
                return run.finish()

    shown = [each for each in signature.parameters.values() if not options[each.name].hidden]
    call.__signature__ = signature.replace(parameters=shown, return_annotation=pd.DataFrame)  # type: ignore[attr-defined]
    call.recipe = Recipe(function.__name__, check, call, options, parameters)  # type: ignore[attr-defined]
    return call


def _known(hashes: Hashes | Callable[[], Hashes]) -> Hashes:
    return hashes() if callable(hashes) else hashes


def _work_of_models(chosen: Recipe, bound: inspect.BoundArguments) -> Work:
    """The work of a call with several models: each has a run in the folder `jobs`, and one table has all rows.

    Each model is loaded twice, to check the arguments and to do its work, so that only one is in memory at a time.
    """
    calls: dict[str, inspect.BoundArguments] = {}
    hashes: dict[str, Hashes] = {}
    models, out = bound.arguments["model"], bound.arguments.get("out")
    for model in models:
        call = copy(bound)
        call.arguments = {**bound.arguments, "model": model}
        work = chosen.check(*call.args, **call.kwargs)
        if len(models) == 1:
            return work
        name = re.sub(NO_FILE_NAME, "-", work.model)
        require(name not in calls, f"two models are called {work.model}; rename the folder of one, to tell them apart")
        calls[name], hashes[work.model] = call, _known(work.hashes)
        del work  # frees the model
    require(calls, "the list of models is empty; name at least one")

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        facts = {}
        for name, call in calls.items():
            folder = run.folder / "jobs" / name
            if out is not None:
                call.arguments |= {"out": folder, "resume": (folder / "run.json").is_file()}
            yield records(chosen.call(*call.args, **call.kwargs))
            if out is not None and run.writes:
                facts[name] = read_facts(folder)
                run.facts["jobs"] = {"finished": list(facts)}
        note_all(run, facts)

    return Work(", ".join(hashes), rows, hashes)


def note_all(run: Run, facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the notes of several runs, by name: a note that all runs have once, others with the name of their run."""
    for name, record in facts.items():
        for note in record["notes"]:
            shared = all(note in other["notes"] for other in facts.values())
            run.note(note if shared else f"{name}: {note}")


def hidden(help_text: str) -> Option:
    """An option for reproductions of papers: the command accepts it, but its help does not show it."""
    return Option(help_text, RARE, hidden=True)


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, which is also the name of its module."""
    require(name in RECIPES, f"there is no recipe {name!r}; there is {', '.join(RECIPES)}")
    module = importlib.import_module(f"isogloss.recipes.{name}")
    return cast(Recipe, getattr(module, name).recipe)


# --- options that recipes share --------------------------------------------------------------------------------------

OPTIMISER, SCHEDULE, COMPUTE, RUN, RARE = "Optimiser", "Schedule", "Compute", "Run folder", "Rarely needed"
LOOKED_AT, MANY_UNKNOWN = 1_000, 0.05  # for `tokenizer_notes`: sentences that are tokenised, and share of their tokens
RUN_OPTIONS = ("out", "resume")
NO_FILE_NAME = r"[^\w.+-]+"  # characters of model names or values that are replaced in names of folders

Model = str | Path | Stack | Chain
Models = Annotated[Model | Sequence[Model], Option(several=True)]
LanguageFile = str | Mapping[str, Any]  # one language: LANG=FILE[,FILE], or its files by its code
LanguageFiles = list[str] | Sequence[str] | Mapping[str, Any]  # LANG=FILE[,FILE] per language, or files by language

# Numbers with limits: `Annotated[PositiveInt, "updates between scores"]` is a parameter with its help.
PositiveInt = Annotated[int, Option(least=1)]
NonNegativeInt = Annotated[int, Option(least=0)]
PositiveFloat = Annotated[float, Option(above=0)]
NonNegativeFloat = Annotated[float, Option(least=0)]
Share = Annotated[float, Option(least=0, below=1)]
PositiveShare = Annotated[float, Option(above=0, below=1)]

Revision = Annotated[str | None, Option("revision of a model on the hub", RARE)]
Layers = Annotated[str | Sequence[int] | None, "cuts to read, as in 0,4,8-12; default all"]
Aligner = Annotated[
    Literal["ibm2", "fast_align"], "statistical aligner for text without word links: IBM model 2, or as in fast_align"
]
Seed = Annotated[
    int,
    Option("seed of every random draw, and of the first training if there are several", SCHEDULE, least=0, below=2**63),
]
Device = Annotated[str, Option("auto, cpu, cuda or mps", COMPUTE)]
ReadingDevice = Annotated[str, Option("auto, cpu, cuda or mps; split: all GPUs, then memory, then disk", COMPUTE)]
Dtype = Annotated[
    str | None,
    Option("float32, bfloat16, float16, int8 or int4; default float32 on a CPU, else bfloat16", COMPUTE),
]
Out = Annotated[str | Path | None, Option("run folder; default runs/NAME", RUN)]
Resume = Annotated[bool, Option("resume an unfinished run", RUN)]


def option_of(annotation: Any, default: Any = inspect.Parameter.empty) -> Option:
    """The option that an annotation declares, including its type on the command line.

    Limits come from the number types above, choices from `Literal`, and help from the annotation's text.

    >>> option_of(Annotated[int | str, "how many"]).kind, option_of(list[str] | Bitext | None).kind
    (<class 'str'>, list[str] | None)
    >>> option = option_of(Annotated[PositiveInt | None, "updates between scores"])
    >>> option.kind, option.least, option.help
    (int | None, 1, 'updates between scores')
    """
    declared, *notes = _without_notes(annotation)
    members, declares = list[Any](), dict[str, Any]()
    for member in get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,):
        kind, *limits = _without_notes(member)
        if get_origin(kind) is Literal:
            kind, limits = str, [Option(choices=get_args(kind))]
        members.append(kind)
        notes = [*limits, *notes]
    for note in notes:
        given = {"help": note} if isinstance(note, str) else vars(note)
        declares |= {name: value for name, value in given.items() if value != getattr(Option, name)}
    if any(get_origin(member) is list for member in members):
        members = [list[str], *(member for member in members if member is NoneType)]
    elif str in members:
        members = [member for member in members if member in (str, NoneType)]
    return Option(**{**declares, "kind": reduce(or_, members), "default": default})


def _without_notes(annotation: Any) -> tuple[Any, ...]:
    """The annotated type, then its metadata."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def options_of(function: Callable[..., Any]) -> dict[str, Option]:
    """The options of a function's parameters, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: option_of(parameter.annotation, parameter.default) for parameter in parameters}


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise InputError for the first argument outside the limits declared by its annotation."""
    for name, option in options_of(function).items():
        option.check(name, given.get(name))


def recorded_arguments(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as recorded in `run.json`: the same from Python and from the command line."""
    return {
        name: _recorded(
            value, several=name == "bitext" or list[str] in (options[name].kind, *get_args(options[name].kind))
        )
        for name, value in given.items()
        if name not in RUN_OPTIONS and options[name].recorded
    }


def _recorded(value: Any, *, several: bool = False) -> Any:
    """A value as recorded in `run.json`: a list if the option can be given several times, else a number or text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Bitext | Corpus):
        languages = list(value.languages) if isinstance(value, Bitext) else [value.language]
        return {"languages": languages, "hash": value.fingerprint}
    if isinstance(value, Mapping):
        parts: list[Any] = [
            f"{key}={files if isinstance(files, str | Path) else ','.join(map(str, files))}"
            for key, files in value.items()
        ]
    elif isinstance(value, list | tuple | range | set):
        parts = [_recorded(part) for part in value]
    else:
        text = str(value.name if isinstance(value, Stack | Chain) else value)
        if not several:
            return number_or_text(text)  # `--rate 5e-5` and `rate=5e-5` are the same
        parts = [text]
    return parts if several else ",".join(map(str, parts))


def model_name(given: str | Path) -> str:
    """The name of a model in tables: its folder or file, the run for `RUN/model` and `RUN/model/nl`, or the hub id.

    A model saved during fine-tuning, `RUN/models/last-6-seed-0/step-500`, is `RUN/last-6-seed-0/step-500`, and the best
    model of a plan, `RUN/checkpoints/last-6-seed-0/best`, is `RUN/last-6-seed-0/best`.

    >>> model_name("bert-base-cased")
    'bert-base-cased'
    """
    path = Path(given)
    if not path.is_dir():
        return path.name if path.is_file() else str(given)
    parts = path.resolve().parts
    if "model" in parts[-2:]:
        number = len(parts) - 1 - parts[::-1].index("model")
        return "/".join((parts[number - 1], *parts[number + 1 :]))
    best = parts[-3:-2] == ("checkpoints",) and parts[-1] == "best"
    if (best or (path / STEP_FILE).is_file()) and len(parts) > 4:
        return "/".join((parts[-4], *parts[-2:]))
    return parts[-1]


def named_texts(texts: Sequence[Bitext]) -> dict[str, Bitext]:
    """Parallel texts by name, or by their languages if they have none; names must be distinct."""
    named = {text.name or "-".join(text.languages): text for text in texts}
    names = ", ".join(text.name or "-".join(text.languages) for text in texts)
    require(len(named) == len(texts), f"two texts have the same name ({names}); their rows could not be told apart")
    return named


def tokenizer_notes(tokenizer: Any, texts: Iterable[Corpus]) -> list[str]:
    """A note on each text with at least 5% unknown tokens, or whose language a translation model has no token for.

    All words that the vocabulary cannot represent are the same token, so sentences of such words look alike to the
    model. Unknown tokens are never predicted, so perplexity is measured on the other tokens only.

    Args:
        tokenizer: A tokenizer of `transformers`.
        texts: The texts; the first `LOOKED_AT` sentences of each are tokenised.
    """
    notes = []
    for text in texts:
        marked = getattr(tokenizer, "src_lang", None)
        if marked is not None and language_token(tokenizer, text.language) is None:
            notes.append(f"the tokenizer has no token for the language {text.language}: its texts are marked {marked}")
        if tokenizer.unk_token_id is None:
            continue
        sentences = list(text.sentences[:LOOKED_AT])
        ids = tokenizer(sentences, add_special_tokens=False, verbose=False)["input_ids"] if sentences else []
        tokens = [token for sentence in ids for token in sentence]
        share = tokens.count(tokenizer.unk_token_id) / len(tokens) if tokens else 0.0
        if share >= MANY_UNKNOWN:
            named = f"{text.name} ({text.language})" if text.name else text.language
            notes.append(
                f"{share:.0%} of the tokens of {named} are unknown to the model's tokenizer: to the model such words "
                "are all one, and what is measured on them says little"
            )
    return notes


# --- text ------------------------------------------------------------------------------------------------------------

TEXT_OPTIONS: dict[str, Option] = {
    "bitext": Option(
        "parallel text: once per language, or once for a table, a Tatoeba folder, or the name of a data set",
        kind=list[str] | None,
        default=None,
    ),
    "languages": Option("language codes in order, as in en,nl", kind=str | None, default=None),
    "links": Option("word links between the two languages, a file in Pharaoh format", kind=str | None, default=None),
    "data": Option("folder of data sets", kind=str | None, default=None),
}


def read_options(chosen: Recipe, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments of a recipe's function from the options of a job or of its command.

    The model, or the text to pretrain on, comes first, then the parallel text that the options name.
    """
    first, option = next(iter(chosen.options.items()))
    head, read = [given.get(first, option.default)], {first, "bitext"} | (TEXT_OPTIONS.keys() - chosen.options)
    rest = {name: value for name, value in given.items() if name not in read}
    if "bitext" not in chosen.options:
        return head, rest
    bitext, languages, links, data = (given.get(name) for name in TEXT_OPTIONS)
    wanted = [language.strip() for language in languages.split(",")] if languages else None
    if bitext:
        from isogloss.text.catalog import resolve
        from isogloss.text.readers.parallel import read_bitexts

        files = [bitext] if isinstance(bitext, str) else bitext
        return [*head, *read_bitexts(*(resolve(path, data) for path in files), languages=wanted, links=links)], rest
    require(not links, "--links goes with --bitext: the embedded sentences have links of their own")
    return [*head, embedded(wanted)] if wanted else head, rest  # without any text, the recipe has its own default


def language_entries(given: Any, option: str) -> Iterator[tuple[str, list[Path]]]:
    """The code and files of each entry of `LANG=FILE[,FILE]`, a mapping, or a folder; languages may be repeated."""
    if isinstance(given, Mapping):
        for language, files in given.items():
            several = [files] if isinstance(files, str | Path) else list(files)
            yield code(language), [Path(file) for file in several]
        return
    for entry in [str(given)] if isinstance(given, str | Path) else [str(part) for part in given]:
        language, equals, files = entry.partition("=")
        if equals:
            yield code(language), [Path(file.strip()) for file in files.split(",") if file.strip()]
            continue
        if not Path(entry).is_dir():
            raise InputError(f"--{option} takes LANG=FILE or a folder of files named *.LANG.txt, not {entry!r}")
        groups: dict[str, list[Path]] = {}
        for path in sorted(Path(entry).glob("*.txt")):  # europarl.nl.txt, nl.txt
            if (named := language_of(path)) is not None:
                groups.setdefault(named, []).append(path)
        require(groups, f"--{option}: {entry} has no files named *.LANG.txt, as in europarl.nl.txt")
        yield from groups.items()


def language_files(given: Any, *, option: str = "text") -> dict[str, list[Path]]:
    """Files of each language from `LANG=FILE[,FILE...]`, a mapping, or a folder of files named `*.LANG.txt`.

    Raises InputError for a repeated language, a missing or empty file, and an unknown language code.
    """
    texts: dict[str, list[Path]] = {}
    for language, files in language_entries(given, option):
        if language in texts:
            raise InputError(f"--{option}: {language} is listed twice; give its files together, {language}=A,B")
        texts[language] = files
    for language, files in texts.items():
        where = f"--{option} {language}"
        require(files, f"{where}: no file is named; give {language}=FILE")
        for path in files:
            require(not path.is_dir(), f"{where}: {path} is a folder; name files, or give a folder without LANG=")
            require(path.is_file(), f"{where}: there is no file {path}")
            require(next(paragraphs([path]), None) is not None, f"{where}: {path} is empty")
    return texts


def describe_files(texts: Mapping[str, Sequence[Path]]) -> dict[str, list[dict[str, Any]]]:
    """Name, size and hash of every file, as recorded in the run."""
    total, done = sum(path.stat().st_size for files in texts.values() for path in set(files)), 0
    facts: dict[str, list[dict[str, Any]]] = {}
    for language, files in texts.items():
        for path in dict.fromkeys(files):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            entry: dict[str, Any] = {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
            done += entry["bytes"]
            progress("hashing the text", done, total)
            entry |= {"times": times} if (times := list(files).count(path)) > 1 else {}
            facts.setdefault(language, []).append(entry)
    return facts
