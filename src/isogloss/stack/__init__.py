"""Stacks of layers: load one, read its cuts, slice, chain, freeze and reinitialise."""

from isogloss.stack.edit import freeze as freeze, reinitialise as reinitialise
from isogloss.stack.families import FAMILIES as FAMILIES, Family as Family
from isogloss.stack.load import load as load, wrap as wrap
from isogloss.stack.stack import Chain as Chain, Stack as Stack, chain as chain, measuring as measuring
