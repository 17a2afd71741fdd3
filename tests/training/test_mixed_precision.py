"""Weights in half precision are those of autocast, and so are the gradients."""

import pytest
import torch

from isogloss.training.language_modelling import token_loss
from isogloss.training.mixed_precision import half_weights
from tiny_models import tiny_language_model

HALF = torch.bfloat16


def loss_and_gradients(model, dtype):
    """The loss of a batch under autocast and the gradients by name; dtype: that of `half_weights`."""
    drawn = torch.Generator().manual_seed(0)
    rows = {"inputs": torch.randint(5, 20, (3, 8), generator=drawn), "asked": torch.tensor([0, 5, 20])}
    rows |= {"texts": torch.arange(8).expand(3, 8) // 5, "positions": torch.arange(8).expand(3, 8) % 5}
    model.zero_grad()
    with torch.autocast("cpu", HALF), half_weights(model, dtype):
        loss = token_loss(model, rows | {"labels": torch.tensor([5, 6, 7])})
    loss.backward()
    return loss.detach(), {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("frozen", [[], ["embeddings", "layer.0", "layers.0"], [""]])
@pytest.mark.parametrize("family", ["bert", "modernbert", "roberta", "llama"])
def test_losses_and_gradients_are_those_of_autocast_to_the_bit(family, frozen):
    model = tiny_language_model(family, tied=True).eval()
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith("lm_head") or not any(part in name for part in frozen))
    if not any(weight.requires_grad for weight in model.parameters()):
        model.get_input_embeddings().weight.requires_grad_(True)
    (expected, gradients), (loss, found) = (loss_and_gradients(model, dtype) for dtype in (None, HALF))
    assert torch.equal(loss, expected) and found.keys() == gradients.keys() and found
    for name, gradient in gradients.items():
        assert found[name].dtype == torch.float32 and torch.equal(found[name], gradient), name


def test_inside_linear_layers_hold_half_precision_and_afterwards_the_model_is_as_it_was():
    model = tiny_language_model("bert", tied=True)
    before = {name: (id(weight), weight.dtype) for name, weight in model.named_parameters()}
    with pytest.raises(RuntimeError), half_weights(model, HALF):
        dense = model.bert.encoder.layer[0].intermediate.dense
        assert dense.weight.dtype == dense.bias.dtype == HALF and not dense.weight.is_leaf
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        assert model.get_input_embeddings().weight.dtype == torch.float32, "words are looked up in full precision"
        raise RuntimeError
    assert {name: (id(weight), weight.dtype) for name, weight in model.named_parameters()} == before
    with half_weights(model, None):
        assert {name: (id(weight), weight.dtype) for name, weight in model.named_parameters()} == before


def test_a_layer_that_two_modules_share_is_converted_once():
    layer = torch.nn.Linear(3, 3)
    twice = torch.nn.Sequential(layer, torch.nn.Sequential(layer), torch.nn.Linear(3, 3))
    twice[2].weight = layer.weight
    with half_weights(twice, HALF):
        assert twice[2].weight is layer.weight and layer.weight.dtype == HALF
        twice(torch.ones(1, 3, dtype=HALF)).sum().backward()
    assert twice[2].weight is layer.weight and layer.weight.grad.dtype == torch.float32
