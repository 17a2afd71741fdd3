"""The verdict on tables small enough to check by eye."""

import pytest

from isogloss.errors import InputError
from isogloss.report import verdict
from isogloss.report.curves import RunFolder, name_layers
from isogloss.report.map_view import figures, map_sentences
from isogloss.runs import table


def entry(measure, layer, value, *, source="en", target="nl", margin=0.02, floor=0.01, n=500, method="centred", **rest):
    bounds = {} if margin is None else {"low": value - margin, "high": value + margin}
    place = {"layer": layer, "source": source, "target": target, "method": method, "n": n, "floor": floor}
    return table.row(measure, value, **bounds, **place, **rest)


def curve(measure, values, **rest):
    return [entry(measure, layer, value, **rest) for layer, value in enumerate(values)]


def say(*curves):
    return verdict(table.frame([row for rows in curves for row in rows]), "map")


def test_one_best_layer_is_named_with_value_interval_count_and_chance():
    lines = say(curve("p@1", [0.1, 0.5, 0.8, 0.4]))
    assert lines[0] == (
        "The languages meet most closely at layer 2, whose interval overlaps that of no other layer: centred P@1 "
        "(finding a sentence's translation as its nearest neighbour) is 0.800 [0.780, 0.820], where chance gives 0.010."
    )
    assert lines[1] == "This is one curve, English to Dutch, n = 500 sentences."
    assert lines[2] == (
        "Away from there the languages lie further apart: centred P@1 is 0.100 at layer 0 and 0.400 at layer 3 "
        "(the embedding output and the last layer)."
    )


def test_a_best_layer_of_a_few_is_said_to_be_that(tmp_path):
    rows = table.frame([row for row in curve("p@1", [0.1, 0.5, 0.8, 0.4]) if row["layer"] != 1])
    run = RunFolder(tmp_path, {"command": "map", "depth": 4}, rows)
    said = map_sentences(run)
    assert said[0].startswith(
        "The languages meet most closely at layer 2 (only layers 0, 2 and 3 were read), whose interval overlaps that "
        "of no other of these: "
    )
    assert said[2].endswith("0.100 at layer 0 and 0.400 at layer 3 (the embedding output and the last one read).")


def test_the_best_layer_is_that_without_attention_sinks(tmp_path):
    """Layer 3 is best with the sinks that rule layers 1 and 2, and layer 2 without them."""
    rows = curve("p@1", [0.2, 0.1, 0.1, 0.5, 0.4]) + curve("cka", [0.1, 0.0, 0.0, 0.5, 0.4], method="debiased")
    for name, value in (("share", 0.05), ("times", 900.0), ("first", 1.0)):
        rows += [entry(f"sink_{name}", layer, value, target="", method="", margin=None) for layer in (1, 2)]
    clean = [entry("p@1", 1, 0.6), entry("p@1", 2, 0.9), entry("cka", 1, 0.6, method="debiased")]
    rows += [{**row, "condition": "without sinks"} for row in clean]
    rows += [entry("p@1_behind", layer, 0.0, source="", target="") for layer in range(5)]
    said = say(rows)
    assert said[0].startswith(
        "The languages meet most closely at layer 2, whose interval overlaps that of no other layer: "
    )
    assert "nearest neighbour) without attention sinks is 0.900 [0.880, 0.920]" in said[0]
    assert "centred P@1 at layer 2 is 0.900 instead of 0.100" in said[2]
    assert any(line.startswith("CKA differs: it is highest at layer 1") for line in said)
    drawn = next(figure for figure in figures(RunFolder(tmp_path, {}, table.frame(rows))) if figure.measure == "p@1")
    assert list(drawn.panels[0].lines[0].value) == [0.2, 0.6, 0.9, 0.5, 0.4], "the figure shows what the verdict says"
    assert "Without attention sinks at layers 1 and 2." in drawn.caption


