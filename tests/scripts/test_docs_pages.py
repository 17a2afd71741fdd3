import importlib.util
import sys
from pathlib import Path

import pytest

import isogloss
from isogloss.cli import RECIPES

SCRIPT = Path(__file__).parents[2] / "scripts" / "docs_pages.py"


@pytest.fixture(scope="module")
def docs_pages():
    spec = importlib.util.spec_from_file_location("docs_pages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_pages"] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_and_every_link_leads_to_a_file(docs_pages, tmp_path):
    assert docs_pages.gather(tmp_path / "docs") == []
    text = (tmp_path / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert "](results/hussain2020.md)" in text and "](../results" not in text
    assert (tmp_path / "docs" / "results" / "hussain2020" / "report.html").is_file()


def test_the_api_reference_has_every_public_name(docs_pages):
    text = docs_pages.api_text()
    assert all(f"heading: ig.{name}\n" in text for name in isogloss.__all__ if callable(getattr(isogloss, name)))


def test_a_link_that_leads_nowhere_is_told(docs_pages, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("[here](#section) [there](nowhere.md#section) [web](https://example.org)", encoding="utf-8")
    monkeypatch.setattr(docs_pages, "ROOT", tmp_path)
    broken = []
    docs_pages.site_text(page, {page: "page.md"}, tmp_path / "site", broken)
    assert broken == ["docs/page.md links to nowhere.md, which is no file of the repository"]


@pytest.mark.parametrize("name", [*RECIPES, "sweep", "reproduce", "export"])
def test_the_tables_of_options_are_those_of_the_commands(docs_pages, name):
    text = (SCRIPT.parents[1] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert "\n## Options\n" in text
    assert docs_pages.with_options(text, name) == text, "python scripts/docs_pages.py --options writes them anew"
