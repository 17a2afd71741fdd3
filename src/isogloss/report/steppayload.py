"""What the page knows of a training: its panels as plain lists, thinned to what a screen can show."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from isogloss.report.folder import RunFolder
from isogloss.report.stepcurves import thin
from isogloss.report.steplabels import about, basis, line_look, line_name, pooled_name, titled
from isogloss.report.steps import Line, Panel, best_panel

MOST_STEPS, MOST_STEPS_BY_LAYER = 400, 80
DASHES = ("", "6 3", "2 2")


def charts(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """The charts of the page, one a measure and variant; units and layers are chosen inside a chart."""
    found: dict[str, Panel] = {}
    for run in runs:
        for panel in run.panels:
            found.setdefault(chart_key(panel), panel)
    return [
        {
            "key": key,
            "title": titled(panel, unit=False),
            "words": about(panel).words,
            "better": about(panel).better,
            "span": about(panel).span,
            "log": about(panel).log,
            "layered": panel.layer is not None,
        }
        for key, panel in found.items()
    ]


def chart_key(panel: Panel) -> str:
    """What panels of one chart share; a measure taken by layer and without one has two charts."""
    return "\u0000".join((panel.measure, panel.variant, "" if panel.layer is None else "layer"))


def step_payload(run: RunFolder, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every panel of a run, with its lines ready to draw; `best` marks the layer that leads at the last step."""
    found = run.panels
    languages = list(names)
    best = {
        id(best_panel([one for one in found if chart_key(one) == key])) for key in dict.fromkeys(map(chart_key, found))
    }
    return [
        {
            "chart": chart_key(panel),
            "unit": panel.unit,
            "layer": panel.layer,
            "best": id(panel) in best,
            **({"plans": True} if panel.plans else {}),
            "basis": " ".join(filter(None, (basis(panel), _left_out(panel)))),
            "lines": [_line(panel, line, names, look=line_look(panel, line, languages)) for line in panel.lines],
        }
        for panel in found
    ]


def _line(panel: Panel, line: Line, names: Mapping[str, str], *, look: tuple[str, int]) -> dict[str, Any]:
    curve = thin(line.curve, most=_most(panel))
    lists = {name: _compact(getattr(curve, name)) for name in ("value", "low", "high", "floor")}
    if not line.leads:
        lists["floor"] = []  # chance is drawn once, with the leading line
    return {
        "code": line.code,
        "label": line_name(line, names, pooled=pooled_name(panel)),
        "colour": look[0],
        "dash": DASHES[look[1]],
        "leads": line.leads,
        "band": line.leads or panel.layer is None or panel.plans,
        "members": curve.members,
        "steps": list(curve.steps),
        "n": list(curve.n),
        **{name: values for name, values in lists.items() if any(value is not None for value in values)},
    }


def _most(panel: Panel) -> int:
    return MOST_STEPS if panel.layer is None else MOST_STEPS_BY_LAYER


def _left_out(panel: Panel) -> str:
    total, most = max(len(line.curve.steps) for line in panel.lines), _most(panel)
    return "" if total <= most else f"Drawn: {most} of {total:,} readings; all are in the run's rows."


def _compact(values: Sequence[float]) -> list[float | None]:
    return [float(f"{value:.5g}") if isfinite(value) else None for value in values]
