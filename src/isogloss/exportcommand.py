"""`isogloss export`: its command, made from the signature of `ig.export`."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from isogloss import progress
from isogloss.integrations.export import Exported, export

ONLY = inspect.Parameter.KEYWORD_ONLY


def export_command(parts: Callable[[Any], tuple[Any, str]]) -> Callable[..., None]:
    """Make the command; parts: the type and the help of an annotation, as all commands take them apart."""
    own = [one for one in inspect.signature(export).parameters.values() if get_origin(one.annotation) is Annotated]

    def run(**given: Any) -> None:
        model, folder, quiet = (given.pop(name) for name in ("model", "folder", "quiet"))
        if quiet:
            done = export(model, folder, **given)
        else:
            with progress.bar() as bars:
                done = export(model, folder, progress=bars, **given)
        typer.echo("\n".join(_lines(done)))

    places = {"model": "mini, a folder, a hub id, or a run folder that holds model/", "folder": "folder to write"}
    found = [
        inspect.Parameter(name, ONLY, annotation=Annotated[str, typer.Argument(help=text)])
        for name, text in places.items()
    ]
    for one in own:
        kind, text = (list[str] | None, parts(one.annotation)[1]) if one.name == "centre" else parts(one.annotation)
        found.append(one.replace(annotation=Annotated[kind, typer.Option(help=text)], kind=ONLY))
    quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
    found.append(inspect.Parameter("quiet", ONLY, default=False, annotation=quiet))
    run.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in found}
    run.__doc__ = inspect.cleandoc(export.__doc__ or "")
    return run


def _lines(done: Exported) -> list[str]:
    told = [f"{name}: {value}" for name, value in done.facts.items() if not name.startswith("hash")]
    if done.difference is None:
        checked = "not checked against isogloss' vectors: the package that reads it is not installed here"
    else:
        checked = f"checked: its vectors differ from isogloss' by {done.difference:.1g} at most"
    return [*told, checked, f"folder: {Path(done.folder)}"]
