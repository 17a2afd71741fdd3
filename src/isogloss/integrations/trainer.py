"""What a callback has to know of a running `transformers.Trainer`: its model as a stack, its epochs, its processes."""

from typing import Any

from transformers.trainer_utils import has_length

from isogloss.errors import InputError
from isogloss.stack.families import family_of
from isogloss.stack.load import whole_stack
from isogloss.stack.stack import Stack


def stack_of(model: Any, tokenizer: Any = None) -> Stack:
    """The stack inside a model with any head; the weights are the model's own, so it reads what training leaves."""
    family = family_of(model.config, type(model).__name__)
    if family.kind == "encoder-decoder":
        raise InputError(f"{type(model).__name__} is an encoder-decoder; the callbacks are for encoders and decoders")
    return whole_stack(model.base_model, family, tokenizer, type(model).__name__)


def steps_in_epoch(loader: Any, arguments: Any) -> int | None:
    """Updates of an epoch, as Trainer counts them: the last may have fewer batches. None for data without a length."""
    if not has_length(loader):
        return None
    return max(1, -(-len(loader) // int(arguments.gradient_accumulation_steps)))


def refuse_sharded(arguments: Any, name: str) -> None:
    """A callback reads and changes whole weights, which processes that share them out do not have."""
    if arguments.fsdp or arguments.deepspeed:
        raise InputError(
            f"{name} needs the whole model in every process, and FSDP and DeepSpeed split it; train with plain "
            "data parallelism (torchrun) or leave the callback out"
        )
