"""Who hears progress, under which name, and the bars: one a stage, whatever news of it follows a colon."""

from isogloss.progress import bar, listening, named, progress, shifted, silent


def work(stage, total):
    for done in range(1, total + 1):
        progress(stage, done, total)
        yield done


def test_the_innermost_listener_hears_and_nobody_afterwards():
    outer, inner = [], []
    with listening(lambda *news: outer.append(news)):
        progress("reading", 1, 2)
        with listening(lambda *news: inner.append(news)):
            progress("checking", 1, 1)
        with listening(silent):
            progress("checking", 1, 1)
        progress("reading", 2, 2)
    progress("reading", 3, 2)
    assert outer == [("reading", 1, 2), ("reading", 2, 2)] and inner == [("checking", 1, 1)]


def test_work_is_told_under_another_name_and_as_part_of_a_whole():
    told = []
    with listening(lambda *news: told.append(news)):
        assert list(named("tuning", shifted(3, 9, work("training", 2)))) == [1, 2]
    assert told == [("tuning", 4, 9), ("tuning", 5, 9)]


def test_a_name_holds_while_work_is_done_and_not_where_its_values_go():
    told = []
    with listening(lambda *news: told.append(news)):
        for number in named("tuning", work("training", 3)):
            progress("writing", number, 3)
            if number == 2:
                break
    assert told == [("tuning", 1, 3), ("writing", 1, 3), ("tuning", 2, 3), ("writing", 2, 3)]


def test_lines_are_written_at_once_where_standard_error_is_a_file(capsys):
    """In a redirected log the progress of hours appeared at their end."""
    with bar():
        for step in range(1, 4):
            progress("training" if step < 2 else f"training: loss {4 / step:.2f}", step, 3)
            assert len(capsys.readouterr().err.splitlines()) == (1 if step != 2 else 0)
        progress("training", 3, 3)
        assert capsys.readouterr().err == "", "the end is told once"


def test_news_of_a_stage_goes_on_with_its_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with bar():
        progress("packing", 3, 3)
        progress("tuning freeze:3", 3, 3)
        progress("tuning freeze:6", 3, 3)
        for step in range(1, 4):
            progress("training" if step < 2 else f"training: loss {4 / step:.2f}", step, 3)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    stages = ["packing", "tuning freeze:3", "tuning freeze:6", "training: loss 1.33"]
    assert [line.partition("\u2501")[0].strip() for line in lines] == stages
    assert all("3/3" in line for line in lines)
