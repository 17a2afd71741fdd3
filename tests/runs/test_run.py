import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from isogloss import cli
from isogloss.errors import InputError
from isogloss.files import whole, write_text
from isogloss.runs import COLUMNS, check_folder, frame, read_facts, read_rows, row, start
from tiny_processes import exit_code, fork, kill

FACTS = {"command": "map", "arguments": {"sample": 4}, "seed": 0, "model": "mini", "hashes": {"model": "a"}}
ROWS = [
    row("cka", 1 / 3, low=0.1, high=0.7, floor=-0.0, n=9, layer=0, source="en", target="nan", model="mini", seed=0),
    row("cka", 1e-17, layer=1, source="en", target="nl", model='a "quoted", name', seed=0),
    row("truncated", 2, source="en"),
]


def test_rows_read_back_equal_rows_written(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.append(ROWS)
    table = run.finish()
    pd.testing.assert_frame_equal(read_rows(tmp_path / "run"), table)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run" / "rows.parquet"), table)
    assert tuple(table.columns) == COLUMNS
    assert table.value.tolist() == [1 / 3, 1e-17, 2.0]  # to the last bit
    assert table.target.tolist() == ["nan", "nl", ""]  # nan is a language (Min Nan), not a missing value
    assert table.layer.tolist() == [0, 1, pd.NA]
    assert read_facts(tmp_path / "run")["status"] == "finished"
    assert not (tmp_path / "run" / "scratch").exists()


def test_published_results_have_one_file_of_rows(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.append(ROWS)
    table = run.finish()
    (tmp_path / "run" / "rows.csv").unlink()
    pd.testing.assert_frame_equal(read_rows(tmp_path / "run"), table)
    packed = tmp_path / "run" / "rows.parquet"
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read as parquet .*; the run must be made again"):
        read_rows(tmp_path / "run")


def test_a_row_is_kept_once(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.append(ROWS)
    run.append([{**ROWS[0], "value": 5.0}])
    assert run.has(ROWS[0])
    assert len(run.finish()) == 3


def test_resume_drops_half_a_line_and_goes_on(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.append(ROWS[:1])
    counted = (tmp_path / "run" / "run.json").read_bytes()
    run.append(ROWS[1:2])
    run.close()
    file = tmp_path / "run" / "rows.csv"
    file.write_bytes(file.read_bytes()[:-9])
    (tmp_path / "run" / "run.json").write_bytes(counted)  # a kill in the midst of a row is before it is counted
    assert len(read_rows(tmp_path / "run")) == 1  # half a row is not read
    again = start(tmp_path / "run", FACTS, resume=True)
    assert [again.has(one) for one in ROWS] == [True, False, False]
    again.append(ROWS)
    pd.testing.assert_frame_equal(again.finish(), frame(ROWS))


@pytest.mark.parametrize("damage", [b"", b"5", b"\xff\xfe", None])
def test_rows_that_were_written_and_are_gone_are_missed_and_found_again_in_a_finished_run(tmp_path, damage):
    """Training went on from its checkpoint and ended well, and the rows before it were gone."""
    folder = tmp_path / "run"
    with start(folder, FACTS) as run:
        run.append(ROWS)
    sound = (folder / "rows.csv").read_bytes()
    damaged = (sound[: sound[:-1].rfind(b"\n") + 1], damage)
    for content in damaged:
        (folder / "rows.csv").unlink(missing_ok=True)
        if content is not None:
            (folder / "rows.csv").write_bytes(content)
        for look in (read_rows, lambda path: start(path, FACTS, resume=True)):
            with pytest.raises(InputError, match=r"rows\.csv.*; the run must be made again|columns are not those"):
                look(folder)
    (folder / "rows.csv").write_bytes(sound)
    with start(folder, FACTS, resume=True) as run:
        run.finish()
    for content in damaged:
        (folder / "rows.csv").unlink()
        if content is not None:
            (folder / "rows.csv").write_bytes(content)
        pd.testing.assert_frame_equal(read_rows(folder), frame(ROWS))
        start(folder, FACTS, resume=True).close()
        assert (folder / "rows.csv").read_bytes() == sound


def test_what_differs_from_the_start_of_a_run_is_listed_unless_it_changes_no_result(tmp_path):
    facts = {**FACTS, "arguments": {"epochs": 3, "rate": 1e-4, "checkpoint": 20}}
    start(tmp_path / "run", facts).close()
    start(tmp_path / "run", {**facts, "arguments": {**facts["arguments"], "checkpoint": 500}}, resume=True).close()
    changed = {**facts, "arguments": {"epochs": 5, "rate": 2e-4, "checkpoint": 20}}
    both = r"\(arguments epochs: 3 then, 5 now; arguments rate: 0.0001 then, 0.0002 now\)"
    with pytest.raises(InputError, match=f"run was begun differently {both}; resume with the same"):
        start(tmp_path / "run", changed, resume=True)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match="run cannot be made in .*: Operation not permitted; choose another --out"):
        start(tmp_path / "run", FACTS)


def test_a_run_killed_while_it_was_being_made_can_be_resumed(tmp_path):
    for files in ([], [".run.json.77.part"], ["run.json"], ["run.json", ".rows.csv.77.part"]):
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        start(folder, FACTS).close()
        kept = {name: (folder / name).read_bytes() if (folder / name).exists() else b"half" for name in files}
        for path in folder.iterdir():
            path.unlink()
        for name, content in kept.items():
            (folder / name).write_bytes(content)
        run = start(folder, FACTS, resume=True)
        run.append(ROWS)
        pd.testing.assert_frame_equal(run.finish(), frame(ROWS))


def test_a_folder_is_never_overwritten(tmp_path):
    start(tmp_path / "run", FACTS).close()
    with pytest.raises(InputError, match="already holds a run; add --resume"):
        start(tmp_path / "run", FACTS)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is no run folder"):
        start(tmp_path / "notes", FACTS)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"run cannot be made in .*file: it is a file; choose another --out"):
        check_folder(tmp_path / "file" / "run", resume=False)
    check_folder(tmp_path / "new" / "run", resume=False)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"run cannot be made in {tmp_path}: you may not write there"):
        check_folder(tmp_path / "new" / "run", resume=False)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"arguments": {"sample": 5}}, "arguments sample: 4 then, 5 now"),
        ({"seed": 1}, "seed: 0 then, 1 now"),
        ({"hashes": {"model": "b"}}, "hashes model: 'a' then, 'b' now"),
        ({"hashes": {"model": "a", "checkpoint": "b"}}, "hashes checkpoint: None then, 'b' now"),  # a text of this name
    ],
)
def test_resume_with_something_else_is_refused(tmp_path, change, sentence):
    start(tmp_path / "run", FACTS).close()
    with pytest.raises(InputError, match=sentence):
        start(tmp_path / "run", {**FACTS, **change}, resume=True)


