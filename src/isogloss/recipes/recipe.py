"""What a recipe is: ONE typed function that is a command, a Python call and the arguments a run records.

    @recipe
    def map(model: Model = "mini", *bitext: Bitext | Corpus, sample: Annotated[int, "sentences ..."] = 2000,
            seed: Seed = 0, out: Out = None, resume: Resume = False) -> Work:
        '''Map a model ...'''
        ...  # check every argument
        return Work(name, rows, hashes)

The function checks what it was given and returns `Work`: what will be measured, and a generator of rows. `@recipe`
turns it into a function with the same parameters that does the work in a run folder and returns the table. The command
line is made from the same signature, so `help(ig.map)`, `isogloss map --help` and `run.json` agree. Arguments are
recorded in one form, however they were given, and text in memory by its languages and its hash: a run that was begun
by the command is resumed from Python and the other way round.

The groups of options that several recipes share (optimiser, schedule, compute, run) are written once, here.
"""

import hashlib
import importlib
import inspect
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, Union, cast, get_args, get_origin

import pandas as pd
import torch

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.recipes import RECIPES
from isogloss.runs.run import Run, start
from isogloss.runs.table import Row, number_or_text, row
from isogloss.stack.load import choose_dtype
from isogloss.stack.stack import Chain, Stack
from isogloss.text import embedded, read_bitexts, read_corpus
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.languages import code
from isogloss.text.readers.lines import language_of
from isogloss.text.streams import paragraphs
from isogloss.training.loop import RECORD, Decay, Training, launched, train
from isogloss.training.plans import Plan, parse_plan

P = ParamSpec("P")

# --- the record ------------------------------------------------------------------------------------------------------

Hashes = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """Checked work of a recipe: `rows(run)` yields rows, a few at a time.

    Args:
        model: What tables call the model.
        rows: The work itself; the run appends what it yields, and a resumed run tells it what is there already.
        hashes: Of model and data; a function `hashes()` where they take long.
        notes: Sentences that the reader of the run should see.
        depth: The model's number of blocks.
    """

    model: str
    rows: Callable[[Run], Iterator[Sequence[Row]]]
    hashes: Hashes | Callable[[], Hashes]
    notes: Sequence[str] = ()
    depth: int | None = None


@dataclass(frozen=True)
class Option:
    """What an annotation says of a parameter beside its type.

    Args:
        help: What the command line's help says of it.
        panel: The section of the help that it stands in.
        recorded: Whether a run records it; where a shared folder lies, for instance, changes no row.
        hidden: Whether neither the command's help nor that of the function shows it: for papers alone.
        least: The smallest value allowed, which must be finite then.
        above: A value must be greater than this.
        below: A value must be smaller than this; goes with `least` or `above`.
        choices: The values allowed, where they are words; those of a `Literal`.
        kind: The type that the command line reads: one value, a text, or a text given several times. `option_of` sets
            it from the annotation.
        default: The parameter's default, `inspect.Parameter.empty` where it has none.
    """

    help: str = ""
    panel: str | None = None
    recorded: bool = True
    hidden: bool = False
    least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: Sequence[str] = ()
    kind: Any = str
    default: Any = inspect.Parameter.empty

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the limits, named the way the command line spells it; None is not checked."""
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
    """A recipe as others use it: `check(...)` checks the arguments and returns the work, `call(...)` does the work.

    `run` does it for the options of a job or of its command.

    Args:
        name: The command.
        check: The function that checks its arguments.
        call: The function that does the work and returns the table.
        options: What each parameter of the function declares.
        parameters: What a job or the command can set: the same without the options of the run folder, and with the
            options that name parallel text in place of the text itself.
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
    """Make a function that checks arguments and returns `Work` into one that does the work and returns the table.

    The work is done in the folder `out`, or in one that is removed afterwards. A mistake found before anything was
    measured leaves no folder behind; anything later leaves one that `resume` goes on with.
    """
    signature, options = inspect.signature(function), options_of(function)
    parameters = {name: option for name, option in options.items() if name not in ("bitext", *RUN_OPTIONS)}
    parameters |= {name: parameters.get(name, option) for name, option in TEXT_OPTIONS.items() if "bitext" in options}

    @wraps(function)
    def check(*args: P.args, **kwargs: P.kwargs) -> Work:
        check_arguments(function, signature.bind(*args, **kwargs).arguments)
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
            "hashes": work.hashes() if callable(work.hashes) else work.hashes,
            "depth": work.depth,
        }
        with tempfile.TemporaryDirectory() if out is None else nullcontext(out) as above:
            folder = Path(above, "run") if out is None else Path(above)
            with start(folder, facts, resume=resume, writes=launched()[0] == 0) as run:
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


