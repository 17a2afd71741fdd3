"""isogloss maps the languages inside a transformer: at which layer they meet, and how training moves them.

    import isogloss as ig

    stack = ig.load("mini")
    en, nl = ig.read_bitext("en.txt", "nl.txt", languages=("en", "nl"))
    x, y = ig.vectors(stack, en), ig.vectors(stack, nl)  # (layers + 1, sentences, width)
    ig.cka(x[8], y[8])

Layer 0 is the embedding output, layer k the output of block k, everywhere.
"""

from isogloss.errors import InputError
from isogloss.integrations.export import export
from isogloss.mappings import Mapping, least_squares, load_mapping, procrustes, ridge, save
from isogloss.measures import (
    CkaStream,
    anisotropy,
    cka,
    cka_floor,
    cka_minibatch,
    cka_rbf,
    cosine_drift,
    l2_drift,
    nearest,
    neighbourhood_overlap,
    retrieval,
    retrieve,
)
from isogloss.measures.aligner import align
from isogloss.measures.links import alignment_error_rate, argmax_links, itermax_links
from isogloss.papers import reproduce
from isogloss.progress import bar
from isogloss.recipes import align_model, drift, lexicon, pretrain, rotate, stitch, sweep, transfer
from isogloss.recipes import map_layers as map
from isogloss.runs import read_rows
from isogloss.stack import Chain, Stack, chain, freeze, load, reinitialise
from isogloss.text import Bitext, Corpus, Lexicon, embedded, read_bitext, read_bitexts, read_corpus, read_lexicon
from isogloss.vectors import stream, vectors

__all__ = [
    "Bitext",
    "Chain",
    "CkaStream",
    "Corpus",
    "InputError",
    "Lexicon",
    "Mapping",
    "Stack",
    "align",
    "align_model",
    "alignment_error_rate",
    "anisotropy",
    "argmax_links",
    "bar",
    "chain",
    "cka",
    "cka_floor",
    "cka_minibatch",
    "cka_rbf",
    "cosine_drift",
    "drift",
    "embedded",
    "export",
    "freeze",
    "itermax_links",
    "l2_drift",
    "least_squares",
    "lexicon",
    "load",
    "load_mapping",
    "map",
    "nearest",
    "neighbourhood_overlap",
    "pretrain",
    "procrustes",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_rows",
    "reinitialise",
    "reproduce",
    "retrieval",
    "retrieve",
    "ridge",
    "rotate",
    "save",
    "stitch",
    "stream",
    "sweep",
    "transfer",
    "vectors",
]