def test_a_damaged_table_is_named_by_line(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.append(ROWS)
    file = tmp_path / "run" / "rows.csv"
    file.write_text(file.read_text().replace("\ncka,1e-17", "\nx"))
    with pytest.raises(InputError, match=r"rows\.csv:3: 25 cells instead of 26"):
        read_rows(tmp_path / "run")
    with pytest.raises(InputError, match="is no run folder"):
        read_rows(tmp_path)
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json is not JSON"):
        read_facts(tmp_path / "run")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "facts.json"
    write_text(path, "old")
    with pytest.raises(OSError, match="no space"), whole(path) as beside:
        beside.write_text("half")
        raise OSError(28, "no space")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_column_is_refused():
    with pytest.raises(TypeError, match="no such column: langauge"):
        row("cka", 1.0, langauge="en")


def test_facts_say_versions_and_notes_once(tmp_path):
    run = start(tmp_path / "run", FACTS)
    run.note("one")
    run.note("one")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["notes"] == ["one"]
    assert {"python", "torch", "isogloss"} <= set(facts["versions"])


def hold(folder, ready):
    """Be in the middle of a run."""
    with start(folder, FACTS) as run:
        run.append([row("cka", 0.5, layer=1)])
        ready.set()
        time.sleep(60)


@pytest.fixture
def other(tmp_path):
    """A process that is in the middle of a run in the folder `run`."""
    ready = multiprocessing.Event()
    process = fork(hold, tmp_path / "run", ready)
    assert ready.wait(60)
    yield process
    kill(process)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_processes_on_one_folder_the_second_is_told_at_once_and_changes_nothing(other, tmp_path):
    before, begun = contents(tmp_path / "run"), time.monotonic()
    with pytest.raises(InputError, match=r"run is in use: another process is writing to it; wait for it, or choose"):
        start(tmp_path / "run", FACTS, resume=True)
    assert time.monotonic() - begun < 5 and contents(tmp_path / "run") == before and other.is_alive()


def test_a_killed_process_leaves_no_lock_behind(other, tmp_path):
    kill(other)
    with start(tmp_path / "run", FACTS, resume=True) as run:
        assert run.rows == [row("cka", 0.5, layer=1)]
    assert not (tmp_path / "run" / ".lock").exists()


def hold_by_command(folder, ready):
    # In the background of a shell SIGINT is ignored, and by all that is started there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.app = lambda **_: hold(folder, ready)
    cli.main()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_was_stopped_says_so_and_goes_on_when_it_is_resumed(tmp_path, number, code):
    ready = multiprocessing.Event()
    process = fork(hold_by_command, tmp_path / "run", ready)
    assert ready.wait(60)
    os.kill(process.pid, number)
    assert exit_code(process) == code
    assert read_facts(tmp_path / "run")["status"] == "interrupted"
    with start(tmp_path / "run", FACTS, resume=True) as run:
        assert read_facts(tmp_path / "run")["status"] == "running" and len(run.rows) == 1
        run.finish()
    assert read_facts(tmp_path / "run")["status"] == "finished"


def test_a_finished_run_stays_finished_when_the_process_is_stopped_afterwards(tmp_path):
    with pytest.raises(KeyboardInterrupt), start(tmp_path / "run", FACTS) as run:
        run.finish()
        raise KeyboardInterrupt
    assert read_facts(tmp_path / "run")["status"] == "finished"


def test_a_mistake_leaves_no_folder_unless_there_is_work_in_it(tmp_path):
    for name, file in (("none", "jobs/job.log"), ("trained", "checkpoints/step-1"), ("swept", "jobs/job/run.json")):
        with pytest.raises(InputError, match="a mistake"), start(tmp_path / name, FACTS) as run:
            (run.folder / file).parent.mkdir(parents=True)
            (run.folder / file).touch()
            raise InputError("a mistake")
        assert (tmp_path / name).exists() == (name != "none")


def test_a_finished_folder_with_parquet_alone_keeps_its_table_when_it_is_resumed(tmp_path):
    with start(tmp_path / "run", FACTS) as run:
        run.append(ROWS)
        table = run.finish()
    (tmp_path / "run" / "rows.csv").unlink()
    with start(tmp_path / "run", FACTS, resume=True) as run:
        assert run.finished
        pd.testing.assert_frame_equal(frame(run.rows), table)
    pd.testing.assert_frame_equal(read_rows(tmp_path / "run"), table)


def test_a_table_that_is_collected_anew_forgets_the_rows_before(tmp_path):
    with start(tmp_path / "run", FACTS) as run:
        run.append(ROWS)
        run.note("before")
        run.finish()
        run.begin_anew()
        assert not (tmp_path / "run" / "rows.parquet").exists() and not len(read_rows(tmp_path / "run"))
        facts = read_facts(tmp_path / "run")
        assert (facts["status"], facts["finished"], facts["notes"]) == ("running", None, [])
        run.append(ROWS[:1])
        pd.testing.assert_frame_equal(run.finish(), frame(ROWS[:1]))


def test_a_disk_without_locks_is_used_without(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with start(tmp_path / "run", FACTS) as run:
        run.append(ROWS)
        assert len(run.finish()) == 3
