"""The verdict and the figures of a training, on tables small enough to check by eye."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest
from training_runs import Course, panels_of, training_rows, write_training

from isogloss.measures.statistics import Interval
from isogloss.report import verdict, write_figures
from isogloss.report.curves import Curve, average, digits
from isogloss.report.page import read_run
from isogloss.report.training_view import best_panel
from isogloss.runs import table


def reading(measure, step, value, *, margin=None, **rest):
    bounds = {} if margin is None else {"low": value - margin, "high": value + margin}
    return table.row(measure, value, step=step, **bounds, **rest)


def over(measure, values, **rest):
    return [reading(measure, 100 * place, value, **rest) for place, value in enumerate(values)]


def say(*curves):
    return verdict(table.frame([row for rows in curves for row in rows]), "pretrain")


def perplexity(values, language, *, margin=0.1, unit="character"):
    return over("perplexity", values, margin=margin, target=language, unit=unit, n=700)


def retrieval(step, values, *, target="nl", margin=0.02, floor=0.01, data="talk"):
    place = {"source": "en", "target": target, "method": "centred", "data": data, "n": 500, "floor": floor}
    return [reading("p@1", step, value, margin=margin, layer=layer, **place) for layer, value in enumerate(values)]


def test_the_loss_is_told_from_its_first_to_its_last_reading():
    lines = say(over("loss", [10.4, 5.0, 2.3119], unit="token", n=1234))
    assert lines == [
        "The training loss fell from 10.40 at step 0 to 2.312 nats a token at step 200 (n = 1,234 tokens)."
    ]


def test_one_reading_is_no_change():
    assert say(over("loss", [10.4], unit="token")) == ["The training loss is 10.40 nats a token at step 0."]


def test_perplexity_is_told_per_character_pooled_and_for_the_ends_of_the_list():
    rows = [perplexity([20, 10], "all"), perplexity([15, 5], "nl"), perplexity([90, 60], "zh")]
    rows.append(perplexity([900, 600], "nl", unit="token"))
    assert say(*rows) == [
        "Held-out perplexity per character fell from 20.00 [19.90, 20.10] at step 0 to 10.00 [9.900, 10.10] at step "
        "100, all languages pooled (n = 700 predicted tokens); it is lowest for Dutch (5.000 [4.900, 5.100]) and "
        "highest for Chinese (60.00 [59.90, 60.10])."
    ]


def test_languages_whose_intervals_meet_are_not_ranked():
    rows = [perplexity([20, 10], "all"), perplexity([20, 10.05], "nl"), perplexity([20, 10], "zh")]
    assert "lowest" not in say(*rows)[0]


def test_one_language_is_named():
    assert say(perplexity([20, 10], "nl"))[0].startswith("Held-out perplexity per character of Dutch fell from 20.00")


def test_languages_without_a_pooled_reading_are_averaged_and_called_so():
    assert ", average over 2 languages (n = 700" in say(perplexity([20, 10], "nl"), perplexity([40, 30], "ru"))[0]


def test_a_rise_is_said_with_its_step_and_a_small_one_as_small():
    lines = say(perplexity([20, 9, 8], "all"), perplexity([20, 7, 8], "ru"), perplexity([20, 4, 4.1], "nl"))
    assert lines[1:] == [
        "It rose for Russian from step 100 on (7.000 [6.900, 7.100] then, 8.000 [7.900, 8.100] at the end).",
        "It rose by less than its interval for Dutch (lowest at step 100).",
    ]


def test_a_change_smaller_than_the_interval_is_no_change():
    assert "did not clearly change: from 10.00" in say(perplexity([10, 9.9], "nl"))[0]


def test_the_best_layer_is_that_of_the_last_step_and_compared_with_the_first():
    lines = say(retrieval(0, [0.3, 0.05, 0.05]), retrieval(500, [0.1, 0.5, 0.2]))
    assert lines == [
        "Languages meet best at layer 1: at step 500 centred P@1 (finding a sentence's translation as its nearest "
        "neighbour) is 0.500 [0.480, 0.520], where chance gives 0.010, up from 0.050 [0.030, 0.070] at step 0; "
        "n = 500 sentences."
    ]


def test_where_the_best_layer_stood_still_the_last_one_is_told_too():
    lines = say(retrieval(0, [0.3, 0.05, 0.05]), retrieval(500, [0.3, 0.05, 0.2]))
    assert "not clearly different from 0.300" in lines[0] and lines[1:] == [
        "At layer 2, the last one read, it is 0.200 [0.180, 0.220], up from 0.050 [0.030, 0.070] at step 0."
    ]


def test_where_languages_meet_is_told_first_and_so_is_what_a_sweep_tells_of_a_job():
    lines = say(over("loss", [5.0, 2.0], unit="token"), retrieval(0, [0.1, 0.1]), retrieval(100, [0.1, 0.5]))
    assert lines[0].startswith("Languages meet best at layer 1: at step 100") and "The training loss" in lines[1]


def test_the_run_s_own_mean_gives_the_interval_and_the_directions_give_who_is_near():
    rows = [*retrieval(500, [0.1, 0.6]), *retrieval(500, [0.1, 0.2], target="zh")]
    mean = [{**row, "measure": "p@1_mean", "source": "", "target": "", "value": value, "low": value - 0.001}
            for row, value in zip(rows, (0.1, 0.4), strict=False)]  # fmt: skip
    lines = say(rows, mean)
    assert "0.400 [0.399, 0.620]" in lines[0]
    assert "average over 2 directions, n = 500 sentences each" in lines[0]
    assert lines[1].startswith("At layer 1, Dutch is closest to English (0.600 [0.580, 0.620]) and Chinese farthest")


def test_chance_and_ties_at_the_last_step_are_said():
    assert say(retrieval(9, [0.01, 0.02]))[0].startswith("At step 9 no layer is better than chance: at layer 1")
    assert say(retrieval(9, [0.5, 0.51]))[0].startswith(
        "Languages meet best at layer 1 (no layer stands out): at step 9"
    )
    assert "(layers 1 and 2 cannot be told apart)" in say(retrieval(9, [0.1, 0.5, 0.51]))[0]


def test_steps_are_never_taken_for_repeated_curves():
    text = " ".join(verdict(table.frame(training_rows(Course())), "pretrain"))
    assert "repeated" not in text
    assert "average over 6 directions, n = 500 sentences each" in text


def test_a_measure_nobody_named_is_told_too():
    lines = say(over("evenness", [0.4, 0.6], margin=0.05, target="nl"), over("evenness", [0.4, 0.8], target="ru"))
    assert lines == ["Evenness rose from 0.4000 at step 0 to 0.7000 at step 100, average over 2 curves."]


def test_rows_without_a_step_keep_their_own_verdict_after_it():
    frame = table.frame([*over("loss", [3.0, 2.0]), *({**row, "step": None} for row in retrieval(0, [0.1, 0.5]))])
    lines = verdict(frame, "pretrain")
    assert lines[0].startswith("The training loss fell")
    assert lines[1].startswith("The languages meet most closely at layer 1")


def test_each_model_of_a_frame_has_its_own_sentences():
    rows = [{**row, "model": model} for model in ("one", "two") for row in over("loss", [3.0, 2.0])]
    assert [line.split(" ")[0] for line in say(rows)] == ["one:", "two:"]


@pytest.mark.parametrize(("value", "text"), [(2.31, "2.310"), (12345.6, "12,350"), (0.0, "0"), (9.9999, "10.00")])
def test_four_digits_count(value, text):
    assert digits(value) == text


def test_panels_average_directions_data_and_seeds_but_not_units():
    rows = table.frame(training_rows(Course()))
    found = panels_of(rows)
    assert [(panel.measure, panel.unit) for panel in found[:4]] == [
        ("loss", "token"), ("perplexity", "character"), ("perplexity", "word"), ("perplexity", "token"),
    ]  # fmt: skip
    retrieved = [panel for panel in found if panel.measure == "p@1"]
    assert [panel.layer for panel in retrieved] == list(range(7))
    best = best_panel(retrieved)
    assert best.layer == 4
    assert [line.code for line in best.lines] == ["all", "nl", "ru", "zh"]
    own = rows[(rows["measure"] == "p@1") & (rows["layer"] == 4)]
    russian = own[(own["source"] == "ru") | (own["target"] == "ru")].groupby("step")["value"].mean()
    assert np.allclose(best.lines[2].line("").value, russian)
    mean = rows[(rows["measure"] == "p@1_mean") & (rows["layer"] == 4)].sort_values("step")
    assert best.lead.line("").low == tuple(mean["low"])


def test_a_measure_of_single_languages_by_layer_names_no_centre():
    rows = [reading("anisotropy", step, 0.1, layer=layer, source=code, n=50)
            for step in (0, 1) for layer in (0, 1) for code in ("en", "nl", "ru")]  # fmt: skip
    found = panels_of(table.frame(rows))
    assert {panel.centre for panel in found} == {""}
    assert [line.code for line in found[0].lines] == ["all", "en", "nl", "ru"]
    assert {panel.centre for panel in panels_of(table.frame(training_rows(Course()))) if panel.layer == 2} == {"en"}


def test_an_average_holds_only_curves_read_at_the_same_steps():
    def curve(steps, value):
        return Curve("x", {step: Interval(value, value, value, 9, value) for step in steps})

    mean = average([curve((0, 1, 2), 1.0), curve((0, 1, 2), 3.0), curve((0, 1), 50.0)])
    assert ([reading.value for reading in mean.readings.values()], mean.members) == ([2.0, 2.0, 2.0], 2)
    assert curve(tuple(range(1000)), 1.0).thin(most=5).at == (0, 250, 500, 749, 999)
    assert not mean.apart(0, 1)


def test_a_reading_taken_twice_counts_once():
    rows = [reading("loss", 5, 9.0), reading("loss", 5, 4.0), reading("loss", 10, 3.0)]
    (line,) = panels_of(table.frame(rows))[0].lines
    assert [one.value for one in line.readings.values()] == [4.0, 3.0]


def test_pooled_text_is_no_language(tmp_path):
    assert read_run(write_training(tmp_path / "run")).languages == ["en", "nl", "ru", "zh"]


def test_the_figures_of_a_training_are_written_and_no_others(tmp_path):
    written = write_figures(write_training(tmp_path / "run", hostile=True), tmp_path / "figures")
    assert {path.stem for path in written} == {
        "steps-loss", "steps-perplexity", "steps-retrieval", "steps-layers-retrieval",
    }  # fmt: skip
    assert {path.suffix for path in written} == {".png", ".svg"}
    for path in written:
        if path.suffix == ".svg":
            ElementTree.parse(path)


def test_an_infinite_perplexity_is_drawn_as_a_gap(tmp_path):
    folder = write_training(tmp_path / "run", Course(languages=("en", "nl"), layers=1, steps=200, every=100))
    rows = pd.read_parquet(folder / "rows.parquet")
    rows.loc[(rows["measure"] == "perplexity") & (rows["step"] == 0), ["value", "high"]] = float("inf")
    rows.to_parquet(folder / "rows.parquet")
    assert len(write_figures(folder, tmp_path / "figures")) == 8
    assert "from infinite" in " ".join(verdict(rows, "pretrain"))


def test_what_was_trained_does_not_change_what_is_said_of_retrieval():
    plain = [*retrieval(0, [0.1, 0.2]), *retrieval(100, [0.2, 0.6])]
    named = [{**one, "plan": "tlm+queue"} for one in plain]
    assert say(plain) == say(named) and "Languages meet best at layer 1" in " ".join(say(named))


def test_a_loss_of_pairs_is_told_apart_from_that_of_tokens():
    both = [over("loss", values, unit=unit, n=9) for unit, values in {"token": [3, 2], "pair": [5, 4]}.items()]
    assert [sentence.split(" at")[0] for sentence in say(*both)] == [
        "The training loss fell from 3.000", "The training loss of sentences fell from 5.000"
    ]  # fmt: skip
    titles = [panel.about.title for panel in panels_of(table.frame([one for rows in both for one in rows]))]
    assert titles == ["Training loss", "Training loss of sentences"]
