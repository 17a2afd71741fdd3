"""Findings, tables, figures and jobs of pan2021, on rows made by hand."""

import math

import numpy as np
import pytest
from scipy import stats

import isogloss as ig
from isogloss.papers import Request, find, outline_lines, selected
from isogloss.papers.pan2021 import published as paper
from isogloss.papers.pan2021.reading import Results, less
from isogloss.papers.pan2021.rows import _others, change_rows
from isogloss.runs.table import frame, row

PAPER = find("pan2021")
LANGUAGES = ("de", "zh")
TATOEBA = ("de", "fr", "nl", "es", "ru", "zh")
ACCURACY = {"before": 0.50, "both": 0.55, "tlm": 0.52, "contrastive": 0.53, "unshuffled": 0.54, "10%": 0.51,
            "30%": 0.52, "search": 0.5}  # fmt: skip
RETRIEVAL = {**{name: 0.6 for name in ACCURACY}, "before": 0.3, "search": 0.95}
NAMES = ["above chance", "zero-shot rises", "both losses", "shuffling", "code-switching", "questions", "amount of text",
         "search", "perplexity"]  # fmt: skip


def made(seeds=3, noise=0.001, **changes):
    """Rows in which everything is as the paper and the aims say, unless told otherwise: names of values to change."""
    value = {f"xnli {name}": one for name, one in ACCURACY.items()}
    value |= {f"tatoeba {name}": one for name, one in RETRIEVAL.items()}
    value |= {"both translated": 0.6, "both switched": 0.62, "before translated": 0.58, "before switched": 0.58}
    value |= {"sick translated": 0.6, "sick switched": 0.63, "qa before": 0.3, "qa both": 0.35, "factor": 0.9}
    value |= {name.replace("_", " "): one for name, one in changes.items()}
    rows = []

    def scores(measure, task, data, variant, levels):
        for seed in range(seeds):
            at = {"model": "m", "task": task, "source": "en", "data": data, "variant": variant, "seed": seed}
            off = noise * math.sin(1 + 3 * seed + 7 * len(variant) + len(data))
            each = [row(measure, one + off, target=target, floor=1 / 3, **at) for target, one in levels.items()]
            rows.extend([*each, *_others(each)])

    for name in ACCURACY:
        there = value[f"xnli {name}"]
        scores("accuracy", "nli", "xnli", name, {"en": 0.7, "de": there + 0.03, "zh": there - 0.03})
        scores("accuracy", "nli", "sick", name, {"nl": 0.5})
    for way in ("translated", "switched"):
        for name in ("before", "both"):
            there = value[f"{name} {way}"]
            scores("accuracy", "nli", "xnli", f"{name} {way}", {"en": 0.7, "de": there, "zh": there})
            scores("accuracy", "nli", "sick", f"{name} {way}", {"en": 0.6, "nl": value[f"sick {way}"]})
    for name in ("before", "both"):
        for data in ("xquad", "mlqa"):
            scores("answer_f1", "qa", data, name, {"en": 0.5, "de": value[f"qa {name}"], "zh": value[f"qa {name}"]})
    for name in ACCURACY:
        for seed in range(seeds):
            for language, level in (("en", 10.0), ("nl", 30.0)):
                factor = 1.0 if name == "before" else value["factor"] if name == "both" else 1.1
                at = {"model": "m", "data": "evaluate", "unit": "token", "variant": name, "seed": seed}
                rows.append(row("perplexity", level * factor * (1 + noise * math.sin(seed)), target=language, **at))
    for name in ACCURACY:
        for seed in [None] if name == "before" else range(seeds):
            own = {} if seed is None else {"seed": seed}
            for layer in range(4):
                for target in TATOEBA:
                    at = {"model": "m", "layer": layer, "unit": "sentence", "variant": name, **own}
                    p = value[f"tatoeba {name}"] - 0.05 * abs(layer - 2) + noise * math.sin(len(own) and 2 + seed)
                    rows.append(row("p@1", p - 0.01, source="en", target=target, data="tatoeba", **at))
                    rows.append(row("p@1", p + 0.01, source=target, target="en", data="tatoeba", **at))
                    rows.append(row("cka", p, source="en", target=target, data="xnli", **at))
    return frame([*rows, *change_rows([one for one in rows if "layer" not in one])])


def judged(rows):
    return {one.name: one.held for one in PAPER.findings(rows)}


def test_published_numbers_are_those_of_their_sources():
    assert paper.RISE == 0.047
    assert paper.OTHERS_XNLI["XLM (MLM+TLM)"] == {
        "en": 0.850, "es": 0.789, "de": 0.778, "ar": 0.731, "zh": 0.765, "ur": 0.673,
    }  # fmt: skip
    assert paper.OTHERS_XNLI["XLM (MLM)"] == {
        "en": 0.832, "es": 0.763, "de": 0.742, "ar": 0.685, "zh": 0.719, "ur": 0.634,
    }  # fmt: skip
    assert paper.OTHERS_MLQA == {"XLM-R Base": (0.651, 0.472)}
    assert paper.AIMS == {("de", "fr", "nl", "es"): 0.9, ("ru", "zh"): 0.82}


