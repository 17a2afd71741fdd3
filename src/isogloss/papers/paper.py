"""What a paper is to this toolkit, and what planning its reproduction takes.

A paper's own file holds one `Paper`, a record of functions and claims. `plan` turns what the user gave into an
`Outline`: the recipe calls to make, in order, and their cost, before anything is written. Everything after the runs is
read from the one table of rows: `collect` makes that table, with published values beside measured ones, and the claims,
`tables` and `figures` are functions of it (`isogloss.papers.results`), so that a report can be made again from a run
folder alone. `isogloss.papers.reproduction` runs it all.

The text of a reproduction is written into its own folder (`Texts`), where the jobs read it. Where there is more text
than a scale wants, `lowest_hashed` or `drawn` decide which sentences are taken, whatever the seed and the order of
the file.
"""

import gzip
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from isogloss.errors import InputError
from isogloss.figure import Figure, Table
from isogloss.files import whole, write_text
from isogloss.papers.results import Claim, Finding, Results, judge
from isogloss.progress import Progress
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, model_name, one_of
from isogloss.runs.run import Run, read_facts
from isogloss.stack.load import locate
from isogloss.text.sampling import hash_fraction

SCALES = ("smoke", "mini", "paper")
SEEDS = 3  # of everything that is trained, unless the user asks for another number
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32
PREPARED = "texts.json"  # beside prepared texts: what was asked for, notes, and a hash of every file
# Options of `pretrain` for the tiny model of invented languages that papers make at smoke scale.
TINY = {"architecture": "modernbert", "depth": 12, "width": 32, "heads": 2, "length": 32, "batch": 16} | {
    "rate": 1e-2,
    "warm_up": 1 / 6,
    "report": 20,
    "probe": 1000,
    "checkpoint": 1000,
    "held_out": 0.05,
}
S = TypeVar("S", bound=Any)


@dataclass(frozen=True)
class Request:
    """What the user asks of any paper; None where the scale decides.

    out: the folder of the reproduction. data: a folder of data sets. model: a folder or hub id. seeds: how many.
    """

    scale: str
    out: Path
    data: str | None = None
    model: str | None = None
    seeds: int | None = None
    device: str = "auto"
    dtype: str | None = None

    @property
    def seed_count(self) -> int:
        """How many seeds everything has."""
        return at_least("seeds", SEEDS if self.seeds is None else self.seeds, 1)

    def model_to_read(self, default: str | None, own: str) -> tuple[str, str]:
        """The model that jobs read, and its name: the user's, the scale's, or else one pretrained in the folder `own`.

        >>> Request("smoke", Path("runs")).model_to_read(None, "multilingual")
        ('runs/multilingual/model', 'multilingual')
        """
        given = self.model or default
        return (given, model_name(given)) if given else (str(self.out / own / "model"), own)

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


@dataclass(frozen=True)
class Cost:
    """What a reproduction takes, roughly: updates, tokens, memory of one job (GB), hours of all; `basis`: from what."""

    steps: int
    tokens: int
    memory: float
    hours: float
    basis: Sequence[str]


@dataclass(frozen=True)
class Speed:
    """Measured speeds that an estimate of the cost rests on.

    weights: of the model. tokens: of a sentence. update: seconds an update. read: sentences a second in evaluation.
    measured: on what these were measured.
    """

    weights: float
    tokens: float
    update: float
    read: float
    measured: str