def test_sinks_of_several_texts_are_compared_on_all_of_them():
    """The first text has sinks at layer 0, where nothing changes; the second at 0 and 1, where it falls."""
    rows = []
    for data, moved in (("one", [0.0]), ("two", [-0.01, -0.03])):
        rows += curve("p@1", [0.6, 0.7, 0.8], data=data)
        for layer, change in enumerate(moved):
            value = [0.6, 0.7][layer] + change
            rows.append({**entry("p@1", layer, value, data=data), "condition": "without sinks"})
            sinks = (("share", 0.1), ("times", 90.0 if data == "one" else 20.0 + layer), ("first", 1.0))
            rows += [
                entry(f"sink_{name}", layer, it, target="", method="", margin=None, data=data) for name, it in sinks
            ]
    said = next(line for line in say(rows) if line.startswith("At layers 0 and 1 a few tokens, mostly the first of"))
    assert "(at layer 0 10.0% of the tokens, up to 90 times the median length)" in said
    assert said.endswith("without them, centred P@1 at layer 1 is 0.685 instead of 0.700."), said


def test_the_interval_of_an_average_without_sinks_is_said_to_be_its_own(tmp_path):
    rows = curve("p@1", [0.2, 0.8]) + curve("p@1", [0.2, 0.8], source="nl", target="en")
    rows += curve("p@1_mean", [0.2, 0.8], source="", target="", margin=0.01)
    rows += [entry("p@1_behind", layer, 0.0, source="", target="") for layer in (0, 1)]
    clean = [entry("p@1", 0, 0.3), entry("p@1", 0, 0.3, source="nl", target="en")]
    clean.append(entry("p@1_mean", 0, 0.3, source="", target="", margin=0.01))
    rows += [{**row, "condition": "without sinks"} for row in clean]
    said = say(rows)
    assert "0.800 [0.790, 0.810]" in said[0] and said[1].endswith("the interval is that of the average.")
    drawn = next(figure for figure in figures(RunFolder(tmp_path, {}, table.frame(rows))) if figure.measure == "p@1")
    assert "the band is its interval" in drawn.caption


def test_neighbours_whose_intervals_overlap_cannot_be_told_apart():
    lines = say(curve("p@1", [0.1, 0.78, 0.8, 0.79, 0.4]))
    assert "at layers 1 to 3, which cannot be told apart" in lines[0]
    assert "peaks at layer 2" in lines[0]


def test_a_flat_curve_has_no_best_layer():
    assert say(curve("p@1", [0.5, 0.51, 0.5]))[0].startswith(
        "No layer stands out: of layers 0 to 2 all intervals overlap"
    )


def test_nothing_above_the_floor_is_said_first():
    lines = say(curve("p@1", [0.01, 0.02, 0.015], floor=0.01))
    assert lines[0].startswith("No layer is better than chance: centred P@1")
    assert not any("closest" in line or "further apart" in line for line in lines)


def test_another_measure_above_chance_does_not_agree_with_a_lead_at_chance():
    lines = say(curve("p@1", [0.01, 0.02, 0.015], floor=0.01), curve("word_agreement", [0.2, 0.6, 0.3], floor=0.1))
    assert any(line.startswith("Word agreement does rise above chance: it is highest at layer 1") for line in lines)


def test_averages_say_over_how_many_they_are_taken():
    lines = say(curve("p@1", [0.1, 0.8, 0.2]), curve("p@1", [0.1, 0.6, 0.2], source="nl", target="en", n=400))
    assert "is 0.700 [0.680, 0.720]" in lines[0]
    assert "average over 2 directions" in lines[1]
    assert "n = 400 to 500 sentences each" in lines[1]


def test_the_closest_and_the_farthest_language_are_named():
    lines = say(
        curve("p@1", [0.1, 0.9, 0.2]),
        curve("p@1", [0.1, 0.7, 0.2], target="ru"),
        curve("p@1", [0.1, 0.3, 0.2], target="zh"),
    )
    told = next(line for line in lines if "closest" in line)
    assert told == (
        "At layer 1, Dutch (0.900 [0.880, 0.920]) is closest to English and Chinese (0.300 [0.280, 0.320]) farthest."
    )


