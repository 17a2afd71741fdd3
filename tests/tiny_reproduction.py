"""The smoke scale made smaller still: trainings of nine updates, so that a reproduction takes seconds."""

from dataclasses import replace

from isogloss.papers.hussain2020 import settings

PRETRAINING = {**settings.TINY, "width": 16, "batch": 4, "warm_up": 1}
SMALL = replace(
    settings.SCALES["smoke"], sentences=30, watched=4, every=3, distance=3, words=12, pretraining=PRETRAINING,
    native_steps=2,
)  # fmt: skip


def make_small(monkeypatch):
    """Let the smoke scale be the smaller one."""
    monkeypatch.setitem(settings.SCALES, "smoke", SMALL)