def estimate(
    speed: Speed,
    *,
    updates: int,
    trained: float,
    read: float,
    work: str,
    uncounted: str,
    items: str = "sentences",
    states: float = 2.0,
) -> Cost:
    """The cost of training and evaluation, with the sentences that say what it rests on.

    Args:
        speed: how fast the model is.
        updates: of all jobs together.
        trained: sentences that are trained on, each as often as it is seen.
        read: sentences that are evaluated.
        work: a sentence on what is trained and evaluated.
        uncounted: what is left out of the estimate.
        items: what is counted, where it is not sentences.
        states: GB for hidden states and scores, besides the weights.

    """
    basis = [
        f"{work}, about {speed.tokens:g} tokens each",
        f"{speed.update * 1000:.0f} ms an update and {speed.read:,.0f} {items}/s in evaluation, as measured on "
        f"{speed.measured}",
        f"memory: {speed.weights / 1e6:.1f} million weights at {BYTES} bytes, and {states:g} GB for states and scores; "
        f"{uncounted} are not counted",
    ]
    hours = (updates * speed.update + read / speed.read) / 3600
    return Cost(updates, round((trained + read) * speed.tokens), states + speed.weights * BYTES / 1e9, hours, basis)


class HasTexts(Protocol):
    """Texts of a reproduction: a hash of each by its name, and how they are written."""

    def hashes(self) -> Mapping[str, str]:
        """A hash of each text."""

    def write(self, progress: Progress) -> None:
        """Write every text."""


@dataclass(frozen=True)
class Outline:
    """What will be done: the texts are written, then `before` (pretraining) and then `jobs` are run.

    conditions: under which it is measured, in a line. arguments, and the hashes of the texts: what must be the same for
    a folder to be gone on with. depth: blocks of the model. `notes()`: what a reader must know of the text; it is
    called once the texts are there.
    """

    conditions: str
    arguments: Mapping[str, Any]
    texts: HasTexts
    before: Sequence[Job]
    jobs: Sequence[Job]
    cost: Cost
    depth: int | None = None
    notes: Callable[[], Sequence[str]] = tuple


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


def scale_of(
    scales: Mapping[str, S],
    request: Request,
    given: Mapping[str, Any],
    *,
    own_data: Sequence[Any] = (),
    least: Mapping[str, float] | None = None,
) -> S:
    """The settings of the scale that was asked for, with the options that the user gave in place of its fields.

    Args:
        scales: a record of settings for each of smoke, mini and paper.
        request: which names the scale.
        given: options by the name of the record's field; None where they were not given.
        own_data: options that name data or models, which smoke makes itself and refuses.
        least: the smallest value of an option, where it is not 1.

    """
    name = one_of("scale", request.scale, SCALES)
    if name == "smoke" and any((request.model, *own_data)):
        raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
    asked = {option: value for option, value in given.items() if value is not None}
    for option, value in asked.items():
        at_least(option, value, (least or {}).get(option, 1))
    return replace(scales[name], **asked)


