"""`isogloss sweep`: any recipe over a grid of its arguments, one table at the end.

Every combination of the grid's values is a job with a run folder of its own in `OUT/jobs`. Jobs run one after the
other, several at a time spread over this machine's GPUs, or on the machines of a Ray cluster; one that fails stops none
of the others. The rows of all finished jobs are in one table, in which each can be told from the others: an argument
whose value the rows do not carry in a column of their own stands in `settings`.

`isogloss drift --save-every N` writes the model as it is after N, 2N, ... updates to `RUN/models/PLAN-seed-S/step-N`. A
sweep that is given such a run as a model runs its recipe on each of them and on the one they came from, and puts the
step of the tuning into the rows: what is measured of them are curves over the steps of that tuning.
"""

import difflib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pandas as pd
import torch

from isogloss.errors import InputError, readable, require
from isogloss.progress import progress
from isogloss.recipes import recipe as recipes
from isogloss.recipes.cluster import Share, on_cluster
from isogloss.recipes.jobs import Job, facts_of_jobs, run_jobs
from isogloss.recipes.recipe import NO_FILE_NAME, Option, Recipe, find_recipe, model_name, note_all
from isogloss.runs import table
from isogloss.runs.run import Run, check_folder, read_facts, read_rows, start
from isogloss.runs.table import Row
from isogloss.stack.load import STEP_FILE

Grid = Mapping[str, Sequence[Any]]

COLUMN_ARGUMENTS = ("model", "seed", "task", "plans", "switch", "switch_to", "switch_words")
"""Arguments whose value the rows have in a column: what is switched in `condition`, the others in their own."""

DESCRIBE_JOBS = ("chosen_step", "chosen_rate", "skipped")  # measures that describe one job, and are no curve

MOST_VALUES = 100_000  # of a range
RANGE = re.compile(r"(.*?)(-?\d+)\.\.(-?\d+)")
READERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    bool: ("yes or no", lambda text: {"yes": True, "true": True, "no": False, "false": False}[text.lower()]),
    int: ("a whole number", int),
    float: ("a number", float),
}
PANEL = "Sweep"
LONGEST_NAME = 120  # letters of a folder's name


