"""The head of a language model: its scores of given states, of the top cut or of any other.

Read from the states of a cut, the head says what the model would say if it stopped there: they go through the last norm
and the model's own head (the "logit lens", nostalgebraist 2020), and the top cut gives the model's own logits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from isogloss.errors import require
from isogloss.stack.families import FAMILIES
from isogloss.stack.stack import Stack, graft, measuring
from isogloss.text.batches import Batch

SCORES_AT_ONCE = 2**25  # numbers: a large vocabulary at every place of a batch would fill the memory
PROBED = 5  # tokens of the text that a head is checked with

Head = Callable[[Tensor], Tensor]


def scores(model: Any, states: Tensor) -> Tensor:
    """What a language model's own head says of these states: (..., width) -> (..., vocabulary), before any softmax.

    The states are the base model's output, which in pre-norm families is after the final norm. Families of the table
    name the modules of their head. Of any other, the model's own forward pass is run with its body swapped for these
    states, so whatever it does to scores (a bias, a scale, Gemma's soft cap) is done to them.
    """
    family = FAMILIES.get(model.config.model_type)
    if family is not None and family.head:
        for path in family.head:
            states = model.get_submodule(path)(states)
        return states
    body = graft(model, model.base_model_prefix, _GivenStates())
    given: Tensor = body(inputs_embeds=states.reshape(1, -1, states.shape[-1])).logits
    return given.reshape(*states.shape[:-1], -1).to(states.device)


def head_of(stack: Stack) -> Head:
    """The function from states of a cut, (places, width), to scores over the vocabulary, (places, vocabulary).

    Checked on a few made-up tokens: what it says of the top cut are the model's own logits.
    """
    model = stack.language_model
    without = f"{stack.name} has no head that predicts words; give a model with its head, or `ig.wrap` such a model"
    require(model is not None, without)

    def head(states: Tensor) -> Tensor:
        return scores(model, stack.head_input(states))

    ids = torch.linspace(0, len(model.get_input_embeddings().weight) - 1, PROBED + 2, device=stack.device).long()[1:-1]
    with measuring(model):
        own = model(input_ids=ids[None]).logits[0].float()
        read = head(_top_states(stack, ids)).float()
    close = read.shape == own.shape and bool((read - own).norm() <= torch.finfo(stack.dtype).eps ** 0.5 * own.norm())
    require(
        close, f"the head of {stack.name} gives other scores when it is read alone; it cannot be read at each layer"
    )
    return head


def _top_states(stack: Stack, ids: Tensor) -> Tensor:
    batch = Batch(ids, torch.tensor([len(ids)], device=ids.device), *(torch.zeros_like(ids),) * 4)
    states: Tensor = stack.read(batch, [stack.last])[stack.last]
    return states


def in_blocks(head: Head, states: Tensor, vocabulary: int) -> Iterator[tuple[slice, Tensor]]:
    """Scores in float32, (places, vocabulary), of as many places at a time as fit into memory, after their slice."""
    size = max(1, SCORES_AT_ONCE // vocabulary)
    for start in range(0, len(states), size):
        places = slice(start, start + size)
        yield places, head(states[places]).float()


def next_tokens(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The content tokens that a decoder can predict, those with a token before them in their sentence.

    Of each: the number of the token before it, its id, and its sentence in the batch, (k,) each.
    """
    sentence = batch.sentence_of_tokens()
    begins = (torch.cumsum(batch.lengths, 0) - batch.lengths)[sentence]
    tokens = torch.nonzero(batch.content & (torch.arange(len(begins), device=begins.device) > begins)).squeeze(1)
    return tokens - 1, batch.ids[tokens], sentence[tokens]


@dataclass
class _Output(BaseModelOutputWithPast):  # type: ignore[misc]
    """What a body gives, of which the head reads the states alone; anything else that is asked for is not there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class _GivenStates(nn.Module):
    """Stands where the body was, or its half that decodes, and passes the given states on."""

    @property
    def decoder(self) -> nn.Module:
        """What OPT runs of its body."""
        return self

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> _Output:
        """Return `inputs_embeds` as the last hidden state."""
        return _Output(last_hidden_state=inputs_embeds)
