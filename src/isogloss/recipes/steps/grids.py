"""A grid of a recipe's arguments: its values, the jobs it makes, and what they are called."""

import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from isogloss.errors import InputError
from isogloss.recipes.kept_models import same_names, with_kept
from isogloss.recipes.recipe import TEXT_OPTIONS, Recipe, model_name
from isogloss.runs.jobs import Job

RANGE = re.compile(r"(.*?)(-?\d+)\.\.(-?\d+)")
LONGEST = 120  # letters of a folder's name
SPELT = {"yes": True, "true": True, "no": False, "false": False}

Grid = Mapping[str, Sequence[Any]]


def read_grid(given: Sequence[str] | Mapping[str, Any], recipe: Recipe) -> dict[str, list[Any]]:
    """The values of every argument in the grid, as the recipe takes them.

    given: `name=a,b,c` for each argument, or values by name. A semicolon between values lets them hold commas; `0..4`
    is 0 to 4, also behind other text, as in `freeze:-1..11`; several values of a repeated option have spaces between.

    >>> from isogloss.recipes.registry import RECIPES
    >>> read_grid(["seed=0..2", "plans=freeze:-1..0;reinit:1-2,last:1"], RECIPES["transfer"])
    {'seed': [0, 1, 2], 'plans': ['freeze:-1', 'freeze:0', 'reinit:1-2,last:1']}
    """
    found: dict[str, list[Any]] = {}
    for written, values in _entries(given):
        name = known_option(written, recipe, "--grid")
        if name in found:
            raise InputError(f"--grid has {written} twice; give all its values together, {written}=A,B")
        found[name] = _values(written, values, _kinds(recipe, name))
        twice = [one for place, one in enumerate(found[name]) if one in found[name][:place]]
        if twice:
            raise InputError(f"--grid {written} has {twice[0]} twice; the same job would run twice")
        if name == "model":
            found[name] = with_kept(found[name])
            alike = same_names(found[name])
            if alike:
                raise InputError(f"{alike[0]} and {alike[1]} would have one name in the rows; rename one of the runs")
    if not found:
        raise InputError("a sweep needs a grid; give --grid NAME=A,B,C, as in --grid seed=0..4")
    return found


def known_option(name: str, recipe: Recipe, where: str) -> str:
    """The argument of a recipe that is meant, in its Python spelling."""
    known = [*recipe.parameters, *(TEXT_OPTIONS if recipe.takes_bitext else ())]
    plain = name.strip().replace("-", "_")
    if plain not in known:
        close = difflib.get_close_matches(plain, known, 1)
        hint = f"do you mean {_dashed(close[0])}" if close else f"it has {', '.join(map(_dashed, known))}"
        raise InputError(f"{where} {name}: {recipe.name} has no such argument; {hint}")
    return plain


def grid_jobs(recipe: Recipe, grid: Grid, options: Mapping[str, Any], *, folder: Path) -> list[Job]:
    """A job for every combination of the grid's values; the last argument changes fastest.

    A job's folder is named by its coordinates, which are also its `place`.
    """
    both = [name for name in grid if name in options]
    if both:
        raise InputError(f"--{_dashed(both[0])} is given, and is in --grid, too; leave one of them out")
    _refuse_overlap(grid, options)
    needed = [name for name, one in recipe.parameters.items() if one.default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in options and name not in grid]
    if missing:
        raise InputError(f"{recipe.name} needs --{_dashed(missing[0])}; give it, or its values in --grid")
    jobs: list[Job] = []
    names: set[str] = set()
    for values in product(*grid.values()):
        place = dict(zip(grid, values, strict=True))
        given = {**options, **place}
        name = _folder_name(in_words(place, list(grid), grid), names)
        names.add(name)
        first = given.pop(recipe.first, recipe.parameters[recipe.first].default)
        jobs.append(Job(name, recipe.name, first, given, folder / name, place))
    return jobs


def spread(grid: Grid) -> list[int]:
    """Numbers of jobs that hold every value of the grid once: the first, and those that differ from it in one argument.

    >>> spread({"plans": ["a", "b"], "seed": [0, 1, 2]})
    [0, 1, 2, 3]
    """
    found, size = [0], 1
    for values in reversed(list(grid.values())):
        found += [place * size for place in range(1, len(values))]
        size *= len(values)
    return sorted(found)