def sweep(
    recipe: str,
    *,
    grid: Annotated[
        list[str] | Sequence[str] | Mapping[str, Any],
        Option("NAME=A,B,C: values of an argument, once each; A;B where they hold commas; 0..4 for 0 to 4", PANEL),
    ],
    out: str | Path,
    parallel: Annotated[recipes.PositiveInt | None, Option("jobs at a time; default: one a GPU, or one", PANEL)] = None,
    cluster: Annotated[str | None, Option("run on a Ray cluster: auto, local, or HOST:PORT of its head", PANEL)] = None,
    gpus: Annotated[
        float | None, Option("GPUs a job asks of the cluster, 0 to 1; default: 1 where it has any", PANEL)
    ] = None,
    cpus: Annotated[recipes.PositiveFloat | None, Option("CPUs a job asks of the cluster; default: 1", PANEL)] = None,
    resume: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Run a recipe with every combination of the values of some arguments, and return the rows of all jobs.

    The annotation of an argument says what it is. `grid` may also be values by name, and `resume` goes on with a sweep
    that was stopped. options: the recipe's other arguments, `model` among them, the same in every job.

    >>> table = sweep("transfer", grid={"plans": ["freeze:0", "freeze:8"], "seed": range(3)}, out="runs/frozen",
    ...               task="nli", train={"en": "mnli.tsv"}, dev={"en": "dev.tsv"},
    ...               test={"en": "en.tsv", "nl": "nl.tsv"})  # doctest: +SKIP
    """
    recipes.check_arguments(sweep, {"parallel": parallel, "cpus": cpus})
    chosen, values, jobs = plan_sweep(recipe, grid, out=out, options=options)
    device, executor = str(options.get("device", "auto")), None
    if cluster is not None or gpus is not None or cpus is not None:
        if cluster is None:
            raise InputError("--gpus and --cpus are what a job asks of a cluster; give its --cluster, too")
        if gpus is not None and not 0 <= gpus <= 1:
            raise InputError(f"--gpus {gpus:g}: a job computes on one GPU, or shares it; give 0 to 1, as in 0.25")
        asked = 0.0 if gpus is None and device == "cpu" else gpus  # one that computes on a CPU asks for no GPU
        executor = on_cluster(cluster, parallel=parallel, share=Share(asked, 1.0 if cpus is None else cpus))
    # Several GPUs take turns; CUDA_VISIBLE_DEVICES says which.
    turns = torch.cuda.device_count() if cluster is None and device in ("auto", "cuda") else 0
    turns = turns if turns > 1 else 0
    check_folder(Path(out), resume=resume)
    check_jobs(chosen, jobs)
    models = dict.fromkeys(model_name(str(job.options["model"])) for job in jobs if "model" in job.options)
    facts = {
        "command": "sweep",
        "arguments": {"recipe": chosen.name, "grid": values, "options": options},
        "seed": options.get("seed", 0),
        "model": ", ".join(models),
        "hashes": {},
    }
    with start(out, facts, resume=resume) as run:
        try:
            run_jobs(jobs, parallel=parallel or max(1, turns), gpus=turns, executor=executor)
        finally:
            if finished := [job for job in jobs if job.done]:
                collect(run, jobs, values)
        return run.finish() if len(finished) == len(jobs) else table.frame(run.rows)


def plan_sweep(
    recipe: str, grid: Sequence[str] | Mapping[str, Any], *, out: str | Path, options: Mapping[str, Any]
) -> tuple[Recipe, dict[str, list[Any]], list[Job]]:
    """The recipe, the grid's values and the jobs a sweep would run; nothing is read or written."""
    chosen = find_recipe(recipe)
    given = {argument_name(name, chosen, "option"): value for name, value in options.items()}
    values = read_grid(grid, chosen)
    return chosen, values, grid_jobs(chosen, values, given, folder=Path(out) / "jobs")


# --- the grid --------------------------------------------------------------------------------------------------------


def read_grid(given: Sequence[str] | Mapping[str, Any], recipe: Recipe) -> dict[str, list[Any]]:
    """The values of every argument in the grid, as the recipe takes them.

    A semicolon between values lets them hold commas; `0..4` is 0 to 4, also behind other text, as in `freeze:-1..11`;
    several values of a repeated option have spaces between.

    Args:
        given: `name=a,b,c` for each argument, or values by name.
        recipe: The recipe whose arguments they are.

    >>> read_grid(["seed=0..2", "plans=freeze:-1..0;reinit:1-2,last:1"], find_recipe("transfer"))
    {'seed': [0, 1, 2], 'plans': ['freeze:-1', 'freeze:0', 'reinit:1-2,last:1']}
    """
    grid: dict[str, list[Any]] = {}
    entries = list(given.items()) if isinstance(given, Mapping) else []
    for text in () if entries else [given] if isinstance(given, str) else given:
        written, equals, listed = str(text).partition("=")
        require(equals and written.strip(), f"--grid {text!r} names no argument; write NAME=A,B,C, as in seed=0..4")
        entries.append((written.strip(), listed))
    for written, text in entries:
        name = argument_name(written, recipe, "--grid")
        require(name not in grid, f"--grid has {written} twice; give all its values together, {written}=A,B")
        kind = recipe.parameters[name].kind
        members = [kind] if get_origin(kind) is list else get_args(kind) or [kind]
        values = _values(written, text, [get_origin(member) or member for member in members])
        if repeated := [value for number, value in enumerate(values) if value in values[:number]]:
            raise InputError(f"--grid {written} has {repeated[0]} twice; the same job would run twice")
        if name == "model":
            values = with_saved_models(values)
            names = [model_name(path) for path in values if (Path(path) / STEP_FILE).is_file()]
            if alike := [path for path in values if names.count(model_name(path)) > 1]:
                raise InputError(f"{alike[0]} and {alike[1]} would have one name in the rows; rename one of the runs")
        grid[name] = values
    require(grid, "a sweep needs a grid; give --grid NAME=A,B,C, as in --grid seed=0..4")
    return grid


def argument_name(written: str, recipe: Recipe, where: str) -> str:
    """The argument of a recipe that is meant, in its Python spelling."""
    known = [name for name, option in recipe.parameters.items() if not option.hidden]
    name = written.strip().replace("-", "_")
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"do you mean {_dashed(close[0])}" if close else f"it has {', '.join(map(_dashed, known))}"
        raise InputError(f"{where} {written}: {recipe.name} has no such argument; {hint}")
    return name


def _values(name: str, given: Any, types: Sequence[Any]) -> list[Any]:
    if not isinstance(given, str):
        values = list(given) if isinstance(given, Sequence | range | set) else [given]
        require(values, f"--grid {name} has no value; give at least one")
        return values
    parts = [part.strip() for part in given.split(";" if ";" in given else ",")]
    require(all(parts), f"--grid {name}={given} has an empty value; write {name}=A,B, or A;B where values hold commas")
    values = []
    for part in parts:
        texts = [part]
        if match := RANGE.fullmatch(part):
            before, first, last = match[1], int(match[2]), int(match[3])
            require(last >= first, f"--grid {name}: {part} runs backwards; write {before}{last}..{first}")
            require(last - first < MOST_VALUES, f"--grid {name}: {part} are more than {MOST_VALUES:,} values")
            texts = [f"{before}{number}" for number in range(first, last + 1)]
        if str in types or list in types:
            values += texts if str in types else [text.split() for text in texts]
            continue
        expected, read = next((READERS[kind] for kind in READERS if kind in types), ("", str))
        for text in texts:
            try:
                values.append(read(text))
            except (ValueError, KeyError) as error:
                raise InputError(f"--grid {name}: {text!r} is not {expected}") from error
    return values


# --- the jobs --------------------------------------------------------------------------------------------------------


def grid_jobs(recipe: Recipe, grid: Grid, options: Mapping[str, Any], *, folder: Path) -> list[Job]:
    """A job for every combination of the grid's values; the last argument changes fastest.

    A job's folder is named by its coordinates.
    """
    if both := [name for name in grid if name in options]:
        raise InputError(f"--{_dashed(both[0])} is given, and is in --grid, too; leave one of them out")
    # A job with several seeds runs those that follow its first, which may be another job's.
    many, seeds = max(grid.get("seeds", [options.get("seeds") or 1])), sorted(grid.get("seed", []))
    twice = many > 1 and any(after - before < many for before, after in pairwise(seeds))
    require(not twice, f"--seeds {many} runs each seed of --grid seed and those after it, some of them twice; leave it")
    defaults = {name: option.default for name, option in recipe.parameters.items()}
    for name, default in defaults.items():
        if default is inspect.Parameter.empty and name not in options and name not in grid:
            raise InputError(f"{recipe.name} needs --{_dashed(name)}; give it, or its values in --grid")
    model = {"model": defaults["model"]} if "model" in defaults else {}
    jobs: dict[str, Job] = {}
    for values in product(*grid.values()):
        coordinates = dict(zip(grid, values, strict=True))
        short = re.sub(NO_FILE_NAME, "-", coordinates_text(coordinates, grid)).strip(".-")[:LONGEST_NAME]
        numbered = (f"{short}-{number}" for number in range(2, len(jobs) + 2))
        name = next(candidate for candidate in (short, *numbered) if candidate not in jobs)
        jobs[name] = Job(name, recipe.name, {**model, **options, **coordinates}, folder / name, coordinates)
    return list(jobs.values())


def check_jobs(recipe: Recipe, jobs: Sequence[Job]) -> None:
    """Let the recipe check every value of the grid before any job starts; what has begun was checked.

    The first job and those that differ from it in one argument hold every value.
    """
    first = jobs[0].coordinates
    chosen = [job for job in jobs if sum(job.coordinates[name] != first[name] for name in first) <= 1]
    chosen = [job for job in chosen if not (job.folder / "run.json").is_file()]
    for number, job in enumerate(chosen):
        progress("checking the grid", number, len(chosen))
        try:
            arguments, options = recipes.read_options(recipe, job.options)
            recipe.check(*arguments, **options)
        except InputError as error:
            where = ", ".join(f"{name} {value}" for name, value in job.coordinates.items())
            raise InputError(f"{error} (with {where}; no job was started)") from error
    progress("checking the grid", len(chosen), len(chosen))


def coordinates_text(coordinates: Mapping[str, Any], grid: Grid) -> str:
    """Coordinates as they stand in the names of folders; a file by its name where that will do.

    >>> coordinates_text({"epochs": 3, "seed": 1}, {"epochs": [3, 5], "seed": [0, 1]})
    'epochs:3 seed:1'
    """
    return " ".join(f"{_dashed(name)}:{_label(coordinates[name], values)}" for name, values in grid.items())


def _label(value: Any, values: Sequence[Any]) -> str:
    """A value as a reader knows it: a file without its folders, unless another value has that name."""
    if list(map(_short, values)).count(_short(value)) == 1:
        return _short(value)
    names = [model_name(other) for other in values if isinstance(other, str | Path)]
    unique = isinstance(value, str | Path) and names.count(model_name(value)) == 1
    return model_name(value) if unique else _short(value, whole=True)


def _short(value: Any, *, whole: bool = False) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_short(part, whole=whole)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ",".join(_short(part, whole=whole) for part in value)
    name, equals, path = str(value).rpartition("=")
    return f"{name}{equals}{path if whole or not Path(path).exists() else Path(path).name}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


# --- the one table ---------------------------------------------------------------------------------------------------


def collect(run: Run, jobs: Sequence[Job], grid: Grid) -> None:
    """Fill the run's table, notes and facts from all jobs that are finished.

    Where jobs differ in seeds, means over seeds are added, in place of those of single jobs. Models that a run of drift
    has kept become curves over its steps.
    """
    finished = [job for job in jobs if job.done]
    run.begin_anew()
    facts = {job.name: read_facts(job.folder) for job in finished}
    note_all(run, facts)
    rows = joined_rows(finished, grid)
    if "seed" in grid:
        # A row without a seed, where the same is there with one, is the mean over the seeds of one job.
        seeded = {table.key({**entry, "seed": None}) for entry in rows if table.is_given(entry.get("seed"))}
        rows = [entry for entry in rows if table.is_given(entry.get("seed")) or table.key(entry) not in seeded]
        rows += table.mean_rows(rows)
    run.append(over_steps(rows, grid.get("model", ())))
    run.facts["jobs"] = facts_of_jobs(finished) | {"hashes": {name: own["hashes"] for name, own in facts.items()}}
    if left := [job.name for job in jobs if job not in finished]:
        run.note(f"{len(left)} of {len(jobs)} jobs are not finished and are missing here: {', '.join(left)}")


def joined_rows(jobs: Sequence[Job], grid: Grid) -> list[dict[str, Any]]:
    """The rows of jobs one after the other, each told from the others' by its coordinates.

    An argument that no column carries, or whose column does not tell its values apart, is put into the row's
    settings. A row that is the same in several jobs is there once; where they have different values under the same
    coordinates, all of the grid is put into its settings.
    """
    models = {str(job.coordinates["model"]) for job in jobs} if "model" in grid else set()
    called_alike = len(set(map(model_name, models))) < len(models)
    in_columns = [name for name in grid if name in COLUMN_ARGUMENTS and not (name == "model" and called_alike)]
    in_settings = [name for name in grid if name not in in_columns]
    groups: dict[tuple[str, ...], list[tuple[Job, dict[str, Any]]]] = {}
    for job in jobs:
        for entry in table.records(read_rows(job.folder)):
            own = _with_settings(entry, job, in_settings, grid)
            groups.setdefault(table.key(own), []).append((job, own))
    rows = []
    for group in groups.values():
        differ = len({str(entry.get("value")) for _, entry in group}) > 1
        rows += [_with_settings(entry, job, in_columns, grid) for job, entry in group] if differ else [group[0][1]]
    return rows


def _with_settings(entry: Row, job: Job, names: Sequence[str], grid: Grid) -> dict[str, Any]:
    """A row with some coordinates of its job in its settings: numbers as numbers, a file by its name if possible.

    Settings that the row already has are kept, such as its own learning rate where the job has several.
    """
    own = {
        name: value
        if isinstance(value := job.coordinates[name], int | float)
        else table.number_or_text(_label(value, grid[name]))
        for name in names
    }
    return {**entry, "settings": table.settings_text({**own, **table.settings_of(entry)})}


# --- models that were saved while one was tuned ----------------------------------------------------------------------


def saved_models(run: Path) -> list[dict[str, Any]]:
    """The models a run of drift has saved, by training and step; of a sweep of such runs, those of all its jobs.

    Each with the `model` that was tuned, by which `plan` and `seed`, after which `step`, its `path` and its `run`.
    """
    models = [_read_saved(path.parent) for path in (run / "models").glob(f"*/*/{STEP_FILE}")]
    for job in run.glob("jobs/*/run.json"):
        models += saved_models(job.parent)
    return sorted(models, key=lambda saved: (str(saved["run"]), saved["plan"], saved["seed"], saved["step"]))


def _read_saved(path: Path) -> dict[str, Any]:
    with readable(path / STEP_FILE, "is no record of a saved model", f"remove {path}"):
        record = json.loads((path / STEP_FILE).read_text(encoding="utf-8"))
        return {**record, "path": path, "run": path.parent.parent.parent}


def with_saved_models(models: Sequence[Any]) -> list[str]:
    """The models of a grid, where the folder of a run of drift stands for the model it began with and all it has saved.

    >>> with_saved_models(["mini"])
    ['mini']
    """
    names: list[str] = []
    for model, run in zip(map(str, models), map(Path, models), strict=True):
        is_run = (run / "run.json").is_file()
        if not is_run or not (read_facts(run).get("command") == "drift" or (run / "jobs").is_dir()):
            names.append(model)
            continue
        saved = saved_models(run)
        require(saved, f"{run} has kept no models; tune again with --save-every N, which keeps one every N updates")
        names += [str(each[name]) for name in ("model", "path") for each in saved]
    return list(dict.fromkeys(names))


def over_steps(rows: Sequence[Row], models: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows of a sweep over models, with those of saved models as curves over the steps of the tuning they come from.

    A row of a saved model gets the name of the model that was tuned, the tuning's step and seed, and its plan (as the
    condition where a task was trained on top), with the name of its run before that where another run has trained the
    same plan with the same seed. The model that was tuned is step 0 of every such curve. Of several seeds of one job
    their mean is taken, since `seed` is the tuning's now. Rows with a step of their own are left to the jobs' tables.
    """
    saved = [_read_saved(path) for path in map(Path, map(str, models)) if (path / STEP_FILE).is_file()]
    if not saved:
        return [dict(entry) for entry in rows]
    tunings: dict[str, list[dict[str, Any]]] = {}  # by the name of a model, the coordinates that its rows get
    for model in saved:
        runs = {each["run"] for each in saved if (each["plan"], each["seed"]) == (model["plan"], model["seed"])}
        plan = model["plan"] if len(runs) == 1 else f"{model['run'].name} {model['plan']}"
        after = {"model": model_name(model["model"]), "plan": plan, "seed": model["seed"], "step": model["step"]}
        tunings[model_name(model["path"])] = [after]
        before, known = {**after, "step": 0}, tunings.setdefault(after["model"], [])
        known += [before] if before not in known else []
    measured = [entry for entry in rows if "step" not in entry and entry["measure"] not in DESCRIBE_JOBS]
    means = {table.key(entry) for entry in measured if "seed" not in entry}  # over the seeds of a job, if several
    curves: list[dict[str, Any]] = []
    for entry in measured:
        if "seed" in entry and table.key({**entry, "seed": None}) in means:
            continue
        for tuning in tunings.get(entry.get("model", ""), []):
            own = {**entry, **tuning}
            if entry.get("plan"):  # of a training on top of the model that was saved
                condition = " ".join(filter(None, (tuning["plan"], entry.get("condition"))))
                own |= {"plan": entry["plan"], "condition": condition}
            curves.append(own)
    return [*curves, *(dict(entry) for entry in rows if entry.get("model") not in tunings)]
