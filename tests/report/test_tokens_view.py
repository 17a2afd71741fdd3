"""The report of what a tokenizer costs: verdict, table, figure, page."""

from isogloss.report import verdict, write_page
from isogloss.report.curves import RunFolder
from isogloss.report.page import view_of
from isogloss.runs.run import start
from isogloss.runs.table import frame, row

BASE = {"model": "mini", "data": "text", "seed": 0, "n": 200, "unit": "token"}


def rows(*, bits=True):
    made = []
    for code, premium, unknown, single in (("en", None, 0.0, 0.0), ("nl", 1.2, 0.0, 0.0), ("zh", 2.5, 0.08, 0.4)):
        own = {**BASE, "source": code}
        made += [row("tokens_per_word", 1.25, low=1.2, high=1.3, **own), row("tokens_per_character", 0.25, **own)]
        made += [row("unknown_tokens", unknown, **own), row("byte_tokens", single, **own)]
        if premium:
            made.append(row("premium", premium, low=premium - 0.1, high=premium + 0.1, target="en", **own))
        if bits:
            made.append(row("bits_per_byte", premium or 0.9, **{**own, "unit": "byte", "method": "causal"}))
    return made


def test_the_verdict_names_the_dearest_the_unknown_and_the_bytes():
    assert verdict(frame(rows()), "tokens") == [
        "Chinese costs 2.50 [2.40, 2.60] times the tokens of English for the same 200 sentences; the cheapest, Dutch, "
        "takes 1.20 [1.10, 1.30] times.",
        "English itself takes 1.25 [1.20, 1.30] tokens a word and 0.250 a character.",
        "Unknown tokens hide costs, since an unknown word is one token whatever its length: 8.0% of Chinese.",
        "Many tokens are single bytes of a character that has no piece of its own: 40.0% of Chinese.",
        "The model spends 0.900 bits a byte in English, up to 2.50 in Chinese (the likelihood of all tokens).",
    ]
    assert len(verdict(frame(rows(bits=False)), "tokens")) == 4


def test_the_table_and_the_figure_have_the_dearest_first(tmp_path):
    view = view_of(RunFolder(tmp_path, {"command": "tokens", "model": "mini"}, frame(rows())))
    (table,), (figure,) = view.tables, view.figures
    assert [line[0] for line in table.rows] == ["Chinese", "Dutch", "English"]
    assert table.rows[0][1:] == ["2.50 [2.40, 2.60]", "1.25 [1.20, 1.30]", "0.250", "8.0", "40.0", "2.50"]
    assert table.rows[2][1] == "–"
    assert [list(panel.lines[0].steps) for panel in figure.panels] == [[0, 1], [0, 1, 2]]
    assert list(figure.ticks.values()) == ["Chinese", "Dutch", "English"]


def test_one_language_alone_has_no_premium_and_two_texts_are_told_apart(tmp_path):
    alone = [entry for entry in rows() if entry["source"] == "en"]
    assert verdict(frame(alone), "tokens")[0].startswith("English itself takes")
    two = [*rows(), *({**entry, "data": "other"} for entry in rows())]
    assert [said.split(":")[0] for said in verdict(frame(two), "tokens")] == ["text"] * 5 + ["other"] * 5


def test_the_page_is_written(tmp_path):
    facts = {"command": "tokens", "arguments": {}, "seed": 0, "model": "mini", "hashes": {}}
    with start(tmp_path / "run", facts) as run:
        run.append(rows())
        run.finish()
    page = write_page([tmp_path / "run"], tmp_path / "page.html").read_text()
    assert "What each language costs" in page and (tmp_path / "run" / "figures" / "tokens.png").is_file()
