"""`isogloss reproduce`: the definition of a paper, and how its experiments are planned, run and collected.

A paper is a module of this package, named by author and year, with a `Paper`, a record of functions and claims. Three
tables belong to it: its settings at every scale, including its own options (`scales/NAME.toml`), its published numbers
(`published/NAME.csv`), and the text of its tables and figures (`captions/NAME.toml`). Nothing else is edited for a new
paper. `plan` turns the user's arguments into an `Outline`: the recipe calls in their order, and an estimate of their
time, before anything is written. After the runs, `collect` makes one table of rows, with published values beside
measured ones, and claims, `tables` and `figures` are functions of that table (`results.py`, `claims.py`, `tables.py`).
So a report can be made again from a run folder.

The folder of a reproduction is a run folder (rows, figures, report), with the texts in `text`, pretrained models, and
the run folder of every recipe call in `jobs`. A finished job is not run again, so a reproduction can be stopped,
divided between commands (`only`) and resumed; each command collects all finished jobs.

Texts come from one folder of data sets, at smoke scale from that of the invented languages (`data/invented`). If there
is more text than a scale needs, `lowest_hashed` or `drawn` select sentences independently of seed and file order.
"""

import gzip
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pandas as pd

from isogloss.errors import InputError, readable, require
from isogloss.figure import Figure, Table, as_text
from isogloss.files import write_bytes, write_text
from isogloss.papers.claims import Claim, Finding, judge, judging
from isogloss.papers.results import Results
from isogloss.progress import progress
from isogloss.recipes.jobs import Job, facts_of_jobs, job_lines, refuse_others, run_job, run_jobs
from isogloss.recipes.recipe import Option, check_arguments, model_name
from isogloss.runs.run import Run, check_folder, read_facts, start
from isogloss.runs.table import frame
from isogloss.stack.load import locate
from isogloss.text.catalog import data_dir

SUMMARY = "summary.txt"
TOY = "models at smoke scale are tiny and hardly trained: what is held or not held here says nothing of the paper"
SCALES = ("smoke", "mini", "paper")
SEEDS = 3  # default number of seeds for all training
MULTILINGUAL = "multilingual"  # folder and name of the model that a reproduction pretrains itself
KNOWN = "known.{}.txt"  # files with its pretraining text
PREPARED = "texts.json"  # notes on the texts, and a hash of every file
TEXTS = "texts"  # value of --only that writes the texts and runs no job
MEASURED = "as measured, or guessed from that, on one H200, at smoke scale on one core; loading is not counted"
WEIGHTS = ("model", "other", "native")  # options that name a model
# Notes of single jobs that are not notes of the whole reproduction.
UNSAID = r"the curves of .* do not cross$|word map|the parallel text has no"
INVENTED = Path(str(files("isogloss") / "data" / "invented"))  # data sets in these languages; the first acts as English
LANGUAGES = ("qaa", "qab", "qac")
# Options of `pretrain` for the tiny model of invented languages that papers make at smoke scale.
TINY: dict[str, Any] = {"architecture": "modernbert", "depth": 12, "width": 32, "heads": 2, "length": 64, "batch": 32}
TINY |= {"vocabulary": 300, "rate": 1e-2, "warm_up": 1 / 6, "steps": 60, "report": 20, "probe": 1000}
TINY |= {"checkpoint": 1000, "held_out": 0.05}
# Updates between scores: more than there are, so that only the last model is scored. With None, `transfer` would score
# after each epoch, and printed commands leave None out.
AT_THE_END = 1_000_000


