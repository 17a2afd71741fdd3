"""The command line as a user meets it: what it prints, what it leaves behind, and one sentence for each mistake."""

import os
import shutil
import signal
import sys
import time

import pandas as pd
import pytest
from benchmarks.invented import invented

from isogloss.recipes import recipe
from isogloss.report import page
from isogloss.runs import read_facts, read_rows
from tiny_commands import command_line, drawing_command_line
from tiny_processes import fork, kill


@pytest.fixture
def isogloss(monkeypatch, capsys):
    return drawing_command_line(monkeypatch, capsys)


@pytest.fixture
def undrawn(monkeypatch, capsys):
    """The same without pages, for questions that are not about them."""
    return command_line(monkeypatch, capsys)


@pytest.fixture
def sides(tmp_path):
    """Two line-aligned files of invented languages, and a folder for more."""
    for corpus in invented(("qaa", "qab"), sentences=30, seed=1):
        (tmp_path / f"{corpus.language}.txt").write_text("\n".join(corpus.sentences) + "\n", encoding="utf-8")
    return tmp_path


def given(sides, *rest):
    return ("--bitext", sides / "qaa.txt", "--bitext", sides / "qab.txt", "--languages", "qaa,qab", "--quiet", *rest)


def test_map_prints_the_verdict_and_leaves_a_run(isogloss, sides, tiny):
    code, shown, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    assert code == 0, told
    assert "P@1" in shown and "chance" in shown
    assert f"report: {sides / 'run' / 'report.html'}" in shown
    names = {path.name for path in (sides / "run").iterdir()}
    assert {"run.json", "rows.csv", "rows.parquet", "report.html", "figures", "points.parquet"} == names
    facts = read_facts(sides / "run")
    assert facts["status"] == "finished"
    assert facts["arguments"]["bitext"][0]["languages"] == ["qaa", "qab"]
    assert set(facts["hashes"]["data"]) == {next(iter(facts["hashes"]["data"]))}
    assert len(read_rows(sides / "run")) > 100


def test_pharaoh_links_judge_the_vectors(undrawn, sides, tiny):
    links = invented(("qaa", "qab"), sentences=30, seed=1).links["qaa", "qab"]
    for corpus in invented(("qaa", "qab"), sentences=30, seed=1):  # links count words separated by spaces
        words = [[text[a:b] for a, b in spans] for text, spans in zip(corpus.sentences, corpus.words, strict=True)]
        (sides / f"{corpus.language}.txt").write_text("\n".join(map(" ".join, words)) + "\n", encoding="utf-8")
    (sides / "links").write_text("\n".join(" ".join(f"{i}-{j}" for i, j in each) for each in links) + "\n")
    options = ("--out", sides / "run", "--points", 0, "--links", sides / "links")
    code, _, told = undrawn("map", tiny("bert"), *given(sides, *options))
    assert code == 0, told
    table = read_rows(sides / "run")
    assert set(table[table.measure == "aer"].method) == {"itermax", "statistical"}
    (sides / "links").write_text("0-99\n" * 30)
    options = ("--out", sides / "other", "--links", sides / "links")
    one_sentence(undrawn("map", tiny("bert"), *given(sides, *options)), "links:1")


def test_report_makes_the_page_again_and_one_over_several_runs(isogloss, sides, tiny):
    for name in ("bert", "roberta"):
        code, _, told = isogloss("map", tiny(name), *given(sides, "--out", sides / name, "--points", 0))
        assert code == 0, told
    page = sides / "bert" / "report.html"
    page.unlink()
    assert isogloss("report", sides / "bert", "--quiet")[0] == 0
    assert page.is_file()
    code, shown, _ = isogloss("report", sides / "bert", sides / "roberta", "--out", sides / "both.html", "--quiet")
    assert code == 0 and "both.html" in shown
    text = (sides / "both.html").read_text(encoding="utf-8")
    assert "bert" in text and "roberta" in text


