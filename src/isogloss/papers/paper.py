"""`isogloss reproduce`: what a paper is to this toolkit, and how what it ran is planned, run and collected.

A paper is a module of this package, named author and year, that holds a `Paper`, a record of functions and claims: a
new one is one more file, and nothing else is edited. Its settings at every scale, and which of them are options of this
paper alone, stand in one table (`scale_table`). `plan` turns what the user gave into an `Outline`: the recipe calls to
make, in order, and about how long they take, before anything is written. Everything after the runs is read from the one
table of rows: `collect` makes that table, with published values beside measured ones, and the claims, `tables` and
`figures` are functions of it (`isogloss.papers.results`), so that a report can be made again from a run folder alone.

The folder of a reproduction is a run folder (rows, figures, report), with the texts in `text`, models pretrained on the
spot, and the run folder of every recipe call in `jobs`. A job that is finished is not run again, so a reproduction can
be stopped, shared between commands (`only`, `only_seeds`) and gone on with; each command collects what is there. Where
there is more text than a scale wants, `lowest_hashed` or `drawn` decide which sentences are taken, whatever the seed
and the order of the file.
"""

import gzip
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from isogloss.errors import InputError, require
from isogloss.figure import Figure, Table, as_text
from isogloss.files import whole, write_text
from isogloss.papers.results import Claim, Finding, Results, judge
from isogloss.progress import progress
from isogloss.recipes.jobs import Job, facts_of_jobs, job_lines, refuse_others, run_job, run_jobs
from isogloss.recipes.recipe import Option, check_arguments, model_name
from isogloss.runs.run import Run, check_folder, read_facts, start
from isogloss.runs.table import frame
from isogloss.stack.load import locate
from isogloss.text.corpora import Bitext
from isogloss.text.invented import invented
from isogloss.text.readers.lines import open_bytes
from isogloss.text.sampling import hash_fraction

SUMMARY = "summary.txt"
TOY = "models at smoke scale are tiny and hardly trained: what is held or not held here says nothing of the paper"
SCALES = ("smoke", "mini", "paper")
SEEDS = 3  # of everything that is trained, unless the user asks for another number
MULTILINGUAL = "multilingual"  # folder, and name, of the model that is pretrained on the spot
TAB = "\t"
PREPARED = "texts.json"  # beside prepared texts: what was asked for, notes, and a hash of every file
EPYC, H200 = "one core of an AMD EPYC", "an mBERT-shaped model on one H200"  # what jobs were timed on
# Options of `pretrain` for the tiny model of invented languages that papers make at smoke scale.
TINY: dict[str, Any] = {"architecture": "modernbert", "depth": 12, "width": 32, "heads": 2, "length": 32, "batch": 16}
TINY |= {"rate": 1e-2, "warm_up": 1 / 6, "report": 20, "probe": 1000, "checkpoint": 1000, "held_out": 0.05}
# Updates between scores: more than there are, so that the model is scored after its last update alone. `transfer`
# takes no interval for an epoch, and a printed command leaves it out, so that None would say something else.
AT_THE_END = 1_000_000
Defects = Mapping[str, tuple[str, Mapping[str, Any]]]  # of the authors' code: in words, and as options of a recipe
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """What the user asks of any paper; None where the scale decides.

    out: the folder of the reproduction. data: a folder of data sets. model: a folder or hub id. seeds: how many.
    """

    scale: str
    out: Path
    data: str | None = None
    model: str | None = None
    seeds: int = SEEDS
    device: str = "auto"
    dtype: str | None = None

    def job(
        self,
        recipe: str,
        name: str,
        first: Any,
        options: Mapping[str, Any],
        *,
        folder: Path | None = None,
        needs: Sequence[Path] = (),
        **coordinates: Any,
    ) -> Job:
        """A call of a recipe on the device of the request.

        Args:
            recipe: name of the recipe.
            name: name of the job, and of its folder in `jobs`.
            first: what stands before the options, a model or text.
            options: keyword arguments of the recipe.
            folder: the job's folder where it is another.
            needs: folders of jobs that must be finished before.
            coordinates: what tells the job from others, such as its plan and seed; `--only` chooses by them.
        """
        head = {"text" if recipe == "pretrain" else "model": first}
        settings = {**head, **options, "device": self.device, "dtype": self.dtype}
        return Job(name, recipe, settings, folder or self.out / "jobs" / name, coordinates, needs)

    def model_to_read(
        self, model: str | None, text: Mapping[str, str], options: Mapping[str, Any]
    ) -> tuple[str, str, list[Job]]:
        """The model that jobs read, its name, and the job that pretrains it where there is none.

        Args:
            model: of the scale; None to pretrain one.
            text: files to pretrain on by language.
            options: of the pretraining.
        """
        if model:
            return model, model_name(model), []
        folder = self.out / MULTILINGUAL
        return str(folder / "model"), MULTILINGUAL, [self.job("pretrain", MULTILINGUAL, text, options, folder=folder)]


