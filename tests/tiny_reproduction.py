"""The smoke scale made smaller still: trainings of nine updates, so that a reproduction takes seconds."""

from types import SimpleNamespace

from isogloss.papers import hussain2020, jexus2020, pan2021
from isogloss.papers.paper import TINY

HELD = {"held": True, "not held": False, "not held, open": False, "not judged": None}  # by the verdict of a finding


def changed(scale, **settings):
    """A scale with other settings."""
    return SimpleNamespace(**{**vars(scale), **settings})


PRETRAINING = {**TINY, "width": 16, "batch": 4, "warm_up": 0.5}
SMALL = changed(
    hussain2020.SCALES["smoke"],
    sentences=30,
    watched=4,
    every=3,
    distance=3,
    words=12,
    pretraining=PRETRAINING,
    native_steps=2,
)


def make_small(monkeypatch):
    """Let the smoke scale be the smaller one."""
    monkeypatch.setitem(hussain2020.SCALES, "smoke", SMALL)


SMALL_ENCODER = {**jexus2020.TINY_ENCODER, "depth": 3, "width": 16, "batch": 4, "warm_up": 0.5, "steps": 2}
SMALL_JEXUS = changed(
    jexus2020.SCALES["smoke"],
    depth=3,
    count=9,
    known=60,
    epochs=1,
    pretraining=SMALL_ENCODER,
    map={"sample": 12, "words": 20, "points": 8},
)


def make_small_jexus(monkeypatch):
    """The same for jexus2020, whose model has three blocks here."""
    monkeypatch.setitem(jexus2020.SCALES, "smoke", SMALL_JEXUS)


PAN = {**pan2021.SCALES["smoke"].pretraining, "depth": 2, "width": 16, "batch": 4, "warm_up": 0.5, "steps": 2}
SMALL_PAN = changed(
    pan2021.SCALES["smoke"],
    amounts={"10%": 0.1},
    answering=("before", "both"),
    known=60,
    parallel=60,
    examples=12,
    compared=12,
    evaluated=8,
    pretraining=PAN,
    align={**pan2021.SCALES["smoke"].align, "batch": 4, "queue": 8, "steps": 2, "warm_up": 0.5},
    longer={"steps": 3},
)


def make_small_pan(monkeypatch):
    """The same for pan2021, with one amount of text."""
    monkeypatch.setitem(pan2021.SCALES, "smoke", SMALL_PAN)
