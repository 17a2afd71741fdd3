"""The one table: its rows, their settings, means over seeds, and tables of another schema."""

import json

import numpy as np
import pandas as pd
import pytest

from isogloss.errors import InputError
from isogloss.measures.statistics import Interval
from isogloss.measures.word_alignment import alignment_error_rate
from isogloss.runs.run import read_rows, start
from isogloss.runs.table import COLUMNS, frame, key, mean_rows, records, row, settings_of, training_name, typed

FACTS = {"command": "map", "arguments": {}, "seed": 0, "model": "mini", "hashes": {}}


def old_folder(folder, *, packed):
    """A run folder with a column that this version does not have."""
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({**FACTS, "status": "finished", "started": "2026-01-01T00:00:00"}))
    rows = pd.DataFrame([{"measure": "p@1", "value": 0.25, "layer": 8, "variant": "freeze:8 centred"}])
    if packed:
        rows.to_parquet(folder / "rows.parquet", index=False)
    else:
        rows.to_csv(folder / "rows.csv", index=False)


@pytest.mark.parametrize("packed", [False, True], ids=["csv", "parquet"])
def test_a_run_of_another_schema_is_neither_read_nor_resumed_and_stays_as_it_is(packed, tmp_path):
    old_folder(tmp_path / "old", packed=packed)
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    with pytest.raises(InputError, match="the columns are not those of a run"):
        read_rows(tmp_path / "old")
    sentence = r"old was made by another version of isogloss \(schema 1 of its rows, not 2\); choose another --out"
    with pytest.raises(InputError, match=sentence):
        start(tmp_path / "old", FACTS, resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


def test_values_that_no_seed_changes_have_no_interval_over_seeds():
    """Regression: CKA of all sentences, the same for both seeds, had an interval over seeds without a width."""
    rows = [row("cka", 0.5, low=0.4, high=0.6, n=100, seed=seed) for seed in range(2)]
    (mean,) = mean_rows(rows)
    assert (mean["value"], mean["n"]) == (0.5, 2) and np.isnan(mean.get("low", np.nan)) and "over" not in mean


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