@dataclass(frozen=True)
class Outline:
    """What will be done: the texts are written, then `before` (pretraining) and then `jobs` are run.

    conditions: under which it is measured, in words. arguments, and the hashes of the texts: what must be the same for
    a folder to be gone on with; options that are recorded are added to them. seconds: about how long a job takes at
    this scale, by its coordinate `part` or else its recipe; measured: on what, and what is not counted. depth: blocks
    of the model. notes: what a reader must know, besides the notes of the texts.
    """

    conditions: str
    arguments: Mapping[str, Any]
    texts: "Texts"
    jobs: Sequence[Job]
    seconds: Mapping[str, float]
    measured: str
    before: Sequence[Job] = ()
    depth: int | None = None
    notes: Sequence[str] = ()


class Setting(NamedTuple):
    """A setting that is an option of the command, too.

    values: at smoke, mini and paper, unless it is given. option: what the command line says of it, and its limits.
    own_data: whether it names data or models, which smoke makes itself and refuses.
    """

    values: Sequence[Any]
    option: Option
    own_data: bool


def option(
    text: str, *values: Any, kind: Any = None, least: float = 1, own_data: bool = False, recorded: bool | None = None
) -> Setting:
    """A setting that the user may give.

    Args:
        text: its help; where the values differ, that the default is by scale is added.
        values: at smoke, mini and paper. Without any it is None unless given.
        kind: its type, by default that of its value at smoke, or text.
        least: the smallest number allowed.
        own_data: whether it names data or models, which smoke makes itself and refuses.
        recorded: whether it is an argument that the run records, by default if it has values.

    >>> option("updates between readings", 6, 50, 50).option.help
    'updates between readings; default: by --scale'
    """
    told = f"{text}; default: by --scale" if len(set(values)) > 1 else text
    kind = kind or (type(values[0]) if values else str)
    limit = least if kind in (int, float) else None
    recorded = bool(values) if recorded is None else recorded
    shown = Option(told, recorded=recorded, least=limit, kind=kind | None, default=None)
    return Setting(values or (None,) * len(SCALES), shown, own_data)


def scale_table(**settings: tuple[Any, Any, Any] | Setting) -> tuple[dict[str, SimpleNamespace], dict[str, Setting]]:
    """The settings of each scale, and those of them that are options of the command.

    settings: by name, the values at smoke, mini and paper, or an `option`.

    >>> scale_table(train=(60, 20_000, 392_702), batch=option("pairs in a batch", 8, 32, 32))[0]["mini"]
    namespace(train=20000, batch=32)
    """
    options = {name: setting for name, setting in settings.items() if isinstance(setting, Setting)}
    rows = {name: options[name].values if name in options else setting for name, setting in settings.items()}
    scales = enumerate(SCALES)
    return {scale: SimpleNamespace(**{name: rows[name][at] for name in rows}) for at, scale in scales}, options


@dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced.

    about: cites it. scales, options: its settings, from `scale_table`. `outline(request, scale)` plans what is run; its
    second argument has the settings, with what the user gave in their place, and that alone by name in `scale.given`.
    `collect(run, jobs)` fills the run's table from finished jobs. claims: what the paper says. tables, figures: of the
    collected rows.
    """

    name: str
    about: str
    scales: Mapping[str, SimpleNamespace]
    options: Mapping[str, Setting]
    outline: Callable[[Request, SimpleNamespace], Outline]
    collect: Callable[[Run, Sequence[Job]], None]
    claims: Sequence[Claim]
    tables: Callable[[Results], Sequence[Table]]
    figures: Callable[[Results], Sequence[Figure]]

    def plan(self, request: Request, **options: Any) -> Outline:
        """What reproducing it as asked would do; nothing is written.

        Args:
            request: what the user asks of any paper.
            options: those of this paper alone, which take the place of the scale's settings; None where not given.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                listed = ", ".join(f"--{each}" for each in self.options) or "none"
                raise InputError(f"--{name} is no option of {self.name}, whose own are: {listed}".replace("_", "-"))
        check_arguments(reproduce, vars(request))
        for name, value in given.items():
            self.options[name].option.check(name, value)
        scale = SimpleNamespace(**{**vars(self.scales[request.scale]), **given, "given": given})
        if request.model:
            require(hasattr(scale, "model"), "--model is no option here: the paper pretrains every model that it reads")
            scale.model = request.model
        if request.scale == "smoke" and (request.model or any(self.options[name].own_data for name in given)):
            raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
        outline = self.outline(request, scale)
        recorded = {name: getattr(scale, name) for name, each in self.options.items() if each.option.recorded}
        arguments = {"paper": self.name, "scale": request.scale, **outline.arguments, **recorded}
        conditions = f"{self.about}; at {request.scale} scale: {outline.conditions}"
        return replace(outline, conditions=conditions, arguments=arguments)

    def findings(self, results: Results) -> list[Finding]:
        """Every claim, judged on the rows of a reproduction."""
        return [judge(claim, results) for claim in self.claims]


def with_defects(legacy: str, defects: Defects) -> tuple[str, dict[str, Any]]:
    """What rows say in `condition` of defects that --legacy names, with commas or `all`, and the options they make.

    >>> with_defects("shifted, small", {"small": ("", {"size": 25}), "shifted": ("", {"shift": 1}), "worst": ("", {})})
    ('legacy:small,shifted', {'size': 25, 'shift': 1})
    """
    asked = [name.strip() for name in legacy.split(",")]
    if unknown := [name for name in asked if name not in (*defects, "all")]:
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(defects)}, or all")
    names = [name for name in defects if name in asked or "all" in asked]
    options = {option: value for name in names for option, value in defects[name][1].items()}
    for option in options:
        if len(alike := [name for name in names if option in defects[name][1]]) > 1:
            raise InputError(f"--legacy takes {' or '.join(alike)}, not both")
    return f"legacy:{'all' if len(names) == len(defects) else ','.join(names)}", options


