"""Scores by plan: a line a language, the source dashed, the mean of the others thick with its interval."""

from collections.abc import Mapping
from math import isnan
from pathlib import Path

from isogloss.report.folder import RunFolder
from isogloss.report.languages import colour
from isogloss.report.look import DARK, QUIET, caption, file_name, new_figure, printable, save
from isogloss.report.meanings import meaning
from isogloss.report.transferverdict import OTHERS, experiments, is_transfer, results

TURNED = 6  # plans from which on their names stand on end


def write_transfer_figures(run: RunFolder, names: Mapping[str, str], *, out: Path) -> list[Path]:
    """`transfer-TASK` for each model, task and source the run has results of."""
    if not is_transfer(run.rows):
        return []
    written: list[Path] = []
    rows = results(run.rows)
    rows = rows[rows["main"]]
    grouped = experiments(rows)
    for (model, task, source), some in grouped.items():
        measure = str(some["measure"].iloc[0])
        plans = list(dict.fromkeys(some["variant"]))
        figure, axes = new_figure(max(6.2, 0.55 * len(plans) + 3.0), 4.0)
        lines = list(dict.fromkeys(zip(some["target"], some["data"], strict=True)))
        codes = list(dict.fromkeys(target for target, _ in lines))
        repeated = [target for target, _ in lines]
        for target, data in lines:
            line = some[(some["target"] == target) & (some["data"] == data)].set_index("variant").reindex(plans)
            value, low, high = (line[name].to_numpy(float) for name in ("value", "low", "high"))
            title = {OTHERS: "mean of the others", source: f"{names.get(source, source)}, trained in"}
            label = title.get(target, names.get(target, target))
            label += f" ({data})" if repeated.count(target) > 1 else ""
            mean = target == OTHERS
            ink = DARK if mean else QUIET if target == source else colour(codes.index(target))
            dash = "--" if target == source else "-"
            axes.plot(
                range(len(plans)), value, dash, color=ink, lw=2.4 if mean else 1.2, marker="o", ms=3.5, label=label
            )
            if (mean or target == source) and len(plans) > 1:
                axes.fill_between(range(len(plans)), low, high, color=ink, alpha=0.15, lw=0)
            elif mean or target == source:  # a band of one point would have no width
                axes.vlines([0], low, high, color=ink, alpha=0.5, lw=2.4 if mean else 1.2)
        floor = some["floor"].mean()
        if not isnan(floor):
            axes.axhline(floor, color=QUIET, lw=1.0, ls=(0, (3, 3)), zorder=0, label="chance")
        axes.set_xticks(range(len(plans)), plans, rotation=90 if len(plans) >= TURNED else 0)
        axes.set_ylabel(meaning(measure).title)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        several = bool(some["seed"].isna().any())
        told = "means and t intervals over seeds" if several else "one seed, bootstrap intervals over examples"
        caption(figure, f"{printable(model)}, {task} from {names.get(source, source)}; {told}.")
        several_models = len({one for one, _, _ in grouped}) > 1
        end = (f"-{source}" if len(grouped) > 1 else "") + (f"-{file_name(model)}" if several_models else "")
        written += save(figure, out, f"transfer-{file_name(task)}{end}")
    return written
