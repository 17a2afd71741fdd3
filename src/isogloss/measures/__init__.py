"""Measures: pure functions of tensors to numbers. Each declares its facts once (`MEASURES`, `describe`)."""

from isogloss.measures.cka import (
    FORMS,
    CkaStream,
    cka,
    cka_floor,
    cka_forms,
    cka_minibatch,
    cka_of_pairs,
    cka_rbf,
    cka_rbf_of_pairs,
    cka_shuffled,
    cka_uncentred,
)
from isogloss.measures.geometry import (
    anisotropy,
    cosine_drift,
    l2_drift,
    neighbourhood_overlap,
    procrustes_distance,
    procrustes_floor,
)
from isogloss.measures.parsing import attachment, best_tree, las, uas
from isogloss.measures.perplexity import perplexity, perplexity_interval
from isogloss.measures.registry import MEASURES
from isogloss.measures.retrieval import METHODS, induction, mutual, nearest, retrieval, retrieve
from isogloss.measures.scores import (
    accuracy,
    answer_f1,
    exact_match,
    normalise_answer,
    repair_bio,
    span_counts,
    span_f1,
)
from isogloss.measures.statistics import correlation, jackknife_interval, mean_over_seeds
from isogloss.measures.word_alignment import align_words

__all__ = [
    "FORMS",
    "MEASURES",
    "METHODS",
    "CkaStream",
    "accuracy",
    "align_words",
    "anisotropy",
    "answer_f1",
    "attachment",
    "best_tree",
    "cka",
    "cka_floor",
    "cka_forms",
    "cka_minibatch",
    "cka_of_pairs",
    "cka_rbf",
    "cka_rbf_of_pairs",
    "cka_shuffled",
    "cka_uncentred",
    "correlation",
    "cosine_drift",
    "exact_match",
    "induction",
    "jackknife_interval",
    "l2_drift",
    "las",
    "mean_over_seeds",
    "mutual",
    "nearest",
    "neighbourhood_overlap",
    "normalise_answer",
    "perplexity",
    "perplexity_interval",
    "procrustes_distance",
    "procrustes_floor",
    "repair_bio",
    "retrieval",
    "retrieve",
    "span_counts",
    "span_f1",
    "uas",
]
