"""The one table: its rows, their settings, means over seeds, and tables of the older schema."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from isogloss.errors import InputError
from isogloss.measures.statistics import Interval
from isogloss.measures.word_alignment import alignment_error_rate
from isogloss.runs.run import read_rows, start
from isogloss.runs.table import COLUMNS, frame, key, mean_rows, records, row, settings_of, training_name, typed, upgrade

FACTS = {"command": "map", "arguments": {}, "seed": 0, "model": "mini", "hashes": {}}
OLD_COLUMNS = (
    *("measure", "value", "low", "high", "floor", "n", "published", "model", "other_model", "layer", "other_layer"),
    *("task", "data", "source", "target", "unit", "variant", "step", "seed"),
)

VARIANTS = [
    ("", {}),
    # how it was measured
    ("centred", {"method": "centred"}),
    ("csls", {"method": "csls"}),
    ("debiased", {"method": "debiased"}),
    ("itermax", {"method": "itermax"}),
    # what was trained
    ("freeze:8", {"plan": "freeze:8"}),
    ("last:6", {"plan": "last:6"}),
    ("reinit:1-2+freeze:0", {"plan": "reinit:1-2+freeze:0"}),
    ("unfreeze:4/epoch", {"plan": "unfreeze:4/epoch"}),
    ("untuned", {"plan": "untuned"}),
    ("tlm+queue", {"plan": "tlm+queue"}),
    ("queue+pull+reset", {"plan": "queue+pull+reset"}),
    ("before", {"plan": "before"}),
    ("30%", {"plan": "30%"}),
    ("freeze:8 centred", {"plan": "freeze:8", "method": "centred"}),
    # which checkpoint
    ("freeze:8 oracle", {"plan": "freeze:8", "selection": "oracle"}),
    # the situation or ablation
    ("freeze:8 switch:0.5", {"plan": "freeze:8", "condition": "switch:0.5"}),
    ("last:12+legacy:no-mask", {"plan": "last:12", "condition": "legacy:no-mask"}),
    ("last:12+legacy:no-mask centred", {"plan": "last:12", "condition": "legacy:no-mask", "method": "centred"}),
    ("procrustes+iterative csls", {"condition": "procrustes+iterative", "method": "csls"}),
    # a task on top of an alignment: the last plan is the task's own
    ("tlm freeze:8", {"plan": "freeze:8", "condition": "tlm"}),
    # arguments of a sweep, or of a training among several
    ("epochs:3 freeze:8", {"plan": "freeze:8", "settings": {"epochs": 3}}),
    ("warm-up:0.1 freeze:8", {"plan": "freeze:8", "settings": {"warm_up": 0.1}}),
    ("freeze:8 rate:5e-05 oracle", {"plan": "freeze:8", "selection": "oracle", "settings": {"rate": 5e-05}}),
    ("train:en=a.tsv freeze:8", {"plan": "freeze:8", "settings": {"train": "en=a.tsv"}}),
    ("pool:500 centred", {"method": "centred", "settings": {"pool": 500}}),
]


@pytest.mark.parametrize(("variant", "columns"), VARIANTS, ids=[variant or "none" for variant, _ in VARIANTS])
def test_a_variant_of_the_older_schema_is_taken_apart(variant, columns):
    table = upgrade(pd.DataFrame([{"measure": "cka", "value": 0.5, "variant": variant}]))
    assert "variant" not in table.columns
    entry = table.to_dict("records")[0]
    settings = settings_of(entry)
    names = ("plan", "method", "selection", "condition")
    assert {name: entry[name] for name in names if entry[name]} | (
        {"settings": settings} if settings else {}
    ) == columns


def old_folder(folder, *, packed):
    """A run folder as version 1 of the table left it."""
    folder.mkdir()
    rows = [
        {"measure": "p@1", "value": 0.25, "low": 0.2, "high": 0.3, "n": 100, "layer": 8, "variant": "freeze:8 centred"},
        {"measure": "gap", "value": 1 / 3, "target": "nl", "variant": "epochs:3 freeze:8 oracle", "seed": 1},
        {"measure": "truncated", "value": 2.0},
    ]
    (folder / "run.json").write_text(json.dumps({**FACTS, "status": "finished", "started": "2026-01-01T00:00:00"}))
    if packed:
        pd.DataFrame(rows, columns=list(OLD_COLUMNS)).to_parquet(folder / "rows.parquet", index=False)
        return
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, OLD_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("packed", [False, True], ids=["csv", "parquet"])
def test_a_table_of_the_older_schema_is_read_in_the_columns_of_today(packed, tmp_path):
    old_folder(tmp_path / "old", packed=packed)
    expected = [
        {**row("p@1", 0.25, low=0.2, high=0.3, n=100, layer=8, plan="freeze:8", method="centred"), "over": ""},
        row("gap", 1 / 3, target="nl", plan="freeze:8", selection="oracle", settings={"epochs": 3}, seed=1),
        row("truncated", 2.0),
    ]
    pd.testing.assert_frame_equal(read_rows(tmp_path / "old"), frame(expected))


@pytest.mark.parametrize("packed", [False, True], ids=["csv", "parquet"])
def test_a_run_of_the_older_schema_is_not_resumed_and_stays_as_it_is(packed, tmp_path):
    old_folder(tmp_path / "old", packed=packed)
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    sentence = (
        r"old was made by another version of isogloss \(schema 1 of its rows, not 2\); it can be reported, not res"
    )
    with pytest.raises(InputError, match=sentence):
        start(tmp_path / "old", FACTS, resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_a_table_of_today_is_left_as_it_is():
    table = frame([row("cka", 0.5, plan="freeze:8")])
    pd.testing.assert_frame_equal(typed(table), table)


def test_an_interval_is_over_items_unless_it_says_otherwise():
    assert row("gap", 0.5, low=0.4, high=0.6)["over"] == "items"
    assert row("gap", 0.5, low=0.4, high=0.6, over="seeds")["over"] == "seeds"
    assert "over" not in row("gap", 0.5) and "over" not in row("gap", 0.5, low=np.nan, high=np.nan)


def test_settings_read_back_as_they_were_written_whatever_their_order(tmp_path):
    settings = {"rate": 5e-05, "epochs": 3, "cache": False, "train": 'en=a "b", ä.tsv', "dtype": None}
    entry = row("gap", 0.5, settings=settings)
    assert settings_of(entry) == settings and settings_of({}) == {} and row("gap", 0.5, settings={})["settings"] == ""
    assert key(entry) == key(row("gap", 0.5, settings=dict(reversed(settings.items()))))
    with start(tmp_path / "run", FACTS) as run:
        run.append([entry])
        run.finish()
    (read,) = records(read_rows(tmp_path / "run"))
    assert settings_of(read) == settings and read == entry
    (tmp_path / "run" / "rows.csv").unlink()
    assert records(read_rows(tmp_path / "run")) == [entry]


def test_a_training_is_called_by_its_plan_condition_and_settings():
    entry = row("gap", 0.5, plan="freeze:8", condition="switch:0.5", settings={"rate": 2e-5})
    assert training_name(entry) == "freeze:8 switch:0.5 rate:2e-05" and training_name({}) == ""


def test_means_are_over_seeds_of_rows_that_differ_in_nothing_else():
    rows = [row("accuracy", 0.9 + seed / 20, floor=0.1 * seed, target="nl", n=50, seed=seed) for seed in range(3)]
    rows += [row("accuracy", 0.5, target="de", seed=0), row("accuracy", 0.5, target="nl")]  # one seed, and none
    rows += [row("accuracy", 0.5, target="nl", step=4, seed=seed) for seed in range(3)]  # of a training under way
    rows += [row("relative_gap", value, seed=seed) for seed, value in enumerate((np.nan, 0.25))]
    rows += [row("chosen_step", 10, seed=seed) for seed in range(3)]
    (mean,) = mean_rows(rows)
    assert mean["value"] == pytest.approx(0.95) and mean["n"] == 3 and mean["over"] == "seeds"
    assert mean["floor"] == pytest.approx(0.1) and "seed" not in mean and mean["target"] == "nl"
    assert mean["low"] == pytest.approx(0.95 - 4.302653 * 0.05 / np.sqrt(3)) and mean["high"] == 1.0  # its range ends
    assert set(mean) <= set(COLUMNS)


def test_parts_are_written_with_all_their_digits():
    """Rounded to six, those of two readings that differ by less would be equal, and any change of theirs clear."""
    parts = tuple(1.424 + 1e-9 * part for part in range(20))
    (cell,) = frame([row("perplexity", Interval(1.424, parts=parts))]).parts
    assert tuple(map(float, cell.split())) == parts


def test_an_estimate_brings_its_interval_and_what_else_it_has():
    whole = Interval(0.5, 0.4, 0.6, n=10, floor=0.1)
    assert row("cka", whole, layer=3) == {
        "measure": "cka",
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "floor": 0.1,
        "n": 10,
        "layer": 3,
        "over": "items",
    }
    assert row("gap", Interval(0.5), n=4) == {"measure": "gap", "value": 0.5, "n": 4}
    assert row("aer", alignment_error_rate([[(0, 0)]], [[(0, 0)]])) == {"measure": "aer", "value": 0.0}
