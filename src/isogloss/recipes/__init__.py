"""Recipes: one file a command."""

from isogloss.recipes.align import align_job, align_model
from isogloss.recipes.drift import drift, drift_job
from isogloss.recipes.lexicon import lexicon, lexicon_job
from isogloss.recipes.map import map_job, map_layers
from isogloss.recipes.pretrain import pretrain, pretrain_job
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.rotate import rotate, rotate_job
from isogloss.recipes.stitch import stitch, stitch_job
from isogloss.recipes.sweep import sweep
from isogloss.recipes.transfer import transfer, transfer_job

__all__ = [
    "Job",
    "align_job",
    "align_model",
    "drift",
    "drift_job",
    "execute",
    "lexicon",
    "lexicon_job",
    "map_job",
    "map_layers",
    "pretrain",
    "pretrain_job",
    "rotate",
    "rotate_job",
    "stitch",
    "stitch_job",
    "sweep",
    "transfer",
    "transfer_job",
]
