"""A training that was begun by the command is resumed from Python, and the other way round, to the same rows."""

import pandas as pd
import pytest

import isogloss as ig
from isogloss.runs import read_facts, read_rows
from isogloss.training.loop import Training
from tiny_alignment import SMALL as SMALL_ALIGNMENT, words as align_words, write_pairs
from tiny_commands import command_line
from tiny_drift import given, words as drift_words, write_model, write_tuning
from tiny_pretraining import SMALL as SMALL_PRETRAINING, options as pretrain_words, write_texts


def small_drift(folder):
    model, _, files = write_tuning(folder)
    return (model,), given(files, plans="last:1"), drift_words(model, files, plans="last:1")


def small_alignment(folder):
    """The two name different folders of packed pairs, which changes no row and is not recorded."""
    model, pairs = write_model(folder / "model"), write_pairs(folder / "pairs")
    options = {"train_bitext": [pairs], "packed": folder / "packed", **SMALL_ALIGNMENT}
    return (model,), options, align_words(model, pairs, packed=folder / "elsewhere")


def small_pretraining(folder):
    files = write_texts(folder / "texts")
    return (files,), {**SMALL_PRETRAINING}, pretrain_words(files)


TRAININGS = {"drift": small_drift, "align": small_alignment, "pretrain": small_pretraining}


@pytest.mark.parametrize("begun_by", ["command", "python"])
@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_goes_on_however_it_was_begun(name, begun_by, tmp_path, monkeypatch, capsys):
    isogloss = command_line(monkeypatch, capsys)
    positional, options, words = TRAININGS[name](tmp_path)
    out, recipe = tmp_path / "run", getattr(ig, name)
    update = Training.update

    def interrupted(training):
        if training.step == 3:
            raise KeyboardInterrupt
        update(training)

    monkeypatch.setattr(Training, "update", interrupted)
    if begun_by == "command":
        code, _, told = isogloss(name, *words, "--out", out)
        assert code == 130 and "--resume" in told
    else:
        with pytest.raises(KeyboardInterrupt):
            recipe(*positional, out=out, **options)
    monkeypatch.setattr(Training, "update", update)
    assert read_facts(out)["status"] != "finished"
    if begun_by == "command":
        recipe(*positional, out=out, resume=True, **options)
    else:
        code, _, told = isogloss(name, *words, "--out", out, "--resume")
        assert code == 0, told
    assert read_facts(out)["status"] == "finished"
    whole = recipe(*positional, out=tmp_path / "whole", **options)
    pd.testing.assert_frame_equal(read_rows(out), whole, check_exact=True)
