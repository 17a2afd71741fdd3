"""What a paper is to this toolkit, and what planning its reproduction takes.

A paper's own file holds one `Paper`, a record of functions and claims. `plan` turns what the user gave into an
`Outline`: the recipe calls to make, in order, and about how long they take, before anything is written. Everything
after the runs is read from the one table of rows: `collect` makes that table, with published values beside measured
ones, and the claims, `tables` and `figures` are functions of it (`isogloss.papers.results`), so that a report can be
made again from a run folder alone. `isogloss.papers.reproduction` runs it all.

The text of a reproduction is written into its own folder (`Texts`), where the jobs read it. Where there is more text
than a scale wants, `lowest_hashed` or `drawn` decide which sentences are taken, whatever the seed and the order of
the file.
"""

import gzip
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from isogloss.errors import InputError
from isogloss.figure import Figure, Table
from isogloss.files import whole, write_text
from isogloss.papers.results import Claim, Finding, Results, judge
from isogloss.progress import Progress
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import Option, model_name
from isogloss.runs.run import Run, read_facts
from isogloss.stack.load import locate
from isogloss.text.corpora import Bitext
from isogloss.text.invented import invented
from isogloss.text.readers.lines import open_bytes
from isogloss.text.sampling import hash_fraction

SCALES = ("smoke", "mini", "paper")
SEEDS = 3  # of everything that is trained, unless the user asks for another number
MULTILINGUAL = "multilingual"  # folder, and name, of the model that is pretrained on the spot
TAB = "\t"
PREPARED = "texts.json"  # beside prepared texts: what was asked for, notes, and a hash of every file
EPYC, H200 = "one core of an AMD EPYC", "an mBERT-shaped model on one H200"  # what jobs were timed on
# Options of `pretrain` for the tiny model of invented languages that papers make at smoke scale.
TINY = {"architecture": "modernbert", "depth": 12, "width": 32, "heads": 2, "length": 32, "batch": 16} | {
    "rate": 1e-2,
    "warm_up": 1 / 6,
    "report": 20,
    "probe": 1000,
    "checkpoint": 1000,
    "held_out": 0.05,
}
Defects = Mapping[str, tuple[str, Mapping[str, Any]]]  # of the authors' code: in words, and as options of a recipe
S = TypeVar("S", bound=Any)
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
        settings = {**options, "device": self.device, "dtype": self.dtype}
        return Job(name, recipe, first, settings, folder or self.out / "jobs" / name, coordinates, needs)

    def model_to_read(
        self, default: str | None, text: Mapping[str, str], options: Mapping[str, Any]
    ) -> tuple[str, str, list[Job]]:
        """The model that jobs read, its name, and the job that pretrains it where there is none.

        Args:
            default: the model of the scale, which the user's takes the place of; None to pretrain one.
            text: files to pretrain on by language.
            options: of the pretraining.
        """
        if given := self.model or default:
            return given, model_name(given), []
        folder = self.out / MULTILINGUAL
        return str(folder / "model"), MULTILINGUAL, [self.job("pretrain", MULTILINGUAL, text, options, folder=folder)]


@dataclass(frozen=True)
class Outline:
    """What will be done: the texts are written, then `before` (pretraining) and then `jobs` are run.

    conditions: under which it is measured, in words. arguments, and the hashes of the texts: what must be the same for
    a folder to be gone on with. seconds: about how long a job takes at this scale, by its coordinate `part` or else its
    recipe; measured: on what, and what is not counted. depth: blocks of the model. notes: what a reader must know,
    besides the notes of the texts.
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


@dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced.

    about: cites it. plan: `plan(request, *, ...)` gives the outline; its keyword arguments are the options that this
    paper alone has, each annotated with its help and None unless given. `collect(run, jobs)` fills the run's table from
    finished jobs. claims: what the paper says. tables, figures: of the collected rows.
    """

    name: str
    about: str
    plan: Callable[..., Outline]
    collect: Callable[[Run, Sequence[Job]], None]
    claims: Sequence[Claim]
    tables: Callable[[Results], Sequence[Table]]
    figures: Callable[[Results], Sequence[Figure]]

    def findings(self, results: Results) -> list[Finding]:
        """Every claim, judged on the rows of a reproduction."""
        return [judge(claim, results) for claim in self.claims]


def by_scale(text: str, least: float | None = 1) -> Option:
    """An option of a paper whose default is that of the scale: what its help says, and the smallest value allowed."""
    return Option(f"{text}; default: by --scale", least=least)


def scale_table(**settings: tuple[Any, Any, Any]) -> dict[str, SimpleNamespace]:
    """The settings of each scale, from the values that every setting has at smoke, mini and paper.

    >>> scale_table(train=(60, 20_000, 392_702), batch=(8, 32, 32))["mini"]
    namespace(train=20000, batch=32)
    """
    columns = enumerate(SCALES)
    return {scale: SimpleNamespace(**{name: row[at] for name, row in settings.items()}) for at, scale in columns}


def scale_of(scales: Mapping[str, S], request: Request, own_data: Sequence[Any] = (), **given: Any) -> S:
    """The settings of the scale that was asked for, with the options that the user gave in their place.

    Args:
        scales: the settings of smoke, mini and paper, as `scale_table` or a record has them.
        request: which names the scale.
        own_data: options that name data or models, which smoke makes itself and refuses.
        given: options by the name of the setting; None where they were not given.
    """
    if request.scale == "smoke" and any((request.model, *own_data)):
        raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
    scale = scales[request.scale]
    return type(scale)(**{**vars(scale), **{name: value for name, value in given.items() if value is not None}})


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
            if not path.is_file():
                raise InputError(f"{self.folder} holds no prepared texts: it has no {PREPARED}")
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
                if not file.is_file():
                    raise InputError(f"{file} is missing, of texts that were prepared; prepare them again")
                with open_bytes(file) as content:
                    if sha256(content.read()).hexdigest() != known:
                        raise InputError(f"{file} is not what it was, of texts that were prepared; prepare them again")
            return facts
        hashes = {name: sha256(content.encode("utf-8")).hexdigest() for name, content in self.contents.items()}
        fewer = [
            f"{name} has {count:,} lines, where this scale takes {most:,}"
            for name, most in self.wanted.items()
            if (count := self.contents[name].count("\n")) < most
        ]
        return {"asked": self.asked, "notes": [*self.notes, *fewer], "hashes": hashes}

    def write(self, progress: Progress) -> None:
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
