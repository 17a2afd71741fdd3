"""Dependencies point one way: a module imports only from rooms before its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "isogloss"
ORDER = [
    {"errors", "progress", "files", "seeds", "figure"},
    {"measures"},
    {"mappings"},
    {"text"},
    {"stack"},
    {"vectors"},
    {"training", "tasks"},
    {"runs"},
    {"recipes"},
    {"papers"},
    {"report", "integrations"},
    {"cli", "__init__", "__main__"},
]
PURE = [
    "measures",
    "mappings/normalise.py",
    "mappings/methods.py",
    "text/words.py",
    "text/masking.py",
]
OPTIONAL = "openTSNE datasets matplotlib jinja2 PIL ray sentence_transformers mteb plotly onnx onnxruntime onnxscript"
HEAVY = set(OPTIONAL.split())
RANK = {room: place for place, rooms in enumerate(ORDER) for room in rooms}


def imports(path, *, top_only=False):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "isogloss":
                yield from (f"isogloss.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "isogloss" and len(parts) > 1 and parts[1] in RANK:
            assert RANK[parts[1]] <= RANK[room], f"{path.name} ({room}) imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_packages_are_imported_where_they_are_used(path):
    at_top = {name.split(".")[0] for name in imports(path, top_only=True)}
    assert not at_top & HEAVY


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_no_files(room):
    place = SOURCE / room
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        names = {name.split(".")[0] for name in imports(path)}
        assert not names & {"pathlib", "os", "io", "logging", "shutil", "tempfile", "safetensors"}, path
        calls = {n.func.id for n in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                 if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}  # fmt: skip
        assert not calls & {"open", "print", "input"}, path


def test_every_room_is_in_the_order():
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert rooms <= set(RANK), f"say where {rooms - set(RANK)} stands"


def module_of(path):
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_no_module_imports_itself_in_a_circle():
    names = {module_of(path): path for path in FILES}
    needs = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module in names:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                needs[name] |= parts & set(names) or {node.module}  # a module of a package, or the package itself
    done, under_way = set(), []

    def visit(name):
        assert name not in under_way, " -> ".join([*under_way, name])
        if name not in done:
            under_way.append(name)
            for one in sorted(needs[name] - {name}):
                visit(one)
            under_way.pop()
            done.add(name)

    for name in names:
        visit(name)


def test_no_class_name_stands_for_two_things():
    homes = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_a_command_that_computes_nothing_loads_nothing_heavy(words):
    script = "import sys\nfrom isogloss import cli\nsys.argv[0] = 'isogloss'\ntry:\n    cli.main()\nfinally:\n"
    script += "    print([name for name in ('torch', 'pandas', 'numpy', 'transformers') if name in sys.modules])\n"
    script += "    print(sum(name.startswith('isogloss') for name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60)
    *_, heavy, ours = shown.stdout.strip().splitlines()
    assert heavy == "[]" and int(ours) < 10, shown.stderr


def test_a_map_loads_what_a_map_needs():
    script = "import sys, isogloss.recipes.map, isogloss.report, isogloss.report.map_view\n"
    script += "print(*(name for name in sys.modules if name.startswith('isogloss.')))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    loaded = set(shown.stdout.split())
    assert "isogloss.report.page" in loaded, shown.stderr
    rooms = {name.split(".")[1] for name in loaded}
    assert not rooms & {"training", "tasks", "papers", "mappings", "integrations"}, sorted(loaded)
    needless = ("text.catalog", "text.streams", "text.readers.parallel", "text.readers.conll", "recipes.jobs")
    assert not loaded & {f"isogloss.{name}" for name in needless}, sorted(loaded)


def test_importing_the_package_loads_nothing_heavy():
    script = "import sys, isogloss; print('torch' in sys.modules, isogloss.__version__)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("False ")