def config_of(model: str, purpose: str) -> Any:
    """Read the configuration of a model; `purpose` says in the error message what cannot be done without it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(locate(model))
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be read, so {purpose}: {error}") from error


@dataclass
class Texts:
    """The files of text of a reproduction, made when they are first needed: a dry run needs none.

    With `asked`, what decides which texts there are, a list of the files is written beside them; where that list is
    there already the files are taken as they are, so that texts prepared on one machine serve on another.

    Attributes:
        folder: where they are.
        make: gives the content of every file by its name; a name that ends in `.gz` is written compressed.
        asked: what must be the same for prepared files to be taken.
        wanted: how many lines a scale takes of a file; a file that has fewer is noted.
        notes: what else a reader must know; `make` may add to it.
        must_exist: whether the files must have been prepared.
        removable: how names begin of prepared files that may have been removed, when nothing reads them any more.
    """

    folder: Path
    make: Callable[[], Mapping[str, str]]
    asked: Mapping[str, Any] | None = None
    wanted: Mapping[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    must_exist: bool = False
    removable: str | None = None

    def path(self, name: str) -> str:
        """Where a file is."""
        return str(self.folder / name)

    @cached_property
    def contents(self) -> Mapping[str, str]:
        """Every file's content by its name."""
        return self.make()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What was `asked` for, `notes` on the text, and `hashes` of every file."""
        path = self.folder / PREPARED
        if self.asked is not None and (self.must_exist or path.is_file()):
            require(path.is_file(), f"{self.folder} holds no prepared texts: it has no {PREPARED}")
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            for name, value in json.loads(json.dumps(self.asked)).items():
                if facts["asked"].get(name) != value:
                    raise InputError(
                        f"the texts in {self.folder} were prepared otherwise: their {name} is "
                        f"{facts['asked'].get(name)}, and {value} is asked for; prepare them again, or ask for the same"
                    )
            for name, known in facts["hashes"].items():
                file = self.folder / name
                if not file.is_file() and self.removable and name.startswith(self.removable):
                    continue
                require(file.is_file(), f"{file} is missing, of texts that were prepared; prepare them again")
                with open_bytes(file) as content:
                    same = sha256(content.read()).hexdigest() == known
                require(same, f"{file} is not what it was, of texts that were prepared; prepare them again")
            return facts
        hashes = {name: sha256(content.encode("utf-8")).hexdigest() for name, content in self.contents.items()}
        fewer = [
            f"{name} has {count:,} lines, where this scale takes {most:,}"
            for name, most in self.wanted.items()
            if (count := self.contents[name].count("\n")) < most
        ]
        return {"asked": self.asked, "notes": [*self.notes, *fewer], "hashes": hashes}

    def write(self) -> None:
        """Write every file; prepared ones are left as they are."""
        facts, listed = self.facts, self.folder / PREPARED
        if listed.is_file() or self.must_exist:
            return
        for number, (name, content) in enumerate(self.contents.items()):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".gz":
                with whole(path) as beside:
                    beside.write_bytes(gzip.compress(content.encode("utf-8"), mtime=0))
            else:
                write_text(path, content)
            progress("writing texts", number + 1, len(self.contents))
        if self.asked is not None:
            write_text(listed, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def data_file(path: Path, purpose: str, *alternatives: str) -> Path:
    """A file of the data folder, or the first alternative name beside it that exists; an error where there is none.

    Args:
        path: where the file is looked for first.
        purpose: what it is, for the error.
        alternatives: other names of the file in the same folder.
    """
    for candidate in (path, *(path.with_name(name) for name in alternatives)):
        if candidate.is_file():
            return candidate
    raise InputError(f"{path} is missing: {purpose}; docs/reproduce.md lists the files of the data folder")


def lowest_hashed(items: Sequence[T], count: int | None, text: Callable[[T], str] = str) -> list[T]:
    """At most `count` items: those whose `text` has the lowest hashes, in the order they came.

    >>> lowest_hashed(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    if count is None or len(items) <= count:
        return list(items)
    ordered = sorted(range(len(items)), key=[hash_fraction(text(item)) for item in items].__getitem__)
    return [items[position] for position in sorted(ordered[:count])]


def drawn(items: Sequence[T], count: int | None) -> list[T]:
    """At most `count` of these items, in their order; which ones depends on how many there are, and on nothing else."""
    if count is None or len(items) <= count:
        return list(items)
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[position] for position in sorted(chosen.tolist())]


def as_lines(lines: Iterable[str | Sequence[str]]) -> str:
    """Lines, or cells between tabs, as the content of a file."""
    return "".join(f"{line if isinstance(line, str) else TAB.join(line)}\n" for line in lines)


def parallel_table(bitext: Bitext, most: int | None) -> str:
    """Parallel sentences as a table, the languages in its head: at most so many rows, those with the lowest hash."""
    cleaned = [tuple(" ".join(text.split()) for text in cells) for cells in zip(*bitext, strict=True)]
    return as_lines([tuple(bitext.languages), *lowest_hashed(cleaned, most, lambda cells: cells[0])])


def invented_parts(languages: Sequence[str], counts: Mapping[str, int], *, seed: int) -> dict[str, Bitext]:
    """So many parallel sentences of invented languages for each part, by its name; no two parts say the same."""
    bitext, parts, start = invented(languages, sum(counts.values()), seed=seed), {}, 0
    for name, count in counts.items():
        parts[name] = bitext.take(range(start, start + count))
        start += count
    return parts


def all_hashes(job: Job, hashes: Mapping[str, Any]) -> dict[tuple[Hashable, ...], Any]:
    """What jobs of one recipe must agree in: the hashes of all models and texts, and which there are."""
    return {(job.recipe, "list of texts"): sorted(hashes)} | {(job.recipe, name): hashes[name] for name in hashes}


