"""Vectors kept on disk under a hash of everything they depend on: model weights, text, layers, unit, pooling."""

import os
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor


def kept(folder: Path, key: str, compute: Callable[[], Tensor]) -> Tensor:
    """The tensor stored under `key`, computed and stored first if it is not there or cannot be read.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    path = folder / f"{key}.safetensors"
    if path.is_file():
        try:
            return load_file(path)["vectors"]
        except SafetensorError:
            path.unlink()
    found = compute()
    folder.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.part")
    try:
        save_file({"vectors": found.contiguous()}, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return found
