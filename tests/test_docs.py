"""The documentation says what is true: names exist, commands parse, quoted errors are real, marked examples run."""

import ast
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import isogloss
from isogloss.cli import RECIPES, app, find_command
from isogloss.measures.registry import MEASURES

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
BLOCKS = [(name, *match.groups()) for name, text in TEXTS.items() for match in FENCE.finditer(text)]
COMMAND = re.compile(r"^(?:(?:torchrun|accelerate) .* )?(isogloss .*)$", re.MULTILINE)
COMMANDS = [(name, line) for name, _, block in BLOCKS for line in COMMAND.findall(block)]
PLAN = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
COMMANDS += [("results", line) for _, block in FENCE.findall(PLAN) for line in COMMAND.findall(block)]
RUN = sorted({name for name, kind, _ in BLOCKS if kind == "python run"})
OTHER_FILES = shutil.ignore_patterns("data", "models", "__pycache__")  # a measure needs none of these


def test_the_pages_are_there_and_fences_are_of_known_kinds():
    assert {
        "index.md",
        "start.md",
        "concepts.md",
        "map.md",
        "tokens.md",
        "lens.md",
        "pretrain.md",
        "drift.md",
        "transfer.md",
        "lexicon.md",
        "rotate.md",
        "stitch.md",
        "align.md",
        "export.md",
        "mappings.md",
        "sweep.md",
        "reproduce.md",
        "measures.md",
        "text.md",
        "extending.md",
        "errors.md",
    } <= set(TEXTS)
    assert {kind for _, kind, _ in BLOCKS} <= {"", "python", "python run"}
    assert all(text.count("\n```") == 2 * len(FENCE.findall(text)) for text in TEXTS.values())


@pytest.mark.parametrize("name", TEXTS)
def test_every_public_name_that_is_mentioned_exists(name):
    mentioned = set(re.findall(r"\big\.(\w+)", TEXTS[name]))
    assert mentioned <= set(isogloss.__all__), mentioned - set(isogloss.__all__)


@pytest.mark.parametrize(("name", "line"), COMMANDS, ids=[line for _, line in COMMANDS])
def test_commands_parse(name, line):
    command, rest = find_command(shlex.split(line)[1:])
    command.make_context(command.name, rest)  # parses and does not run


def test_lists_of_recipes_and_results_are_whole():
    listed = TEXTS["concepts.md"].partition("\n## Recipe, job")[2].partition("\n## ")[0]
    assert {name for name in RECIPES if f"[{name}]({name}.md)" not in listed} == set()
    measured = [place.parent.name for place in ROOT.glob("results/*2*/README.md")]
    assert measured and {one for one in measured if f"../results/{one}/README.md" not in TEXTS["reproduce.md"]} == set()


def test_numbers_with_intervals_on_the_page_of_papers_are_those_of_the_results():
    sources = [*ROOT.glob("results/*2*/**/summary.txt"), ROOT / "results" / "mini" / "README.md"]
    known = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    quoted = re.findall(r"[-+]?[\d.]+ \[[^\]]+\](?!\()", TEXTS["papers.md"])
    assert len(quoted) > 20 and [number for number in quoted if number not in known] == []


def test_the_readme_is_one_screen_that_names_every_command_and_links_to_files():
    assert len(README.splitlines()) <= 60
    assert {name for name in app.info.cls.entries if f"[`{name}`]" not in README} <= {"data"}
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", README)]
    assert [target for target in targets if not (ROOT / target).is_file()] == []
    assert set(re.findall(r"\big\.(\w+)", README)) <= set(isogloss.__all__)
    for block in re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        ast.parse(block)


@pytest.mark.parametrize(("name", "target"), [(n, t) for n in TEXTS for t in re.findall(r"\]\(([^)]+)\)", TEXTS[n])])
def test_links_between_pages_lead_somewhere(name, target):
    page, _, section = target.partition("#")
    if page.startswith("../"):
        assert (PAGES[0].parent / page).is_file() and not section
        return
    headings = re.findall(r"^#+ (.*)$", TEXTS[page or name], re.MULTILINE)
    assert not section or section in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize(("name", "block"), [(name, block) for name, kind, block in BLOCKS if kind == "python"])
def test_python_blocks_that_do_not_run_are_python(name, block):
    ast.parse(block)


@pytest.mark.parametrize("name", RUN)
def test_marked_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registered = dict(MEASURES)
    space = {"__name__": "docs"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    try:
        for page, kind, block in BLOCKS:
            if page != name or kind != "python run":
                continue
            if block.startswith(">>> "):
                example = doctest.DocTestParser().get_doctest(block, space, name, name, 0)
                runner.run(example, clear_globs=False)
                space |= example.globs
            else:
                exec(compile(block, name, "exec"), space)
    finally:
        MEASURES.clear()
        MEASURES.update(registered)
    assert runner.summarize().failed == 0


def sentences_in_the_source():
    """Every text in the source, with a blank for what is filled in."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_a_measure_is_added_by_one_file(tmp_path):
    package = Path(shutil.copytree(ROOT / "src" / "isogloss", tmp_path / "isogloss", ignore=OTHER_FILES))
    block = next(block for page, _, block in BLOCKS if page == "extending.md" and "def pair_margin" in block)
    (package / "measures" / "pair_margin.py").write_text(block, encoding="utf-8")
    asked = "from isogloss.measures import describe; print(describe('pair_margin').title)"
    words = [sys.executable, "-c", asked]
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert done.stdout.strip() == "Margin of pairs", done.stderr


def test_quoted_errors_are_what_the_source_says():
    known = "\n".join(sentences_in_the_source())
    quoted = re.findall(r"^> (`+)(.+?)\1$", TEXTS["errors.md"] + TEXTS["callbacks.md"], re.MULTILINE)
    assert len(quoted) > 100
    for _, sentence in quoted:
        for part in re.split(r"<[^>]*>", sentence):
            assert part.strip(" ;:,()") in known, sentence