def join_jobs(
    run: Run,
    jobs: Sequence[Job],
    agreeing: Callable[[Job, Mapping[str, Any]], Mapping[tuple[Hashable, ...], Any]] = all_hashes,
    unsaid: str | None = None,
) -> None:
    """Refuse finished jobs that were run on different models or texts, and take over their notes, each once.

    Args:
        run: takes the notes.
        jobs: finished ones.
        agreeing: what must be the same in all jobs, from a job and its hashes: values by a key whose last part says in
            words what they are.
        unsaid: a regular expression; notes that it is found in are left to the jobs.
    """
    first: dict[tuple[Hashable, ...], tuple[Job, Any]] = {}
    notes: dict[str, None] = {}
    for job in jobs:
        facts = read_facts(job.folder)
        notes |= dict.fromkeys(facts.get("notes", []))
        for what, value in agreeing(job, facts["hashes"]).items():
            other, known = first.setdefault(what, (job, value))
            if value != known:
                raise InputError(
                    f"{other.folder} and {job.folder} were run on a different {what[-1]}; they are no runs of one "
                    "reproduction: remove one of them and run again with --resume"
                )
    for note in notes:
        if unsaid is None or not re.search(unsaid, note):
            run.note(note)


# ------------------------------------------------------------------------------------------------ running it


