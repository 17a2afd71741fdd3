"""What is said and drawn of a task that was trained in one language and tested in others."""

import pandas as pd
import pytest

from isogloss.report import write_figures
from isogloss.report.transferverdict import is_transfer, results, transfer_verdict
from isogloss.report.verdict import verdict
from isogloss.runs.run import start
from isogloss.runs.table import frame, row


def made(*, seeds=(0,), plans=("freeze:-1", "freeze:8")):
    """Rows of a run: English at 0.8, German at 0.6 and 0.7, Dutch at 0.5, and the oracle a little above."""
    where = {"model": "mini", "task": "nli", "source": "en"}
    found = [row("accuracy", 0.1, n=9, target="en", data="dev", step=3, seed=0, variant=plans[0], **where)]
    for number, plan in enumerate(plans):
        scores = {"en": 0.8, "de": 0.6 + 0.1 * number, "nl": 0.5}
        for end, more in (("", 0.0), (" oracle", 0.05)):
            for seed in [*seeds, *([None] if len(seeds) > 1 else [])]:
                at = {**where, "variant": plan + end, "seed": seed}
                for target, value in scores.items():
                    value = value + more + 0.01 * (seed or 0)
                    found.append(row("accuracy", value, low=value - 0.02, high=value + 0.02, n=90, target=target, **at))
                mean = (scores["de"] + scores["nl"]) / 2 + more
                found.append(row("accuracy", mean, low=mean - 0.01, high=mean + 0.01, target="others", **at))
                gap = {"unit": "accuracy", "target": "others", **at}
                found.append(row("gap", 0.8 - mean, low=0.8 - mean - 0.01, high=0.8 - mean + 0.01, **gap))
    return frame(found)


def test_each_plan_has_a_sentence_and_the_best_for_the_others_is_named():
    assert is_transfer(made()) and not is_transfer(made()[lambda rows: rows.measure != "gap"])
    assert verdict(made()) == transfer_verdict(made()) == [
        "freeze:-1: accuracy 0.800 [0.780, 0.820] in English, 0.550 [0.540, 0.560] in the others, a gap of 0.250 "
        "[0.240, 0.260] (German 0.600, Dutch 0.500).",
        "freeze:8: accuracy 0.800 [0.780, 0.820] in English, 0.600 [0.590, 0.610] in the others, a gap of 0.200 "
        "[0.190, 0.210] (German 0.700, Dutch 0.500).",
        "The others score highest under freeze:8: 0.600 [0.590, 0.610].",
    ]  # fmt: skip


def test_means_over_seeds_stand_for_the_seeds_and_neither_steps_nor_the_oracle_are_results():
    rows = results(made(seeds=(0, 1, 2)))
    assert rows.seed.isna().all() and rows.step.isna().all()
    assert set(rows.variant) == {"freeze:-1", "freeze:8"}
    assert results(made()).seed.eq(0).all()


def test_many_plans_and_several_models_keep_the_verdict_short_and_clear():
    rows = pd.concat([made(), made().assign(model="other")])
    assert transfer_verdict(rows)[0].startswith("mini, nli from English: freeze:-1:")
    many = transfer_verdict(made(plans=tuple(f"freeze:{n}" for n in range(17))))
    assert many[-2] == "3 more plans are in the rows."


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_scores_are_drawn_by_plan(seeds, tmp_path):
    run = start(tmp_path / "run", {"command": "transfer", "model": "mini"})
    run.append(made(seeds=seeds).to_dict("records"))
    run.finish()
    names = {path.name for path in write_figures(tmp_path / "run", tmp_path / "figures")}
    assert {"transfer-nli.png", "transfer-nli.svg"} <= names
