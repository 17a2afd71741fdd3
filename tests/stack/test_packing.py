"""Rows full of text give the same scores without a mask and with rotary positions from a table."""

import pytest
import torch
from transformers import AutoModelForMaskedLM

from isogloss.stack.families import FAMILIES
from isogloss.stack.packing import WHOLE, unpadded
from isogloss.training.language_modelling import scores
from tiny_models import ENCODERS, states_at, tiny_config

PACKING = [family for family in ENCODERS if FAMILIES[family].packs]


def model_of(family, **changes):
    torch.manual_seed(3)
    config = tiny_config(family, 300)
    for name, value in changes.items():
        setattr(config, name, value)
    return AutoModelForMaskedLM.from_config(config).eval()


@pytest.mark.parametrize("family", PACKING)
def test_scores_and_gradients_are_those_of_the_model_itself(family):
    model = model_of(family)
    ids, places = torch.randint(5, 300, (3, 24)), torch.randint(0, 24, (3, 4))
    results = []
    for inside in (False, True):
        model.zero_grad()
        if inside:
            with unpadded([model.base_model], 24)():
                assert model.base_model.config._attn_implementation == WHOLE
                found = scores(model, states_at(model, ids, places))
        else:
            found = scores(model, states_at(model, ids, places))
        found.square().sum().backward()
        results.append((found.detach(), [one.grad.clone() for one in model.parameters() if one.grad is not None]))
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-5, rtol=1e-5)
    for plain, table in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(plain, table, atol=1e-4, rtol=1e-4)


def test_a_window_is_kept():
    model = model_of("modernbert", local_attention=6, sliding_window=6)
    layers = [layer.attn for layer in model.model.layers]
    assert any(getattr(one, "sliding_window", None) for one in layers), "the test is about layers with a window"
    ids, places = torch.randint(5, 300, (2, 24)), torch.randint(0, 24, (2, 4))
    with torch.no_grad():
        plain = scores(model, states_at(model, ids, places))
        with unpadded([model.base_model], 24)():
            table = scores(model, states_at(model, ids, places))
    torch.testing.assert_close(plain, table, atol=1e-5, rtol=1e-5)


def test_the_model_is_as_before_afterwards_even_after_an_error():
    model = model_of("modernbert")
    rotary, attention = model.model.rotary_emb, model.config._attn_implementation
    with pytest.raises(RuntimeError), unpadded([model.base_model], 8)():
        assert model.model.rotary_emb is not rotary
        raise RuntimeError
    assert model.model.rotary_emb is rotary and model.config._attn_implementation == attention
