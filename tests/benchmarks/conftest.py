"""Benchmarks at a tiny size, in this process."""

import json
import sys

import pytest
import transformers


@pytest.fixture
def benchmark(tmp_path, monkeypatch, capsys):
    """`benchmark(module, words)` runs its command line on the CPU: what it printed, and its numbers."""
    for name, value in (("CUDA_VISIBLE_DEVICES", "0"), ("TOKENIZERS_PARALLELISM", "false")):
        monkeypatch.setenv(name, value)  # benchmarks set them where they are not set, and are to leave nothing behind
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    verbosity, out = transformers.logging.get_verbosity(), tmp_path / "numbers.json"

    def run(module, words):
        monkeypatch.setattr(sys, "argv", [module.__name__, "--device", "cpu", *words.split(), "--out", str(out)])
        module.main()
        return capsys.readouterr().out, json.loads(out.read_text())

    yield run
    transformers.logging.set_verbosity(verbosity)
