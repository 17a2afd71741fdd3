import pytest
import torch
from torch import nn

from isogloss.stack import linears, load
from isogloss.stack.linears import laid_out
from isogloss.text.corpora import Corpus
from isogloss.vectors import extract, vectors
from tiny_models import ENCODERS, TEXT

CORPUS = Corpus("en", TEXT)

pytestmark = pytest.mark.skipif(not linears._available(), reason="needs oneDNN on x86")


def products_of(blocks):
    return [module for block in blocks for module in block.modules() if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("part", ["states", "attention"])
def test_weights_laid_out_give_the_same_vectors(tiny, family, part, monkeypatch):
    stack = load(tiny(family))

    def found():
        return torch.cat([one.values["sentence"] for one in extract.stream(stack, CORPUS, part=part)], dim=1)

    plain = found()
    monkeypatch.setattr(extract, "WORTH_LAYING_OUT", 1)
    products = []
    multiply = linears._product
    monkeypatch.setattr(linears, "_product", lambda module, **kind: products.append(kind) or multiply(module, **kind))
    torch.testing.assert_close(found(), plain, atol=1e-5, rtol=0)
    assert len(products) == len(products_of(stack.blocks))
    assert sum(one["gelu"] for one in products) == (0 if family == "modernbert" else len(stack.blocks))


def test_blocks_are_as_before_after_it_and_after_a_mistake(tiny):
    stack = load(tiny("bert"))
    around = laid_out([(block, stack.family) for block in stack.blocks])
    modules = [module for block in stack.blocks for module in block.modules()]
    with pytest.raises(ZeroDivisionError), torch.inference_mode(), around():
        assert any("forward" in module.__dict__ for module in modules)
        raise ZeroDivisionError
    assert not any("forward" in module.__dict__ for module in modules)


def test_what_was_replaced_or_is_in_other_precision_stays(tiny):
    stack = load(tiny("bert"))
    dense = stack.blocks[0].get_submodule("intermediate.dense")
    dense.forward = lambda states: nn.functional.linear(states, 2 * dense.weight, dense.bias)
    changed = vectors(stack, CORPUS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract, "WORTH_LAYING_OUT", 1)
        torch.testing.assert_close(vectors(stack, CORPUS), changed, atol=1e-5, rtol=0)
        half = load(tiny("roberta"), dtype=torch.bfloat16)
        with laid_out([(block, half.family) for block in half.blocks])():
            assert not any("forward" in module.__dict__ for module in half.model.modules())


def test_changed_weights_are_seen_by_the_next_reading(tiny, monkeypatch):
    monkeypatch.setattr(extract, "WORTH_LAYING_OUT", 1)
    stack = load(tiny("bert"))
    before = vectors(stack, CORPUS)
    with torch.no_grad():
        stack.blocks[0].get_submodule("intermediate.dense").weight.mul_(2)
    after = vectors(stack, CORPUS)
    assert (after[0] - before[0]).abs().max() < 1e-5
    assert (after[1] - before[1]).abs().max() > 1e-2
