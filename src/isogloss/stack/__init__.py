"""Stacks of layers: load one, read its cuts, slice, chain, freeze and re-initialise."""

from isogloss.stack.edit import freeze, reinitialise
from isogloss.stack.families import FAMILIES, Family
from isogloss.stack.load import load
from isogloss.stack.stack import Chain, Stack, chain, measuring

__all__ = ["FAMILIES", "Chain", "Family", "Stack", "chain", "freeze", "load", "measuring", "reinitialise"]
