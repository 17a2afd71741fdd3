"""The page as text: what it holds, and what it cannot become."""

from isogloss.report import write_report


def test_the_page_starts_with_the_verdict(run, tmp_path):
    page = write_report([run], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The languages meet most closely at layers 7 and 8" in page
