"""Before and after in one table, then every test by language: inference, questions, retrieval and perplexity."""

from collections.abc import Sequence

import pandas as pd

from isogloss.figure import NOTHING, Table, number, percent, signed
from isogloss.papers.evidence import LEAST, Seeds, no_interval, over, share_over_seeds
from isogloss.papers.pan2021.published import (
    BEFORE,
    BOTH,
    OTHERS_MLQA,
    OTHERS_XNLI,
    RISE,
    SWITCHED,
    TRANSLATED,
    titled,
)
from isogloss.papers.pan2021.reading import Results, less, title
from isogloss.recipes.task_scores import OTHERS

NAMES = {"xnli": "XNLI", "sick": "SICK", "xquad": "XQuAD", "mlqa": "MLQA"}
QUESTIONS = {"xquad": "Table 4a", "mlqa": "Table 4b"}
PUBLISHED = "Published, of other models: accuracy of mBERT (uncased) and XLM, everything trained on all of MultiNLI."


def tables(rows: pd.DataFrame) -> list[Table]:
    """All tables the rows allow."""
    found = Results(rows)
    made = [_overview(found), _inference(found), _translated(found), *(_questions(found, data) for data in QUESTIONS),
            _retrieval(found), _perplexity(found)]  # fmt: skip
    return [one for one in made if one is not None]


def _overview(found: Results) -> Table | None:
    columns: list[tuple[str, str, str, str]] = [
        (f"{NAMES[data]} {title(found.source) if home else 'others'}", measure, data, found.source if home else OTHERS)
        for data, measure in (("xnli", "accuracy"), ("sick", "accuracy"), ("xquad", "answer_f1"), ("mlqa", "answer_f1"))
        for home in ((True, False) if data in ("xnli", "xquad") else (False,))
    ]
    columns = [one for one in columns if any(found.score(*one[1:3], name, one[3]) for name in found.alignments)]
    groups = found.groups()
    lines = []
    for name in found.alignments:
        cells = [
            _moved(found.score(*one[1:3], name, one[3]), found.score(*one[1:3], BEFORE, one[3])) for one in columns
        ]
        cells += [_moved(found.retrieval(name, group), found.retrieval(BEFORE, group)) for group in groups]
        best = found.best_layer(name)
        cells.append(NOTHING if best is None else str(best))
        cells.append(_alike(found, name, best))
        factor = found.factor(name) if name != BEFORE else {}
        cells.append(f"×{_times(over(factor, log=True).value)}" if factor else NOTHING)
        if any(cell != NOTHING for cell in cells):
            lines.append([titled(name), *cells])
    heads = [one[0] for one in columns] + [f"Tatoeba {', '.join(group)}" for group in groups]
    if not lines:
        return None
    notes = [
        "In brackets, what it is more than before, seed by seed; accuracy (zero-shot), F1 and P@1 in points. Others: "
        "the languages besides the source. Tatoeba: centred, both directions, at the layer that is best over all its "
        "languages, chosen on these very sentences. CKA: of XNLI's sentences at that layer. Perplexity: after by "
        "before, the geometric mean over languages. Intervals are in the tables below.",
    ]
    return Table("Table 1: before and after alignment", ["", *heads, "layer", "CKA", "perplexity"], lines, notes)


def _inference(found: Results) -> Table | None:
    names = [name for name in found.alignments if found.score("accuracy", "xnli", name)]
    if not names:
        return None
    languages = found.languages("xnli")
    columns = [("xnli", one) for one in (found.source, *languages, OTHERS)]
    columns += [("sick", one) for one in found.languages("sick") if found.score("accuracy", "sick", names[0], one)]
    lines = _elsewhere(found.source, languages, len(columns))
    lines += [[titled(name), *_cells(found, "accuracy", columns, name)] for name in names]
    heads = [title(one) if data == "xnli" else f"{title(one)} (SICK)" for data, one in columns]
    notes = [f"The paper: both losses {signed(RISE)} points on average over languages, for mBERT."]
    notes += [PUBLISHED] if len(lines) > len(names) else []
    name = f"Table 2: zero-shot accuracy (%) of inference, trained in {title(found.source)}"
    return Table(name, ["", *heads], lines, [*notes, _seeds(found)])


def _elsewhere(source: str, languages: Sequence[str], width: int) -> list[list[str]]:
    """What others published of the same test, where it has these languages."""
    lines = []
    for model, scores in OTHERS_XNLI.items():
        cells = [percent(scores[one]) if one in scores else NOTHING for one in (source, *languages)]
        if set(cells) != {NOTHING}:
            lines.append([f"{model}, published", *cells, *[NOTHING] * (width - len(cells))])
    return lines


