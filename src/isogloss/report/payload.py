"""What the page knows: runs as plain lists and numbers, small enough to travel inside one file.

Curves are made and averaged here, from all rows, by the same functions the verdict uses; the page only draws them.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd

from isogloss.report.folder import RunFolder
from isogloss.report.languages import COLOURS, colour, display_names, shape, text_colour
from isogloss.report.meanings import MEANINGS, VARIANTS, meaning
from isogloss.report.phrases import measure_name
from isogloss.report.points import WordMap, word_map
from isogloss.report.scripts import characters_by_script
from isogloss.report.steppayload import charts, step_payload
from isogloss.report.summary import (
    Curve,
    alike,
    average,
    best_layer,
    central_language,
    curves,
    leading,
    overall,
    pairs_repeat,
)
from isogloss.report.table import table_payload

PANELS = ("p@1", "cka", "word_agreement", "aer", "anisotropy")
COMPARED = ("p@1_mean", "p@1_behind", "cka_mean", "cka_behind")  # part of the curves of p@1 and cka
NOT_DRAWN = frozenset(
    ("p@5", "p@10", "mrr", "duplicates", "truncated", "gap", "relative_gap", "chosen_step", "chosen_rate", "skipped",
     "coverage", "identical", "vocabulary", "learned_from",
     *COMPARED)
)  # fmt: skip
SHADES = ("#f5f1e6", "#d9e4d3", "#a5cbbf", "#62a5a6", "#2f7b8c", "#1b5270", "#12294a")
VARIANT_ORDER = ("centred", "cosine", "csls", "debiased", "itermax")


def payload(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Everything the page draws, as JSON-ready values."""
    codes = list(dict.fromkeys(code for run in runs for code in run.languages))
    names = display_names(codes)
    return {
        "languages": [
            {
                "code": code,
                "name": names[code],
                "colour": colour(place),
                "ink": text_colour(place),
                "shape": shape(place),
            }
            for place, code in enumerate(codes)
        ],
        "shades": SHADES,
        "run_colours": COLOURS,
        "variants": VARIANTS,
        "panels": _panels(runs),
        "runs": [run_payload(run) | _trained(run, names) for run in runs],
        **({} if all(run.trained.empty for run in runs) else {"charts": charts(runs)}),
    }


def _trained(run: RunFolder, names: Mapping[str, str]) -> dict[str, Any]:
    return {} if run.trained.empty else {"steps": step_payload(run, names)}


def run_payload(run: RunFolder) -> dict[str, Any]:
    """One run: its curves, their averages, its references without a layer, its word map and its table."""
    first = leading(run.mapped)
    points = None if run.points is None else word_map(run.points)
    layers = [int(layer) for layer in run.mapped["layer"].dropna().unique()] + list(points.layers if points else ())
    return {
        "name": run.name,
        "model": run.model,
        **({} if run.depth is None else {"depth": run.depth}),
        "data": run.data,
        "languages": run.languages,
        "centre": central_language(run.rows),
        "last_layer": max(layers, default=0),
        "lead": None if first is None else {"measure": first[0], "variant": first[1]},
        "curves": [entry for measure, variant in drawn(run) for entry in _curves(run, measure, variant)],
        "references": _references(run.mapped),
        "map": None if points is None else map_payload(points),
        "table": table_payload(run.rows),
    }


def drawn(run: RunFolder) -> list[tuple[str, str]]:
    """The measures and variants with a value at two layers or more, the known ones first."""
    layered = run.mapped[run.mapped["layer"].notna() & ~run.mapped["measure"].isin(NOT_DRAWN)]
    known = layered[["measure", "variant", "layer"]].drop_duplicates()
    counts = Counter(zip(known["measure"].astype(str), known["variant"].astype(str), strict=True))
    pairs = [pair for pair, count in counts.items() if count > 1]
    return sorted(pairs, key=lambda pair: (_place(pair[0], PANELS), _place(pair[1], VARIANT_ORDER)))


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _panels(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    panels: dict[str, list[str]] = {}
    for run in runs:
        for measure, variant in drawn(run):
            variants = panels.setdefault(measure, [])
            if variant not in variants:
                variants.append(variant)
    return [
        {
            "measure": measure,
            "variants": sorted(panels[measure], key=lambda variant: _place(variant, VARIANT_ORDER)),
            "title": meaning(measure).title,
            "words": meaning(measure).words,
            "better": meaning(measure).better,
            "span": meaning(measure).span,
            "known": measure in MEANINGS,
        }
        for measure in sorted(panels, key=lambda name: _place(name, PANELS))
    ]


def _curves(run: RunFolder, measure: str, variant: str) -> list[dict[str, Any]]:
    """The average first, then the averages of each data set where pairs occur in several, then the members."""
    parts = curves(run.mapped, measure, variant)
    mean = overall(run.mapped, measure, variant)
    if mean is None:
        return []
    found = [{**curve_payload(mean), "mean": True}]
    if pairs_repeat(parts):
        for data in dict.fromkeys(part.data for part in parts):
            one = average([part for part in parts if part.data == data])
            found += [] if one is None else [{**curve_payload(one), "mean": True, "only": data}]
    return found + [curve_payload(part) for part in parts]


def curve_payload(curve: Curve) -> dict[str, Any]:
    """One curve; lists that hold nothing are left out."""
    lists = {
        "value": _compact(curve.value),
        "low": _compact(curve.low),
        "high": _compact(curve.high),
        "floor": _compact(curve.floor),
    }
    coordinates = {"data": curve.data, "source": curve.source, "target": curve.target, "seed": curve.seed}
    return {
        "measure": curve.measure,
        "variant": curve.variant,
        "name": measure_name(curve),
        **{name: text for name, text in coordinates.items() if text},
        "layers": list(curve.layers),
        **{name: numbers for name, numbers in lists.items() if any(number is not None for number in numbers)},
        "n": list(curve.n),
        "members": curve.members,
        "best": best_layer(curve),
        "alike": alike(curve),
        **({"compared": True} if curve.tied is not None else {}),
    }


def _compact(values: Sequence[float]) -> list[float | None]:
    """Five digits: more than a pixel shows, and rounding once more rarely differs from rounding the number itself."""
    return [float(f"{value:.5g}") if isfinite(value) else None for value in values]


def _references(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Values without a layer that belong beside a curve, such as a statistical aligner's error."""
    chosen = rows[rows["layer"].isna() & rows["value"].notna() & rows["measure"].isin(["aer"])]
    return [
        {"measure": entry.measure, "variant": entry.variant, "source": entry.source, "target": entry.target}
        | {"value": float(f"{entry.value:.5g}")}
        for entry in chosen.itertuples(index=False)
    ]


def map_payload(points: WordMap) -> dict[str, Any]:
    """The word map with positions as whole thousandths: x then y, one list a layer."""
    whole = (points.positions * 1000).round().astype(int)
    return {
        "layers": list(points.layers),
        "language": list(points.languages),
        "word": list(points.words),
        "pair": list(points.pairs),
        "x": whole[:, :, 0].tolist(),
        "y": whole[:, :, 1].tolist(),
        "total": points.total,
        "kept": points.kept,
        "scripts": {script: letters[:6] for script, letters in characters_by_script(points.words).items()},
    }


def script_safe_json(value: Mapping[str, Any]) -> str:
    r"""JSON that cannot end or open anything inside a `<script>` block: `<`, `>`, `&`, U+2028 and U+2029 are escaped.

    >>> script_safe_json({"word": "</script>"})
    '{"word":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    # A lone surrogate can be in a Python string but not in a UTF-8 file.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
