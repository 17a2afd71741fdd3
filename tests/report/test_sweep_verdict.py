"""Jobs of a sweep that trains, compared in a sentence."""

import numpy as np
import pytest
from scipy import stats

from isogloss.report.page import sweep_sentences
from isogloss.runs.table import frame, row

ENDS = {"queue": (0.10, 0.12, 0.17), "batch": (0.2, 0.22, 0.24)}


def made(ends=ENDS, data=("talk",), measure="p@1_mean"):
    """Two layers, of which the second ends higher, read at step 0, on the way, and at the end."""
    rows = []
    for kind, values in ends.items():
        for seed, value in enumerate(values):
            for name in data:
                at = {
                    "model": "mini",
                    "plan": f"tlm+{kind}",
                    "settings": {"negatives": kind},
                    "method": "centred",
                    "data": name,
                    "floor": 0.01,
                }
                for step, found in ((0, 0.05), (5, 0.9), (10, value)):
                    rows.append(row(measure, found, layer=2, step=step, seed=seed, n=90, **at))
                    rows.append(row(measure, 0.04, layer=1, step=step, seed=seed, n=90, **at))
    return frame(rows)


def interval(values):
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"


def test_kinds_of_jobs_are_compared_by_their_means_over_seeds_before_and_after():
    told = [f"tlm+{kind} negatives:{kind} from 0.050 to {interval(some)}, 3 seeds" for kind, some in ENDS.items()]
    head = "Mean P@1 at layer 2, where all jobs together end highest (chance 0.010): "
    assert sweep_sentences(made()) == [f"{head}{told[0]}; {told[1]}."]


def test_several_data_sets_of_a_job_are_one_mean_and_no_more_seeds():
    rows = made(data=("talk", "news"))
    rows.loc[(rows.data == "news") & (rows.layer == 2) & (rows.step == 10), "value"] += 0.1
    assert interval([value + 0.05 for value in ENDS["queue"]]) + ", 3 seeds" in sweep_sentences(rows)[0]


def test_one_seed_has_no_interval_and_models_are_named_where_they_differ():
    rows = made({"queue": (0.3,), "batch": (0.2,)})
    assert "tlm+queue negatives:queue from 0.050 to 0.300; tlm" in sweep_sentences(rows)[0]
    both = frame([*rows.to_dict("records"), *rows.assign(model="other").to_dict("records")])
    assert "other tlm+batch negatives:batch from 0.050 to 0.200" in sweep_sentences(both)[0]
    plain = frame([{**one, "plan": "", "settings": ""} for one in both.to_dict("records") if "queue" in one["plan"]])
    assert sweep_sentences(plain)[0].endswith(": mini from 0.050 to 0.300; other from 0.050 to 0.300.")


@pytest.mark.parametrize("rows", [made({"queue": (0.3,)}), made(measure="loss"), frame([])])
def test_one_job_or_none_that_reads_retrieval_is_not_compared(rows):
    assert sweep_sentences(rows) == []
