"""The smoke scale made smaller still: trainings of nine updates, so that a reproduction takes seconds."""

from types import SimpleNamespace

from isogloss.papers import hussain2020, jexus2020, pan2021

HELD = {"held": True, "not held": False, "not held, open": False, "not judged": None}  # by the verdict of a finding


def changed(scale, **settings):
    """A scale with other settings."""
    return SimpleNamespace(**{**vars(scale), **settings})


SMALLER = {"width": 16, "length": 32, "batch": 4, "warm_up": 0.5, "steps": 2}  # than the tiny model
SMALL = changed(
    hussain2020.SCALES["smoke"],
    sentences=30,
    watched=4,
    every=3,
    distance=3,
    words=12,
    tiny=SMALLER,
    native_pretraining={**SMALLER, "vocabulary": 100},
)


def make_small(monkeypatch):
    """Let the smoke scale be the smaller one."""
    monkeypatch.setitem(hussain2020.SCALES, "smoke", SMALL)


SMALL_JEXUS = changed(
    jexus2020.SCALES["smoke"],
    depth=3,
    count=9,
    epochs=1,
    tiny={**SMALLER, "depth": 3, "length": 64},
    map={"sample": 12, "words": 20, "points": 8},
)


def make_small_jexus(monkeypatch):
    """The same for jexus2020, whose model has three blocks here."""
    monkeypatch.setitem(jexus2020.SCALES, "smoke", SMALL_JEXUS)


SMALL_PAN = changed(
    pan2021.SCALES["smoke"],
    amounts={"10%": 0.1},
    answering=("before", "both"),
    examples=12,
    compared=12,
    evaluated=8,
    tiny={**SMALLER, "depth": 2, "length": 64},
    align={**pan2021.SCALES["smoke"].align, "batch": 4, "queue": 8, "steps": 2, "warm_up": 0.5},
    longer={"steps": 3},
)


def make_small_pan(monkeypatch):
    """The same for pan2021, with one amount of text."""
    monkeypatch.setitem(pan2021.SCALES, "smoke", SMALL_PAN)
