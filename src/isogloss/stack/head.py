"""The head of a language model, applied to the hidden states of any cut.

Applied to the states of a cut, the head predicts what the model would predict if it stopped there: the states go
through the final norm and the model's head (the "logit lens", nostalgebraist 2020). The top cut gives its own logits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutputWithPast

from isogloss.errors import require
from isogloss.stack.families import FAMILIES
from isogloss.stack.stack import Stack, graft, measuring
from isogloss.text.batches import Batch

SCORES_AT_ONCE = 2**25  # logits at a time: a large vocabulary at every token of a batch would fill the memory
PROBED = 5  # tokens of the text on which a head is checked

Head = Callable[[Tensor], Tensor]


def scores(model: Any, states: Tensor) -> Tensor:
    """Logits of a language model's head for given states: (..., width) -> (..., vocabulary).

    The states are the base model's output, which in pre-norm families is after the final norm. Families of the table
    name the modules of their head. For any other, the model's own forward pass runs with its body replaced by the given
    states, so that everything it applies to logits (a bias, a scale, Gemma's soft cap) is included.
    """
    family = FAMILIES.get(model.config.model_type)
    if family is not None and family.head:
        for path in family.head:
            states = model.get_submodule(path)(states)
        return states
    body = graft(model, model.base_model_prefix, _GivenStates())
    given: Tensor = body(inputs_embeds=states.reshape(1, -1, states.shape[-1])).logits
    return given.reshape(*states.shape[:-1], -1).to(states.device)


def loss_head(model: Any) -> Head:
    """The head for computing losses: `scores`, under autocast on a GPU with a vocabulary that suits its kernels.

    Tensor cores read rows of a multiple of 8 numbers: for the 119,547 pieces of multilingual BERT cuBLAS falls back to
    a kernel that is six times as slow on an H200. So the vocabulary is rounded up; the logits of the added pieces are
    -infinity, which changes no loss and no gradient. The weights are converted when this function is called, not when
    the head is applied. An output layer of another class, such as one with an adapter, is applied as it is.
    """
    layer, family = model.get_output_embeddings(), FAMILIES.get(model.config.model_type)
    half = layer.weight.is_cuda and torch.is_autocast_enabled("cuda")
    compiled = torch.compiler.is_compiling()  # compiled code rounds up the shapes of its products itself
    known = family is not None and bool(family.head) and type(layer) is nn.Linear
    if not half or compiled or not known or len(layer.weight) % 8 == 0:
        return partial(scores, model)
    return _rounded_head(model, torch.get_autocast_dtype("cuda"))


def _rounded_head(model: Any, dtype: torch.dtype) -> Head:
    """`scores` with logits of -infinity up to a multiple of 8, for a family whose row names its head."""
    layer = model.get_output_embeddings()
    path = next(name for name, module in model.named_modules() if module is layer)
    size, width = layer.weight.shape
    rounded = -(-size // 8) * 8
    weight = layer.weight.new_empty((rounded, width), dtype=dtype)
    bias = layer.weight.new_full((rounded,), -torch.inf, dtype=dtype)
    weight[:size] = layer.weight  # converted and copied at once, with gradients
    weight[size:] = 0
    bias[:size] = 0 if layer.bias is None else layer.bias
    return partial(scores, graft(model, path, _Linear(weight, bias)))


def head_of(stack: Stack) -> Head:
    """The function from states of a cut, (tokens, width), to logits, (tokens, vocabulary).

    It is checked on a few made-up tokens: at the top cut it must give the model's own logits.
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
    """Yield slices of the tokens that fit into memory, each with its logits (tokens, vocabulary) in float32."""
    size = max(1, SCORES_AT_ONCE // vocabulary)
    for start in range(0, len(states), size):
        places = slice(start, start + size)
        yield places, head(states[places]).float()


def next_tokens(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The content tokens that a decoder can predict: those with a token before them in their sentence.

    Returns the index of the token before each, its id, and its sentence in the batch, (k,) each.
    """
    sentence = batch.sentence_of_tokens()
    begins = (torch.cumsum(batch.lengths, 0) - batch.lengths)[sentence]
    tokens = torch.nonzero(batch.content & (torch.arange(len(begins), device=begins.device) > begins)).squeeze(1)
    return tokens - 1, batch.ids[tokens], sentence[tokens]


class _Linear(nn.Module):
    """A linear layer whose weight (outputs, width) and bias (outputs,) are functions of other weights."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, states: Tensor) -> Tensor:
        """Apply the layer to states (..., width)."""
        return functional.linear(states, self.weight, self.bias)


@dataclass
class _Output(BaseModelOutputWithPast):  # type: ignore[misc]
    """The output of a body, of which the head reads the states alone; any other attribute is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class _GivenStates(nn.Module):
    """Replaces the body, or its decoder, and returns the given states."""

    @property
    def decoder(self) -> nn.Module:
        """The part of its body that OPT runs."""
        return self

    def forward(self, *_: Any, inputs_embeds: Tensor, **__: Any) -> _Output:
        """Return `inputs_embeds` as the last hidden state."""
        return _Output(last_hidden_state=inputs_embeds)