def test_languages_that_cannot_be_told_from_the_closest_are_named_with_it():
    lines = say(
        curve("p@1", [0.1, 0.92, 0.2]),
        curve("p@1", [0.1, 0.90, 0.2], target="de"),
        curve("p@1", [0.1, 0.6, 0.2], target="fr"),
        curve("p@1", [0.1, 0.31, 0.2], target="ru"),
        curve("p@1", [0.1, 0.3, 0.2], target="zh"),
    )
    told = next(line for line in lines if "closest" in line)
    near = "Dutch (0.920 [0.900, 0.940]) and German (0.900 [0.880, 0.920]) are closest to English"
    far = "Russian (0.310 [0.290, 0.330]) and Chinese (0.300 [0.280, 0.320]) farthest"
    assert told == f"At layer 1, {near} and {far}."


def test_languages_whose_intervals_overlap_are_not_ranked():
    lines = say(curve("p@1", [0.1, 0.70, 0.2]), curve("p@1", [0.1, 0.69, 0.2], target="ru"))
    assert any("no language is clearly closer to English" in line for line in lines)


def test_unequal_pools_are_warned_about():
    lines = say(curve("p@1", [0.1, 0.9, 0.2], n=1000), curve("p@1", [0.1, 0.3, 0.2], target="zh", n=200))
    assert any("searched among 200 to 1,000 sentences, and more sentences make it harder" in line for line in lines)


def test_other_measures_agree_or_differ():
    lead = curve("p@1", [0.1, 0.8, 0.2])
    agrees = say(lead, curve("cka", [0.1, 0.6, 0.2], method="debiased"))
    differs = say(lead, curve("cka", [0.1, 0.2, 0.6], method="debiased"))
    assert any(line.startswith("CKA agrees: it is highest at layer 1") for line in agrees)
    assert any(line.startswith("CKA differs: it is highest at layer 2") for line in differs)


def test_alignment_error_is_best_where_it_is_lowest_and_is_not_ranked_without_an_interval():
    statistical = [table.row("aer", 0.201, source="en", target="nl", method="statistical")]
    lines = say(curve("p@1", [0.1, 0.8]), curve("aer", [0.4, 0.2], method="itermax", floor=None), statistical)
    (line,) = (line for line in lines if "fewest errors" in line)
    assert "fewest errors at layer 1: 0.200" in line and line.endswith("; a statistical aligner makes 0.201.")


def test_without_centred_retrieval_the_next_measure_leads():
    assert "CKA (whether" in say(curve("cka", [0.1, 0.6, 0.2], method="debiased"))[0]
    assert "raw cosine P@1" in say(curve("p@1", [0.1, 0.6, 0.2], method="cosine"))[0]


@pytest.mark.parametrize(("told", "words"), [(0.9, "but not collapsed"), (0.51, "and lie on one another")])
def test_what_centring_hides_is_said_beside_it(told, words):
    pair = [curve("mexa", [0.1, 0.3, 0.2], method="cosine"), curve("separability", [0.99, told, 0.99], floor=0.5)]
    lines = say(curve("p@1", [0.1, 0.8, 0.2]), curve("p@1", [0.1, 0.4, 0.2], method="cosine"), *pair)
    (line,) = (line for line in lines if "collapsed" in line or "lie on one another" in line)
    assert line.startswith(
        f"The languages are aligned {words} at layer 1: the nearer language mean tells the language of "
        "a sentence with an accuracy"
    )
    assert f"of {told:.3f} [" in line and "where chance gives 0.500; without centring, P@1 is 0.400 [" in line
    assert line.endswith("is 0.300 [0.280, 0.320] at layer 1 and 0.200 on average over the layers.")
    at_chance = say(curve("p@1", [0.01, 0.01]), curve("p@1", [0.01, 0.01], method="cosine"), *pair)
    assert not any("collapsed" in line for line in at_chance)


