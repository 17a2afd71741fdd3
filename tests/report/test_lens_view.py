"""The report of a lens: verdict, figures, grids, page."""

import pandas as pd
import pytest

from isogloss.errors import InputError
from isogloss.recipes.lens import GRID, MASKED
from isogloss.report import verdict, write_page
from isogloss.report.page import read_run, view_of
from isogloss.runs.run import start
from isogloss.runs.table import frame, row

BASE = {"model": "tiny", "data": "text", "seed": 0}
WORDS = {"zh": (0.0, 0.05, 0.6), "en": (0.0, 0.3, 0.1), "fr": (0.0, 0.0, 0.0)}


def rows(*, words=WORDS, lead=(0.0, 0.25, -0.5)):
    made = []
    for layer in range(3):
        for source in ("fr", "zh"):
            own = {**BASE, "task": "text", "source": source, "unit": "token", "layer": layer, "n": 90}
            value = (0.01, 0.2, 0.3)[layer]
            near = {"low": value - 0.01, "high": value + 0.01, "floor": 0.005}
            made.append(row("next_token_probability", value, **near, **own))
            made += [row("next_token_mrr", 0.5, **own), row("entropy", 5.0 - layer, **own)]
        own = {**BASE, "task": "translation", "source": "fr", "target": "zh", "unit": "word", "layer": layer, "n": 40}
        for code, values in words.items():
            value = values[layer]
            near = {"low": value - 0.02, "high": value + 0.02, "floor": 0.01}
            made.append(row("word_probability", value, condition=code, method="lexicon", **near, **own))
        near = {"low": lead[layer] - 0.05, "high": lead[layer] + 0.05, "floor": 0.0}
        made.append(row("pivot_lead", lead[layer], condition="en", method="lexicon", **near, **own))
        made += [
            row("script_share", 0.5, condition=name, method="script", floor=0.3, **own) for name in ("Latin", "Chinese")
        ]
    return made


def test_the_verdict_says_where_the_pivot_is_ahead():
    assert verdict(frame(rows()), "lens") == [
        "The next token has a probability of 0.300 [0.290, 0.310], where chance gives 0.005, at layer 2, averaged over "
        "2 languages, and of 0.010 at layer 0; half of what the top gives is reached at layer 1.",
        "Translations (40 prompts each, 1 pair of languages): at layer 2 the word asked for has a probability of 0.600 "
        "[0.580, 0.620], where chance gives 0.010.",
        "Translations: on the way it is nearer to English, which no prompt shows, at layer 1: its word has 0.300 "
        "[0.280, 0.320], where chance gives 0.010, against 0.050 [0.030, 0.070] of the word asked for, at layer 1.",
    ]


def test_the_verdict_says_that_tokens_were_masked():
    made = [{**each, "unit": MASKED} for each in rows() if each["task"] == "text"]
    assert verdict(frame(made), "lens")[0].startswith("The masked token has a probability of 0.300")


def test_the_verdict_says_where_it_never_is_and_where_the_task_is_not_done():
    said = verdict(frame(rows(lead=(0.0, 0.02, -0.5))), "lens")
    assert said[2].startswith("Translations: at no layer is English ahead of the language asked for; at most")
    said = verdict(frame(rows(words={**WORDS, "zh": (0.0, 0.0, 0.02)})), "lens")
    assert said[1].endswith(": the model cannot do this, and what it says on the way means little.") and len(said) == 2


def write(folder, made=None):
    facts = {"command": "lens", "arguments": {}, "seed": 0, "model": "tiny", "hashes": {}, "depth": 2}
    with start(folder, facts) as run:
        run.append(rows() if made is None else made)
        run.finish()
    cells = [
        {"data": "text", "task": task, "source": "fr", "target": target, "item": item, "label": word, "layer": layer,
         "said": f" {word}<b>{layer}", "value": 0.1 * layer}
        for task, target in (("text", ""), ("translation", "zh"))
        for layer in range(3) for item, word in enumerate("ab")
    ]  # fmt: skip
    pd.DataFrame(cells).to_parquet(folder / GRID)
    return folder


def test_figures_grids_and_page(tmp_path):
    view = view_of(read_run(write(tmp_path / "run")))
    names = [figure.name for figure in view.figures]
    assert names == ["lens-words", "lens-next", "lens-scripts", "lens-grid-text-fr", "lens-grid-translation-fr-zh"]
    lines = view.figures[0].panels[0].lines
    assert [line.label for line in lines] == ["the word asked for", "its translation in English", "the word given"]
    grid = view.figures[-1].panels[0].lines
    assert [line.label for line in grid] == ["a", "b"] and grid[0].texts == ("a<b>0", "a<b>1", "a<b>2")
    assert [line[0] for line in view.tables[0].rows] == ["French", "Chinese"]
    page = write_page([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert "What it would say, layer by layer" in page and "a<b>" not in page
    assert (tmp_path / "run" / "figures" / "lens-grid-text-fr.png").is_file()


def test_prompts_alone_text_alone_and_a_damaged_grid(tmp_path):
    for task, count in (("text", 1), ("translation", 2)):
        folder = write(tmp_path / task, [entry for entry in rows() if entry["task"] == task])
        assert len(view_of(read_run(folder)).verdict) == count
    (folder / GRID).write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="lens.parquet holds no grids of a lens"):
        view_of(read_run(folder))