@dataclass(frozen=True)
class Request:
    """The options that all papers share; None if the scale decides.

    out: folder of the reproduction. data: folder of data sets. model: a folder or hub id. seeds: number of seeds.
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
            recipe: Name of the recipe.
            name: Name of the job, and of its folder in `jobs`.
            first: The positional argument, a model or text.
            options: Keyword arguments of the recipe.
            folder: The job's folder, if it is another.
            needs: Folders of jobs that must be finished first.
            coordinates: Identify the job, such as its plan and seed; `--only` selects by them.
        """
        head = {"text" if recipe == "pretrain" else "model": first}
        settings = {**head, **options, "device": self.device, "dtype": self.dtype}
        return Job(
            name,
            recipe,
            options=settings,
            folder=folder or self.out / "jobs" / name,
            coordinates=coordinates,
            needs=needs,
        )

    def model_to_read(self, scale: SimpleNamespace) -> tuple[str, str, list[Job]]:
        """The model that jobs read, its name, and the job that pretrains it if the scale has no model."""
        if scale.model:
            return scale.model, model_name(scale.model), []
        text = {code: str(self.out / "text" / KNOWN.format(code)) for code in LANGUAGES}
        options = {**TINY, **vars(scale).get("tiny", {})}
        job = self.job("pretrain", MULTILINGUAL, text, options, folder=self.out / MULTILINGUAL)
        return str(job.folder / "model"), MULTILINGUAL, [job]


@dataclass(frozen=True)
class Outline:
    """The plan of a reproduction: the texts are written, then `before` (pretraining) and then `jobs` are run.

    conditions: describes the setting of the experiments. arguments: must be the same when a folder is resumed, together
    with the hashes of the texts; recorded options are added to them. seconds: estimated time of a job at this scale, by
    its coordinate `part` or else its recipe. depth: number of blocks of the model. notes: sentences for the reader,
    besides the notes of the texts.
    """

    conditions: str
    arguments: Mapping[str, Any]
    texts: "Texts"
    jobs: Sequence[Job]
    seconds: Mapping[str, float]
    before: Sequence[Job] = ()
    depth: int | None = None
    notes: Sequence[str] = ()


def read_scales(name: str) -> tuple[dict[str, SimpleNamespace], dict[str, Option]]:
    """Read the settings of a paper at each scale, and its own command-line options, from `scales/NAME.toml`.

    A line has the values at smoke, mini and paper scale; an empty text is None. A line with `help` is an option; its
    default is None if it has no `values`. `least`: the smallest allowed number, 1 by default. `recorded`: whether the
    run records it, by default if it has values.
    """
    settings, options = dict[str, list[Any]](), dict[str, Option]()
    path = Path(__file__).parent / "scales" / f"{name}.toml"
    for setting, line in tomllib.loads(path.read_text(encoding="utf-8")).items():
        values = line.get("values", []) if isinstance(line, dict) else line
        settings[setting] = [None if value == "" else value for value in values or [""] * len(SCALES)]
        if isinstance(line, dict):
            kind = next((type(value) for value in values if value != ""), str)
            text = f"{line['help']}; default: by --scale" if len(set(values)) > 1 else line["help"]
            least = line.get("least", 1) if kind in (int, float) else None
            recorded = line.get("recorded", bool(values))
            options[setting] = Option(text, recorded=recorded, least=least, kind=kind | None, default=None)
    columns = zip(*settings.values(), strict=True)
    return {
        scale: SimpleNamespace(**dict(zip(settings, column, strict=True)))
        for scale, column in zip(SCALES, columns, strict=True)
    }, options


@dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced.

    about: its citation. scales, options: its settings, from `read_scales`. `outline(request, scale)` plans the jobs;
    `scale` has the settings of the scale, overridden by the user's options. `collect(run, jobs)` fills the run's table
    from finished jobs. claims: the claims of the paper. tables, figures: made from the collected rows.
    """

    name: str
    about: str
    scales: Mapping[str, SimpleNamespace]
    options: Mapping[str, Option]
    outline: Callable[[Request, SimpleNamespace], Outline]
    collect: Callable[[Run, Sequence[Job]], None]
    claims: Sequence[Claim]
    tables: Callable[[Results], Sequence[Table]]
    figures: Callable[[Results], Sequence[Figure]]

    def plan(self, request: Request, **options: Any) -> Outline:
        """Plan the reproduction; nothing is written.

        Args:
            request: The options that all papers share.
            options: The options of this paper, which override the settings of the scale; None if not given.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                listed = ", ".join(f"--{each}" for each in self.options) or "none"
                raise InputError(f"--{name} is no option of {self.name}, whose own are: {listed}".replace("_", "-"))
        check_arguments(reproduce, vars(request))
        for name, value in given.items():
            self.options[name].check(name, value)
        asked, (base, own) = request.scale, self._settings(request.scale)
        request, scale = replace(request, scale=base), SimpleNamespace(**{**vars(self.scales[base]), **own, **given})
        if request.model:
            require(hasattr(scale, "model"), "--model is no option here: the paper pretrains every model that it reads")
            scale.model = request.model
            require(request.scale != "smoke", "--scale smoke makes its own model; give one with mini or paper")
        outline = self.outline(request, scale)
        recorded = {name: getattr(scale, name) for name, each in self.options.items() if each.recorded}
        arguments = {"paper": self.name, "scale": base, **outline.arguments, **own, **recorded}
        conditions = f"{self.about}; at {base} scale{f' ({Path(asked).name})' * bool(own)}: {outline.conditions}"
        return replace(outline, conditions=conditions, arguments=arguments)

    def _settings(self, scale: str) -> tuple[str, dict[str, Any]]:
        """The name of the scale, and the settings of a file, which override those of its `base`."""
        if scale in SCALES:
            return scale, {}
        require(Path(scale).is_file(), f"--scale takes {' or '.join(SCALES)}, or a file of settings, not {scale!r}")
        with readable(scale, "is no file of settings in TOML", "mend it"):
            own = tomllib.loads(Path(scale).read_text(encoding="utf-8"))
        base = own.pop("base", "mini")
        require(base in SCALES, f"{scale}: base is {' or '.join(SCALES)}, not {base!r}")
        unknown = [name for name in own if name not in vars(self.scales[base])]
        require(not unknown, f"{scale}: {', '.join(unknown)} is no setting of {self.name}")
        return base, {name: None if value == "" else value for name, value in own.items()}

    def findings(self, results: Results) -> list[Finding]:
        """All claims, judged on the rows of a reproduction."""
        return [judge(claim, results) for claim in self.claims]


Defects = Mapping[str, tuple[str, Mapping[str, Any]]]  # description, and options of a recipe, of each defect by name


