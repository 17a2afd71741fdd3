"""What is built and installed is whole: the wheel holds every file of the package and works far from the source."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*words, cwd, **environment):
    """The output of a command that must succeed, run in another folder with nothing of the source tree on its path."""
    done = subprocess.run(
        words, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of the source, so that nothing is left in the tree."""
    copy, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(built)!r})"
    run(sys.executable, "-c", build, cwd=copy)
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder that holds the installed package alone; what it depends on comes from this environment."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", str(folder)]
    run(sys.executable, "-m", "pip", "install", *options, str(wheel), cwd=folder)
    return folder


@pytest.mark.wheel
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.glob("isogloss/**/*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {name for name in files if "__pycache__" not in name}


@pytest.mark.wheel
def test_the_installed_package_maps_the_embedded_model_away_from_the_source(installed, tmp_path):
    def isogloss(*words):
        return run(str(installed / "bin" / "isogloss"), *words, cwd=tmp_path, PYTHONPATH=str(installed))

    asked = "import isogloss; print(isogloss.__file__, isogloss.__version__)"
    told = run(sys.executable, "-c", asked, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    assert told == [str(installed / "isogloss" / "__init__.py"), PROJECT["version"]]
    assert isogloss("--version").split()[-1] == PROJECT["version"]
    assert {"map", "transfer", "reproduce", "export"} <= set(re.findall(r"[a-z]+", isogloss("--help")))
    isogloss("map", "mini", "--languages", "en,nl", "--layers", "0,1", "--points", "5", "--quiet", "--out", "run")
    assert "</html>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "run" / "rows.csv").is_file()


def minimums(requirements):
    return dict(re.fullmatch(r"([\w.-]+)>=([\w.]+)", each).groups() for each in requirements if ">=" in each)


def release(version):
    """The numbers of a version without zeros at its end, so that 2.6 and 2.6.0 are the same."""
    return re.sub(r"(\.0)+$", "", version)


def test_the_lowest_versions_that_are_tried_are_those_that_are_declared():
    extras = PROJECT["optional-dependencies"]
    declared = minimums(PROJECT["dependencies"]) | minimums(extras["report"])
    text = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8")
    tried = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
    assert {name: release(tried[name]) for name in declared} == {name: release(declared[name]) for name in declared}
    assert set(tried) - set(declared) <= set(minimums(extras["test"]))


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.MULTILINE) == [PROJECT["version"]]