def hidden(help_text: str) -> Option:
    """A parameter that reproductions of papers alone give: the command takes it, and its help does not show it."""
    return Option(help_text, RARE, hidden=True)


def find_recipe(name: str) -> Recipe:
    """The recipe of this name, which is that of its module."""
    require(name in RECIPES, f"there is no recipe {name!r}; there is {', '.join(RECIPES)}")
    module = importlib.import_module(f"isogloss.recipes.{name}")
    return cast(Recipe, getattr(module, name).recipe)


# --- options that recipes share --------------------------------------------------------------------------------------

OPTIMISER, SCHEDULE, COMPUTE, RUN, RARE = "Optimiser", "Schedule", "Compute", "Run folder", "Rarely needed"
RUN_OPTIONS = ("out", "resume")

Model = str | Path | Stack | Chain
LanguageFile = str | Mapping[str, Any]  # one language: LANG=FILE[,FILE], or its files by its code
LanguageFiles = list[str] | Sequence[str] | Mapping[str, Any]  # LANG=FILE[,FILE] once a language, or files by language

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
    Literal["ibm2", "fast_align"], "how words are linked where no links are given: IBM model 2, or as fast_align does"
]
Seed = Annotated[
    int, Option("seed of every random draw; with --seeds, the first of them", SCHEDULE, least=0, below=2**63)
]
Seeds = Annotated[PositiveInt, Option("how many seeds every training is run with", SCHEDULE)]
Epochs = Annotated[PositiveInt, Option("times the training text is seen", SCHEDULE)]
Batch = Annotated[PositiveInt, Option("sentences or examples in a batch", SCHEDULE)]
MicroBatch = Annotated[
    PositiveInt | None, Option("part of a batch that one forward pass takes, where memory is short", COMPUTE)
]
CheckpointEvery = Annotated[PositiveInt, Option("updates between checkpoints", SCHEDULE)]
Rate = Annotated[PositiveFloat, Option("highest learning rate", OPTIMISER)]
WarmUp = Annotated[Share, Option("share of the updates until the rate is highest", OPTIMISER)]
DecayName = Annotated[Decay, Option("linear, cosine, trapezoid, inverse-sqrt or constant", OPTIMISER)]
WeightDecay = Annotated[NonNegativeFloat, Option("AdamW's weight decay of matrices", OPTIMISER)]
Clip = Annotated[NonNegativeFloat, Option("largest norm of the gradient; 0 for any", OPTIMISER)]
Device = Annotated[str, Option("auto, cpu, cuda or mps", COMPUTE)]
Dtype = Annotated[str | None, Option("float32, bfloat16 or float16; default float32 on a CPU, else bfloat16", COMPUTE)]
TrainDtype = Annotated[str | None, Option("float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU", COMPUTE)]
Compiled = Annotated[
    Literal["auto", "yes", "no"], Option("auto, yes or no: compile the step on an NVIDIA GPU (starts slower)", COMPUTE)
]
Out = Annotated[str | Path | None, Option("run folder; default runs/NAME", RUN)]
Resume = Annotated[bool, Option("go on with a run that was stopped", RUN)]


def option_of(annotation: Any, default: Any = inspect.Parameter.empty) -> Option:
    """What an annotation declares of a parameter, with the type that the command line reads for it.

    Limits come from the types of numbers above, choices from `Literal`, help from the annotation's own note.

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
    """The type that is annotated, then its notes."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def options_of(function: Callable[..., Any]) -> dict[str, Option]:
    """What the parameters of a function declare, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: option_of(parameter.annotation, parameter.default) for parameter in parameters}


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse the first argument that is outside the limits which the function's annotation of it declares."""
    for name, option in options_of(function).items():
        option.check(name, given.get(name))


