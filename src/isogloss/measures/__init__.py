"""Measures: pure functions of tensors to numbers. Each declares its facts once (`MEASURES`, `describe`).

Every module of this folder is loaded with it, so that all are declared; the names below are those used most.
"""

from importlib import import_module
from pkgutil import iter_modules

from isogloss.measures.cka import (
    FORMS as FORMS,
    CkaStream as CkaStream,
    cka as cka,
    cka_floor as cka_floor,
    cka_forms as cka_forms,
    cka_minibatch as cka_minibatch,
    cka_of_pairs as cka_of_pairs,
    cka_rbf as cka_rbf,
    cka_rbf_of_pairs as cka_rbf_of_pairs,
    cka_uncentred as cka_uncentred,
)
from isogloss.measures.geometry import (
    anisotropy as anisotropy,
    cosine_distances as cosine_distances,
    cosine_drift as cosine_drift,
    l2_distances as l2_distances,
    l2_drift as l2_drift,
    neighbourhood_overlap as neighbourhood_overlap,
    procrustes_distance as procrustes_distance,
    procrustes_floor as procrustes_floor,
)
from isogloss.measures.parsing import attachment as attachment, best_tree as best_tree, las as las, uas as uas
from isogloss.measures.perplexity import perplexity as perplexity, perplexity_interval as perplexity_interval
from isogloss.measures.registry import MEASURES as MEASURES, describe as describe, measure as measure
from isogloss.measures.retrieval import (
    METHODS as METHODS,
    induction as induction,
    mutual as mutual,
    nearest as nearest,
    retrieval as retrieval,
    retrieve as retrieve,
)
from isogloss.measures.scores import (
    accuracy as accuracy,
    answer_f1 as answer_f1,
    exact_match as exact_match,
    normalise_answer as normalise_answer,
    repair_bio as repair_bio,
    span_counts as span_counts,
    span_f1 as span_f1,
)
from isogloss.measures.statistics import (
    correlation as correlation,
    jackknife_interval as jackknife_interval,
    mean_over_seeds as mean_over_seeds,
)
from isogloss.measures.word_alignment import (
    align_words as align_words,
    alignment_error_rate as alignment_error_rate,
    argmax_links as argmax_links,
    itermax_links as itermax_links,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