def reproduce(
    paper: str,
    *,
    scale: Annotated[
        str, Option("smoke: invented languages; mini: the embedded model; paper: as published", choices=SCALES)
    ] = "smoke",
    out: str | Path,
    data: Annotated[str | None, "folder of data sets, with xnli in it"] = None,
    model: Annotated[str | None, "model to train: mini, a folder, or a hub id; default: by --scale"] = None,
    seeds: Annotated[int, Option("how many seeds everything has", least=1)] = SEEDS,
    only: Annotated[str | None, "run these jobs only, as in last:6,seed=1; what others have run is collected"] = None,
    only_seeds: Annotated[str | None, "run these seeds only, as in 0,2"] = None,
    parallel: Annotated[int, Option("jobs at a time, each a process of its own", least=1)] = 1,
    device: Annotated[str, "auto, cpu, cuda or mps"] = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
    resume: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Run what a paper ran, and set its published numbers beside the measured ones.

    options: those that the paper alone has. Returns the rows of all jobs that are finished, `published` filled where
    the paper has a number.

    Example: isogloss reproduce hussain2020 --scale smoke

    >>> table = reproduce("hussain2020", scale="smoke", out="runs/smoke")  # doctest: +SKIP
    """
    check_arguments(reproduce, {"parallel": parallel})
    folder, chosen = Path(out), find(paper)
    outline = chosen.plan(Request(scale, folder, data, model, seeds, device, dtype), **options)
    jobs = selected(outline.jobs, only, only_seeds)
    check_folder(folder, resume=resume)
    facts = {
        "command": "reproduce",
        "arguments": outline.arguments,
        "seed": 0,
        "model": outline.arguments["model"],
        "hashes": dict(outline.texts.facts["hashes"]),
        "depth": outline.depth,
        "conditions": outline.conditions,
    }
    with start(folder, facts, resume=resume) as run:
        refuse_others(outline.jobs)  # those that are not run again are collected with the rest
        try:
            outline.texts.write()
            for job in outline.before:
                run_job(job)
            run_jobs(jobs, parallel=parallel)
        finally:
            done = [job for job in outline.jobs if job.done]
            if done:
                _collect(run, chosen, done, outline)
        return run.finish() if len(done) == len(outline.jobs) else frame(run.rows)


def _collect(run: Run, paper: Paper, done: Sequence[Job], outline: Outline) -> None:
    """Make the table and the summary anew from all jobs that are finished, whichever command ran them."""
    run.begin_anew()
    for sentence in (*outline.texts.facts["notes"], *outline.notes):
        run.note(sentence)
    if outline.arguments["scale"] == "smoke":
        run.note(TOY)
    paper.collect(run, done)
    hashes = {job.recipe: read_facts(job.folder)["hashes"] for job in reversed(done)}  # the first of each recipe's
    run.facts["jobs"] = facts_of_jobs(done) | {"hashes": hashes}
    if len(done) < len(outline.jobs):
        run.note(f"{len(done)} of {len(outline.jobs)} jobs are finished; the others are missing here")
    write_text(run.folder / SUMMARY, "\n\n".join(summary(paper, frame(run.rows))) + "\n")


def summary(paper: Paper, rows: pd.DataFrame) -> list[str]:
    """The paper's tables and what became of its claims, as text."""
    results = Results(rows)
    judged = "\n".join(["Findings", *(finding.sentence for finding in paper.findings(results))])
    return [*(as_text(table) for table in paper.tables(results)), judged]


def outline_lines(outline: Outline, jobs: Sequence[Job]) -> list[str]:
    """What would be done for these jobs of it, and how long all of them take, a line each."""
    lines, parts = [outline.conditions], list(map(_part, outline.jobs))
    for job in outline.before:
        lines += ["", f"first, {job.name}{' (finished)' * job.done}:", f"  {' '.join(job.words)}"]
    for part in dict.fromkeys(map(_part, jobs)):
        same, among = ([job for job in some if _part(job) == part] for some in (jobs, outline.jobs))
        first, *others = job_lines(same, among)
        lines += ["", f"then, {len(same)} job{'s' * (len(same) > 1)}:", f"  {first}", *others]
    hours = sum(outline.seconds.get(part, 0.0) for part in parts) / 3600
    time = f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"
    counts = ", ".join(f"{parts.count(part)} of {part}" for part in dict.fromkeys(parts))
    each = ", ".join(f"{seconds:,.0f} s a job of {part}" for part, seconds in outline.seconds.items())
    return [
        *lines,
        "",
        f"all {len(parts)} jobs, {counts}: about {time} one by one",
        f"  {each} at the settings of this scale, {outline.measured}",
    ]


def _part(job: Job) -> str:
    """What jobs whose commands are shown together, and which take about as long, have in common."""
    return str(job.coordinates.get("part", job.recipe))


# ------------------------------------------------------------------------------------------------ papers


def names() -> list[str]:
    """The papers there are.

    >>> "hussain2020" in names()
    True
    """
    modules = [path.stem for path in Path(__file__).parent.glob("*.py")]
    return sorted(name for name in modules if re.fullmatch(r"[a-z]+[0-9]{4}", name))


def find(name: str) -> Paper:
    """The paper of this name."""
    require(name in names(), f"there is no paper {name!r} to reproduce; there is {', '.join(names())}")
    paper: Paper = import_module(f"isogloss.papers.{name}").PAPER
    return paper


# ------------------------------------------------------------------------------------------------ choosing jobs


def selected(jobs: Sequence[Job], only: str | None = None, only_seeds: str | None = None) -> list[Job]:
    """The jobs that `only` names by their coordinates, and those that they need; all where nothing is said.

    Args:
        jobs: to choose from.
        only: values with commas, such as `last:6,seed=1`. A value may stand alone where one coordinate alone has it,
            else it is `coordinate=value`. Values of one coordinate are alternatives; each coordinate that is named must
            agree. Jobs that a chosen one needs, such as the training of its model, are chosen with it.
        only_seeds: numbers with commas, short for `seed=`.
    """
    known: dict[str, dict[str, None]] = {}  # every coordinate, and its values
    for job in jobs:
        for name, value in job.coordinates.items():
            known.setdefault(name, {})[str(value)] = None
    wanted: dict[str, set[str]] = {}
    given = [("only", "", item.strip()) for item in only.split(",")] if only is not None else []
    given += [("only-seeds", "seed=", item.strip()) for item in only_seeds.split(",")] if only_seeds is not None else []
    for option, prefix, written in given:
        item = f"{prefix}{written}"
        name, _, value = item.partition("=")
        alone = value not in known.get(name, {})  # a value without its coordinate
        having = [each for each in known if item in known[each]] if alone else [name]
        if len(having) > 1:
            choices = " or ".join(f"{each}={item}" for each in having)
            raise InputError(f"--{option} {written!r} may be {choices}; write one of them")
        if not having:
            listed = "; ".join(f"{each} {', '.join(values)}" for each, values in known.items())
            raise InputError(f"--{option} {written!r} chooses no job of this paper; it has {listed}")
        wanted.setdefault(having[0], set()).add(item if alone else value)
    chosen = [job for job in jobs if all(str(job.coordinates.get(name)) in values for name, values in wanted.items())]
    require(chosen, f"--only {only!r} leaves no job: none has all of {', '.join(wanted)} so")
    needed = {folder for job in chosen for folder in job.needs}
    while more := {folder for job in jobs if job.folder in needed for folder in job.needs} - needed:
        needed |= more
    return [job for job in jobs if job in chosen or job.folder in needed]
