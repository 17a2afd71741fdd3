"""Files that are either the old one or the new one, never half of one."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> Path:
    """Write beside the file and move into place, so that a reader never meets a half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
