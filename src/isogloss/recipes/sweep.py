"""`isogloss sweep`: run a recipe with every combination of some arguments' values, and collect one table of results.

Every combination of the grid's values is a job with its own run folder in `OUT/jobs`. Jobs run one after the other,
several at a time on this machine, spread over its GPUs, or on a Ray cluster. A failed job does not stop the others. One
table has the rows of all finished jobs, which can be told apart: arguments without a column are in `settings`.

`isogloss drift --save-every N` saves the model after N, 2N, ... updates as `RUN/models/PLAN-seed-S/step-N`. If such a
run is given to a sweep as a model, the recipe is run on each saved model and on the model that was fine-tuned. The
rows get the step of the fine-tuning, so the results are curves over its steps.
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
"""Arguments whose value is in a column of the rows: `condition` for those of code-switching, else their own."""

DESCRIBE_JOBS = ("chosen_step", "chosen_rate", "skipped")  # measures that describe a single job and have no curve
MOST_VALUES = 100_000  # maximum number of values of a range
RANGE = re.compile(r"(.*?)(-?\d+)\.\.(-?\d+)")
READERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    bool: ("yes or no", lambda text: {"yes": True, "true": True, "no": False, "false": False}[text.lower()]),
    int: ("a whole number", int),
    float: ("a number", float),
}
PANEL = "Sweep"
LONGEST_NAME = 120  # maximum number of characters of a folder's name


def sweep(
    recipe: str,
    *,
    grid: Annotated[
        list[str] | Sequence[str] | Mapping[str, Any],
        Option("NAME=A,B,C: values of an argument (A;B if they contain commas; 0..4 for 0 to 4); repeatable", PANEL),
    ],
    out: str | Path,
    parallel: Annotated[
        recipes.PositiveInt | None,
        Option("jobs at a time; default: one per GPU, one on a CPU, on a cluster as many as fit", PANEL),
    ] = None,
    cluster: Annotated[str | None, Option("run on a Ray cluster: auto, local, or HOST:PORT of its head", PANEL)] = None,
    gpus: Annotated[float | None, Option("GPUs per job on a cluster, 0 to 1; default: 1 if it has any", PANEL)] = None,
    cpus: Annotated[recipes.PositiveFloat | None, Option("CPUs per job on a cluster; default: 1", PANEL)] = None,
    resume: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Run a recipe with every combination of the values of some arguments, and return the rows of all jobs.

    The annotation of each argument describes it. `grid` may also be a mapping from names to values. `resume` continues
    an interrupted sweep. options: the other arguments of the recipe, including `model`; they are the same in all jobs.

    >>> table = sweep("transfer", grid={"plans": ["freeze:0", "freeze:8"], "seed": range(3)}, out="runs/frozen",
    ...               task="nli", train={"en": "mnli.tsv"}, dev={"en": "dev.tsv"},
    ...               test={"en": "en.tsv", "nl": "nl.tsv"})  # doctest: +SKIP
    """
    recipes.check_arguments(sweep, {"parallel": parallel, "cpus": cpus})
    chosen, values, jobs = plan_sweep(recipe, grid, out=out, options=options)
    device, executor = str(options.get("device", "auto")), None
    if cluster is not None or gpus is not None or cpus is not None:
        if cluster is None:
            raise InputError("--gpus and --cpus are resources of a job on a cluster; give --cluster, too")
        if gpus is not None and not 0 <= gpus <= 1:
            raise InputError(f"--gpus {gpus:g}: a job uses one GPU or a share of one; give 0 to 1, as in 0.25")
        requested = 0.0 if gpus is None and device == "cpu" else gpus  # jobs that run on a CPU request no GPU
        executor = on_cluster(cluster, parallel=parallel, share=Share(requested, 1.0 if cpus is None else cpus))
    # Jobs are distributed over the visible GPUs if there are several; CUDA_VISIBLE_DEVICES selects them.
    visible = torch.cuda.device_count() if cluster is None and device in ("auto", "cuda") else 0
    visible = visible if visible > 1 else 0
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
            run_jobs(jobs, parallel=parallel or max(1, visible), gpus=visible, executor=executor)
        finally:
            if finished := [job for job in jobs if job.done]:
                collect(run, jobs, values)
        return run.finish() if len(finished) == len(jobs) else table.frame(run.rows)


def plan_sweep(
    recipe: str, grid: Sequence[str] | Mapping[str, Any], *, out: str | Path, options: Mapping[str, Any]
) -> tuple[Recipe, dict[str, list[Any]], list[Job]]:
    """The recipe, the values of the grid and the jobs of a sweep; no job is checked or run, and nothing is written."""
    chosen = find_recipe(recipe)
    given = {argument_name(name, chosen, "option"): value for name, value in options.items()}
    values = read_grid(grid, chosen)
    return chosen, values, grid_jobs(chosen, values, given, folder=Path(out) / "jobs")


# --- the grid --------------------------------------------------------------------------------------------------------


