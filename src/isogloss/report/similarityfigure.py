"""Languages by layer before a task is learned and after, where `transfer` had parallel text: two panels a task.

To the left CKA of the source with the others, to the right of each model with its start; a line a plan.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.report.folder import RunFolder
from isogloss.report.look import file_name
from isogloss.report.lookup import TASKS
from isogloss.report.paperfigures import write_picture
from isogloss.report.transferverdict import OTHERS


def compared_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Debiased CKA at the layers of models that learned a task, a language at a time."""
    rows = frame[(frame["measure"] == "cka") & frame["layer"].notna() & frame["task"].ne("") & frame["step"].isna()]
    return rows[(rows["target"] != OTHERS) & ~rows["task"].isin(list(TASKS))]


def write_similarity_figures(run: RunFolder, *, out: Path) -> list[Path]:
    """`languages-TASK` for each task and source that languages were compared for."""
    rows = compared_rows(run.rows)
    written: list[Path] = []
    groups = list(rows.groupby(["model", "task", "source"], sort=False))
    for (model, task, source), some in groups:
        lines = some["other_layer"].isna(), some["other_model"].ne("")
        titles = f"{source} with the others", "each model with its start"
        variants = list(dict.fromkeys(some["variant"]))
        panels = [Panel(title, _lines(some[kept], variants)) for title, kept in zip(titles, lines, strict=True)]
        caption = (
            f"{model}, {task} from {source}: debiased linear CKA on parallel text, mean over "
            f"{some['target'].nunique()} languages and all seeds. Layer 0 is the embedding output."
        )
        end = "" if len(groups) == 1 else "-" + "-".join(map(file_name, (str(source), str(model))))
        picture = Figure(
            f"languages-{file_name(str(task))}{end}", f"Languages by layer, {task}", caption,
            [panel for panel in panels if panel.lines], "CKA", xlabel="layer",
        )  # fmt: skip
        written += write_picture(picture, out)
    return written


def _lines(rows: pd.DataFrame, variants: Sequence[str]) -> list[Line]:
    """A line for each variant that is there, in the same colour in every panel."""
    means = rows.groupby(["variant", "layer"], sort=False)["value"].mean()
    found = []
    for hue, variant in enumerate(variants):
        if variant in means.index:
            line = means[variant].sort_index()
            layers, values = [int(layer) for layer in line.index], [float(one) for one in line]
            found.append(Line(str(variant), layers, values, hue=hue))
    return found
