"""Gather the pages of the documentation site in build/docs, from where `zensical build` reads them.

The pages are docs/*.md, the READMEs of results and of every folder in it, of the benchmarks, the embedded model and the
embedded data, the changelog and the guide for contributors; `api.md` is written here, one entry for each public name of
the package, and filled from the docstrings by mkdocstrings. Links between pages are written as paths in the repository,
so that they also work where the files are read as they are; here each becomes the path from page to page, and a file
that is linked to and is no page (a report, a figure) is copied beside them.

    python scripts/docs_pages.py && zensical build --strict

    python scripts/docs_pages.py --options     # the tables of options in docs/*.md, made anew from the signatures

Stops with a list of what is wrong when a link leads nowhere or when a page is missing from the navigation.
"""

import inspect
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "docs"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^```python run\n(>>> )?", re.MULTILINE)
NESTED = re.compile(r"^  (?=- )", re.MULTILINE)  # Python-Markdown nests a list by four spaces
API = "api.md"
API_TITLE = """# API reference

Every public name of `isogloss` (`import isogloss as ig`), from its docstring.
"""


def pages() -> dict[Path, str]:
    """Return the path of every page on the site by its file in the repository."""
    files = {path: path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    files |= {path: f"results/{path.parent.name}.md" for path in sorted((ROOT / "results").glob("*/README.md"))}
    files |= {path: f"models/{path.parent.name}.md" for path in sorted((ROOT / "src").glob("*/models/*/README.md"))}
    return files | {
        ROOT / "results" / "README.md": "results.md",
        ROOT / "benchmarks" / "README.md": "benchmarks.md",
        ROOT / "src" / "isogloss" / "data" / "README.md": "data.md",
        ROOT / "CONTRIBUTING.md": "contributing.md",
        ROOT / "CHANGELOG.md": "changelog.md",
    }


def copied(source: Path, pages: dict[Path, str], site: Path) -> str:
    """Return the path on the site of a file in the repository, which is copied there when it is no page.

    Args:
        source: the file that is linked to.
        pages: the path on the site of every page by its file.
        site: the folder of the pages.
    """
    if source in pages:
        return pages[source]
    inside = source.relative_to(ROOT).as_posix().removeprefix("docs/")
    (site / inside).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, site / inside)
    return inside


def site_text(page: Path, pages: dict[Path, str], site: Path, broken: list[str]) -> str:
    """Return a page as the site generator reads it.

    Args:
        page: the file in the repository.
        pages: the path on the site of every page by its file.
        site: the folder of the pages.
        broken: receives a sentence for every link that leads nowhere.
    """

    def relinked(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            broken.append(f"{page.relative_to(ROOT)} links to {link[1]}, which is no file of the repository")
            return link[0]
        return os.path.relpath(copied(target, pages, site), Path(pages[page]).parent) + (link[2] or "")

    text = LINK.sub(relinked, page.read_text(encoding="utf-8"))
    text = FENCE.sub(lambda fence: "```pycon\n>>> " if fence[1] else "```python\n", text)
    return NESTED.sub("    ", text)


def api_text() -> str:
    """Return the page of the API reference: for each public name the directive that mkdocstrings fills."""
    import isogloss

    rooms: dict[str, list[str]] = {}
    for name in isogloss.__all__:
        value = getattr(isogloss, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            room = value.__module__.split(".")[1].capitalize()
            directive = f"::: {value.__module__}.{value.__qualname__}"
            options = f"    options:\n      heading: ig.{name}\n      toc_label: {name}"
            rooms.setdefault(room, []).append(f"{directive}\n{options}")
    return "\n\n".join([API_TITLE, *(f"## {room}\n\n" + "\n\n".join(rooms[room]) for room in sorted(rooms))]) + "\n"


def navigation(entries: list[object]) -> Iterator[str]:
    """Yield the pages that a `nav` of zensical.toml names, at any depth."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for value in entry.values():
                yield from navigation(value if isinstance(value, list) else [value])


def gather(site: Path) -> list[str]:
    """Write all pages into a folder, anew, and return a sentence for each thing that is wrong with them.

    Args:
        site: the folder, which is removed first.
    """
    shutil.rmtree(site, ignore_errors=True)
    paths, wrong = pages(), list[str]()
    for page, path in paths.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(site_text(page, paths, site, wrong), encoding="utf-8")
    (site / API).write_text(api_text(), encoding="utf-8")
    written = {*paths.values(), API}
    listed = set(navigation(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))
    wrong += [f"{page} is missing from the nav of zensical.toml" for page in written - listed]
    wrong += [f"the nav of zensical.toml names {page}, which is no page" for page in listed - written]
    return sorted(wrong)


def option_table(words: Sequence[str]) -> str:
    """The options of a command as a table: what the command line and the Python function say of them.

    >>> print(option_table(["report"]))
    | option | default | what it does |
    |---|---|---|
    | `--out` | | path of the page; default: in the first run folder |
    | `--quiet` | | no progress bars |
    """
    from isogloss.cli import find_command

    command, _ = find_command(words)
    lines = ["| option | default | what it does |", "|---|---|---|"]
    for parameter in command.params:
        names = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")]
        if names and names != ["--help"] and not parameter.hidden:
            default = "" if parameter.default is None or parameter.default is False else str(parameter.default)
            default = default if parameter.default is not True else names[0].removeprefix("--")
            cells = ", ".join(f"`{name}`" for name in names), default, (parameter.help or "").replace("|", "\\|")
            lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(lines)


def with_options(text: str, name: str) -> str:
    """A page with the table below its heading "Options" made anew."""
    words = [name, "hussain2020"] if name == "reproduce" else [name, "map"] if name == "sweep" else [name]
    head, heading, rest = text.partition("\n## Options\n")
    after = rest.partition("\n## ")
    table = re.compile(r"^\|(?:.*\|\n)+", re.MULTILINE)
    if not heading or not table.search(after[0]):
        return text
    lines = option_table(words).splitlines()
    if name in ("sweep", "reproduce"):  # those that the recipe or the paper adds are told by its own --help
        own = [name, "jexus2020"] if name == "reproduce" else ["map"]
        other = option_table(own).splitlines()
        lines = [line for line in lines if (line in other) == (name == "reproduce") or line in lines[:2]]
    made = table.sub("\n".join(lines).replace("\\", "\\\\") + "\n", after[0], count=1)
    return head + heading + made + "".join(after[1:])


def write_options() -> None:
    """Write the tables of options into the pages of the commands."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "\n## Options\n" in text:
            page.write_text(with_options(text, page.stem), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--options"]:
        write_options()
    else:
        sys.exit("\n".join(gather(SITE)) or None)
