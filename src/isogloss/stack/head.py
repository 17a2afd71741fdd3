"""The head of a language model, read from the states of any cut: what the model would say if it stopped there.

The states of a cut go through the last norm and the model's own head (the "logit lens", nostalgebraist 2020). The head
is the model's own forward pass with its body swapped for the given states, so whatever a family does to its scores
(a bias, a scale, Gemma's soft cap) is done to them, and the top cut gives the model's own logits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from isogloss.errors import require
from isogloss.stack.stack import Stack, graft, measuring
from isogloss.text.batches import Batch

SCORES_AT_ONCE = 2**25  # numbers: a large vocabulary at every place of a batch would fill the memory
PROBED = 5  # tokens of the text that a head is checked with

Head = Callable[[Tensor], Tensor]


def head_of(stack: Stack) -> Head:
    """The function from states of a cut, (places, width), to scores over the vocabulary, (places, vocabulary).

    Checked on a few made-up tokens: what it says of the top cut are the model's own logits.
    """
    model = stack.language_model
    without = f"{stack.name} has no head that predicts words; give a model with its head, or `ig.wrap` such a model"
    require(model is not None, without)
    body = graft(model, model.base_model_prefix, _GivenStates())

    def head(states: Tensor) -> Tensor:
        scores: Tensor = body(inputs_embeds=stack.head_input(states)[None]).logits[0]
        return scores

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
