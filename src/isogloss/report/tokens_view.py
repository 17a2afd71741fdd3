"""The page of `tokens`: the cost of a tokenizer for each language, in sentences, a table and a figure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from isogloss.figure import DARK, NOTHING, Figure, Panel, Table, number, percent, printable
from isogloss.measures.registry import describe
from isogloss.measures.statistics import Interval
from isogloss.report.curves import Curve, Fact, RunFolder, View, curves, language_name, listed

MANY_UNKNOWN, MANY_BYTES = 0.01, 0.05  # larger shares of the tokens are mentioned in the verdict
SHARES = ("unknown_tokens", "byte_tokens")
COLUMNS = ("premium", "tokens_per_word", "tokens_per_character", *SHARES, "bits_per_byte")
METHODS = {"causal": "the likelihood of all tokens", "masked": "a pseudo-likelihood of masked tokens"}
MOST_NAMED = 6


@dataclass(frozen=True)
class TextCosts:
    """The costs of the languages of one text.

    Attributes:
        data: The name of the text.
        languages: Language codes, in descending order of cost.
        centre: The reference language of premiums.
        method: The method of bits per byte.
        costs: Each measure as a curve along the languages.
    """

    data: str
    languages: Sequence[str]
    centre: str
    method: str
    costs: Mapping[str, Curve]

    def readings(self, measure: str) -> list[tuple[str, Interval]]:
        """The names of the languages that have the measure, each with its reading, in descending order of cost."""
        readings = self.costs[measure].readings if measure in self.costs else {}
        return [(language_name(self.languages[at]), reading) for at, reading in readings.items()]


def text_costs(rows: pd.DataFrame) -> list[TextCosts]:
    """The costs for each text of a run, in order of appearance."""
    texts = []
    for (_, data, _), own in rows[rows["measure"].isin(COLUMNS)].groupby(["model", "data", "seed"], sort=False):
        read = own[own["measure"] == "premium"]
        premiums = dict(zip(read["source"], read["value"], strict=True))
        languages = sorted(own["source"].unique(), key=lambda language: -premiums.get(language, 0.0))
        costs = curves(own.assign(layer=own["source"].map(languages.index)), by=("measure",))
        centre, method = (next(filter(None, own[name]), "") for name in ("target", "method"))
        by_measure = {curve.measure: curve for curve in costs}
        texts.append(TextCosts(str(data), languages, centre or own["source"].iloc[0], method, by_measure))
    return texts


def sentences(text: TextCosts) -> Iterator[str]:
    """The sentences of the verdict on one text."""
    if premiums := text.readings("premium"):
        (dearest, most), (cheapest, least) = premiums[0], premiums[-1]
        to = f"; the cheapest, {cheapest}, takes {least} times" if len(premiums) > 1 else ""
        centre = language_name(text.centre)
        yield f"{dearest} costs {most} times the tokens of {centre} for the same {most.n:,} sentences{to}."
    own = language_name(text.centre if text.centre in text.languages else text.languages[0])
    words, letters = (dict(text.readings(f"tokens_per_{unit}")).get(own, NOTHING) for unit in ("word", "character"))
    yield f"{own} itself takes {words} tokens a word and {letters} a character."
    if unknown := _named(text, "unknown_tokens", MANY_UNKNOWN):
        yield f"Unknown tokens hide costs, since an unknown word is one token whatever its length: {unknown}."
    if pieces := _named(text, "byte_tokens", MANY_BYTES):
        yield f"Many tokens are single bytes of a character that has no piece of its own: {pieces}."
    if bits := sorted(text.readings("bits_per_byte"), key=lambda reading: reading[1].value):
        (easiest, fewest), (hardest, most) = bits[0], bits[-1]
        to = f", up to {most} in {hardest}" if len(bits) > 1 else ""
        yield f"The model spends {fewest} bits a byte in {easiest}{to} ({METHODS.get(text.method, text.method)})."


def _named(text: TextCosts, measure: str, least: float) -> str:
    """The languages in which a share is at least `least`, in descending order, as text."""
    large = [(reading.value, name) for name, reading in text.readings(measure) if reading.value >= least]
    large.sort(key=lambda share: -share[0])
    names = [f"{percent(share)}% of {name}" for share, name in large[:MOST_NAMED]]
    names += [f"{len(large) - MOST_NAMED} more"] if len(large) > MOST_NAMED else []
    return listed(names) if names else ""


def table(text: TextCosts) -> Table:
    """The table of languages by measures."""
    shown = [name for name in COLUMNS if name in text.costs]
    rows = []
    for at, language in enumerate(text.languages):
        cells = []
        for name in shown:
            reading = text.costs[name].readings.get(at)
            cells.append(reading.say(percent if name in SHARES else number) if reading else NOTHING)
        rows.append([language_name(language), *cells])
    heads = [f"{describe(name).title}{', %' if name in SHARES else ''}" for name in shown]
    note = f"Premium: over {language_name(text.centre)}. Brackets: jackknife intervals over sentences."
    return Table(text.data, ["", *heads], rows, [note])


def figure(text: TextCosts, model: str, index: int) -> Figure:
    """The figure of each language's premium, and of bits per byte if they were measured."""
    panels = []
    for name in ("premium", "bits_per_byte"):
        if name in text.costs:
            title = describe(name).title
            line = text.costs[name].line(title, dots=True, colour=DARK)
            panels.append(Panel(title, [line], references={"parity": 1.0} if name == "premium" else {}))
    return Figure(
        f"tokens-{index + 1}" if index else "tokens",
        f"What each language costs: {printable(text.data)}",
        f"{printable(model)}. Premium: tokens over those of {language_name(text.centre)} for the same sentences.",
        panels,
        xlabel="language",
        ticks={float(at): language_name(language) for at, language in enumerate(text.languages)},
        columns=2 if len(panels) > 1 else 0,  # each panel with its own axis
    )


def facts(text: TextCosts) -> list[Fact]:
    """The key numbers."""
    premiums = text.readings("premium")
    if not premiums:
        return []
    dearest, premium = premiums[0]
    numbers = [("dearest", dearest, ""), ("its premium", number(premium.value), "")]
    return [*numbers, ("languages", str(len(text.languages)), ""), ("sentences", f"{premium.n:,}", "")]


def view(run: RunFolder) -> View:
    """The page: sentences on each text, the table of languages, and the figure of premiums."""
    texts = text_costs(run.rows)
    said = [f"{text.data}: {each}" if len(texts) > 1 else each for text in texts for each in sentences(text)]
    figures = [figure(text, run.model, index) for index, text in enumerate(texts) if "premium" in text.costs]
    return View("tokens", said, facts(texts[0]), figures, [table(text) for text in texts], heading="tokens")
