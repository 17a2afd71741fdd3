"""The page of `tokens`: what a tokenizer costs each language, as a premium, in a table, and in sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan

import pandas as pd

from isogloss.figure import DARK, NOTHING, Figure, Line, Panel, Table, number, percent, printable
from isogloss.measures.registry import describe
from isogloss.measures.statistics import Interval
from isogloss.report.curves import Fact, RunFolder, View, language_name, listed
from isogloss.runs.table import records

MANY_UNKNOWN, MANY_BYTES = 0.01, 0.05  # shares of the tokens that are worth a sentence
SHARES = ("unknown_tokens", "byte_tokens")
COLUMNS = ("premium", "tokens_per_word", "tokens_per_character", *SHARES, "bits_per_byte")
METHODS = {"causal": "the likelihood of all tokens", "masked": "a pseudo-likelihood of masked tokens"}
MOST_NAMED = 6


@dataclass(frozen=True)
class Cost:
    """What one language costs on one text: the reading of each measure by its name."""

    language: str
    readings: dict[str, Interval]

    def get(self, measure: str) -> Interval:
        """The reading of a measure; NaN where it was not taken."""
        return self.readings.get(measure, Interval(nan))


@dataclass(frozen=True)
class TextCosts:
    """One text: what each language costs, dearest first; what premiums are over, and how bits were read."""

    data: str
    centre: str
    costs: Sequence[Cost]
    method: str

    @property
    def dear(self) -> list[Cost]:
        """The languages that have a premium."""
        return [cost for cost in self.costs if "premium" in cost.readings]


def text_costs(rows: pd.DataFrame) -> list[TextCosts]:
    """The texts of a run in order of appearance."""
    texts = []
    for (_, data, _), own in rows[rows["measure"].isin(COLUMNS)].groupby(["model", "data", "seed"], sort=False):
        costs = []
        for language, mine in own.groupby("source", sort=False):
            readings = {}
            for entry in records(mine):
                value, low, high = (entry.get(name, nan) for name in ("value", "low", "high"))
                readings[entry["measure"]] = Interval(value, low, high, entry.get("n", 0))
            costs.append(Cost(str(language), readings))
        centre = next((str(code) for code in own["target"] if code), costs[0].language)
        costs.sort(key=lambda cost: -cost.readings["premium"].value if "premium" in cost.readings else 0.0)
        texts.append(TextCosts(str(data), centre, costs, next((str(way) for way in own["method"] if way), "")))
    return texts


def sentences(text: TextCosts) -> Iterator[str]:
    """What was found on one text."""
    centre, dear = language_name(text.centre), text.dear
    if dear:
        n = f"{dear[0].get('premium').n:,}"
        most = f"{dear[0].get('premium')} times the tokens of {centre} for the same {n} sentences"
        least = f"; the cheapest, {language_name(dear[-1].language)}, takes {dear[-1].get('premium')} times"
        yield f"{language_name(dear[0].language)} costs {most}{least if len(dear) > 1 else ''}."
    own = next((cost for cost in text.costs if cost.language == text.centre), text.costs[0])
    told = f"{own.get('tokens_per_word')} tokens a word and {own.get('tokens_per_character')} a character"
    yield f"{language_name(own.language)} itself takes {told}."
    unknown = _named(text, "unknown_tokens", MANY_UNKNOWN)
    if unknown:
        yield f"Unknown tokens hide costs, since an unknown word is one token whatever its length: {unknown}."
    if pieces := _named(text, "byte_tokens", MANY_BYTES):
        yield f"Many tokens are single bytes of a character that has no piece of its own: {pieces}."
    known = sorted((cost for cost in text.costs if "bits_per_byte" in cost.readings), key=_bits)
    if known:
        first, *_, last = [(cost.get("bits_per_byte"), language_name(cost.language)) for cost in (known[0], *known)]
        to = f", up to {last[0]} in {last[1]}" if last != first else ""
        yield f"The model spends {first[0]} bits a byte in {first[1]}{to} ({METHODS.get(text.method, text.method)})."


def _bits(cost: Cost) -> float:
    return cost.get("bits_per_byte").value


def _named(text: TextCosts, measure: str, least: float) -> str:
    """The languages in which a share is at least so large, largest first."""
    found = sorted(
        (cost for cost in text.costs if cost.get(measure).value >= least), key=lambda cost: -cost.get(measure).value
    )
    names = [f"{percent(cost.get(measure).value)}% of {language_name(cost.language)}" for cost in found[:MOST_NAMED]]
    names += [f"{len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []
    return listed(names) if names else ""


def table(text: TextCosts) -> Table:
    """Languages down, measures across."""
    shown = [name for name in COLUMNS if any(name in cost.readings for cost in text.costs)]
    rows = []
    for cost in text.costs:
        cells = []
        for name in shown:
            reading, form = cost.get(name), percent if name in SHARES else number
            cells.append(reading.say(form) if name in cost.readings else NOTHING)
        rows.append([language_name(cost.language), *cells])
    heads = [f"{describe(name).title}{', %' if name in SHARES else ''}" for name in shown]
    note = f"Premium: over {language_name(text.centre)}. Brackets: jackknife intervals over sentences."
    return Table(text.data, ["", *heads], rows, [note])


def figure(text: TextCosts, model: str, index: int) -> Figure:
    """The premium of each language, and bits per byte where they were measured."""
    panels = []
    for name in ("premium", "bits_per_byte"):
        known = [(at, cost.get(name)) for at, cost in enumerate(text.costs) if name in cost.readings]
        if known:
            steps, values = [at for at, _ in known], [reading.value for _, reading in known]
            low, high = ([getattr(reading, end) for _, reading in known] for end in ("low", "high"))
            line = Line(describe(name).title, steps, values, low, high, dots=True, colour=DARK, n=known[0][1].n)
            parity = {"parity": 1.0} if name == "premium" else {}
            panels.append(Panel(describe(name).title, [line], references=parity))
    return Figure(
        f"tokens-{index + 1}" if index else "tokens",
        f"What each language costs: {printable(text.data)}",
        f"{printable(model)}. Premium: tokens over those of {language_name(text.centre)} for the same sentences.",
        panels,
        xlabel="language",
        ticks={float(at): language_name(cost.language) for at, cost in enumerate(text.costs)},
        columns=2 if len(panels) > 1 else 0,  # each with an axis of its own
    )


def facts(text: TextCosts) -> list[Fact]:
    """The few numbers a reader takes away."""
    if not text.dear:
        return []
    dearest = text.dear[0]
    told = [("dearest", language_name(dearest.language), ""), ("its premium", number(dearest.get("premium").value), "")]
    return [*told, ("languages", str(len(text.costs)), ""), ("sentences", f"{dearest.get('premium').n:,}", "")]


def view(run: RunFolder) -> View:
    """The page: sentences on each text, the table of languages, and the premiums."""
    texts = text_costs(run.rows)
    said = [f"{text.data}: {each}" if len(texts) > 1 else each for text in texts for each in sentences(text)]
    figures = [figure(text, run.model, index) for index, text in enumerate(texts) if text.dear]
    return View("tokens", said, facts(texts[0]), figures, [table(text) for text in texts], heading="tokens")