def config_of(model: str, purpose: str) -> Any:
    """Read the configuration of a model; `purpose` says in the error message what cannot be done without it."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(locate(model))
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be read, so {purpose}: {error}") from error


class Texts:
    """The files of text of a reproduction, made when they are first needed: a dry run needs none.

    With `asked`, what decides which texts there are, a list of the files is written beside them; where that list is
    there already the files are taken as they are, so that texts prepared on one machine serve on another.
    """

    def __init__(
        self,
        folder: Path,
        make: Callable[[], Mapping[str, str]],
        *,
        asked: Mapping[str, Any] | None = None,
        notes: Callable[[Mapping[str, str]], Sequence[str]] = lambda contents: (),
        must_exist: bool = False,
        removable: str | None = None,
    ) -> None:
        """Describe texts without reading or writing any.

        Args:
            folder: where they are.
            make: gives the content of every file by its name; a name that ends in `.gz` is written compressed.
            asked: what must be the same for prepared files to be taken.
            notes: what a reader must know, from the contents.
            must_exist: whether the files must have been prepared.
            removable: how names begin of prepared files that may have been removed, when nothing reads them any more.

        """
        self.folder, self._make, self._asked, self._notes = folder, make, asked, notes
        self.must_exist, self._removable = must_exist, removable

    def path(self, name: str) -> str:
        """Where a file is."""
        return str(self.folder / name)

    @cached_property
    def contents(self) -> Mapping[str, str]:
        """Every file's content by its name."""
        return self._make()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What was asked for, notes, and a hash of every file."""
        if self._asked is not None and ((self.folder / PREPARED).is_file() or self.must_exist):
            return self._prepared(self._asked)
        hashes = {name: _digest(content) for name, content in self.contents.items()}
        return {"asked": self._asked, "notes": list(self._notes(self.contents)), "hashes": hashes}

    def hashes(self) -> Mapping[str, str]:
        """A hash of each file."""
        return dict(self.facts["hashes"])

    def notes(self) -> Sequence[str]:
        """What a reader must know of the text."""
        return list(self.facts["notes"])

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
        if self._asked is not None:
            write_text(listed, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    def _prepared(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        path = self.folder / PREPARED
        if not path.is_file():
            raise InputError(f"{self.folder} holds no prepared texts: it has no {PREPARED}")
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name, value in json.loads(json.dumps(asked)).items():
            if facts["asked"].get(name) != value:
                raise InputError(
                    f"the texts in {self.folder} were prepared otherwise: their {name} is {facts['asked'].get(name)}, "
                    f"and {value} is asked for; prepare them again, or ask for the same"
                )
        for name, known in facts["hashes"].items():
            file = self.folder / name
            if self._removable and name.startswith(self._removable) and not file.is_file():
                continue
            if not file.is_file() or _digest(_content(file)) != known:
                what = "is not what it was" if file.is_file() else "is missing"
                raise InputError(f"{file} {what}, of texts that were prepared; prepare them again")
        return facts


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _digest(content: str | bytes) -> str:
    return sha256(content.encode("utf-8") if isinstance(content, str) else content).hexdigest()


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


def lowest(numbers: Sequence[float], count: int) -> list[int]:
    """The positions of the `count` lowest numbers, rising.

    >>> lowest([0.5, 0.1, 0.9, 0.3], 2)
    [1, 3]
    """
    return sorted(sorted(range(len(numbers)), key=numbers.__getitem__)[:count])


def lowest_hashed(sentences: Sequence[str], count: int) -> list[str]:
    """At most `count` sentences: those whose hash is lowest, in the order they came.

    >>> lowest_hashed(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    if len(sentences) <= count:
        return list(sentences)
    return [sentences[position] for position in lowest([hash_fraction(sentence) for sentence in sentences], count)]


def drawn(rows: Sequence[int], count: int | None) -> list[int]:
    """At most `count` of these rows, in their order; which ones depends on how many there are, and on nothing else."""
    if count is None or len(rows) <= count:
        return list(rows)
    chosen = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[position] for position in sorted(chosen.tolist())]


def _hashes_by_recipe(job: Job, hashes: Mapping[str, Any]) -> dict[tuple[Hashable, ...], Any]:
    """What jobs of one recipe must agree in: every hash, and which there are."""
    return {(job.recipe, "list of texts"): sorted(hashes)} | {(job.recipe, name): hashes[name] for name in hashes}


def refuse_mixtures(
    jobs: Sequence[Job],
    agreeing: Callable[[Job, Mapping[str, Any]], Mapping[tuple[Hashable, ...], Any]] = _hashes_by_recipe,
) -> None:
    """Refuse finished jobs that were run on different models or texts.

    Args:
        jobs: finished ones.
        agreeing: what must be the same in all jobs, from a job and its hashes: values by a key whose last part says in
            words what they are. By default jobs of one recipe agree in the hashes of all models and texts.

    """
    first: dict[tuple[Hashable, ...], tuple[Job, Any]] = {}
    for job in jobs:
        for what, value in agreeing(job, read_facts(job.folder)["hashes"]).items():
            other, known = first.setdefault(what, (job, value))
            if value != known:
                raise InputError(
                    f"{other.folder} and {job.folder} were run on a different {what[-1]}; they are no runs of one "
                    "reproduction: remove one of them and run again with --resume"
                )


def notes_of(jobs: Sequence[Job]) -> list[str]:
    """The notes of these jobs, each once, in order."""
    return list(dict.fromkeys(note for job in jobs for note in read_facts(job.folder).get("notes", [])))
