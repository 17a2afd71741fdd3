"""The paper's figures as tables, published beside measured where it printed numbers, and Table 1."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isogloss.figure import NOTHING, Table, number, percent, signed
from isogloss.papers.evidence import LEAST, Seeds, over
from isogloss.papers.wu2020.published import (
    BILINGUAL,
    DEFAULT,
    ENGLISH,
    FIGURE_7,
    FIGURE_7_MEANS,
    KINDS,
    MONOLINGUAL,
    NAMES,
    TABLE_1,
    TABLE_1_TARGETS,
    TASKS,
)
from isogloss.papers.wu2020.reading import Curves, Results, Value, averaged, over_share
from isogloss.papers.wu2020.relations import WAY
from isogloss.papers.wu2020.rows import FORMS
from isogloss.papers.wu2020.trials import STITCHED as STITCHED_TASKS
from isogloss.recipes.stitch import STITCHED, UNMAPPED

RETRIEVAL = (
    "raw cosine", "centred inductive cosine", "centred transductive cosine", "procrustes cosine", WAY,
    "procrustes+iterative transductive cosine", "procrustes+iterative transductive csls",
)  # fmt: skip
FORM_NAMES = {"cka": "debiased", "cka_biased": "biased", "cka_uncentred": "as printed"}


def tables(rows: pd.DataFrame) -> list[Table]:
    """All tables the rows allow."""
    found = Results(rows)
    made = [
        _means(found), *(_figure_7(found, target) for target in found.targets("cka")), _figure_6(found), _ways(found),
        *(_figure_5(found, task) for task in STITCHED_TASKS), _figure_4(found), _table_1(found), _models(found),
    ]  # fmt: skip
    return [table for table in made if table.rows]


def _means(found: Results) -> Table:
    lines = []
    for target in found.targets("cka"):
        for form in FORMS:
            cells = [_seeds(found.cka_mean(kind, target, form)) for kind in KINDS]
            lines.append([f"{found.source}-{target}, {FORM_NAMES[form]}", *cells])
        if found.source == ENGLISH and target in FIGURE_7_MEANS:
            lines.append([f"{found.source}-{target}, published", *(f"{one:.2f}" for one in FIGURE_7_MEANS[target])])
    notes = [
        "CKA of sentence vectors, a mean over layers 0 to 8. As printed: the paper's formula, which removes no means. "
        "Debiased: about 0 for vectors that have nothing to do with each other. Published: of models 768 wide.",
    ]
    return Table("Figure 7, means: how alike English and another language are", ["", *KINDS], lines, notes)


def _figure_7(found: Results, target: str) -> Table:
    curves = {kind: found.cka(kind, target) for kind in KINDS}
    known = FIGURE_7.get(target, ()) if found.source == ENGLISH else ()
    lines = []
    for layer in sorted({layer for one in curves.values() for layer in one}):
        cells = [str(layer)]
        for place, kind in enumerate(KINDS):
            cells.append(_seeds(curves[kind].get(layer, {})))
            cells.append(f"{known[layer][place]:.2f}" if layer < len(known) else NOTHING)
        lines.append(cells)
    columns = ["layer", *(cell for kind in KINDS for cell in (kind, "published"))]
    note = "Debiased CKA; brackets hold t intervals over seeds, where there are three. Published: biased."
    return Table(f"Figure 7, {found.source}-{target}", columns, lines, [note])


def _figure_6(found: Results) -> Table:
    targets = found.targets("retrieval")
    curves = [found.retrieval(kind, one) for kind in (MONOLINGUAL, BILINGUAL) for one in targets]
    columns = ["layer", *(f"{one}, {kind}" for kind in ("two models", "bilingual") for one in targets)]
    notes = [
        f"P@1 of Tatoeba's sentences from {found.source}, nearest by cosine, after a rotation with iterative "
        "normalisation, means of the text that was learned from. The paper prints a graphic only.",
    ]
    return Table("Figure 6: sentences found after a rotation", columns, _by_layer(curves), notes)


def _ways(found: Results) -> Table:
    lines = []
    for way in RETRIEVAL:
        cells = []
        for target in found.targets("retrieval"):
            curve = averaged(found.retrieval(MONOLINGUAL, target, way))
            best = max(curve, key=lambda layer: curve[layer]) if curve else 0
            cells.append(f"{curve[best]:.3f} at {best}" if curve else NOTHING)
        if any(cell != NOTHING for cell in cells):
            lines.append([way, *cells])
    note = "Two models. Inductive: means of the text that was learned from; transductive: of the test's own sentences."
    return Table("Figure 6, ways: P@1 at each way's best layer", ["", *found.targets("retrieval")], lines, [note])


def _figure_5(found: Results, task: str) -> Table:
    targets = found.targets(f"stitch {task}")
    kinds = ((MONOLINGUAL, STITCHED, "stitched"), (BILINGUAL, UNMAPPED, "bilingual"), (BILINGUAL, STITCHED, "mapped"))
    curves, columns = [], ["layer"]
    for target in targets:
        for kind, way, label in kinds:
            if one := found.stitched(task, kind, target, way):
                curves.append(one)
                columns.append(f"{target}, {label}")
    notes = [
        "Points in the target language. Stitched: two models and a rotation; bilingual: the first layers of one model "
        "as they are; mapped: the same with a rotation. Means over seeds of the task's layers. The paper prints a "
        "graphic only.",
    ]
    lines = _by_layer(curves, points=True)
    return Table(f"Figure 5, {NAMES[task]}: a task on layers of two models", columns, lines, notes)


def _figure_4(found: Results) -> Table:
    targets = found.targets("lexicon")
    words = {target: found.words(target) for target in targets}
    layers = sorted({layer for one in words.values() for layer in one})
    lines = [[f"layer {layer}", *(_at(words[one].get(layer)) for one in targets)] for layer in layers]
    for label, unit, kind in (
        ("static, the same words", "word", "static"),
        ("embedding matrix", "piece", MONOLINGUAL),
        ("static, the same pieces", "piece", "static"),
    ):
        cells = [_at(next(iter(found.words(one, unit=unit, kind=kind).values()), None)) for one in targets]
        if any(cell != NOTHING for cell in cells):
            lines.append([label, *cells])
    shares = [found.coverage(one) for one in targets]
    if any(one is not None for one in shares):
        lines.append(["coverage of the test", *(NOTHING if one is None else f"{one:.3f}" for one in shares)])
    note = (
        "P@1 of CSLS after a rotation with iterative normalisation, words of the test dictionary among all words. Only "
        "words that the text has are asked; Chinese is cut into characters. The paper prints a graphic only."
    )
    return Table("Figure 4: words looked up with two models", ["", *targets], lines, [note])


def _table_1(found: Results) -> Table:
    targets = {task: found.targets(f"table-1 {task}") for task in TASKS}
    columns = [""]
    for task, some in targets.items():
        columns += [*(f"{NAMES[task]} {one}" for one in some), "d"] if some else []
    lines = []
    variants = [one for one in TABLE_1 if any(one in found.variants(task) for task in TASKS)]
    for variant in variants:
        cells = [variant]
        for task, some in targets.items():
            if some:
                cells += [_points(found.transferred(task, variant, one)) for one in some]
                losses = found.losses(task, variant, some)
                cells.append(over(losses).say(signed) if losses else NOTHING)
        lines.append(cells)
        if found.source == ENGLISH:
            lines.append(_published(variant, targets))
    if any(targets.values()):
        chance = ["chance"]
        for task, some in targets.items():
            floors = [found.floor(task, DEFAULT, one) for one in some]
            chance += [NOTHING if one is None else f"{100 * one:.1f}" for one in floors] + [NOTHING] * bool(some)
        lines.append(chance)
    notes = [
        "Points in the target language, tuned on English alone; d: the mean over targets less Default's, seed by seed "
        f"of the task's head, with t intervals from {LEAST} on. What is a language's own is frozen in tuning; the "
        "paper's d is over French, Russian and Chinese.",
    ]
    return Table("Table 1: what languages share, and transfer", columns, lines, notes)


def _published(variant: str, targets: dict[str, list[str]]) -> list[str]:
    cells = ["  published"]
    for task, some in targets.items():
        scores, change = TABLE_1[variant][task]
        known = dict(zip(TABLE_1_TARGETS, scores, strict=True))
        cells += [f"{known[one]:.1f}" if one in known else NOTHING for one in some]
        cells += [f"{change:+.1f}"] if some else []
    return cells


def _models(found: Results) -> Table:
    lines = [
        [data, variant, language, number(float(np.mean(list(seeds.values())))), str(len(seeds))]
        for data, variant, language, seeds in found.perplexities()
    ]
    note = "Held-out text, a mean over seeds. Compare models within a language only."
    columns = ["languages", "variant", "language", "perplexity a character", "seeds"]
    return Table("The models", columns, lines, [note])


def _by_layer(curves: Sequence[Curves], *, points: bool = False) -> list[list[str]]:
    layers = sorted({layer for one in curves for layer in one})
    say = _points if points else _shares
    return [[str(layer), *(say(one.get(layer, {})) for one in curves)] for layer in layers]


def _seeds(values: Seeds) -> str:
    return over(values).share if values else NOTHING


def _shares(values: Seeds) -> str:
    return over_share(values).share if values else NOTHING


def _points(values: Seeds) -> str:
    return over_share(values).say(percent) if values else NOTHING


def _at(one: Value | None) -> str:
    return NOTHING if one is None else f"{one.value:.3f}"