def _translated(found: Results) -> Table | None:
    lines, columns = [], [("xnli", one) for one in (found.source, *found.languages("xnli"), OTHERS)]
    columns += [("sick", one) for one in (found.source, *found.languages("sick"))] if found.languages("sick") else []
    for name in (BEFORE, BOTH):
        for way, what in ((TRANSLATED, "translations"), (SWITCHED, "and switched")):
            cells = _cells(found, "accuracy", columns, f"{name} {way}")
            if any(cell != NOTHING for cell in cells):
                lines.append([f"{titled(name)}, {what}", *cells])
    if not lines:
        return None
    heads = [title(one) if data == "xnli" else f"{title(one)} (SICK)" for data, one in columns]
    note = (
        "Trained on pairs in every language at once, XNLI's development sets or SICK's training part; switched: in "
        "half of the examples one of the two sentences is taken from the source."
    )
    return Table("Table 3: translate-train, accuracy (%)", ["", *heads], lines, [note, _seeds(found)])


def _questions(found: Results, data: str) -> Table | None:
    columns = [(data, one) for one in (found.source, *found.languages(data), OTHERS)]
    lines = []
    for name in found.alignments:
        for measure, what in (("answer_f1", "F1"), ("exact_match", "exact")):
            cells = _cells(found, measure, columns, name)
            if any(cell != NOTHING for cell in cells):
                lines.append([f"{titled(name)}, {what}", *cells])
    if not lines:
        return None
    told = "; ".join(f"{name} {percent(f1)} F1, {percent(exact)} exact" for name, (f1, exact) in OTHERS_MLQA.items())
    notes = [f"Published, zero-shot on MLQA's test, the mean over its languages: {told}."] if data == "mlqa" else []
    name = f"{QUESTIONS[data]}: questions of {NAMES[data]} (%), trained on SQuAD"
    return Table(name, ["", *(title(one) for _, one in columns)], lines, [*notes, _seeds(found)])


def _retrieval(found: Results) -> Table | None:
    languages, lines = found.languages("tatoeba"), []
    for name in found.alignments:
        best = found.best_layer(name)
        for layer, what in ((best, "best"), (found.layers[-1] if found.layers else None, "last")):
            if layer is not None and (what == "best" or layer != best):
                scores = [found.layer("p@1", "tatoeba", name, layer, [one]) for one in languages]
                lines.append([f"{titled(name)}, layer {layer}", *(_cell(one) for one in scores)])
    if not lines:
        return None
    note = "Centred cosine, the mean of both directions: at the layer that is best over all languages, and at the last."
    heads = [title(one) for one in languages]
    return Table("Table 5: Tatoeba P@1 (%)", ["", *heads], lines, [note, _seeds(found)])


def _perplexity(found: Results) -> Table | None:
    if not found.spoken:
        return None
    first = [over(found.perplexity(BEFORE, one), log=True) for one in found.spoken]
    lines = [[titled(BEFORE), *(number(one.value) for one in first)]]
    for name in found.alignments:
        factors = [found.factor(name, one) for one in found.spoken]
        if name != BEFORE and any(factors):
            cells = [over(one, log=True).say(_times) if one else NOTHING for one in factors]
            lines.append([titled(name), *(cell if cell == NOTHING else f"×{cell}" for cell in cells)])
    note = "Per token; below the first line, what it is multiplied by. Below 1 the model has become better at the text."
    heads = [title(one) for one in found.spoken]
    return Table("Table 6: what alignment costs, perplexity", ["", *heads], lines, [note, _seeds(found)])


def _times(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else number(factor)


def _cells(found: Results, measure: str, columns: Sequence[tuple[str, str]], variant: str) -> list[str]:
    return [_cell(found.score(measure, data, variant, target)) for data, target in columns]


def _cell(seeds: Seeds) -> str:
    return share_over_seeds(list(seeds.values())).say(percent) if seeds else NOTHING


def _moved(after: Seeds, before: Seeds) -> str:
    """A mean, and how far it moved; what it is compared with itself has not."""
    if not after:
        return NOTHING
    change = less(after, before) if after is not before and after != before else {}
    return percent(over(after).value) + (f" ({signed(over(change).value)})" if change else "")


def _alike(found: Results, name: str, layer: int | None) -> str:
    seeds = {} if layer is None else found.layer("cka", "xnli", name, layer, found.languages("xnli"))
    return f"{over(seeds).value:.2f}" if seeds else NOTHING


def _seeds(found: Results) -> str:
    counts = [len(found.score("accuracy", "xnli", name)) for name in found.alignments]
    counts = [one for one in counts if one] or [0]
    told = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    few = no_interval(min(counts)) if min(counts) < LEAST else "brackets hold t intervals over them"
    return f"Means over {told} seed{'s' * (max(counts) != 1)}; {few}." if max(counts) else "Inference was not run."