def with_defects(legacy: str, defects: Defects) -> tuple[str, dict[str, Any]]:
    """The `condition` in rows, and the options, for defects in --legacy, separated by commas or `all`.

    >>> with_defects("shifted", {"small": ("few", {"size": 25}), "shifted": ("overlapping", {"shift": 1})})
    ('legacy:shifted', {'shift': 1})
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

    with readable(model, "cannot be read", purpose):
        return AutoConfig.from_pretrained(locate(model))


@dataclass
class Texts:
    """The text files of a reproduction, written when they are first needed; a dry run needs none.

    A list of the files is written beside them. If it exists, the files are used as they are, so that another machine
    does not need the data sets; files that no job needs any more may be missing.

    Attributes:
        request: Has the folders of the reproduction and of data sets.
        make: Returns the content of every file by name, from the folder of data sets; files whose name ends in `.gz`
            are compressed.
        wanted: Number of lines of a file at this scale; a file with fewer lines gets a note.
        notes: Further sentences for the reader; `make` may add to them.
    """

    request: Request
    make: Callable[[Path], Mapping[str, str]]
    wanted: Mapping[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self.request.out / "text"

    def path(self, name: str) -> str:
        """The path of a file."""
        return str(self.folder / name)

    @cached_property
    def contents(self) -> Mapping[str, str]:
        """The content of every file by name; at smoke scale from invented data, including pretraining text."""
        if self.request.scale != "smoke":
            return self.make(data_dir(self.request.data))
        known = {KNOWN.format(code): (INVENTED / f"train/invented.{code}.txt").read_text("utf-8") for code in LANGUAGES}
        return {**known, **self.make(INVENTED)}

    @cached_property
    def facts(self) -> dict[str, Any]:
        """`notes` on the text, and `hashes` of every file."""
        listed = self.folder / PREPARED
        if listed.is_file():
            with readable(listed, "is no list of the texts", "remove it, and it is made again"):
                facts: dict[str, Any] = json.loads(listed.read_text(encoding="utf-8"))
                if not isinstance(facts["notes"], list) or not isinstance(facts["hashes"], dict):
                    raise ValueError("it has no list of notes or no hashes by file")
                return facts
        hashes = {name: sha256(content.encode("utf-8")).hexdigest() for name, content in self.contents.items()}
        fewer = [
            f"{name} has {count:,} lines, where this scale takes {most:,}"
            for name, most in self.wanted.items()
            if (count := self.contents[name].count("\n")) < most
        ]
        return {"notes": [*self.notes, *fewer], "hashes": hashes}

    def write(self) -> None:
        """Write the files and their list; files that are listed already are left as they are."""
        facts, listed = self.facts, self.folder / PREPARED
        if listed.is_file():
            return
        for number, (name, content) in enumerate(self.contents.items()):
            written = content.encode("utf-8")
            write_bytes(self.folder / name, gzip.compress(written, mtime=0) if name.endswith(".gz") else written)
            progress("writing texts", number + 1, len(self.contents))
        write_text(listed, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def join_jobs(run: Run, jobs: Sequence[Job]) -> None:
    """Refuse finished jobs that were run on different models or texts, and add their notes to the run.

    All jobs of a recipe must have read the same weights from a folder, and the same text from a file.

    Args:
        run: Gets the notes, each once.
        jobs: Finished jobs.
    """
    first: dict[tuple[str, ...], tuple[Job, Any]] = {}
    notes: dict[str, None] = {}
    for job in jobs:
        facts = read_facts(job.folder)
        notes |= dict.fromkeys(facts.get("notes", []))
        for what, value in _hashes(job, facts["hashes"]):
            other, known = first.setdefault((job.recipe, *what), (job, value))
            if value != known:
                raise InputError(
                    f"{other.folder} and {job.folder} were run on a different {what[0]}; they are no runs of one "
                    "reproduction: remove one of them and run again with --resume"
                )
    for note in notes:
        if not re.search(UNSAID, note):
            run.note(note)


def _hashes(job: Job, hashes: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The hashes of a job by kind and path; random weights have none."""
    text = str([job.options.get(name) for name in ("languages", "bitext", "train_bitext", "target_models")])
    for kind, value in hashes.items():
        if kind == "other" and job.options.get("random_weights"):
            continue
        parts = value if isinstance(value, Mapping) else {str(job.options.get(kind)): value}
        yield from (((kind, name, "" if kind in WEIGHTS else text), each) for name, each in parts.items())


# ------------------------------------------------------------------------------------------------ the command