def test_several_models_are_one_run_and_one_page(isogloss, sides, tiny):
    options = given(sides, "--out", sides / "run", "--points", 0)
    code, shown, told = isogloss("map", tiny("bert"), tiny("roberta"), *options)
    assert code == 0, told
    assert "bert: " in shown and "roberta: " in shown and read_facts(sides / "run")["model"] == "bert, roberta"
    page = (sides / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count('<div class="card verdict') == 2
    assert isogloss("map", tiny("bert"), tiny("roberta"), *options, "--resume")[0] == 0
    one_sentence(isogloss("map", tiny("bert"), *options, "--resume"), "was begun differently", "arguments model")


def test_without_out_every_run_has_its_own_folder(undrawn, sides, tiny, monkeypatch):
    monkeypatch.chdir(sides)
    for _ in range(2):
        assert undrawn("map", tiny("bert"), *given(sides, "--points", 0))[0] == 0
    assert sorted(path.name for path in (sides / "runs").iterdir()) == ["map", "map-2"]


def one_sentence(answer, *parts):
    code, shown, told = answer
    assert code == 2, (shown, told)
    assert told.startswith("isogloss: ") and told.count("\n") == 1 and "Traceback" not in told
    for part in parts:
        assert str(part) in told
    assert shown == ""


def test_missing_file(isogloss, sides, tiny):
    (sides / "qab.txt").unlink()
    one_sentence(isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run")), sides / "qab.txt")
    assert not (sides / "run").exists()


def test_unequal_line_counts_name_each_file(isogloss, sides, tiny):
    with (sides / "qab.txt").open("a", encoding="utf-8") as file:
        file.write("tak\n")
    answer = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    one_sentence(answer, "qaa.txt has 30 lines", "qab.txt has more")
    assert not (sides / "run").exists()


def test_invalid_utf8_names_file_and_line(isogloss, sides, tiny):
    lines = (sides / "qaa.txt").read_bytes().split(b"\n")
    lines[6] = b"caf\xe9"
    (sides / "qaa.txt").write_bytes(b"\n".join(lines))
    one_sentence(isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run")), "qaa.txt:7: not valid UTF-8")
    assert not (sides / "run").exists()


def test_empty_corpus(isogloss, sides, tiny):
    (sides / "qaa.txt").write_text("")
    one_sentence(isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run")), "qaa.txt", "empty")


def test_too_few_sentences_for_debiased_cka(isogloss, sides, tiny):
    for name in ("qaa", "qab"):
        path = sides / f"{name}.txt"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    answer = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    one_sentence(answer, "3 parallel sentences", "at least 4")
    assert not (sides / "run").exists()


def test_unknown_language(isogloss, sides, tiny):
    answer = isogloss("map", tiny("bert"), "--bitext", sides / "qaa.txt", "--bitext", sides / "qab.txt",
                      "--languages", "en,xx", "--quiet")  # fmt: skip
    one_sentence(answer, "'xx'")


def test_a_folder_that_is_no_model(isogloss, sides):
    one_sentence(isogloss("map", sides, *given(sides)), sides, "no config.json")
    for language in ("qaa", "qab"):
        (sides / "model" / language).mkdir(parents=True)
        (sides / "model" / language / "config.json").write_text("{}")
    one_sentence(isogloss("map", sides / "model", *given(sides)), "the folders qaa, qab in it are: name one of these")
    one_sentence(isogloss("map", "./nowhere", *given(sides)), "./nowhere")


def test_truncated_weights_name_the_file(isogloss, sides, tiny):
    shutil.copytree(tiny("bert"), sides / "model")
    weights = sides / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    one_sentence(isogloss("map", sides / "model", *given(sides, "--out", sides / "run")), weights, "cut off")
    weights.unlink()
    one_sentence(isogloss("map", sides / "model", *given(sides)), sides / "model", "safetensors")
    assert not (sides / "run").exists()


def test_missing_weights_are_not_drawn_at_random(isogloss, sides, tiny):
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny("bert"), sides / "model")
    weights = load_file(sides / "model" / "model.safetensors")
    del weights["encoder.layer.1.attention.self.query.weight"]
    save_file(weights, sides / "model" / "model.safetensors", {"format": "pt"})
    one_sentence(isogloss("map", sides / "model", *given(sides)), "encoder.layer.1.attention.self.query.weight")


def test_long_sentences_are_cut_counted_and_said(undrawn, sides, tiny):
    for name in ("qaa", "qab"):
        with (sides / f"{name}.txt").open("a", encoding="utf-8") as file:
            file.write("tak " * 100 + "\n")
    code, shown, told = undrawn("map", tiny("bert"), *given(sides, "--out", sides / "run", "--points", 0))
    assert code == 0, told
    assert "1 of 31 sentences of qaa" in shown and "were cut" in shown


def test_a_terminal_is_told_at_once_that_a_command_starts(isogloss, monkeypatch, capsys):
    from isogloss import cli

    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=terminal: shown)
        with cli._starting():
            assert capsys.readouterr().err == "starting ...\r" * terminal
        assert capsys.readouterr().err == "\x1b[2K" * terminal


def test_a_run_is_not_overwritten(isogloss, sides, tiny):
    arguments = ("map", tiny("bert"), *given(sides, "--out", sides / "run", "--points", 0))
    code, shown, told = isogloss(*arguments, "--no-page", "--resume")
    assert f"there is no run at {sides / 'run'} to resume, so it begins" in told
    assert code == 0 and f"report: not drawn; `isogloss report {sides / 'run'}` draws it\n" in shown
    assert not (sides / "run" / "report.html").exists() and not (sides / "run" / "figures").exists()
    before = (sides / "run" / "rows.csv").read_bytes()
    one_sentence(isogloss(*arguments), "already holds a run", "--resume")
    one_sentence(isogloss(*arguments, "--resume", "--seed", 5), "seed: 0 then, 5 now")
    assert isogloss(*arguments, "--resume")[0] == 0  # a finished run is only reported again
    assert (sides / "run" / "rows.csv").read_bytes() == before
    assert read_facts(sides / "run")["status"] == "finished"
    assert (sides / "run" / "report.html").is_file()


def test_resume_without_out_goes_on_with_the_last_run(undrawn, sides, tiny, monkeypatch):
    monkeypatch.chdir(sides)
    arguments = ("map", tiny("bert"), *given(sides, "--points", 0))
    one_sentence(undrawn(*arguments, "--resume"), "no run at runs/map to resume")
    assert undrawn(*arguments)[0] == undrawn(*arguments, "--resume")[0] == 0
    assert [path.name for path in (sides / "runs").iterdir()] == ["map"]


@pytest.mark.parametrize(
    ("option", "value"), [("--seed", -1), ("--tsne-perplexity", 0), ("--points", -1), ("--words", -1)]
)
def test_numbers_out_of_range_are_one_sentence_and_no_folder(isogloss, sides, tiny, option, value):
    answer = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run", option, value))
    one_sentence(answer, f"{option} must be ")
    assert not (sides / "run").exists()


def test_an_unknown_option_is_one_sentence(isogloss, sides):
    one_sentence(isogloss("map", "--bitxt", "x"), "--bitxt", "--bitext")


def test_an_interrupt_says_how_to_go_on(isogloss, sides, tiny, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(recipe, "start", interrupt)
    code, _, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    assert code == 130 and "run the same command with --resume" in told and "Traceback" not in told


def test_the_end_that_a_scheduler_sends_says_how_to_go_on(isogloss, sides, tiny, monkeypatch):
    closed = []

    def terminated(*_, **__):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            closed.append("what was open")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(recipe, "start", terminated)
    code, _, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    assert code == 143 and told == "isogloss: terminated; run the same command with --resume to go on\n"
    assert closed == ["what was open"] and signal.getsignal(signal.SIGTERM) is before


def test_a_full_disk_is_one_sentence_and_loses_nothing(undrawn, sides, tiny, monkeypatch):
    from isogloss.runs import run as run_module

    arguments = ("map", tiny("bert"), *given(sides, "--out", sides / "run", "--points", 0))
    count = []

    def full(descriptor):
        count.append(descriptor)
        if len(count) == 9:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_module.os, "fsync", full)
        code, _, told = undrawn(*arguments)
    assert code == 1 and "No space left on device" in told and "Traceback" not in told
    assert undrawn(*arguments, "--resume")[0] == 0
    assert read_facts(sides / "run")["status"] == "finished"


def test_a_full_disk_is_named_where_numpy_meets_it(isogloss, sides, tiny, monkeypatch):
    def full(*_, **__):
        raise OSError("83712 requested and 72672 written")

    monkeypatch.setattr(recipe, "start", full)
    code, _, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    assert code == 1 and "No space left on device (83712 requested" in told and "--resume goes on" in told


@pytest.mark.parametrize(("stop", "code"), [(PermissionError(13, "Permission denied"), 1), (KeyboardInterrupt(), 130)])
def test_a_report_that_is_stopped_offers_no_resume(isogloss, tmp_path, monkeypatch, stop, code):
    def stopped(*_, **__):
        raise stop

    monkeypatch.setattr("isogloss.report.write_page", stopped)
    left, _, told = isogloss("report", tmp_path, "--quiet")
    assert left == code and told.endswith("; the rows are as they were\n") and "--resume" not in told


def test_a_run_that_is_missing_is_told_before_another_is_drawn(isogloss, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rows.csv").write_text("measure,value,layer,method,source,target\np@1,0.5,0,centred,en,nl\n")
    code, _, told = isogloss("report", tmp_path / "run", tmp_path / "away", "--quiet")
    assert code == 2 and "away is not a folder" in told
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["rows.csv"]


def test_no_run_folder_for_report(isogloss, tmp_path):
    code, _, told = isogloss("report", tmp_path, "--quiet")
    assert code == 2 and str(tmp_path) in told and "Traceback" not in told


@pytest.mark.parametrize("after", [0.0, 0.3, 0.8])
def test_a_killed_map_resumes_to_the_same_rows(undrawn, sides, tiny, after):
    command = ["map", tiny("bert"), *given(sides, "--points", 0)]
    begin = time.time()
    assert undrawn(*command, "--out", sides / "whole")[0] == 0
    seconds = time.time() - begin
    process = fork(undrawn, *command, "--out", sides / "run")
    deadline = time.time() + 60
    while not (sides / "run").exists() and time.time() < deadline:
        time.sleep(0.005)
    time.sleep(after * seconds)
    kill(process)
    assert undrawn(*command, "--out", sides / "run", "--resume")[0] == 0
    whole, run = (read_rows(sides / name) for name in ("whole", "run"))
    columns = list(whole.columns)
    pd.testing.assert_frame_equal(
        whole.sort_values(columns, ignore_index=True), run.sort_values(columns, ignore_index=True), check_exact=True
    )


def test_version_and_help_show_an_example(isogloss):
    assert isogloss("--version")[1].startswith("isogloss ")
    for command in (("map",), ("report",), ("data", "list"), ("data", "check")):
        code, shown, _ = isogloss(*command, "--help")
        assert code == 0 and "Example: isogloss" in shown


def test_waiting_threads_sleep_only_if_other_programs_use_all_cores(isogloss, monkeypatch):
    """Beside two trainings on two cores the demo took three times as long while its threads kept spinning."""
    for load, before, after in ((0.5, None, None), (1.0, None, "passive"), (1.0, "active", "active")):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load * (os.cpu_count() or 1), 0.0, 0.0))
        monkeypatch.setenv("OMP_WAIT_POLICY", before or "")
        if before is None:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        isogloss("--version")
        assert os.environ.get("OMP_WAIT_POLICY") == after


def test_data_list_and_check(isogloss, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "README.md").write_text("# mine\n\nTwo sentences.\n")
    (folder / "en-nl.tsv").write_text("en\tnl\nthe cat\tde kat\nyes\tja\n", encoding="utf-8")
    code, shown, _ = isogloss("data", "list", "--data", tmp_path)
    assert code == 0 and "mine" in shown and "en nl" in shown
    code, shown, _ = isogloss("data", "check", "--data", tmp_path)
    assert code == 0 and "0 problems in 1 files" in shown
    (folder / "en-nl.tsv").write_text("en\tnl\nthe cat\n", encoding="utf-8")
    code, shown, _ = isogloss("data", "check", "--data", tmp_path)
    assert code == 1 and "en-nl.tsv" in shown and "2" in shown
    code, _, told = isogloss("data", "list")
    assert code == 2 and "ISOGLOSS_DATA" in told


def test_a_node_without_opentsne_draws_everything_else(isogloss, sides, tiny, monkeypatch):
    from isogloss.recipes import word_map as wordmap

    for module in (page, wordmap):
        monkeypatch.setattr(module, "find_spec", lambda name: None if name == "openTSNE" else object())
    code, shown, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run"))
    assert code == 0, told
    assert "the word map was not drawn here" in shown
    assert (sides / "run" / "report.html").is_file()
    monkeypatch.undo()
    wordmap.draw_points(sides / "run")
    assert (sides / "run" / "points.parquet").is_file()
    assert not (sides / "run" / "words.safetensors").exists()


def test_a_node_without_the_report_packages_still_measures(isogloss, sides, tiny, monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda name: None if name == "matplotlib" else object())
    code, shown, told = isogloss("map", tiny("bert"), *given(sides, "--out", sides / "run", "--points", 0))
    assert code == 0, told
    assert f"isogloss report {sides / 'run'}" in shown
    assert not (sides / "run" / "report.html").exists()
    monkeypatch.undo()
