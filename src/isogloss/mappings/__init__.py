"""Mappings between two spaces: fitted on pairs, kept as frozen records, saved as safetensors."""

from isogloss.mappings.mapping import (
    RESTORES as RESTORES,
    Mapping as Mapping,
    load_mapping as load_mapping,
    save as save,
)
from isogloss.mappings.methods import (
    MAPPINGS as MAPPINGS,
    Method as Method,
    fit_mapping as fit_mapping,
    procrustes as procrustes,
)
from isogloss.mappings.normalise import (
    NORMALISATIONS as NORMALISATIONS,
    Normalisation as Normalisation,
    normalisation as normalisation,
    streamed_normalisations as streamed_normalisations,
)
