"""The documentation says what is true: names exist, commands parse, quoted errors are real, marked examples run."""

import ast
import doctest
import inspect
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

import isogloss
from isogloss.cli import RECIPES, app
from isogloss.measures import MEASURES

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
BLOCKS = [(name, *match.groups()) for name, text in TEXTS.items() for match in FENCE.finditer(text)]
COMMAND = re.compile(r"^(?:(?:torchrun|accelerate) .* )?(isogloss .*)$", re.MULTILINE)
COMMANDS = [(name, line) for name, _, block in BLOCKS for line in COMMAND.findall(block)]
RUN = sorted({name for name, kind, _ in BLOCKS if kind == "python run"})


def test_the_pages_are_there_and_fences_are_of_known_kinds():
    assert {
        "index.md",
        "start.md",
        "concepts.md",
        "map.md",
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
    words = shlex.split(line)[1:]
    command = get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)  # parses and does not run


def options_table(name):
    """The rows of a page's table of options: (options, default)."""
    table = TEXTS[f"{name}.md"].partition("\n## Options")[2].partition("\n## ")[0]
    return re.findall(r"^\| (`--.*?) \| (.*?) ?\|", table, re.MULTILINE)


@pytest.mark.parametrize("name", [*RECIPES, "reproduce", "export"])
def test_every_option_of_a_recipe_is_in_its_table(name):
    listed = [option for options, _ in options_table(name) for option in re.findall(r"`(--[a-z-]+)`", options)]
    parameters = get_command(app).commands[name].params
    assert sorted(listed) == sorted(
        {each for one in parameters for each in one.opts + one.secondary_opts if each.startswith("--")} - {"--help"}
    )


def test_lists_of_recipes_and_results_are_whole():
    listed = TEXTS["concepts.md"].partition("\n## Recipe, job")[2].partition("\n## ")[0]
    assert {name for name in RECIPES if f"[{name}]({name}.md)" not in listed} == set()
    measured = [place.parent.name for place in ROOT.glob("results/*2*/README.md")]
    assert measured and {one for one in measured if f"../results/{one}/README.md" not in TEXTS["reproduce.md"]} == set()


def test_the_readme_is_one_screen_that_names_every_command_and_links_to_files():
    assert len(README.splitlines()) <= 60
    assert {name for name in get_command(app).commands if f"[`{name}`]" not in README} <= {"data"}
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", README)]
    assert [target for target in targets if not (ROOT / target).is_file()] == []
    assert set(re.findall(r"\big\.(\w+)", README)) <= set(isogloss.__all__)
    for block in re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        ast.parse(block)


@pytest.mark.parametrize("name", RECIPES)
def test_a_sweep_has_the_options_of_its_recipe_and_those_in_its_table(name):
    def options(command):
        return {each for one in command.params for each in one.opts if each.startswith("--")}

    commands = get_command(app).commands
    listed = {option for options, _ in options_table("sweep") for option in re.findall(r"`(--[a-z-]+)`", options)}
    assert options(commands["sweep"].commands[name]) == options(commands[name]) | listed


@pytest.mark.parametrize("name", ["pretrain", "drift", "transfer", "lexicon", "rotate", "stitch", "align", "export"])
def test_defaults_in_a_table_are_those_of_the_signature(name):
    written = dict(options_table(name))
    function = isogloss.export if name == "export" else RECIPES[name]
    for one in inspect.signature(function).parameters.values():
        cell = written.get(f"`--{one.name.replace('_', '-')}`")
        if cell is not None:  # text is read from paths, and a flag has two spellings
            assert cell == ("" if one.default in (None, one.empty) else str(one.default)), one.name


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


def signature_of(name):
    """The signature without types, as the reference writes it."""
    parameters = []
    for one in inspect.signature(getattr(isogloss, name)).parameters.values():
        default = one.default
        if inspect.isfunction(default):
            text = default.__name__
        else:
            text = "{}" if repr(default) == "<factory>" else repr(default)
        shown = one.replace(annotation=one.empty, default=one.empty)
        parameters.append((shown, "" if default is one.empty else f"={text}"))
    plain = str(inspect.Signature([shown for shown, _ in parameters]))
    for shown, text in parameters:
        plain = re.sub(rf"(?<![\w*]){shown.name}(?=[,)])", lambda found, text=text: found[0] + text, plain, count=1)
    return plain


def test_the_reference_lists_exactly_the_public_names_with_their_signatures():
    entries = dict(re.findall(r"^- `(\w+)(\([^`]*\))`:", TEXTS["reference.md"], re.MULTILINE))
    assert set(entries) == set(isogloss.__all__)
    del entries["InputError"]  # an exception has no signature to read
    for name, written in entries.items():
        assert written == signature_of(name), name


def test_members_in_the_reference_exist():
    owner = None
    for line in TEXTS["reference.md"].splitlines():
        if found := re.match(r"- `(\w+)\(", line):
            owner = getattr(isogloss, found[1])
        elif line.startswith("  - `."):
            for member in re.findall(r"`\.(\w+)", line):
                assert hasattr(owner, member), (owner, member)


def sentences_in_the_source():
    """Every text in the source, with a blank for what is filled in."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_quoted_errors_are_what_the_source_says():
    known = "\n".join(sentences_in_the_source())
    quoted = re.findall(r"^> (`+)(.+?)\1$", TEXTS["errors.md"] + TEXTS["callbacks.md"], re.MULTILINE)
    assert len(quoted) > 100
    for _, sentence in quoted:
        for part in re.split(r"<[^>]*>", sentence):
            assert part.strip(" ;:,()") in known, sentence