def reproduce(
    paper: str,
    *,
    scale: Annotated[
        str, "smoke: invented languages; mini: the embedded model; paper: as published; or a file of settings"
    ] = "smoke",
    out: str | Path,
    data: Annotated[str | None, "folder of data sets, with xnli in it"] = None,
    model: Annotated[str | None, "model to train: mini, a folder, or a hub id; default: by --scale"] = None,
    seeds: Annotated[int, Option("number of seeds", least=1)] = SEEDS,
    only: Annotated[str | None, "run only these jobs, as in last:6,seed=1; texts: write the texts, run none"] = None,
    parallel: Annotated[int, Option("jobs at a time, each in its own process", least=1)] = 1,
    device: Annotated[str, "auto, cpu, cuda or mps"] = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
    resume: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Reproduce the experiments of a paper, with its published numbers beside the measured ones.

    options: options of this paper. Returns the rows of all finished jobs; the column `published` has the numbers of the
    paper.

    Example: isogloss reproduce hussain2020 --scale smoke

    >>> table = reproduce("hussain2020", scale="smoke", out="runs/smoke")  # doctest: +SKIP
    """
    check_arguments(reproduce, {"parallel": parallel})
    folder, chosen = Path(out), find(paper)
    outline = chosen.plan(
        Request(scale, folder, data=data, model=model, seeds=seeds, device=device, dtype=dtype), **options
    )
    jobs = selected(outline.jobs, only)
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
        refuse_others(outline.jobs)  # finished jobs are collected, too, and must have the same options
        try:
            outline.texts.write()
            for job in outline.before if jobs else ():
                run_job(job)
            run_jobs(jobs, parallel=parallel)
        finally:
            done = [job for job in outline.jobs if job.done]
            if done:
                _collect(run, chosen, done, outline)
        return run.finish() if len(done) == len(outline.jobs) else frame(run.rows)


def _collect(run: Run, paper: Paper, done: Sequence[Job], outline: Outline) -> None:
    """Make the table and the summary from all finished jobs, whichever command ran them."""
    run.begin_anew()
    for sentence in (*outline.texts.facts["notes"], *outline.notes):
        run.note(sentence)
    if outline.arguments["scale"] == "smoke":
        run.note(TOY)
    join_jobs(run, [job for job in done if job.recipe != "pretrain"])
    paper.collect(run, done)
    hashes = {job.recipe: read_facts(job.folder)["hashes"] for job in reversed(done)}  # of each recipe's first job
    run.facts["jobs"] = facts_of_jobs(done) | {"hashes": hashes}
    if len(done) < len(outline.jobs):
        run.note(f"{len(done)} of {len(outline.jobs)} jobs are finished; the others are missing here")
    write_text(run.folder / SUMMARY, "\n\n".join(summary(paper, frame(run.rows))) + "\n")


def summary(paper: Paper, rows: pd.DataFrame) -> list[str]:
    """The paper's tables and the findings on its claims as text; empty if no job is finished."""
    if rows.empty:
        return []
    results = Results(rows)
    judged = "\n".join(["Findings", judging(results), *(finding.sentence for finding in paper.findings(results))])
    return [*(as_text(table) for table in paper.tables(results)), judged]


def outline_lines(outline: Outline, jobs: Sequence[Job]) -> list[str]:
    """Lines that describe the plan for these jobs, and the estimated time of all jobs."""
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
    times = ", ".join(f"{seconds:,.0f} s a job of {part}" for part, seconds in outline.seconds.items())
    return [
        *lines,
        "",
        f"all {len(parts)} jobs, {counts}: about {time} one by one",
        f"  {times} at the settings of this scale, {MEASURED}",
    ]


def _part(job: Job) -> str:
    """The key by which jobs of similar commands and duration are grouped."""
    return str(job.coordinates.get("part", job.recipe))


# ------------------------------------------------------------------------------------------------ papers


def names() -> list[str]:
    """The names of all papers.

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


def selected(jobs: Sequence[Job], only: str | None = None) -> list[Job]:
    """The jobs that `only` selects by their coordinates, and those that they need; all jobs without `only`.

    Args:
        jobs: The jobs to select from.
        only: Values separated by commas, such as `last:6,seed=1`. A value that occurs in several coordinates is written
            as `coordinate=value`. Values of one coordinate are alternatives; all named coordinates must match. Jobs
            that a selected one needs, such as the training of its model, are selected, too. `texts` selects no job.
    """
    if only == TEXTS:
        return []
    known: dict[str, dict[str, None]] = {}  # the values of every coordinate
    for job in jobs:
        for name, value in job.coordinates.items():
            known.setdefault(name, {})[str(value)] = None
    wanted: dict[str, set[str]] = {}
    for item in map(str.strip, only.split(",")) if only is not None else ():
        name, _, value = item.partition("=")
        alone = value not in known.get(name, {})  # the value is given without its coordinate
        coordinates = [coordinate for coordinate in known if item in known[coordinate]] if alone else [name]
        if len(coordinates) > 1:
            choices = " or ".join(f"{coordinate}={item}" for coordinate in coordinates)
            raise InputError(f"--only {item!r} may be {choices}; write one of them")
        if not coordinates:
            listed = "; ".join(f"{coordinate} {', '.join(values)}" for coordinate, values in known.items())
            raise InputError(f"--only {item!r} chooses no job of this paper; it has {listed}")
        wanted.setdefault(coordinates[0], set()).add(item if alone else value)
    chosen = [job for job in jobs if all(str(job.coordinates.get(name)) in values for name, values in wanted.items())]
    require(chosen, f"--only {only!r} leaves no job: none has all of {', '.join(wanted)} so")
    needed = {folder for job in chosen for folder in job.needs}
    while more := {folder for job in jobs if job.folder in needed for folder in job.needs} - needed:
        needed |= more
    return [job for job in jobs if job in chosen or job.folder in needed]