def as_settings(place: Mapping[str, Any], names: Sequence[str], grid: Grid) -> dict[str, Any]:
    """Coordinates as rows have them in `settings`: numbers as they are, a file by its name where that will do."""
    return {
        name: place[name] if isinstance(place[name], int | float) else _label(place[name], grid[name]) for name in names
    }


def in_words(place: Mapping[str, Any], names: Sequence[str], grid: Grid) -> str:
    """Coordinates as they stand in the names of folders: `epochs:3 batch:16`; a file by its name where that will do.

    >>> in_words({"epochs": 3, "seed": 1}, ["epochs"], {"epochs": [3, 5], "seed": [0, 1]})
    'epochs:3'
    """
    return " ".join(f"{_dashed(name)}:{_label(place[name], grid[name])}" for name in names)


def _entries(given: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    found = []
    for text in [given] if isinstance(given, str) else given:
        name, equals, values = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--grid {text!r} names no argument; write NAME=A,B,C, as in seed=0..4")
        found.append((name.strip(), values))
    return found


def _values(name: str, given: Any, kinds: Sequence[Any]) -> list[Any]:
    if not isinstance(given, str):
        values = list(given) if isinstance(given, Sequence | range | set) else [given]
        if not values:
            raise InputError(f"--grid {name} has no value; give at least one")
        return values
    parts = [one.strip() for one in given.split(";" if ";" in given else ",")]
    if not all(parts):
        raise InputError(f"--grid {name}={given} has an empty value; write {name}=A,B, or A;B where values hold commas")
    return [_cast(name, one, kinds) for part in parts for one in _expanded(name, part)]


def _expanded(name: str, part: str) -> list[str]:
    found = RANGE.fullmatch(part)
    if found is None:
        return [part]
    before, first, last = found[1], int(found[2]), int(found[3])
    if last < first:
        raise InputError(f"--grid {name}: {part} runs backwards; write {before}{last}..{first}")
    return [f"{before}{number}" for number in range(first, last + 1)]


def _cast(name: str, text: str, kinds: Sequence[Any]) -> Any:
    if str in kinds:
        return text
    if list in kinds:
        return text.split()
    for kind, what in ((bool, "yes or no"), (int, "a whole number"), (float, "a number")):
        if kind in kinds:
            try:
                return SPELT[text.lower()] if kind is bool else kind(text)
            except (ValueError, KeyError) as error:
                raise InputError(f"--grid {name}: {text!r} is not {what}") from error
    return text


def _kinds(recipe: Recipe, name: str) -> list[Any]:
    """The plain types an argument may have; a list of texts is `list`."""
    if name not in recipe.parameters:
        return [list] if name == "bitext" else [str]
    kind = recipe.parameters[name].annotation
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    several = [kind] if get_origin(kind) is list or not get_args(kind) else get_args(kind)
    return [get_origin(one) or one for one in several]


def _refuse_overlap(grid: Grid, options: Mapping[str, Any]) -> None:
    """A job with several seeds runs those that follow its first, which may be another job's."""
    many = max(grid.get("seeds", [options.get("seeds") or 1]))
    first = sorted(grid.get("seed", []))
    if many > 1 and any(after - one < many for one, after in zip(first, first[1:], strict=False)):
        raise InputError(
            f"--seeds {many} runs each seed of --grid seed and those after it, some of them twice; leave it"
        )


def _folder_name(words: str, taken: set[str]) -> str:
    name = re.sub(r"[^\w.+-]+", "-", words).strip(".-")[:LONGEST]
    numbered = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(one for one in numbered if one not in taken)


def _label(value: Any, values: Sequence[Any]) -> str:
    """A value as a reader knows it: a file without its folders, unless another has that name."""
    for shorten in (_short, _model):
        label = shorten(value)
        if [shorten(one) for one in values].count(label) == 1:
            return label
    return _short(value, whole=True)


def _model(value: Any) -> str:
    return model_name(value) if isinstance(value, str | Path) else _short(value, whole=True)


def _short(value: Any, *, whole: bool = False) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_short(one, whole=whole)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(_short(one, whole=whole) for one in value)
    key, equals, path = str(value).rpartition("=")
    return f"{key}{equals}{path if whole or not Path(path).exists() else Path(path).name}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")
