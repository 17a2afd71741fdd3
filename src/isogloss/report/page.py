"""One self-contained page from the folders of one or several runs.

Everything is inside the file: style, script and data. A content security policy forbids every request and allows only
the one script that is written here, by its hash, so that no text of a corpus or a run can ever act.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.report.driftverdict import drift_facts
from isogloss.report.folder import RunFolder, parts, read_run
from isogloss.report.languages import display_names
from isogloss.report.lookup import is_lookup, lookup_facts
from isogloss.report.lookuppart import lookup_part
from isogloss.report.meanings import LAYERS_SENTENCE, VARIANT_WORDS, meaning
from isogloss.report.paperpart import paper_part, reproduced_title
from isogloss.report.payload import NOT_DRAWN, payload, script_safe_json
from isogloss.report.phrases import measure_name, number
from isogloss.report.plans import is_drift
from isogloss.report.stepverdict import last_layer_curve, step_facts
from isogloss.report.stitchpart import is_stitch, stitch_facts, stitch_part
from isogloss.report.summary import Curve, above_floor, best_layer, leading, overall
from isogloss.report.taskcurves import is_task_curve
from isogloss.report.transferpart import transfer_part
from isogloss.report.transferverdict import is_transfer, transfer_facts
from isogloss.report.unfinished import unfinished
from isogloss.report.verdict import verdict
from isogloss.report.writing import write_whole

HERE = Path(__file__).parent
SCRIPTS = (
    "dom", "mapwords", "mapdrawing", "mapcontrols", "wordmap", "panels", "curves", "cells", "grids", "rowtable",
)  # fmt: skip
STEP_SCRIPTS = ("stepcharts", "stepdrawing", "stepgrid")  # only on the page of a training
MOST_NAMED = 12
LONG_VALUE = 40


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write the page over these run folders to `out` and return where it is.

    `out` is the file, or a folder in which the file becomes `report.html`. Several runs share the curves; each has its
    own verdict and, by a menu, its own word map, grids and rows.
    """
    if not runs:
        raise InputError("a report needs at least one run folder; give what `isogloss map --out` wrote")
    folders = _tell_apart([read_run(part) for run in runs for part in parts(Path(run))])
    path = Path(out)
    if path.is_dir() or path.suffix == "":
        path = path / "report.html"
    return write_whole(path, render(folders).encode("utf-8", "replace"))


def render(runs: Sequence[RunFolder]) -> str:
    """The page as text."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise InputError("the report needs Jinja: pip install 'isogloss[report]'") from error
    style = (HERE / "page.css").read_text(encoding="utf-8")
    trained, mapped = any(not run.trained.empty for run in runs), any(run.has_map for run in runs)
    script = _script(*STEP_SCRIPTS) if trained else _script()
    texts = [_run_text(run) for run in runs]
    template = Environment(autoescape=True).from_string((HERE / "template.html").read_text(encoding="utf-8"))
    return template.render(
        title=_title(runs),
        subject=_subject(
            runs, text="Parallel text" if not mapped and not any(_has_own_text(run) for run in runs) else "Text"
        ),
        trained=trained,
        mapped=mapped,
        layered=mapped or any(run.rows["layer"].notna().any() for run in runs),
        layers_sentence=LAYERS_SENTENCE,
        variants_sentence=_variants_sentence(runs),
        runs=texts,
        reproduced=any(one["paper"] for one in texts),
        told=any(one["verdict"] or one["facts"] for one in texts),
        scored=any(one["scores"] for one in texts),
        scores=next((one["scores"] for one in texts if one["scores"] and "title" in one["scores"]), None),
        looked=any(is_lookup(run.rows) for run in runs),
        meanings=[meaning(name) for name in _measures(runs) if name in NOT_DRAWN],
        version=_version(),
        policy=Markup(policy(style, script)),
        style=Markup(style),
        script=Markup(script),
        data=Markup(script_safe_json(payload(runs))),
    )


def policy(style: str, script: str) -> str:
    """Nothing may be fetched, and only this style and this script may act."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _script(*more: str) -> str:
    parts = [(HERE / f"{name}.js").read_text(encoding="utf-8") for name in (*SCRIPTS, *more, "page")]
    data = 'const DATA = JSON.parse(document.getElementById("data").textContent);'
    return "\n".join(['(() => {\n"use strict";', data, *parts, "})();"])


def _tell_apart(runs: Sequence[RunFolder]) -> list[RunFolder]:
    """Runs named by their model where that tells them apart, else by their folder as well."""
    models = [run.model for run in runs]
    folders = [run.path.name for run in runs]
    named = []
    for place, run in enumerate(runs):
        name = run.model
        if models.count(name) > 1:
            name = f"{name} ({run.path.name})"
            if folders.count(run.path.name) > 1:
                name = f"{run.model} ({run.path.name}, {place + 1})"
        named.append(RunFolder(run.path, name, run.record, run.rows, run.points))
    return named


