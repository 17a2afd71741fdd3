"""Measures: pure functions of tensors to numbers. Each declares its direction, range and invariances (`MEASURES`)."""

from isogloss.measures.answers import answer_f1, exact_match, normalise_answer
from isogloss.measures.blocks import (
    block_gram,
    block_hsic,
    block_size,
    cka_from_blocks,
    even_blocks,
    gram_hsic,
    jackknife,
    jackknife_interval,
    leave_one_out,
    shuffled_hsic,
)
from isogloss.measures.correlation import Correlation, correlation
from isogloss.measures.curves import (
    Band,
    OverSeeds,
    balance,
    balance_interval,
    balance_step,
    band,
    crossing,
    crossing_interval,
    crossings,
)
from isogloss.measures.forms import FORMS, cka_forms
from isogloss.measures.geometry import (
    anisotropy,
    cosine_distances,
    cosine_drift,
    l2_distances,
    l2_drift,
    neighbourhood_overlap,
)
from isogloss.measures.intervals import mean_interval, wilson
from isogloss.measures.labels import SpanCounts, accuracy, repair_bio, span_counts, span_f1, spans
from isogloss.measures.language import Likelihood, perplexity, perplexity_interval
from isogloss.measures.lexicon import induction
from isogloss.measures.neighbours import METHODS, mutual, nearest
from isogloss.measures.procrustes import procrustes_distance, procrustes_floor
from isogloss.measures.registry import MEASURES, Measure, measure
from isogloss.measures.retrieval import Retrieval, retrieval, retrieve
from isogloss.measures.sides import cka_of_pairs, cka_rbf_of_pairs
from isogloss.measures.similarity import cka, cka_floor, cka_minibatch, cka_rbf, cka_shuffled, cka_uncentred
from isogloss.measures.stream import CkaStream, Estimate
from isogloss.measures.streaming import (
    PairSums,
    SideSums,
    cka_from_sums,
    floor_from_sums,
    pair_sums,
    shift,
    side_sums,
)
from isogloss.measures.trees import Attachment, attachment, best_tree, las, uas

__all__ = [
    "FORMS",
    "MEASURES",
    "METHODS",
    "Attachment",
    "Band",
    "CkaStream",
    "Correlation",
    "Estimate",
    "Likelihood",
    "Measure",
    "OverSeeds",
    "PairSums",
    "Retrieval",
    "SideSums",
    "SpanCounts",
    "accuracy",
    "anisotropy",
    "answer_f1",
    "attachment",
    "balance",
    "balance_interval",
    "balance_step",
    "band",
    "best_tree",
    "block_gram",
    "block_hsic",
    "block_size",
    "cka",
    "cka_floor",
    "cka_forms",
    "cka_from_blocks",
    "cka_from_sums",
    "cka_minibatch",
    "cka_of_pairs",
    "cka_rbf",
    "cka_rbf_of_pairs",
    "cka_shuffled",
    "cka_uncentred",
    "correlation",
    "cosine_distances",
    "cosine_drift",
    "crossing",
    "crossing_interval",
    "crossings",
    "even_blocks",
    "exact_match",
    "floor_from_sums",
    "gram_hsic",
    "induction",
    "jackknife",
    "jackknife_interval",
    "l2_distances",
    "l2_drift",
    "las",
    "leave_one_out",
    "mean_interval",
    "measure",
    "mutual",
    "nearest",
    "neighbourhood_overlap",
    "normalise_answer",
    "pair_sums",
    "perplexity",
    "perplexity_interval",
    "procrustes_distance",
    "procrustes_floor",
    "repair_bio",
    "retrieval",
    "retrieve",
    "shift",
    "shuffled_hsic",
    "side_sums",
    "span_counts",
    "span_f1",
    "spans",
    "uas",
    "wilson",
]