def test_rows_as_the_paper_says_hold_every_finding():
    assert judged(made()) == dict.fromkeys(NAMES, True)


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({"xnli_both": 0.5, "xnli_tlm": 0.4, "xnli_contrastive": 0.4, "xnli_unshuffled": 0.4, "xnli_10%": 0.4,
          "xnli_30%": 0.4}, {"zero-shot rises"}),
        ({"xnli_contrastive": 0.55}, {"both losses"}),
        ({"xnli_tlm": 0.56}, {"both losses"}),
        ({"xnli_unshuffled": 0.55}, {"shuffling"}),
        ({"xnli_30%": 0.56}, {"amount of text"}),
        ({"xnli_before": 0.33}, {"above chance"}),
        ({"both_switched": 0.6}, {"code-switching"}),
        ({"sick_switched": 0.6}, {"code-switching"}),
        ({"before_switched": 0.4}, set()),  # what switching does to the model as it was judges nothing
        ({"qa_both": 0.3}, {"questions"}),
        ({"tatoeba_search": 0.89}, {"search"}),
        ({"factor": 1.01}, {"perplexity"}),
    ],
)  # fmt: skip
def test_each_finding_fails_where_rows_say_otherwise(changed, fails):
    found = judged(made(**changed))
    assert {name for name, held in found.items() if held is False} == fails
    assert {name for name, held in found.items() if held} == set(NAMES) - fails


def test_nothing_is_judged_on_two_seeds_or_where_parts_are_missing():
    found = PAPER.findings(made(seeds=2))
    assert {one.held for one in found} == {None}
    assert all("intervals are not available from 2 seeds" in one.measured for one in found)
    rows = made()
    maps = rows[rows.layer.notna()]
    assert {name for name, held in judged(maps).items() if held} == {"search"}
    assert [one.name for one in PAPER.pictures(maps)] == ["tatoeba-by-layer", "xnli-by-layer", "by-amount-of-text"]
    spoken = rows[rows.measure.isin(("perplexity", "factor"))]  # what there is when alignments alone are done
    assert {name for name, held in judged(spoken).items() if held} == {"perplexity"}
    assert [one.title[:7] for one in PAPER.tables(spoken)] == ["Table 1", "Table 6"] and PAPER.pictures(spoken) == []
    questions = rows[rows.task == "qa"]
    assert {name for name, held in judged(questions).items() if held} == {"questions"}
    assert PAPER.pictures(questions) == [] and [one.title[:8] for one in PAPER.tables(questions)] == [
        "Table 1:", "Table 4a", "Table 4b"
    ]  # fmt: skip


def test_words_have_the_numbers_and_intervals_are_those_of_scipy():
    rows = made(noise=0.01)
    told = {one.name: one.measured for one in PAPER.findings(rows)}
    found = Results(rows)
    change = np.array(
        list(less(found.score("accuracy", "xnli", "both"), found.score("accuracy", "xnli", "before")).values())
    )
    low, high = stats.t.interval(0.95, 2, change.mean(), stats.sem(change))
    assert f"{100 * change.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]" in told["zero-shot rises"]
    here = rows[
        (rows.measure == "change") & (rows.unit == "accuracy") & (rows.data == "xnli") & (rows.target == "others")
    ]
    one = here[here.variant == "both"]
    assert one.value.item() == pytest.approx(change.mean()) and one.published.isna().all()  # rows made by hand
    assert (one.low.item(), one.high.item()) == pytest.approx((low, high))
    assert "at layer 2, both losses 6" in told["search"] and "before 3" in told["search"]
    logs = np.log([found.perplexity("both", "nl")[seed] / found.perplexity("before", "nl")[seed] for seed in range(3)])
    assert f"Dutch {np.exp(logs.mean()):.3f}" in told["perplexity"]


def test_tables_set_before_beside_after_with_published_numbers_of_others():
    first, inference, translated, questions, other, retrieval, perplexity = PAPER.tables(made(noise=0.0))
    assert list(first.columns) == [
        "", "XNLI English", "XNLI others", "SICK others", "XQuAD English", "XQuAD others", "MLQA others",
        "Tatoeba de, fr, nl, es", "Tatoeba ru, zh", "layer", "CKA", "perplexity",
    ]  # fmt: skip
    assert [line[0] for line in first.rows] == [
        "before", "both losses", "TLM only", "contrastive only", "both, no shuffling", "both, 10% of the text",
        "both, 30% of the text", "for search",
    ]  # fmt: skip
    assert first.rows[0][1:] == ["70.0", "50.0", "50.0", "50.0", "30.0", "30.0", "30.0", "30.0", "2", "0.30", "–"]
    assert first.rows[1][2] == "55.0 (+5.0)" and first.rows[1][-1] == "×0.90" and first.rows[7][7] == "95.0 (+65.0)"
    assert inference.rows[2][:4] == ["XLM (MLM+TLM), published", "85.0", "77.8", "76.5"]
    assert inference.rows[4][0] == "both losses" and inference.rows[4][4] == "55.0 [55.0, 55.0]"
    assert inference.columns[-1] == "Dutch (SICK)" and "+4.7 points" in inference.notes[0]
    assert [line[0] for line in translated.rows] == [
        "before, translations", "before, and switched", "both losses, translations", "both losses, and switched",
    ]  # fmt: skip
    assert translated.rows[3][4] == "62.0 [62.0, 62.0]" and translated.rows[3][-1] == "63.0 [63.0, 63.0]"
    assert questions.rows[1][0] == "both losses, F1" and questions.rows[1][2] == "35.0 [35.0, 35.0]"
    assert other.rows[1][:3] == ["both losses, F1", "50.0 [50.0, 50.0]", "35.0 [35.0, 35.0]"]
    assert "XLM-R Base 65.1 F1" in other.notes[0] and not any("XLM-R" in one for one in questions.notes)
    assert retrieval.rows[0] == ["before, layer 2", *["30.0"] * 6] and retrieval.rows[1][0] == "before, layer 3"
    assert perplexity.rows[0] == ["before", "10.0", "30.0"] and perplexity.rows[1][1] == "×0.90 [0.90, 0.90]"


