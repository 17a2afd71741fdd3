"""Files of the report: written whole, in folders that are made when they are missing."""

from pathlib import Path

from isogloss.files import whole


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file so that a reader meets the old one or the new one, never half of one; returns where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside:
        beside.write_bytes(content)
    return path