def recorded_arguments(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as `run.json` keeps them: the same whether they came from Python or the command line."""
    return {
        name: _recorded(
            value, several=name == "bitext" or list[str] in (options[name].kind, *get_args(options[name].kind))
        )
        for name, value in given.items()
        if name not in RUN_OPTIONS and options[name].recorded
    }


def _recorded(value: Any, *, several: bool = False) -> Any:
    """A value as `run.json` keeps it: a list where the option can be given several times, else a number or text."""
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


# --- checks: an argument that cannot be used is named the way the command line spells it -----------------------------


def plan_list(text: str) -> list[Plan]:
    """The plans of --plans, separated by commas, none of them twice."""
    plans = [parse_plan(part.strip()) for part in text.split(",")]
    if twice := [str(plan) for number, plan in enumerate(plans) if plan in plans[:number]]:
        raise InputError(f"--plans has {twice[0]} twice; --seeds runs a plan several times")
    return plans


def one_process(command: str) -> None:
    """Refuse to train in several processes, for a recipe that cannot."""
    require(launched()[1] == 1, f"{command} trains in one process; start it without torchrun or accelerate")


def half_precision(dtype: str | None, device: torch.device) -> bool:
    """Whether training computes in bfloat16: as asked, by default on a GPU."""
    chosen = choose_dtype(dtype, device)
    require(chosen != torch.float16, "--dtype float16 does not train stably; use bfloat16 or float32")
    return chosen == torch.bfloat16


def training_rows(training: Training, coordinates: Row, *, loss: Row, **how: Any) -> Iterator[list[Row]]:
    """The readings of `train(training, **how)` as rows with these coordinates; those of the loss have `loss`, too."""
    for readings in train(training, **how):
        yield [row(**{**each, **coordinates, **(loss if each["measure"] == "loss" else {})}) for each in readings]


def model_name(given: str | Path) -> str:
    """What tables call a model: its folder's name, for `RUN/model` and `RUN/model/nl` that of the run, or the hub id.

    One that was kept while it was tuned, `RUN/models/last-6-seed-0/step-500`, is `RUN/last-6-seed-0/step-500`, and the
    best of a plan, `RUN/checkpoints/last-6-seed-0/best`, is `RUN/last-6-seed-0/best`.

    >>> model_name("bert-base-cased")
    'bert-base-cased'
    """
    path = Path(given)
    if not path.is_dir():
        return str(given)
    parts = path.resolve().parts
    if "model" in parts[-2:]:
        number = len(parts) - 1 - parts[::-1].index("model")
        return "/".join((parts[number - 1], *parts[number + 1 :]))
    best = parts[-3:-2] == ("checkpoints",) and parts[-1] == "best"
    if (best or (path / RECORD).is_file()) and len(parts) > 4:
        return "/".join((parts[-4], *parts[-2:]))
    return parts[-1]


# --- text ------------------------------------------------------------------------------------------------------------

TEXT_OPTIONS: dict[str, Option] = {
    "bitext": Option(
        "parallel text: once a language, or once for a table, a Tatoeba folder, or the name of a data set",
        kind=list[str] | None,
        default=None,
    ),
    "languages": Option("codes in order, as in en,nl", kind=str | None, default=None),
    "links": Option("word links of the two languages, a Pharaoh file", kind=str | None, default=None),
    "data": Option("folder of data sets", kind=str | None, default=None),
}


def read_options(chosen: Recipe, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a recipe's function, by position and by name, from the options of a job or of its command.

    The model, or the text that a model is made of, stands first; after it the parallel text that the options name.
    """
    from isogloss.text.catalog import resolve

    first, option = next(iter(chosen.options.items()))
    head, read = [given.get(first, option.default)], {first, "bitext"} | (TEXT_OPTIONS.keys() - chosen.options)
    rest = {name: value for name, value in given.items() if name not in read}
    if "bitext" not in chosen.options:
        return head, rest
    bitext, languages, links, data = (given.get(name) for name in TEXT_OPTIONS)
    wanted = [language.strip() for language in languages.split(",")] if languages else None
    if bitext:
        files = [bitext] if isinstance(bitext, str) else bitext
        return [*head, *read_bitexts(*(resolve(path, data) for path in files), languages=wanted, links=links)], rest
    require(not links, "--links goes with --bitext: the embedded sentences have links of their own")
    return [*head, embedded(wanted)] if wanted else head, rest  # a recipe knows what to take when nothing is given


def language_entries(given: Any, option: str) -> Iterator[tuple[str, list[Path]]]:
    """The code and the files of each entry of `LANG=FILE[,FILE]`, a mapping, or a folder; languages may repeat."""
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

    A language given twice, a file that is missing or empty, and a code that is none are refused.
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
    """Name, size and hash of every file: what a run records of its text."""
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


def joined_corpus(language: str, files: Sequence[Path]) -> Corpus:
    """The sentences of some files as one corpus, called by its file, or by its language where it has several."""
    read = [read_corpus(path, language) for path in files]
    sentences = [sentence for corpus in read for sentence in corpus]
    return Corpus(language, sentences, name=read[0].name if len(read) == 1 else language)


def parallel_texts(given: Sequence[Bitext | Corpus], languages: Sequence[str]) -> list[Bitext]:
    """Parallel text in these languages to measure retrieval on: what was given, else the embedded sentences."""
    texts, chosen = bitexts_of(given), []
    for text in texts or [embedded()]:
        both = [language for language in text.languages if language in languages]
        if len(both) > 1:
            chosen.append(Bitext(tuple(text[language] for language in both), name=text.name))
    require(not texts or chosen, f"--bitext has no two of the languages of the text, {', '.join(languages)}")
    return chosen