def read_grid(given: Sequence[str] | Mapping[str, Any], recipe: Recipe) -> dict[str, list[Any]]:
    """Parse the grid: the values of each argument, with the types that the recipe takes.

    Values that contain commas are separated by semicolons. `0..4` stands for 0 to 4, also after other text, as in
    `freeze:-1..11`. If an option may be given several times, spaces separate the parts of one value.

    Args:
        given: `name=a,b,c` for each argument, or a mapping from names to values.
        recipe: The recipe that has these arguments.

    >>> read_grid(["seed=0..2", "plans=freeze:-1..0;reinit:1-2,last:1"], find_recipe("transfer"))
    {'seed': [0, 1, 2], 'plans': ['freeze:-1', 'freeze:0', 'reinit:1-2,last:1']}
    """
    require(given, "a sweep needs a grid; give --grid NAME=A,B,C, as in --grid seed=0..4")
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
            if same := [path for path in values if names.count(model_name(path)) > 1]:
                raise InputError(f"{same[0]} and {same[1]} get the same name in the rows; rename one of the runs")
        grid[name] = values
    return grid


def argument_name(written: str, recipe: Recipe, where: str) -> str:
    """The Python name of an argument of a recipe, such as `warm_up` for `warm-up`; unknown names are refused."""
    known = [name for name, option in recipe.parameters.items() if not option.hidden]
    name = written.strip().replace("-", "_")
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {_dashed(close[0])}?" if close else f"it has {', '.join(map(_dashed, known))}"
        raise InputError(f"{where} {written}: {recipe.name} has no such argument; {hint}")
    return name


def _values(name: str, given: Any, types: Sequence[Any]) -> list[Any]:
    if not isinstance(given, str):
        values = list(given) if isinstance(given, Sequence | range | set) else [given]
        require(values, f"--grid {name} has no value; give at least one")
        return values
    parts = [part.strip() for part in given.split(";" if ";" in given else ",")]
    require(all(parts), f"--grid {name}={given} has an empty value; write {name}=A,B, or A;B if values contain commas")
    values = []
    for part in parts:
        texts = [part]
        if match := RANGE.fullmatch(part):
            before, first, last = match[1], int(match[2]), int(match[3])
            require(last >= first, f"--grid {name}: {part} runs backwards; write {before}{last}..{first}")
            require(last - first < MOST_VALUES, f"--grid {name}: {part} has more than {MOST_VALUES:,} values")
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
    """A job for each combination of the grid's values, in a folder named after it; the last argument varies fastest."""
    if both := [name for name in grid if name in options]:
        raise InputError(f"--{_dashed(both[0])} is given both as an option and in --grid; leave one of them out")
    # With `seeds`, a job also runs the seeds that follow its own `seed`; another job may run the same ones.
    count, seeds = max(grid.get("seeds", [options.get("seeds") or 1])), sorted(grid.get("seed", []))
    twice = count > 1 and any(after - before < count for before, after in pairwise(seeds))
    require(not twice, f"--seeds {count} adds the seeds after each --grid seed, so some run twice; leave --seeds out")
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
    """Let the recipe check every value of the grid before any job starts; jobs that have begun are not checked again.

    Only the first job and the jobs that differ from it in one argument are checked: together they have every value.
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
    """Coordinates as text for folder names; a file is given without its folders if its name is unique.

    >>> coordinates_text({"epochs": 3, "seed": 1}, {"epochs": [3, 5], "seed": [0, 1]})
    'epochs:3 seed:1'
    """
    return " ".join(f"{_dashed(name)}:{_label(coordinates[name], values)}" for name, values in grid.items())


def _label(value: Any, values: Sequence[Any]) -> str:
    """A value as short text: a file without its folders, unless another value has the same name."""
    if list(map(_text, values)).count(_text(value)) == 1:
        return _text(value)
    names = [model_name(other) for other in values if isinstance(other, str | Path)]
    unique = isinstance(value, str | Path) and names.count(model_name(value)) == 1
    return model_name(value) if unique else _text(value, full_path=True)


def _text(value: Any, *, full_path: bool = False) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_text(part, full_path=full_path)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ",".join(_text(part, full_path=full_path) for part in value)
    name, equals, path = str(value).rpartition("=")
    return f"{name}{equals}{path if full_path or not Path(path).exists() else Path(path).name}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")


# --- the table of all jobs -------------------------------------------------------------------------------------------


def collect(run: Run, jobs: Sequence[Job], grid: Grid) -> None:
    """Fill the run's table, notes and facts from all finished jobs.

    If the grid has seeds, means over all of them replace the means over the seeds of single jobs. Rows of models that a
    run of drift saved become curves over the steps of the fine-tuning.
    """
    finished = [job for job in jobs if job.done]
    run.begin_anew()
    facts = {job.name: read_facts(job.folder) for job in finished}
    note_all(run, facts)
    rows = joined_rows(finished, grid)
    if "seed" in grid:
        # If the same row exists with a seed, a row without one is the mean over the seeds of a single job.
        seeded = {table.key({**entry, "seed": None}) for entry in rows if table.is_given(entry.get("seed"))}
        rows = [entry for entry in rows if table.is_given(entry.get("seed")) or table.key(entry) not in seeded]
        rows += table.mean_rows(rows)
    run.append(over_steps(rows, grid.get("model", ())))
    run.facts["jobs"] = facts_of_jobs(finished) | {"hashes": {name: own["hashes"] for name, own in facts.items()}}
    if left := [job.name for job in jobs if job not in finished]:
        run.note(f"{len(left)} of {len(jobs)} jobs are not finished and are missing here: {', '.join(left)}")


def joined_rows(jobs: Sequence[Job], grid: Grid) -> list[dict[str, Any]]:
    """The rows of all jobs in one list; their coordinates tell the rows of different jobs apart.

    An argument is added to the settings of a row if it has no column, or if two of its values have the same name there.
    A row that is the same in several jobs is listed once. If jobs have different values for the same coordinates, the
    whole grid is added to the settings of their rows.
    """
    models = {str(job.coordinates["model"]) for job in jobs} if "model" in grid else set()
    same_names = len(set(map(model_name, models))) < len(models)
    in_columns = [name for name in grid if name in COLUMN_ARGUMENTS and not (name == "model" and same_names)]
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
    """A row with some of its job's coordinates in its settings: numbers as numbers, a file by its name if possible.

    Settings that the row already has are kept, such as its own learning rate if the job has several.
    """
    own = {
        name: value
        if isinstance(value := job.coordinates[name], int | float)
        else table.number_or_text(_label(value, grid[name]))
        for name in names
    }
    return {**entry, "settings": table.settings_text({**own, **table.settings_of(entry)})}


# --- models saved during a fine-tuning -------------------------------------------------------------------------------


def saved_models(run: Path) -> list[dict[str, Any]]:
    """The models that a run of drift saved, ordered by training and step; for a sweep of such runs, those of all jobs.

    Each is a dictionary with the `model` that was fine-tuned, the `plan`, `seed` and `step` of the fine-tuning, the
    folder of the saved model (`path`) and that of the run (`run`).
    """
    models = [_read_saved(path.parent) for path in (run / "models").glob(f"*/*/{STEP_FILE}")]
    for job in run.glob("jobs/*/run.json"):
        models += saved_models(job.parent)
    return sorted(models, key=lambda saved: (str(saved["run"]), saved["plan"], saved["seed"], saved["step"]))


def _read_saved(path: Path) -> dict[str, Any]:
    with readable(path / STEP_FILE, "is not a valid record of a saved model", f"remove {path}"):
        record = json.loads((path / STEP_FILE).read_text(encoding="utf-8"))
        return {**record, "path": path, "run": path.parent.parent.parent}


def with_saved_models(models: Sequence[Any]) -> list[str]:
    """Models of a grid; a run folder of drift is replaced by the model that was fine-tuned and those it saved.

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
        require(saved, f"{run} has no saved models; run drift again with --save-every N, to save one every N updates")
        names += [str(entry[name]) for name in ("model", "path") for entry in saved]
    return list(dict.fromkeys(names))