def test_missing_intervals_and_floors_are_not_made_up():
    lines = say(curve("p@1", [0.1, 0.6, 0.2], margin=None, floor=None, n=None))
    assert "is 0.600, where no floor was measured." in lines[0]
    assert "n not recorded" in lines[1]


def test_a_pair_measured_at_fewer_layers_does_not_bend_the_average():
    lines = say(curve("p@1", [0.1, 0.8, 0.2]), curve("p@1", [0.9], target="ru"))
    assert "at layer 1" in lines[0]
    assert "is 0.800" in lines[0]


def test_rows_without_layers_give_no_layer():
    lines = say([table.row("duplicates", 3)])
    assert lines == ["These rows hold no retrieval, CKA or word agreement by layer, so no layer can be named."]
    assert verdict(table.frame([]), "map") == lines


def test_several_models_get_a_verdict_each():
    lines = say(curve("p@1", [0.1, 0.8], model="a"), curve("p@1", [0.7, 0.1], model="b"))
    assert any(line.startswith("a: The languages meet most closely at layer 1") for line in lines)
    assert any(line.startswith("b: The languages meet most closely at layer 0") for line in lines)


def test_the_verdict_is_short():
    curves = [curve("p@1", [0.1, 0.9, 0.2], target=target) for target in ("nl", "ru", "zh")]
    curves += [curve("cka", [0.1, 0.6, 0.2], method="debiased"), curve("word_agreement", [0.1, 0.6, 0.2])]
    curves += [curve("aer", [0.4, 0.2, 0.3], method="itermax", floor=None)]
    curves += [curve("p@1", [0.1, 0.5, 0.1], method="cosine"), curve("mexa", [0.1, 0.5, 0.1], method="cosine")]
    curves += [curve("separability", [0.9, 0.9, 0.9], floor=0.5)]
    assert 3 <= len(say(*curves)) <= 8


def test_layers_are_named_as_ranges():
    assert name_layers([3]) == "layer 3"
    assert name_layers([0, 1]) == "layers 0 and 1"
    assert name_layers([2, 5, 6, 7, 9]) == "layers 2, 5 to 7 and 9"


def test_pairs_on_several_data_sets_are_counted_apart():
    lines = say(curve("p@1", [0.1, 0.8, 0.2], data="one"), curve("p@1", [0.1, 0.6, 0.2], data="two"))
    assert "average over 2 curves (1 direction on 2 data sets)" in lines[1]


def test_seeds_are_not_called_data_sets():
    lines = say(curve("p@1", [0.1, 0.8, 0.2], seed=1), curve("p@1", [0.1, 0.6, 0.2], seed=2))
    assert "average over 2 curves (1 direction on 2 seeds)" in lines[1]


def test_layers_compared_on_the_same_sentences_are_told_apart_where_intervals_overlap():
    rows = curve("p@1", [0.1, 0.78, 0.8, 0.79], margin=0.05)
    rows += curve("p@1_mean", [0.1, 0.78, 0.8, 0.79], source="", target="", margin=0.04)
    behind = [(0.7, 0.6), (0.02, 0.01), (0.0, 0.0), (0.01, -0.01)]
    rows += [
        {**entry("p@1_behind", layer, value, source="", target=""), "low": low}
        for layer, (value, low) in enumerate(behind)
    ]
    lines = say(rows)
    assert "at layers 2 and 3, which cannot be told apart" in lines[0]
    assert "0.800 [0.760, 0.840]" in lines[0]  # the interval of the mean itself
    rows = [{**row, "low": 0.005} if row["measure"] == "p@1_behind" and row["layer"] == 3 else row for row in rows]
    assert "at layer 2, better than any other layer on the same sentences" in say(rows)[0]


def test_a_table_without_its_command_is_refused_with_what_to_give():
    with pytest.raises(InputError, match="a table needs the command it was made by"):
        verdict(table.frame([]))
