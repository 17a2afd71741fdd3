"""The vocabulary head only where there is a label.

Masked-LM training asks for the word at 15% of the places, while `model(ids).logits` scores every place against the
whole vocabulary; with 119,547 word pieces that costs more than the twelve blocks below it. Here the blocks run over
the whole text, the states at the asked places are gathered, and the model's own head sees only those:

    scores(model, base(model)(ids)[0][row, place])  =  model(ids).logits[row, place]

A row of the table is all it takes to know a family. Paths are attribute names below the `...ForMaskedLM` model.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.stack.stack import Stack, module_at


@dataclass(frozen=True)
class Head:
    """Where one family keeps its masked-LM head.

    base: the encoder, as `AutoModel` would give it. steps: modules applied in turn to its states, the last of which
    leaves scores. transform: the weights before the output layer, which know no vocabulary. output: the linear layer
    onto the vocabulary, its weight tied to the word embeddings. bias: the parameter its bias is tied to, where the
    bias lives outside that layer.
    """

    base: str
    steps: tuple[str, ...]
    transform: tuple[str, ...]
    output: str
    bias: str | None = None


def _lm_head(base: str) -> Head:
    return Head(base, ("lm_head",), ("lm_head.dense", "lm_head.layer_norm"), "lm_head.decoder", bias="lm_head.bias")


HEADS: dict[str, Head] = {
    "bert": Head(
        "bert", ("cls",), ("cls.predictions.transform",), "cls.predictions.decoder", bias="cls.predictions.bias"
    ),
    "roberta": _lm_head("roberta"),
    "xlm-roberta": _lm_head("roberta"),
    "camembert": _lm_head("roberta"),
    "distilbert": Head(
        "distilbert",
        ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
        ("vocab_transform", "vocab_layer_norm"),
        "vocab_projector",
    ),
    "mpnet": _lm_head("mpnet"),
    "electra": Head(
        "electra", ("generator_predictions", "generator_lm_head"), ("generator_predictions",), "generator_lm_head"
    ),
    "modernbert": Head("model", ("head", "decoder"), ("head",), "decoder"),
}


def head_of(config: Any) -> Head:
    """The row for a model's configuration; an unknown family is refused with the names of the known ones.

    >>> from transformers import BertConfig
    >>> head_of(BertConfig()).output
    'cls.predictions.decoder'
    """
    if config.model_type not in HEADS:
        raise InputError(
            f"masked-LM training does not know the family {config.model_type!r}; choose one of {', '.join(HEADS)}"
        )
    return HEADS[config.model_type]


def base(model: Any) -> nn.Module:
    """The encoder inside a `...ForMaskedLM`, the very module: what `AutoModel` would load."""
    return module_at(model, head_of(model.config).base)


def scores(model: Any, states: Tensor) -> Tensor:
    """What the model's own head says of these states: (..., width) -> (..., vocabulary), before any softmax.

    The states are the base model's output, which in pre-norm families is after the final norm.
    """
    for step in head_of(model.config).steps:
        states = module_at(model, step)(states)
    return states


def masked_scores(model: Any, inputs: Tensor, places: Tensor, attention: Tensor | None = None) -> Tensor:
    """Scores over the vocabulary at some places of each row, and nowhere else.

    inputs: (rows, length), token ids; places: (rows, k), positions in 0..length-1, repeated where a row has fewer
    than k to ask for; attention: (rows, length), 1 for text and 0 for padding, None where nothing is padded. Returns
    (rows, k, vocabulary), equal to the full logits gathered at the places.

    >>> masked_scores(model, torch.tensor([[2, 4, 9, 3]]), torch.tensor([[1]])).shape  # doctest: +SKIP
    torch.Size([1, 1, 32000])
    """
    states = base(model)(input_ids=inputs, attention_mask=attention)[0]  # (rows, length, width)
    index = places.unsqueeze(-1).expand(-1, -1, states.shape[-1])  # (rows, k, width)
    return scores(model, torch.gather(states, 1, index))


def fingerprint(model: Any, stack: Stack) -> str:
    """A hash of a `...ForMaskedLM`: of its stack (`Stack.fingerprint`), and of every weight of the head above it."""
    digest = hashlib.sha256(stack.fingerprint.encode())
    below = f"{head_of(model.config).base}."
    for name, weight in sorted(model.state_dict().items()):
        if not name.startswith(below):
            digest.update(name.encode())
            digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