def test_pictures_have_a_line_for_each_alignment_and_a_point_for_each_amount():
    by_layer, similar, amounts = PAPER.pictures(made())
    assert [panel.title for panel in by_layer.panels] == ["de, fr, nl, es", "ru, zh"]
    lines = by_layer.panels[0].lines
    assert [line.label for line in lines] == [
        "before", "both losses", "TLM only", "contrastive only", "both, no shuffling", "for search",
    ]  # fmt: skip
    assert lines[0].thick and not lines[0].low and list(lines[0].steps) == [0, 1, 2, 3]  # mapped once: no band
    assert len(lines[1].low) == 4 and lines[-1].value[2] == pytest.approx(0.95, abs=0.01)
    assert [panel.title for panel in similar.panels] == ["CKA", "P@1"]
    assert list(amounts.panels[0].lines[0].steps) == [0, 10, 30, 100]
    assert amounts.panels[0].lines[0].value[-1] == pytest.approx(0.55, abs=0.01)


def test_a_dry_run_needs_neither_data_nor_model(tmp_path):
    outline = PAPER.plan(Request("paper", tmp_path / "run"))
    told = "\n".join(outline_lines(outline, outline.jobs))
    for part in (
        "isogloss align bert-base-multilingual-cased",
        "--no-shuffle",
        "--switch 0.5",
        "--task qa",
        "isogloss map",
    ):
        assert part in told
    assert not (tmp_path / "run").exists()
    mini = PAPER.plan(Request("mini", tmp_path / "run"))
    kinds = [job.place["part"] for job in mini.jobs]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "align": 21, "qa": 9, "nli": 24, "translate": 12, "sick": 12, "map": 22,
    }  # fmt: skip
    aligns = sum(job.options["steps"] for job in mini.jobs if job.recipe == "align")
    assert aligns == 3 * (6 * 1000 + 2000)
    trained = 24 * 3 * 625 + 12 * 3 * 467 + 12 * 3 * 278 + 9 * 2 * 750
    assert mini.cost.steps == aligns + trained
    assert all(job.options["queue"] % job.options["batch"] == 0 for job in mini.jobs if job.recipe == "align")


def test_jobs_read_the_model_of_their_own_seed_and_need_what_makes_it(tmp_path):
    jobs = PAPER.plan(Request("mini", tmp_path / "run")).jobs
    by_name = {job.name: job for job in jobs}
    assert len(by_name) == len(jobs)
    for name in ("nli-tlm-seed-2", "map-10-seed-1", "qa-both-seed-0", "sick-switched-both-seed-1"):
        job = by_name[name]
        seed, alignment = job.place["seed"], job.place["alignment"].rstrip("%")
        assert job.first == str(tmp_path / "run" / "jobs" / f"align-{alignment}-seed-{seed}" / "model")
        assert job.needs == [tmp_path / "run" / "jobs" / f"align-{alignment}-seed-{seed}"]
    assert by_name["nli-before-seed-1"].first == "mini" and not by_name["nli-before-seed-1"].needs
    chosen = [job.name for job in selected(jobs, "qa,search,seed=1")]
    assert chosen == ["align-search-seed-1", "qa-search-seed-1"]
    train = by_name["align-10-seed-0"].options["train"]
    assert train == by_name["align-both-seed-0"].options["train"][:1]


@pytest.mark.parametrize(
    ("scale", "options", "part"),
    [
        ("smoke", {"limit": 8}, "--scale smoke makes its own languages and models"),
        ("smoke", {"texts": "x"}, "--scale smoke makes its own languages and models"),
        ("mini", {"limit": 2}, "--limit must be at least 8"),
        ("mini", {"steps": 0}, "--steps must be at least 1"),
        ("mini", {"epochs": 0}, "--epochs must be at least 1"),
        ("mini", {"translated": "x"}, "--translated are the pairs of --train in other languages; give both"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(scale, options, part, tmp_path):
    with pytest.raises(ig.InputError, match=part):
        PAPER.plan(Request(scale, tmp_path / "run"), **options)
