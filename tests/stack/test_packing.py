"""Rows full of text give the same scores without a mask and with rotary positions from a table.

Products of float32 matrices that are read on a CPU are oneDNN's, and as exact as torch's own.
"""

from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForMaskedLM

from isogloss.stack import packing
from isogloss.stack.families import FAMILIES
from isogloss.stack.head import scores
from isogloss.stack.packing import WHOLE, float32_products, packed, unpadded
from isogloss.stack.stack import packed_inputs
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


def precision():
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.mark.parametrize("by_onednn", [True, False])
def test_float32_products_are_exact_on_any_machine(by_onednn):
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(size, 384, generator=generator) for size in (501, 640))
    with float32_products(by_onednn=by_onednn):
        given = torch.nn.functional.linear(x, weight)
    exact = x.double() @ weight.double().T
    assert float((given - exact).norm() / exact.norm()) < 1e-6  # 2e-3 where they are rounded to bfloat16


def test_whether_onednn_is_exact_is_not_asked_of_autocast(monkeypatch):
    """On a processor that rounds to bfloat16 where it may, autocast would round both products alike."""
    switch, product = SimpleNamespace(fp32_precision="ieee"), torch.Tensor.__matmul__

    def rounding(x, y):
        if switch.fp32_precision == "bf16" and x.dtype == torch.float32:
            x, y = x.bfloat16().float(), y.bfloat16().float()
        return product(x, y)

    monkeypatch.setattr(packing, "SWITCH", switch)
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounding)
    packing._onednn_is_exact.cache_clear()
    try:
        with torch.autocast("cpu", torch.bfloat16):
            assert not packing._onednn_is_exact()
    finally:
        packing._onednn_is_exact.cache_clear()


@pytest.mark.parametrize(
    ("exact", "grad", "seen"),
    [(True, False, {"linear": "bf16", "attention": "ieee"}), (True, True, {"linear": "none", "attention": "ieee"}),
     (False, False, {"linear": "none", "attention": "none"})],
)  # fmt: skip
def test_linear_layers_are_onednn_s_where_it_is_exact_and_nothing_learns(monkeypatch, exact, grad, seen):
    met, attention = {}, packing.scaled_dot_product_attention

    def attend(*args, **kwargs):
        met["attention"] = precision()
        return attention(*args, **kwargs)

    monkeypatch.setattr(packing, "_onednn_is_exact", lambda: exact)
    monkeypatch.setattr(packing, "scaled_dot_product_attention", attend)
    model = model_of("bert").base_model
    model.encoder.layer[0].output.dense.register_forward_hook(lambda *_: met.update(linear=precision()))
    with torch.set_grad_enabled(grad), packed(model):
        model(torch.arange(5, 12)[None], **packed_inputs(model, FAMILIES["bert"], torch.tensor([4, 3])))
    assert met == seen
    assert precision() == "none"
