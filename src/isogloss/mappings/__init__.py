"""Mappings between two spaces: fitted on pairs, kept as frozen records, saved as safetensors."""

from isogloss.mappings.mapping import RESTORES, Mapping, load_mapping, save
from isogloss.mappings.methods import MAPPINGS, Method, fit_mapping, procrustes
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation, normalisation, streamed_normalisations

__all__ = ["MAPPINGS", "NORMALISATIONS", "RESTORES", "Mapping", "Method", "Normalisation", "fit_mapping"]
__all__ += ["load_mapping", "normalisation", "procrustes", "save", "streamed_normalisations"]
