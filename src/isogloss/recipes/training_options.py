"""Shared parts of recipes that train: options of the optimiser and the schedule, their checks, rows of a training."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import torch

from isogloss.errors import InputError, require
from isogloss.recipes.recipe import (
    COMPUTE,
    OPTIMISER,
    SCHEDULE,
    NonNegativeFloat,
    Option,
    PositiveFloat,
    PositiveInt,
    Share,
)
from isogloss.runs.table import Row, row
from isogloss.stack.load import choose_dtype
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.readers.dictionaries import embedded
from isogloss.training.loop import Decay, Training, launched, train
from isogloss.training.plans import Plan, parse_plan

Seeds = Annotated[PositiveInt, Option("number of seeds each training is run with", SCHEDULE)]
Epochs = Annotated[PositiveInt, Option("passes over the training text", SCHEDULE)]
Batch = Annotated[PositiveInt, Option("sentences or examples in a batch", SCHEDULE)]
MicroBatch = Annotated[
    PositiveInt | None, Option("items of a batch per forward pass, if a whole batch needs too much memory", COMPUTE)
]
CheckpointEvery = Annotated[PositiveInt, Option("updates between checkpoints", SCHEDULE)]
Rate = Annotated[PositiveFloat, Option("peak learning rate", OPTIMISER)]
WarmUp = Annotated[Share, Option("share of the updates for linear warm-up", OPTIMISER)]
DecayName = Annotated[Decay, Option("linear, cosine, trapezoid, inverse-sqrt or constant", OPTIMISER)]
WeightDecay = Annotated[NonNegativeFloat, Option("AdamW's weight decay, for matrices only", OPTIMISER)]
Clip = Annotated[NonNegativeFloat, Option("maximum gradient norm; 0: no clipping", OPTIMISER)]
TrainDtype = Annotated[str | None, Option("float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU", COMPUTE)]
Compiled = Annotated[
    Literal["auto", "yes", "no"], Option("auto, yes or no: compile updates on an NVIDIA GPU (slower start)", COMPUTE)
]


def plan_list(text: str) -> list[Plan]:
    """Parse the plans of --plans, separated by commas; a repeated plan is refused."""
    plans = [parse_plan(part.strip()) for part in text.split(",")]
    if twice := [str(plan) for number, plan in enumerate(plans) if plan in plans[:number]]:
        raise InputError(f"--plans has {twice[0]} twice; --seeds runs a plan several times")
    return plans


def one_process(command: str) -> None:
    """Refuse to run in several processes, for recipes that do not support it."""
    require(launched()[1] == 1, f"{command} trains in one process; start it without torchrun or accelerate")


def autocast_dtype(dtype: str | None, device: torch.device) -> torch.dtype | None:
    """The precision of autocast in training: bfloat16 as given by --dtype, by default on a GPU; None for float32."""
    chosen = choose_dtype(dtype, device)
    require(chosen != torch.float16, "--dtype float16 does not train stably; use bfloat16 or float32")
    return torch.bfloat16 if chosen == torch.bfloat16 else None


def training_rows(training: Training, coordinates: Row, *, loss: Row, **how: Any) -> Iterator[list[Row]]:
    """The readings of `train(training, **how)` as rows with these coordinates; loss rows also have those of `loss`."""
    for readings in train(training, **how):
        yield [row(**{**entry, **coordinates, **(loss if entry["measure"] == "loss" else {})}) for entry in readings]


def parallel_texts(given: Sequence[Bitext | Corpus], languages: Sequence[str]) -> list[Bitext]:
    """The parallel text for retrieval, in these languages only: the given text, else the embedded sentences."""
    texts, chosen = bitexts_of(given), []
    for text in texts or [embedded()]:
        both = [language for language in text.languages if language in languages]
        if len(both) > 1:
            chosen.append(Bitext(tuple(text[language] for language in both), name=text.name))
    require(not texts or chosen, f"--bitext needs at least two of the languages of the text, {', '.join(languages)}")
    return chosen
