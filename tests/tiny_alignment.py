"""Options for an alignment that takes a second, and pairs of invented languages in files."""

from tiny_commands import flags
from tiny_pretraining import write_texts

SMALL = {
    "batch": 6, "queue": 18, "projection_width": 8, "steps": 4, "warm_up": 1, "rate": 1e-3, "report": 2, "probe": 4,
    "checkpoint": 2, "held_out": 0.2, "device": "cpu",
}  # fmt: skip


def write_pairs(folder):
    """Two line-aligned files; returns what `--train` is given."""
    return f"qaa-qab={','.join(map(str, write_texts(folder, sentences=120).values()))}"


def words(model, train, **changes):
    """The same as words of a command."""
    return [str(model), *flags({**SMALL, "train": train, **changes})]