def _models(run: RunFolder) -> str:
    """The model of a run, and the one that stands beside it where two are looked up in each other or stitched."""
    beside = [one for one in run.rows["other_model"].dropna().unique() if one]
    several = len(beside) == 1 and (is_lookup(run.rows) or is_stitch(run.rows))
    return f"{run.model} and {beside[0]}" if several else run.model


def _title(runs: Sequence[RunFolder]) -> str:
    names = list(dict.fromkeys(reproduced_title(run) or _models(run) for run in runs))
    return (
        names[0]
        if len(names) == 1
        else " · ".join(names[:4]) + ("" if len(names) < 5 else f" and {len(names) - 4} more")
    )


def _subject(runs: Sequence[RunFolder], *, text: str) -> str:
    codes = list(dict.fromkeys(code for run in runs for code in run.languages))
    languages = _listed(list(display_names(codes).values()))
    data = _listed(list(dict.fromkeys(name for run in runs for name in run.data)))
    return f"{languages}. {text}: {data}." if data else f"{languages}."


def _has_own_text(run: RunFolder) -> bool:
    return any(kind(run.rows) for kind in (is_stitch, is_lookup, is_drift, is_transfer, is_task_curve))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"


def _measures(runs: Sequence[RunFolder]) -> list[str]:
    return list(dict.fromkeys(str(name) for run in runs for name in run.rows["measure"].unique()))


def _variants_sentence(runs: Sequence[RunFolder]) -> str:
    variants = {str(name) for run in runs for name in run.rows.loc[run.rows["measure"] == "p@1", "variant"].unique()}
    return " ".join(words for name, words in VARIANT_WORDS.items() if name in variants)


def _run_text(run: RunFolder) -> dict[str, Any]:
    lead = _lead(run)
    notes = run.record.get("notes") or []
    return {
        "name": run.name,
        "model": run.model,
        "paper": (paper := paper_part(run)),
        "scores": None if paper else transfer_part(run) or lookup_part(run) or stitch_part(run.rows, run.path),
        "verdict": [*unfinished(run.record, run.rows), *([] if paper and is_transfer(run.rows) else verdict(run.rows))],
        "facts": _facts(run),
        "caution": run.trained.empty and not is_lookup(run.rows) and not is_stitch(run.rows)
        if lead is None
        else above_floor(lead, best_layer(lead)) is False,
        "notes": [str(note) for note in notes] if isinstance(notes, list) else [str(notes)],
        "provenance": [pair for pair in flatten(run.record) if pair[0] != "notes"],
    }


def _lead(run: RunFolder) -> Curve | None:
    """The leading measure over layers: of a training, at its last step."""
    if not run.trained.empty:
        return last_layer_curve(run.trained)
    first = leading(run.mapped)
    return None if first is None else overall(run.mapped, *first)


def _facts(run: RunFolder) -> list[dict[str, str]]:
    """The few numbers a reader takes away."""
    if not run.trained.empty:
        if is_transfer(run.rows):
            facts = transfer_facts(run.rows)
        else:
            facts = drift_facts(run.rows) if is_drift(run.rows) else step_facts(run.trained, depth=run.depth)
        trained = [*facts, ("languages", str(len(run.languages)), "")]
        return [{"label": label, "value": value, "rest": rest} for label, value, rest in trained]
    if is_lookup(run.rows):
        return [{"label": label, "value": value, "rest": rest} for label, value, rest in lookup_facts(run.rows)]
    if is_stitch(run.rows):
        return [{"label": label, "value": value, "rest": rest} for label, value, rest in stitch_facts(run.rows)]
    lead = _lead(run)
    if lead is None:
        return []
    best = best_layer(lead)
    place = lead.place(best)
    chance = above_floor(lead, best) is False
    layer = ("highest at layer" if chance else "best layer", str(best), f"of {run.depth or lead.layers[-1]}")
    facts = [layer, (measure_name(lead), number(lead.value[place]), "")]
    if lead.floor[place] == lead.floor[place]:
        facts.append(("by chance", number(lead.floor[place]), ""))
    facts.append(("languages", str(len(run.languages)), ""))
    if lead.n[1]:
        low, high = lead.n
        facts.append(
            (
                "words a pair" if lead.measure == "word_agreement" else "sentences a pair",
                f"{low:,}" if low == high else f"{low:,} to {high:,}",
                "",
            )
        )
    return [{"label": label, "value": value, "rest": rest} for label, value, rest in facts]


def flatten(record: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """A nested record as labelled lines; a group of short values is one line, and empty values are left out.

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


def _version() -> str:
    try:
        return metadata.version("isogloss")
    except metadata.PackageNotFoundError:
        return ""
