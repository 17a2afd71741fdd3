"""Mappings between two spaces: fitted on pairs, kept as frozen records, saved as safetensors."""

from isogloss.mappings.mapping import RESTORES, Mapping, load_mapping, save
from isogloss.mappings.methods import (
    MAPPINGS,
    MappingSpec,
    Method,
    fit_mapping,
    parse_mappings,
    procrustes,
    unmapped,
)
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation, normalisation, streamed_normalisations

__all__ = [
    "MAPPINGS",
    "NORMALISATIONS",
    "RESTORES",
    "Mapping",
    "MappingSpec",
    "Method",
    "Normalisation",
    "fit_mapping",
    "load_mapping",
    "normalisation",
    "parse_mappings",
    "procrustes",
    "save",
    "streamed_normalisations",
    "unmapped",
]
