"""The page as text: what it holds, how large it is, and what it cannot become; the jobs of a sweep in a sentence."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_runs import HOSTILE, Shape, rows, write_run
from scipy import stats

from isogloss.errors import InputError
from isogloss.recipes import RECIPES
from isogloss.report import VIEWS, write_page
from isogloss.report.curves import RunFolder
from isogloss.report.page import OWN_PAGE, best_layers, compared, read_run, sweep_sentences, thin_rows, view_of
from isogloss.runs import table
from isogloss.runs.table import frame, row


def page_of(folder, out):
    return write_page([folder], out / "report.html", figures=False).read_text(encoding="utf-8")


def block_of(page):
    return re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]


def data_of(page):
    return json.loads(block_of(page))


def test_the_page_starts_with_the_verdict_and_ends_with_how_it_was_made(run, tmp_path):
    page = page_of(run, tmp_path)
    assert "The languages meet most closely at layers 7 and 8" in page
    assert page.index('id="verdict"') < page.index('id="word-map"') < page.index('id="curves"')
    assert "12 sentences of nl were longer than 512 tokens and were cut" in page
    assert "made-up-encoder" in page
    assert page.count("Layer 0 is the embedding output") == 1


def test_the_page_is_small_without_its_data(run, tmp_path):
    page = page_of(run, tmp_path)
    assert len(page.encode()) - len(block_of(page).encode()) < 120_000


def test_many_languages_and_layers_stay_light(tmp_path):
    languages = (
        "aa", "ab", "ae", "af", "ak", "am", "an", "ang", "ar", "arq", "ary", "arz", "as", "ast", "av", "awa", "ay",
        "az", "azb", "ba",
    )  # fmt: skip
    shape = Shape(languages=languages, layers=24, meet=15, words=60)  # as many as a map has
    page = page_of(write_run(tmp_path / "big", shape), tmp_path)
    assert len(page.encode()) < 2_600_000
    data = data_of(page)["runs"][0]
    assert data["table"]["length"] <= 12_000 < data["table"]["total"]
    assert data["table"]["left_out"][0] == "P@5, P@10 and MRR"


def test_hostile_text_stays_text(hostile_run, tmp_path):
    page = page_of(hostile_run, tmp_path)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "<b>" not in page
    words = data_of(page)["runs"][0]["map"]["word"]
    assert all(word in words for word in HOSTILE)


def test_nothing_can_be_fetched_and_only_the_page_s_own_script_can_run(run, tmp_path):
    page = page_of(run, tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not re.search(r"(?:src|href)=\"(?!#|data:,\")", page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_json_cannot_leave_its_block(tmp_path):
    folder = write_run(tmp_path / "run", Shape(languages=("en", "nl"), layers=3))
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    name = "</script><!-- & \u2028\u2029 \ud800"
    (folder / "run.json").write_text(json.dumps({**record, "model": name}), encoding="utf-8")
    text = block_of(page_of(folder, tmp_path))
    assert not re.search("[<>&\u2028\u2029\ud800]", text)
    assert json.loads(text)["runs"][0]["name"].startswith("</script><!-- & \u2028\u2029")


def test_csv_and_parquet_give_the_same_rows(tmp_path):
    shape = Shape(languages=("en", "nan"), layers=3, data="NA")
    one = read_run(write_run(tmp_path / "one", shape))
    two = read_run(write_run(tmp_path / "two", shape, csv=True))
    pd.testing.assert_frame_equal(one.rows, two.rows)
    pd.testing.assert_frame_equal(one.rows, table.frame(rows(shape)))
    assert one.languages == ["en", "nan"]


def test_runs_of_one_model_are_told_apart_by_their_folders(tmp_path):
    runs = [write_run(tmp_path / name, Shape(languages=("en", "nl"), layers=3)) for name in ("first", "second")]
    page = write_page(runs, tmp_path / "both.html", figures=False).read_text(encoding="utf-8")
    names = [run["name"] for run in data_of(page)["runs"]]
    assert names == ["made-up-encoder (first)", "made-up-encoder (second)"]
    assert page.count("<ul><li>") == 2


def test_runs_on_one_page_are_compared_on_what_all_have(tmp_path):
    """Means over other pairs, or among more sentences, would compare texts and not models."""
    shapes = (
        Shape(model="one", languages=("en", "nl", "ru"), data="talks"),
        Shape(model="two", languages=("en", "nl"), data="talks"),
    )
    runs = [read_run(write_run(tmp_path / shape.model, shape)) for shape in shapes]
    for run in runs:
        run.name = run.model
    (first, said), (second, nothing) = compared(runs)
    languages = {*first.rows["source"], *first.rows["target"]} - {""}
    assert languages == {"en", "nl"} and len(second.rows) == len(runs[1].rows) and not nothing
    both = [run.rows[(run.rows.measure == "p@1") & (run.rows.method == "centred")] for run in (first, second)]
    assert [*both[0].source] == [*both[1].source] and len(both[0])
    (line,) = said
    assert line.startswith("Left out of one, as not every run on this page has it on the same sentences: en → ru, ")
    assert "p@1_mean" not in set(first.rows.measure), "a mean over all pairs is not one over those that are left"
    text = write_page([tmp_path / "one", tmp_path / "two"], tmp_path / "both.html", figures=False).read_text()
    assert text.index("The languages meet") < text.index("Left out of one"), "the finding comes first"


def test_other_texts_or_numbers_of_sentences_are_not_compared(tmp_path):
    few, many = (read_run(write_run(tmp_path / str(n), Shape(n=n, data="talks"))) for n in (200, 1000))
    assert all("have nothing in common on the same sentences" in said[0] for _, said in compared([few, many]))
    same, other = (read_run(write_run(tmp_path / name, Shape(data="talks"))) for name in ("same", "other"))
    assert all(len(run.rows) == len(same.rows) for run, _ in compared([same, other]))
    other.record = {**other.record, "hashes": {"data": {"talks": "another"}}}
    apart = compared([same, other])
    assert [run for run, _ in apart] == [same, other], "nothing in common: each is shown as it is"
    assert all("have nothing in common on the same sentences" in said[0] for _, said in apart)
    assert not best_layers([same, other]) and not best_layers([same]) and not best_layers([few, many])


def test_samples_drawn_by_other_seeds_are_not_compared_and_a_normed_top_is_said(tmp_path):
    """CKA is of all 500 sentences; the 200 of the sample differ by seed, as do their words and anisotropy."""
    runs = []
    for seed in (0, 1):
        run = read_run(write_run(tmp_path / str(seed), Shape(data="talks", n=200)))
        run.rows.loc[run.rows["measure"] == "cka", "n"] = 500
        run.rows["seed"] = seed
        runs.append(run)
    for run, said in compared(runs):
        assert set(run.rows.measure[run.rows.target != ""]) == {"cka"} and "anisotropy" not in set(run.rows.measure)
        assert said[0].startswith(f"Left out of {run.name}, as not every run") and "Retrieval P@1" in said[0]
    runs[1].rows["seed"] = 0
    runs[1].arguments = {"normed_top": True}
    (whole, nothing), (_, said) = compared(runs)
    assert len(whole.rows) == len(runs[0].rows) and not nothing
    assert said == ["Of 1 the top layer was read after the final norm, of others before it."]


def test_maps_of_one_text_are_compared_at_their_best_layers(tmp_path):
    runs = [read_run(write_run(tmp_path / name, Shape(data="talks"))) for name in ("one", "two")]
    lead = runs[0].lead
    value = lead.peak.say("{:.3f}".format)
    assert best_layers(runs) == [
        f"By centred P@1 at the best layer, none is clearly highest: one {value} (layer {lead.best}), two {value} "
        f"(layer {lead.best}); the first two intervals overlap."
    ]


def test_maps_on_the_same_sentences_are_compared_part_by_part(tmp_path):
    """Regression: separate intervals overlap although every part of the sentences says the same."""
    rng, runs = np.random.default_rng(0), []
    spread = rng.normal(0, 0.02, 20)
    for name, value in (("one", 0.70), ("two", 0.66)):
        rows = [
            table.row(
                measure, value - 0.1 * (layer == 0), low=value - 0.05, high=value + 0.05, layer=layer, method="centred",
                n=500, data="talks", parts=value + spread + rng.normal(0, 0.001, 20), unit="sentence", **pair,
            )
            for layer in range(2)
            for measure, pair in (("p@1", {"source": "en", "target": "nl"}), ("p@1_mean", {}))
        ]  # fmt: skip
        runs.append(RunFolder(tmp_path / name, {"command": "map", "model": name}, table.frame(rows)))
        runs[-1].name = name
    (said,) = best_layers(runs)
    assert "one 0.700 [0.650, 0.750] (layer 1), two 0.660 [0.610, 0.710] (layer 1)" in said
    assert (
        "one is highest" in said
        and "; the first two differ by 0.040 [0.0" in said
        and said.endswith("on the same sentences.")
    )


def test_seeds_of_one_map_are_not_ranked(tmp_path):
    runs = [read_run(write_run(tmp_path / name, Shape(data="talks"))) for name in ("one", "two")]
    for seed, run in enumerate(runs):
        run.arguments = {**run.arguments, "seed": seed}
    assert best_layers(runs) == []


def test_maps_of_sentences_that_other_seeds_drew_are_not_compared_part_by_part(tmp_path):
    runs = [read_run(write_run(tmp_path / name, Shape(data="talks", model=name))) for name in ("one", "two")]
    for seed, run in enumerate(runs):
        run.arguments = {**run.arguments, "seed": seed}
    (said,) = best_layers(runs)
    assert said.endswith("the first two intervals overlap.")


def test_a_file_that_is_no_page_is_not_overwritten(run, tmp_path):
    (tmp_path / "mine.html").write_text("my own text")
    with pytest.raises(InputError, match="mine.html exists and is no page of isogloss; give --out another name"):
        write_page([run], tmp_path / "mine.html", figures=False)
    assert (tmp_path / "mine.html").read_text() == "my own text"
    for _ in range(2):
        assert write_page([run], tmp_path / "page.html", figures=False).is_file()
    for page in Path("results").glob("*/report.html"):
        assert OWN_PAGE in page.read_bytes()[:2048], "a page of an earlier version is written again"


def test_a_run_without_points_record_or_intervals_still_makes_a_page(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    frame = table.frame([table.row("p@1", 0.1 * layer, layer=layer, source="en", target="nl") for layer in range(3)])
    frame.to_csv(folder / "rows.csv", index=False)
    page = page_of(folder, tmp_path)
    assert "The run left no run.json" in page
    assert data_of(page)["runs"][0]["map"] is None


def test_a_folder_as_target_gets_a_report_html(run, tmp_path):
    assert write_page([run], tmp_path, figures=False) == tmp_path / "report.html"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_rows_are_thinned_in_order(run):
    frame = read_run(run).rows
    kept, left_out = thin_rows(frame, most=1600)
    assert left_out == ["P@5, P@10 and MRR"]
    assert not kept["measure"].isin(["p@5", "p@10", "mrr"]).any()
    kept, left_out = thin_rows(frame, most=300)
    assert len(kept) == 300
    assert left_out[1] == "pairs without en"
    assert thin_rows(frame, most=10**6)[1] == []


def test_wrong_folders_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        write_page([tmp_path / "nowhere"], tmp_path, figures=False)
    with pytest.raises(InputError, match=r"neither rows\.csv nor rows\.parquet"):
        write_page([tmp_path], tmp_path, figures=False)
    with pytest.raises(InputError, match="at least one run"):
        write_page([], tmp_path, figures=False)
    (tmp_path / "rows.csv").write_text("measure,value\n", encoding="utf-8")
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        write_page([tmp_path], tmp_path, figures=False)


def test_importing_the_report_imports_no_optional_package():
    code = (
        "import sys, isogloss.report; "
        "print([name for name in ('matplotlib', 'jinja2', 'PIL', 'openTSNE') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_missing_package_is_named_with_its_remedy(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"pip install 'isogloss\[report\]'"):
        write_page([run], tmp_path, figures=False)


def test_the_page_shows_the_rows_of_today_and_not_a_parquet_file_of_before(tmp_path):
    """A reproduction with more seeds writes rows.csv anew; rows.parquet of the first time must not be shown."""
    shape = Shape(languages=("en", "nl"), layers=3)
    folder = write_run(tmp_path / "run", shape)
    today = table.frame(rows(shape))
    today["seed"] = 7
    today.to_csv(folder / "rows.csv", index=False)
    assert set(read_run(folder).rows["seed"]) == {7}
    assert data_of(page_of(folder, tmp_path))["runs"][0]["table"]["total"] == len(today)


def test_a_half_written_last_row_is_not_reported(tmp_path):
    shape = Shape(languages=("en", "nl"), layers=3)
    folder = write_run(tmp_path / "run", shape, csv=True)
    whole = read_run(folder).rows
    path = folder / "rows.csv"
    path.write_text(path.read_text(encoding="utf-8") + "p@1,0.99,0.9", encoding="utf-8")
    pd.testing.assert_frame_equal(read_run(folder).rows, whole)


def test_the_command_in_the_record_chooses_the_view_whatever_the_rows(run, monkeypatch):
    folder = read_run(run)
    for command, name in (("map", "map"), ("pretrain", "pretrain"), ("sweep", "align")):
        module, _, function = VIEWS[name].partition(".")
        monkeypatch.setattr(f"isogloss.report.{module}.{function}", lambda _, name=name: name)
        record = {"command": command, "arguments": {"recipe": "align"}}
        assert view_of(RunFolder(run, record, folder.rows)) == name
    assert set(VIEWS) == {*RECIPES, "reproduce"}


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