def over_steps(rows: Sequence[Row], models: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows of a sweep over models, with those of saved models as curves over the steps of their fine-tuning.

    A row of a saved model gets the name of the model that was fine-tuned, and the step, seed and plan of the
    fine-tuning. If another run fine-tuned with the same plan and seed, the name of the run precedes the plan. If a task
    was trained on the saved model, `plan` is that of the task, and the plan of the fine-tuning is in `condition`.
    The model that was fine-tuned is step 0 of every such curve. If a job has several seeds, only their mean is used,
    since `seed` is that of the fine-tuning. Rows that have a step in their job are only in the table of that job.
    """
    saved = [_read_saved(path) for path in map(Path, map(str, models)) if (path / STEP_FILE).is_file()]
    if not saved:
        return [dict(entry) for entry in rows]
    tunings: dict[str, list[dict[str, Any]]] = {}  # for each model name, the coordinates that its rows get
    for model in saved:
        runs = {other["run"] for other in saved if (other["plan"], other["seed"]) == (model["plan"], model["seed"])}
        plan = model["plan"] if len(runs) == 1 else f"{model['run'].name} {model['plan']}"
        place = {"model": model_name(model["model"]), "plan": plan, "seed": model["seed"], "step": model["step"]}
        tunings[model_name(model["path"])] = [place]
        step_0, untuned = {**place, "step": 0}, tunings.setdefault(place["model"], [])
        untuned += [step_0] if step_0 not in untuned else []
    measured = [entry for entry in rows if "step" not in entry and entry["measure"] not in DESCRIBE_JOBS]
    means = {table.key(entry) for entry in measured if "seed" not in entry}  # means over the seeds of a job
    curves: list[dict[str, Any]] = []
    for entry in measured:
        if "seed" in entry and table.key({**entry, "seed": None}) in means:
            continue
        for tuning in tunings.get(entry.get("model", ""), []):
            own = {**entry, **tuning}
            if entry.get("plan"):  # a task was trained on the saved model
                condition = " ".join(filter(None, (tuning["plan"], entry.get("condition"))))
                own |= {"plan": entry["plan"], "condition": condition}
            curves.append(own)
    return [*curves, *(dict(entry) for entry in rows if entry.get("model") not in tunings)]
