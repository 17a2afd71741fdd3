"""Run folders as `isogloss map` leaves them, made up: languages meet in the middle layers, words drift with them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pandas as pd

from isogloss.runs import table

LISTED = {
    "en": "book house water school peace friend night river bread light winter garden mother street music",
    "nl": "boek huis water school vrede vriend nacht rivier brood licht winter tuin moeder straat muziek",
    "ru": "книга дом вода школа мир друг ночь река хлеб свет зима сад мать улица музыка",
    "zh": "书 房子 水 学校 和平 朋友 夜晚 河流 面包 光 冬天 花园 母亲 街道 音乐",
    "ar": "كتاب بيت ماء مدرسة سلام صديق ليل نهر خبز ضوء شتاء حديقة أم شارع موسيقى",
}
WORDS = {code: words.split() for code, words in LISTED.items()}
HOSTILE = (
    "<script>alert(1)</script>",
    "</script>",
    "<b>x</b>",
    "&amp;",
    "\"double\" 'single'",
    "\u2028line\u2029",
    "%{x}",
)
HOSTILE_NAME = "<img src=x onerror=window.broken=true>"


@dataclass(frozen=True)
class Shape:
    """How a made-up run looks: where the languages meet, how high, and how far each language lies from the others."""

    languages: Sequence[str] = ("en", "nl", "ru", "zh", "ar")
    layers: int = 12
    meet: float = 7.6
    height: float = 0.85
    n: int = 1000
    words: int = 90
    seed: int = 0
    model: str = "made-up-encoder"
    data: str = "made-up text"
    pairs: str = "all"


def write_run(
    folder: Path, shape: Shape | None = None, *, hostile: bool = False, csv: bool = False, points: bool = True
) -> Path:
    """A whole run folder."""
    shape = shape or Shape()
    folder.mkdir(parents=True, exist_ok=True)
    frame = table.frame(rows(shape))
    if csv:
        frame.to_csv(folder / "rows.csv", index=False)
    else:
        frame.to_parquet(folder / "rows.parquet")
    record = {
        "command": "map",
        "arguments": {"model": shape.model, "languages": list(shape.languages), "batch": 64},
        "seed": shape.seed,
        "versions": {"torch": "2.6.0", "isogloss": "0.1.0"},
        "hardware": {"device": "cpu"},
        "hashes": {"model": "3f5a", "data": {"en.txt": "9c1e"}},
        "started": "2026-01-01T10:00:00+00:00",
        "finished": "2026-01-01T10:03:00+00:00",
        "status": "finished",
        "model": HOSTILE_NAME if hostile else shape.model,
        "notes": ["12 sentences of nl were longer than 512 tokens and were cut"] + ([HOSTILE[0]] if hostile else []),
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    if points:
        word_points(shape, hostile=hostile).to_parquet(folder / "points.parquet")
    return folder


def rows(shape: Shape) -> list[dict]:
    """The rows of a map."""
    common = {"model": shape.model, "data": shape.data, "seed": shape.seed}
    sentence, word = {"unit": "sentence", **common}, {"unit": "word", **common}
    random = np.random.default_rng(shape.seed)
    made = []
    centre, second, *_ = shape.languages
    wanted = lambda a, b: shape.pairs == "all" or centre in (a, b)  # noqa: E731
    for layer in range(shape.layers + 1):
        for a, b in combinations(shape.languages, 2):
            if wanted(a, b):
                pair = {"layer": layer, "source": a, "target": b, "floor": 0.0, "method": "debiased", **sentence}
                made.append(scored("cka", 0.9 * level(shape, layer, a, b), shape.n, 0.01, **pair))
        for a, b in permutations(shape.languages, 2):
            if not wanted(a, b):
                continue
            pair = {"layer": layer, "source": a, "target": b}
            base = level(shape, layer, a, b) * (0.98 if a > b else 1.0)
            for method, factor in (("cosine", 0.7), ("centred", 1.0), ("csls", 1.06)):
                for measure, more in (("p@1", 1.0), ("p@5", 1.08), ("p@10", 1.12), ("mrr", 1.04)):
                    value = min(0.99, base * factor * more + random.normal(0, 0.004))
                    how = {"method": method, "floor": 1 / shape.n, **sentence}
                    made.append(scored(measure, value, shape.n, 0.03, **pair, **how))
            how = {"method": "centred", "floor": 0.11, **word}
            made.append(scored("word_agreement", 0.15 + 0.7 * base, 4 * shape.n, 0.012, **pair, **how))
        for place, language in enumerate(shape.languages):
            value = 0.15 + 0.03 * place + 0.6 * (layer / shape.layers) ** 2
            made.append(table.row("anisotropy", value, n=shape.n, layer=layer, source=language, **sentence))
        value = 0.62 - 0.4 * level(shape, layer, centre, second)
        pair = {"layer": layer, "source": centre, "target": second, "method": "itermax"}
        made.append(scored("aer", value, shape.n, 0.015, **pair, **word))
    statistical = {"source": centre, "target": second, "method": "statistical"}
    made.append(table.row("aer", 0.34, n=shape.n, **statistical, **word))
    made.append(table.row("duplicates", 3, n=shape.n, source=centre, **sentence))
    made.append(table.row("truncated", 12, n=shape.n, source=second, **sentence))
    return made


def scored(measure: str, value: float, n: int, margin: float, **rest) -> dict:
    """A row with an interval inside [0, 1]."""
    value = float(np.clip(value, 0.0, 1.0))
    return table.row(measure, value, low=max(0.0, value - margin), high=min(1.0, value + margin), n=n, **rest)


def level(shape: Shape, layer: int, a: str, b: str) -> float:
    """How well two languages meet at a layer: a hill around `meet`, lower for languages further down the list."""
    distance = shape.languages.index(a) + shape.languages.index(b)
    hill = np.exp(-(((layer - shape.meet) / (0.33 * shape.layers)) ** 2))
    return float(shape.height * (0.08 + 0.92 * hill) * 0.955**distance)


def word_points(shape: Shape, *, hostile: bool = False) -> pd.DataFrame:
    """Words of each language around a shared place, pulled towards their language's own corner away from `meet`."""
    random = np.random.default_rng(shape.seed + 1)
    meanings = random.normal(size=(shape.words, 2))
    corners = {
        code: 2.6 * np.array([np.cos(turn), np.sin(turn)])
        for code, turn in zip(shape.languages, np.linspace(0, 5, len(shape.languages)), strict=True)
    }
    found = []
    jitter = {code: random.normal(size=(shape.words, 2)) for code in shape.languages}
    for layer in range(shape.layers + 1):
        apart = 1 - np.exp(-(((layer - shape.meet) / (0.3 * shape.layers)) ** 2))
        turn = 0.4 * layer
        spin = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        for code in shape.languages:
            places = (meanings + (0.08 + 0.5 * apart) * jitter[code] + apart * corners[code]) @ spin * (1 + layer)
            for pair, (x, y) in enumerate(places):
                found.append((layer, code, word(code, pair, hostile=hostile), pair, x, y))
    return pd.DataFrame(found, columns=["layer", "language", "word", "pair", "x", "y"])


def word(code: str, pair: int, *, hostile: bool) -> str:
    """The word of a language in a translation group."""
    if hostile and pair < len(HOSTILE):
        return HOSTILE[pair] + ("" if code == "en" else f" {code}")
    known = WORDS.get(code, [f"{code}word"])
    return known[pair % len(known)] + ("" if pair < len(known) else str(pair // len(known)))
