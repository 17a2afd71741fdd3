"""The view of each command's runs, and one self-contained page from the folders of one or several runs.

The command in run.json selects the view, and only its module is imported. A sweep has the view of its recipe.

The file includes style, script and data. A content security policy forbids all requests and allows only the script
written here, by its hash, so that no text from a corpus or a run can be executed. Figures are included as data and
drawn by `charts.js`; numbers that several figures share are stored once.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from math import isfinite, isnan
from operator import attrgetter
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from isogloss import __version__
from isogloss.errors import InputError, readable, require
from isogloss.figure import COLOURS, GRIDS, SHADES, Figure, Line, Panel
from isogloss.files import clear_leftovers, whole
from isogloss.measures.registry import describe
from isogloss.measures.statistics import change_interval
from isogloss.progress import progress
from isogloss.recipes import RECIPES
from isogloss.recipes.word_map import draw_points
from isogloss.report import curves, map_view, word_map
from isogloss.report.curves import RunFolder, View, number
from isogloss.report.draw_matplotlib import characters_by_script, drawing, inks, write_figure
from isogloss.runs import read_facts, read_rows, table

HERE = Path(__file__).parent
SCRIPTS = ("page", "charts", "word_map", "table")
LONG_VALUE = 40
OWN_PAGE = b"default-src 'none'; style-src 'sha256-"  # at the start of every page, so that no other file is overwritten
MOST_ROWS = 12_000
EMPTY = {Figure: Figure("", "", "", ()), Panel: Panel("", ()), Line: Line("", (), ())}
NUMERIC = ("steps", "value", "low", "high", "floor", "n", "members")  # numeric fields of a line

OF_A_MAP = ("word-map", "curves", "heat-map", "matrix")
MARKS = ("reproduction", "map", "lookup", "training", "lens", "tokens")
MOST_TRAININGS = 12
VIEWS = {
    "map": "map_view.view",
    "lens": "lens_view.view",
    "tokens": "tokens_view.view",
    "lexicon": "score_views.lookup_view",
    "rotate": "score_views.lookup_view",
    "stitch": "score_views.stitch_view",
    "drift": "drift_view.view",
    "transfer": "score_views.transfer_view",
    "align": "training_view.view",
    "pretrain": "training_view.view",
    "reproduce": "reproduction_view.view",
}
"""The view function of each command, as module and name."""


def read_runs(path: Path) -> list[RunFolder]:
    """The runs that a report of a folder shows: the run itself, or its jobs if they cannot share figures.

    Trainings of one model differ in plan and seed, and share figures; maps and pretrained models do not.
    """
    run = read_run(path)
    jobs = [path / "jobs" / name for name in run.record.get("jobs", {}).get("finished", [])]
    jobs = [] if run.command in ("drift", "transfer", "reproduce") else jobs
    return [read_run(job) for job in jobs if job.is_dir()] or [run]


def read_run(path: Path) -> RunFolder:
    """Read the run in a folder; parts may be missing, but invalid parts and other folders raise `InputError`."""
    require(path.is_dir(), f"{path} is not a folder; give the folder that `isogloss map --out` wrote")
    file, points = path / "points.parquet", None
    if file.exists():
        with readable(file, "holds no points of a map", "the run must be made again"):
            points = pd.read_parquet(file)[["layer", "language", "word", "pair", "x", "y"]]
    record = read_facts(path) if (path / "run.json").exists() else {}
    return RunFolder(path, record, read_rows(path), points)


def view_of(run: RunFolder) -> View:
    """The view of a run according to its command; a folder without a record gets the view of a map.

    Raises InputError if rows that the view needs are missing, as in an unfinished run.
    """
    module, _, function = VIEWS.get(run.command, VIEWS["map"]).partition(".")
    view: Callable[[RunFolder], View] = getattr(import_module(f"isogloss.report.{module}"), function)
    whole_run = run.record.get("status") == "finished" and run.record.get("rows") == len(run.rows)
    lacking = readable(run.path, "lacks rows that its page needs", "resume the run, and report it when it is finished")
    with nullcontext() if whole_run else lacking:
        return view(run)


def verdict(run: str | Path | pd.DataFrame, command: str | None = None) -> list[str]:
    """The findings of a run in a few sentences.

    Args:
        run: A run folder, or a table of rows.
        command: The command that made the table, such as "map"; a run folder records it.

    Raises:
        InputError: A table was given without a command, or with one that has no view.
    """
    if isinstance(run, pd.DataFrame):
        names = " or ".join(map(repr, RECIPES))
        require(command in RECIPES, f"a table needs the command it was made by: verdict(rows, {names})")
        return view_of(RunFolder(Path(), {"command": command}, run)).verdict
    jobs = read_runs(Path(run))
    if jobs[0].path == Path(run):
        return view_of(jobs[0]).verdict
    together = compared(jobs)
    firsts, several = best_layers([job for job, _ in together]), len({job.depth for job in jobs}) > 1
    for job, left_out in together:
        name = f"{job.name} ({job.depth} layers)" if several and job.depth else job.name
        firsts += [f"{name}: {said}" for said in view_of(job).verdict[:1]]
        firsts += [said for said in left_out if said not in firsts]
    return [*firsts, *sweep_sentences(read_run(Path(run)).rows)]


def sweep_sentences(rows: pd.DataFrame) -> list[str]:
    """One sentence on mean P@1 at the first and last step of every training of a sweep; none if there is no P@1.

    The layer is the one with the highest average over all trainings at the end. Brackets are t intervals over seeds, or
    intervals over the text if there is one seed.
    """
    taken = (rows["measure"] == "p@1_mean") & rows["method"].isin(("centred", "")) & rows["layer"].notna()
    read = curves.with_trainings(rows[taken & rows["seed"].notna()])
    layers = curves.grouped(curves.curves(read, along="step"), attrgetter("layer"))
    layer = max(layers, key=lambda layer: mean(curve.last.value for curve in layers[layer]), default=None)
    jobs = curves.grouped(layers.get(layer, ()), attrgetter("model", "training"))
    if sum(own[0].seeds for own in jobs.values()) < 2:
        return []
    several = len({model for model, _ in jobs}) > 1
    said = []
    for (model, training), own in list(jobs.items())[:MOST_TRAININGS]:
        name = " ".join(filter(None, (model if several or not training else "", training)))
        seeds = f", {own[0].seeds} seeds" if own[0].seeds > 1 else ""
        curve = replace(curves.average(own), measure="p@1")
        said.append(f"{name} {curve.from_to(steps=False)}{seeds}")
    more = len(jobs) - MOST_TRAININGS
    said += [f"{more} more are in the rows"] if more > 0 else []
    chance = rows.loc[taken, "floor"].mean()
    floor = "" if isnan(chance) else f" (chance {number(chance)})"
    return [f"Mean P@1 at layer {layer}, where all jobs together end highest{floor}: {'; '.join(said)}."]


def can_draw() -> bool:
    """Whether the packages of the extra `report` are installed; reports can also be drawn on another machine."""
    return all(find_spec(name) is not None for name in ("jinja2", "matplotlib", "PIL"))


def write_page(folders: Sequence[str | Path], path: str | Path, *, figures: bool = True) -> Path:
    """Write a page for these run folders, and the figures of each into its folder `figures`.

    Several runs share the figures of curves; each has its own verdict and, chosen by a menu, word map, grids and rows.

    Args:
        folders: Run folders; a sweep whose jobs cannot share figures is replaced by its jobs.
        path: The file, or a folder for the file `report.html`.
        figures: Whether to draw figures as files, too.

    Returns:
        The path of the page.
    """
    require(folders, "a report needs at least one run folder; give what `isogloss map --out` wrote")
    page = Path(path)
    if page.is_dir() or page.suffix == "":
        page = page / "report.html"
    if page.is_file():
        with page.open("rb") as file:
            require(OWN_PAGE in file.read(2048), f"{page} exists and is no page of isogloss; give --out another name")
    for folder in map(Path, folders if figures else ()):
        for run_folder in (folder, *folder.glob("jobs/*")):
            draw_points(run_folder)
    runs = [run for folder in folders for run in read_runs(Path(folder))]
    models, names = [run.model for run in runs], [run.name for run in runs]
    for index, run in enumerate(runs):  # named by their model and, if that is not unique, their folder
        again = f", {index + 1}" if names.count(run.path.name) > 1 else ""
        behind = f" ({run.path.name}{again})" if models.count(run.model) > 1 else ""
        run.name = run.model + behind
    for run in runs if figures else ():
        _write_files(run, view_of(run).figures, run.path / "figures")
    together = compared(runs)
    runs = [run for run, _ in together]
    shown = list(map(view_of, runs))
    views = [replace(view, verdict=[*view.verdict, *said]) for view, (_, said) in zip(shown, together, strict=True)]
    views[0] = replace(views[0], verdict=[*best_layers(runs), *views[0].verdict])
    for folder in {page.parent, *(run.path / name for run in runs for name in ("", "figures"))}:
        clear_leftovers(folder, locked=False)
    text = render(runs, views)
    page.parent.mkdir(parents=True, exist_ok=True)
    with whole(page) as beside:
        beside.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return page


def compared(runs: Sequence[RunFolder]) -> list[tuple[RunFolder, list[str]]]:
    """Restrict maps on one page to the rows that all of them have; returns each with a sentence on what was left out.

    Measures are comparable if they were taken on the same sentences: of the same text, as many, and drawn by the
    same seed unless all were taken. Averages over other pairs, or P@1 among more sentences, are not. Runs with
    nothing in common, and those of other commands, are not changed; of maps with nothing in common each has a
    sentence that says so.
    """
    uncut = [(run, list[str]()) for run in runs]
    if len(runs) < 2 or any(run.command not in ("map", "") for run in runs):
        return uncut
    tables, texts = [], dict[tuple[str, frozenset[str]], set[Any]]()
    for run in runs:
        rows = run.rows[["measure", "method", "data", "source", "target", "pooling", "condition"]]
        of_sentences = run.rows["n"].where(run.rows["unit"] == "sentence")
        sampled = of_sentences.where(rows["measure"] == "p@1").groupby(rows["data"]).transform("max")
        counts = of_sentences.fillna(sampled).fillna(0)  # the number of words in a sample depends on the model
        drawn = counts < of_sentences.groupby(rows["data"]).transform("max")  # which sentences, depends on the seed
        conditions = rows["condition"].replace(table.WITHOUT_SINKS, "")  # not every model has such rows
        seeds = run.rows["seed"].where(drawn).fillna(-1)
        tables.append(pd.MultiIndex.from_frame(rows.assign(n=counts, seed=seeds, condition=conditions)))
        known_texts = run.record.get("hashes", {}).get("data", {})
        for data, own in rows.groupby("data"):
            texts.setdefault((str(data), frozenset(own["source"])), set()).add(known_texts.get(data))
    everywhere = reduce(lambda both, own: both.intersection(own), tables)
    renamed = {data for (data, _), hashes in texts.items() if len(hashes) > 1}  # different texts of the same name
    together = []
    for run, keys in zip(runs, tables, strict=True):
        pairs = run.rows["target"] != ""
        shared = pairs & keys.isin(everywhere) & ~run.rows["data"].isin(renamed)
        if not shared.any():
            nothing = "The maps on this page have nothing in common on the same sentences: do not compare their values."
            return [(run, [nothing]) for run in runs]
        lost, kept = run.rows[pairs & ~shared], run.rows[shared]
        known, languages = {*zip(kept["source"], kept["target"], strict=True)}, {*kept["source"], *kept["target"]}
        directions = (pair for pair in zip(lost["source"], lost["target"], strict=True) if pair not in known)
        left = [f"{source} → {target}" for source, target in dict.fromkeys(directions)]
        left += [describe(name).title for name in dict.fromkeys(lost["measure"]) if name not in set(kept["measure"])]
        means = {f"{name}_{end}" for name in lost["measure"].unique() for end in ("mean", "behind", "best")}
        single = ~pairs & ~run.rows["measure"].isin(means) & run.rows["source"].isin({"", *languages})
        single &= keys.isin(everywhere) | (run.rows["source"] == "")
        said = f"Left out of {run.name}, as not every run on this page has it on the same sentences: {', '.join(left)}."
        alike = RunFolder(run.path, run.record, run.rows[shared | single], run.points)
        alike.name = run.name
        sentences = [said] if left else []
        if run.arguments.get("normed_top") and not all(other.arguments.get("normed_top") for other in runs):
            sentences.append(f"Of {run.name} the top layer was read after the final norm, of others before it.")
        together.append((alike, sentences))
    return together


def best_layers(runs: Sequence[RunFolder]) -> list[str]:
    """A sentence that compares several maps of the same text at their best layers, highest first; else none.

    Maps of one model that differ in the seed are not ranked. Where the values without each part of the sentences are
    known, the two highest are compared on the same sentences, with the confidence that all pairs of their layers need.
    """
    maps = [run for run in runs if run.command in ("map", "")]
    known = [(run.lead, run.name) for run in maps if run.lead is not None and run.lead.peak.known]
    same = {(lead.measure, lead.method, lead.counts, lead.members) for lead, _ in known}
    texts = {json.dumps([run.data, run.record.get("hashes", {}).get("data")]) for run in maps}
    but_seeds = [json.dumps([run.model, {**run.arguments, "seed": 0}], default=str) for run in maps]
    seeds = {run.arguments.get("seed") for run in maps}  # which draw the sentences
    several = len(seeds) > 1 and len(set(but_seeds)) < len(maps)
    if len(known) < max(2, len(runs)) or len(same) > 1 or len(texts) > 1 or several:
        return []
    ranked = sorted(known, key=lambda pair: -pair[0].peak.value)
    said = [f"{name} {lead.peak.say(curves.number)} (layer {lead.best})" for lead, name in ranked]
    (first, best), (second, _) = ranked[:2]
    change = change_interval([second.peak], [first.peak], among=len(first.at) * len(second.at))
    if change.known and len(seeds) == 1:
        clear, told = change.low > 0, f"the first two differ by {change.say(curves.number)} on the same sentences"
    else:
        clear = not curves.overlap(first.peak, second.peak)
        told = f"the first two intervals {'do not overlap' if clear else 'overlap'}"
    opening = f"By {first.name} at the best layer, {f'{best} is' if clear else 'none is clearly'} highest"
    return [f"{opening}: {', '.join(said)}; {told}."]


def write_figures(folder: str | Path, out: str | Path) -> list[Path]:
    """Draw all figures of the run in `folder` as PNG and SVG, and its word map, into `out`; returns the files."""
    run = read_run(Path(folder))
    return _write_files(run, view_of(run).figures, Path(out))


def _write_files(run: RunFolder, figures: Sequence[Figure], out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    files = [figure for figure in figures if not figure.page_only]
    texts = [text for figure in files for panel in figure.panels for line in panel.lines for text in line.texts]
    written, stage = list[Path](), f"drawing figures of {run.name}"
    with drawing([run.model, *run.data, *map(curves.language_name, run.languages), *texts]):
        for done, figure in enumerate(files):
            progress(stage, done, len(files) + 1)
            written += write_figure(figure, out)
    written += word_map.write_word_maps(run, out)
    progress(stage, len(files) + 1, len(files) + 1)
    return written


def render(runs: Sequence[RunFolder], views: Sequence[View]) -> str:
    """The HTML of the page for runs with distinct names."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise InputError("the report needs Jinja: pip install 'isogloss[report]'") from error
    style, layout = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "template.html"))
    files = [(HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    data = 'const DATA = JSON.parse(document.getElementById("data").textContent);'
    script = "\n".join(['(() => {\n"use strict";', data, *files, "begin();\n})();"])
    filled = {figure.section for view in views for figure in view.figures}
    scored = [view for view in views if view.tables or any(figure.section == "scores" for figure in view.figures)]
    filled |= {"scores"} if scored else set()
    filled |= {"word-map" for run in runs if run.points is not None}
    mapped = any(view.mark == "map" for view in views) or bool(filled & set(OF_A_MAP))
    rows = pd.concat([run.rows[["measure", "method"]] for run in runs])
    names = {code: curves.language_name(code) for run in runs for code in run.languages}
    both = list(zip(runs, views, strict=True))
    payload = {
        "languages": [word_map.language_look(index, code, name) for index, (code, name) in enumerate(names.items())],
        "shades": SHADES,
        "run_colours": COLOURS,
        "runs": [_run_payload(run, view.figures) for run, view in both],
    }
    environment = Environment(autoescape=True)
    environment.filters |= {"flatten": flatten, "digest": _digest}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.from_string(layout).render(
        runs=both,
        titles=[view.title or run.model for run, view in both],
        languages=list(names.values()),
        sets=[name for run in runs for name in run.data],
        mark=next(mark for mark in MARKS if mark in {view.mark for view in views}),
        shown=filled | set(OF_A_MAP if mapped else ()),
        explained="curves" if mapped else "training",
        used=set(rows.loc[rows["measure"] == "p@1", "method"]),
        layered=mapped or any(run.rows["layer"].notna().any() for run in runs),
        reproduced=any(view.paper for view in views),
        told=any(view.verdict or view.facts for view in views),
        scores=scored[0].heading if scored else "",
        meanings=[describe(str(name)) for name in rows["measure"].unique() if name in map_view.NOT_DRAWN],
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        data=payload,
    )


def _digest(text: str) -> str:
    """The hash by which the page's policy allows its own style and script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"


def flatten(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a nested record to labelled lines; a group of short values is one line, empty values are left out.

    >>> flatten({"seed": 1, "versions": {"torch": "2.6", "numpy": "2.1"}, "languages": ["en", "nl"], "revision": None})
    [('seed', '1'), ('versions', 'torch 2.6, numpy 2.1'), ('languages', 'en, nl')]
    """
    lines: list[tuple[str, str]] = []
    for key, value in record.items():
        label = f"{prefix}, {key}" if prefix else str(key)
        if isinstance(value, Mapping):
            inner = flatten(value)
            line = ", ".join(f"{name} {text}" for name, text in inner)
            short = all(len(text) < LONG_VALUE and ", " not in text for _, text in inner)
            lines += [(label, line)] if short else flatten(value, label)
        elif isinstance(value, list | tuple):
            lines.append((label, ", ".join(str(item) for item in value)))
        elif value is not None:
            lines.append((label, str(value)))
    return [(label, text) for label, text in lines if text]


def _run_payload(run: RunFolder, figures: Sequence[Figure]) -> dict[str, Any]:
    """The data of one run: its figures, the numbers of their curves, its word map and its rows.

    Fields of figures, panels and lines are included if they differ from the defaults. Lines refer to their numbers by
    index, so that several panels can share them.
    """
    indices: dict[str, int] = {}  # the numbers of a line as JSON -> their index
    drawn = []
    for figure in figures:
        panels = []
        for panel in figure.panels:
            lines = []
            for line, ink in zip(panel.lines, inks(panel.lines), strict=True):
                index = indices.setdefault(json.dumps(_numbers(line)), len(indices))
                look = {"c": index, **_differing(line, leave=(*NUMERIC, "hue", "colour"))}
                lines.append(look if line.cell else {**look, "colour": ink})
            panels.append({**_differing(panel, leave=("lines",)), "lines": lines})
        measure = describe(figure.measure)
        words = measure.explanation or figure.caption if figure.section not in GRIDS else ""
        facts = {"words": words, "better": measure.better, **({"axis": measure.axis} if measure.axis else {})}
        about = _differing(figure, leave=("panels", "page_only", "caption", "measure"))
        drawn.append({**about, **facts, "panels": panels})
    numbers = [json.loads(own) for own in indices]
    steps = list(map(list, dict.fromkeys(tuple(own["steps"]) for own in numbers)))
    lead = run.lead  # drawn above the slider of the word map
    return {
        "name": run.name,
        "depth": run.depth,
        "centre": run.centre,
        "lead": lead and {"name": lead.name, "best": lead.best, "alike": lead.alike, **_numbers(lead.line(""))},
        "figures": drawn,
        "steps": steps,
        "curves": [{**own, "steps": steps.index(own["steps"])} for own in numbers],
        "map": None if run.points is None else _word_map_payload(word_map.word_map(run.points)),
        "table": table_payload(run.rows),
    }


def _numbers(line: Line) -> dict[str, Any]:
    """The numbers of a line, without bounds that are unknown everywhere."""
    bounds = {name: _compact(getattr(line, name)) for name in ("low", "high", "floor")}
    known = {name: values for name, values in bounds.items() if set(values) - {None}}
    return {"steps": line.steps, "value": _compact(line.value), **known, "n": line.n, "members": line.members}


def _differing(record: Figure | Panel | Line, *, leave: Sequence[str]) -> dict[str, Any]:
    """The fields of a record that differ from the defaults, without infinities and NaN, which JSON does not have."""
    empty = vars(EMPTY[type(record)])
    fields = _finite({name: value for name, value in vars(record).items() if name not in leave})
    return {name: value for name, value in fields.items() if value != empty[name]}


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping without infinities and NaN, also in nested mappings."""
    inner = {name: _finite(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    return {name: value for name, value in inner.items() if not isinstance(value, float) or isfinite(value)}


def _compact(values: Iterable[float], *, digits: int = 5) -> list[float | None]:
    """Round to five digits, more than a pixel can show and enough for rounding again; None for other than finite."""
    return [float(f"{value:.{digits}g}") if isfinite(value) else None for value in values]


def _word_map_payload(points: word_map.WordMap) -> dict[str, Any]:
    """The word map for the page, with positions in thousandths: x, then y, one list per layer."""
    x, y = (np.stack([*points.positions.values()]) * 1000).round().astype(int).transpose(2, 0, 1)  # (layers, points)
    return {
        "layers": list(points.positions),
        **{name: points.words[name].tolist() for name in ("language", "word", "pair")},
        "x": x.tolist(),
        "y": y.tolist(),
        "scripts": {script: letters[:6] for script, letters in characters_by_script(points.words["word"]).items()},
    }


def thin_rows(rows: pd.DataFrame, *, most: int = MOST_ROWS) -> tuple[pd.DataFrame, list[str]]:
    """At most `most` rows for the page, and a description of the rows that were left out.

    These are left out in order until the rest fits: ranks beyond the first, pairs without the central language, some
    steps of a training (not the last), and finally the last rows. Figures and verdict use all rows, which are in
    rows.csv.
    """
    left_out: list[str] = []
    centre = curves.central_language(zip(rows["source"], rows["target"], strict=True))
    with_centre = rows[["source", "target"]].isin([centre, ""]).any(axis=1)  # rows of one language are kept, too
    for words, keep in (
        ("P@5, P@10 and MRR", ~rows["measure"].isin(["p@5", "p@10", "mrr"])),
        (f"pairs without {centre}", with_centre),
    ):
        if len(rows) > most and not keep.loc[rows.index].all():
            rows = rows[keep.loc[rows.index]]
            left_out.append(words)
    if len(rows) > most:
        before = rows
        # Drop every second step, counted from the last, until the rows fit or two steps are left. Measures with
        # different intervals between readings share few steps, so each is thinned separately.
        while len(rows) > most and rows["step"].nunique() > 2:
            places = rows.groupby("measure")["step"].rank(method="dense", ascending=False)
            rows = rows[places.isna() | (places % 2 == 1)]
        left, total = (frame["step"].nunique() for frame in (rows, before))
        left_out += [f"{total - left:,} of {total:,} steps"] if len(rows) < len(before) else []
    if len(rows) > most:
        left_out.append(f"the last {len(rows) - most:,} rows")
        rows = rows.head(most)
    return rows, left_out


def table_payload(rows: pd.DataFrame) -> dict[str, Any]:
    """The columns with any values, in the table's order; `total` is the number of rows before thinning."""
    kept, left_out = thin_rows(rows)
    columns: list[dict[str, Any]] = []
    for name in table.COLUMNS:
        column = kept[name]
        if not (column.notna() & (column.astype("str") != "")).any():
            continue
        if name in table.NUMBERS:
            columns.append({"name": name, "numbers": _compact(column.to_numpy(dtype="float64"), digits=6)})
        elif name in table.COUNTS:
            columns.append({"name": name, "numbers": [None if pd.isna(value) else int(value) for value in column]})
        else:
            codes, texts = pd.factorize(column)
            columns.append({"name": name, "codes": codes.tolist(), "texts": [str(text) for text in texts]})
    return {"columns": columns, "length": len(kept), "total": len(rows), "left_out": left_out}
