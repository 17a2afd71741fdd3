"""Mappings between two spaces: fitted on pairs, kept as frozen records, saved as safetensors."""

from isogloss.mappings.mapping import RESTORES, Mapping, load_mapping, save
from isogloss.mappings.methods import MAPPINGS, Method, fit_mapping, least_squares, procrustes, ridge, unmapped
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation, normalisation, streamed_normalisations

__all__ = [
    "MAPPINGS",
    "NORMALISATIONS",
    "RESTORES",
    "Mapping",
    "Method",
    "Normalisation",
    "fit_mapping",
    "least_squares",
    "load_mapping",
    "normalisation",
    "procrustes",
    "ridge",
    "save",
    "streamed_normalisations",
    "unmapped",
]
