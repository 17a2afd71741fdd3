"""Bars: one a stage, whatever news of it follows a colon."""

from isogloss.progress import bar


def test_news_of_a_stage_goes_on_with_its_bar(capsys):
    with bar() as show:
        show("packing", 3, 3)
        show("tuning freeze:3", 3, 3)
        show("tuning freeze:6", 3, 3)
        for step in range(1, 4):
            show("training" if step < 2 else f"training: loss {4 / step:.2f}", step, 3)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert [line.partition("\u2501")[0].strip() for line in lines] == [
        "packing", "tuning freeze:3", "tuning freeze:6", "training: loss 1.33"
    ]  # fmt: skip
    assert all("3/3" in line for line in lines)
