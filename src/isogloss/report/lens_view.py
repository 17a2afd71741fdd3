"""The page of `lens`: at which layer the next token is known, and what is predicted in which language before that."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import pandas as pd

from isogloss.errors import readable, require
from isogloss.figure import DARK, Figure, Line, Panel, Table, printable
from isogloss.measures.registry import describe
from isogloss.recipes.lens import GRID, MASKED
from isogloss.report import curves
from isogloss.report.curves import Curve, Fact, RunFolder, View, average, grouped, language_name, number, select
from isogloss.report.map_view import EMBEDDING

TASKS = {"translation": "Translations", "cloze": "Gaps in sentences"}
ROLES = {"target": "the word asked for", "pivot": "its translation in {}", "source": "the word given"}
LOOKS: Mapping[str, dict[str, Any]] = {"target": {"colour": DARK}, "pivot": {"hue": 1}, "source": {"hue": 2, "dash": 1}}
MOST_COLUMNS, MOST_LETTERS = 13, 9  # columns of a grid, and characters in a cell
MOST_PANELS = 6


def role(curve: Curve) -> str:
    """The role of a curve's word: the one asked for, the one given, or the pivot's."""
    return "target" if curve.condition == curve.target else "source" if curve.condition == curve.source else "pivot"


def word_curves(parts: Sequence[Curve], task: str) -> dict[str, Curve]:
    """The probability of the word by layer and role, averaged over pairs of languages; empty without prompts."""
    words = grouped(select(parts, measure="word_probability", task=task), role)
    return {name: average(words[name]) for name in ROLES if name in words}


def pivot_of(parts: Sequence[Curve]) -> str:
    """The name of the pivot language, which no prompt shows."""
    codes = [part.condition for part in parts if part.measure == "word_probability" and role(part) == "pivot"]
    return language_name(codes[0]) if codes else ""


def next_token(curve: Curve, languages: int) -> str:
    """A sentence on the layer at which the next token is known."""
    top = curve.at[-1]
    half = next(layer for layer in curve.at if curve.readings[layer].value >= curve.readings[top].value / 2)
    read = "" if len(curve.at) == top + 1 else ", the first of those read"
    over = f", averaged over {languages} languages" if languages > 1 else ""
    first = f"{number(curve.first.value)} at layer {curve.at[0]}"
    name = _asked_for(curve)
    return (
        f"The {name} has a probability of {curve.say(top)}, at layer {top}"
        f"{over}, and of {first}; half of what the top gives is reached at layer {half}{read}."
    )


def thinking(parts: Sequence[Curve], task: str, pivot: str) -> Iterator[str]:
    """Sentences on the language that is most probable at each layer while the prompts ask for a word of another."""
    words, leads = word_curves(parts, task), select(parts, measure="pivot_lead", task=task)
    if "target" not in words:
        return
    asked, top, name = words["target"], words["target"].at[-1], TASKS[task]
    basis = f"{curves.span_of(asked.counts)} prompts each, {asked.members} pair{'s' * (asked.members > 1)} of languages"
    if task == "cloze":
        count = len({part.target for part in select(parts, measure="word_probability", task=task)})  # texts may be more
        basis = f"{curves.span_of(asked.counts)} prompts each, {count} language{'s' * (count > 1)}"
    opening = f"{name} ({basis}): at layer {top} the word asked for has a probability of {asked.say(top)}"
    able = asked.readings[top].low > asked.readings[top].floor
    yield f"{opening}." if able else f"{opening}: the model cannot do this, and what it says on the way means little."
    if not able or not leads or "pivot" not in words:
        return
    lead, other = average(leads), words["pivot"]
    ahead = [at for at in lead.at if lead.readings[at].low > 0 and other.readings[at].low > other.readings[at].floor]
    most = max(ahead or other.at, key=lambda at: other.readings[at].value)
    both = f"{other.say(most)}, against {asked.say(most, floor=False)} of the word asked for, at layer {most}"
    if ahead:
        where = curves.name_layers(ahead)
        yield f"{name}: on the way it is nearer to {pivot}, which no prompt shows, at {where}: its word has {both}."
    else:
        yield f"{name}: at no layer is {pivot} ahead of the language asked for; at most its word has {both}."


def figures(parts: Sequence[Curve], run: RunFolder, pivot: str) -> list[Figure]:
    """Figures by layer: words by language, the next token, and the scripts of predictions."""
    words = []
    for task, title in TASKS.items():
        roles = word_curves(parts, task)
        lines = [roles[name].line(ROLES[name].format(pivot), **LOOKS[name]) for name in roles]
        words += [Panel(title, lines, note=f"{title}: n = {curves.span_of(roles['target'].counts)}.")] if lines else []
    tokens = select(parts, measure="next_token_probability")
    lines = [part.line(language_name(part.source), hue=run.languages.index(part.source)) for part in tokens]
    scripts = []
    shares = grouped(select(parts, measure="script_share", task="translation"), attrgetter("target"))
    for target, asked in list(shares.items())[:MOST_PANELS]:
        lined = [average(group).line(script) for script, group in grouped(asked, attrgetter("condition")).items()]
        scripts.append(Panel(f"asked for {language_name(target)}", lined))
    about_words = "Probability of tokens that begin the word, averaged over pairs of languages."
    about_scripts = "Probability of tokens of each script when asked for a word; dashed: their share of the vocabulary."
    drawn = [
        ("lens-words", "Probability of the word by language", about_words, words, "word_probability"),
        ("lens-next", "The next token", "", [Panel("", lines)] if lines else [], "next_token_probability"),
        ("lens-scripts", "Probability by script", about_scripts, scripts, "script_share"),
    ]
    return [
        Figure(name, title, f"{printable(run.model)}. {about} {EMBEDDING}", panels, xlabel="layer", measure=measure)
        for name, title, about, panels, measure in drawn
        if panels
    ]


def grids(cells: pd.DataFrame, model: str) -> list[Figure]:
    """Grids of predictions: tokens or prompts by layer, shaded by the probability of the right token."""
    drawn: list[Figure] = []
    for keys, own in cells.groupby(["data", "task", "source", "target"], sort=False):
        _, task, source, target = map(str, keys)
        shown = curves.spread(sorted(own["layer"].unique()), most=MOST_COLUMNS)
        lines = []
        for (_, label), line in own[own["layer"].isin(shown)].groupby(["item", "label"], sort=False):
            texts = tuple(map(_short, line["said"]))
            lines.append(Line(_short(str(label)), line["layer"].tolist(), line["value"].tolist(), texts=texts))
        if task == "text":
            title = f"{language_name(source)}, a sentence"
            note = "Rows: the tokens of a sentence, which are to be predicted. Cells: the most probable token."
        else:
            pair = language_name(target) if task == "cloze" else f"{language_name(source)} to {language_name(target)}"
            title, note = f"{TASKS[task]}, {pair}", "Rows: the words asked for. Cells: the most probable token."
        drawn.append(
            Figure(
                "-".join(filter(None, ("lens-grid", task, source, target))),
                title,
                f"{printable(model)}. {note} Shades: the probability of the right token. {EMBEDDING}",
                [Panel("", lines, note=f"{note} Shades: the probability of the right token.")],
                xlabel="layer",
                ylabel="token" if task == "text" else "word",
                section="lens-grid",
                measure="next_token_probability",
                page_only=bool(drawn),
            )
        )
    return drawn


def _short(text: str) -> str:
    """The text of a cell: leading and trailing spaces are made visible, and long texts are shortened."""
    seen = printable(text.replace("\n", "⏎"))
    seen = seen.replace(" ", "␣") if not seen.strip() else seen.strip()
    return seen if len(seen) <= MOST_LETTERS else f"{seen[: MOST_LETTERS - 1]}…"


def _asked_for(curve: Curve) -> str:
    """The token that the model is asked for."""
    return MASKED if curve.unit == MASKED else "next token"


def table(parts: Sequence[Curve]) -> Table | None:
    """The measures of the next token at the last layer by language."""
    names = ("next_token_probability", "next_token_mrr", "entropy")
    rows = []
    for source, own in grouped(select(parts, task="text"), attrgetter("source")).items():
        known: Mapping[str, Curve] = {part.measure: part for part in own if part.measure in names}
        if len(known) == len(names):
            rows.append([language_name(source), *(known[name].last.say(curves.digits) for name in names)])
    heads, note = [describe(name).title for name in names], "Brackets: intervals over sentences. Entropy in bits."
    return Table("At the last layer", ["", *heads], rows, [note]) if rows else None


def view(run: RunFolder) -> View:
    """The page: findings, curves by layer, and grids of predictions."""
    parts = curves.curves(run.rows)
    tokens, pivot = select(parts, measure="next_token_probability"), pivot_of(parts)
    facts: list[Fact] = []
    said = []
    if tokens:
        mean = average(tokens)
        said.append(next_token(mean, len({part.source for part in tokens})))
        facts.append((f"{_asked_for(mean)}, at the top", number(mean.last.value), f"layer {mean.at[-1]}"))
    said += [sentence for task in TASKS for sentence in thinking(parts, task, pivot)]
    if words := word_curves(parts, "translation"):
        facts.append(("translation, at the top", number(words["target"].last.value), ""))
        if between := words.get("pivot"):
            facts.append((f"{pivot}, at most", number(between.peak.value), f"layer {between.best}"))
    path, drawn = run.path / GRID, figures(parts, run, pivot)
    lost = run.record.get("status") == "finished" and not path.is_file()
    require(not lost, f"{path} is missing, which a finished run has; the run must be made again")
    if path.is_file():
        with readable(path, "holds no grids of a lens", "the run must be made again"):
            cells = pd.read_parquet(path)
            drawn += grids(cells, run.model) if len(cells) else []
    own = table(parts)
    return View("lens", said, facts, drawn, [own] if own else [], heading="lens")
