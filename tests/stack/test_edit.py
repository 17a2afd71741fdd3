import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import isogloss as ig
from isogloss.errors import InputError
from isogloss.stack import edit, freeze, load, reinitialise
from isogloss.stack.edit import add_adapters, merged, train_adapters_only, with_fresh_blocks, without_dropout
from isogloss.stack.load import wrap
from isogloss.text.batches import encode
from isogloss.text.corpora import Corpus
from tiny_models import DEPTH, ENCODERS, TEXT, tiny_config, tiny_language_model, tiny_model, tiny_tokenizer

CORPUS = Corpus("en", TEXT)


def parts(stack):
    """Weights by the part of the stack they belong to: 0 the embeddings, k block k."""
    whole = {id(weight): name for name, weight in stack.model.named_parameters()}
    found = {0: [], **{k: list(block.parameters()) for k, block in enumerate(stack.blocks, 1)}}
    for path in stack.family.embeddings:
        if hasattr(stack.model, path):
            found[0] += list(getattr(stack.model, path).parameters())
    assert all(id(weight) in whole for each in found.values() for weight in each)
    return found


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("n", [-1, 0, 2, DEPTH])
def test_frozen_parts_are_bit_identical_after_a_step_and_the_others_move(tiny, family, n):
    stack = freeze(load(tiny(family)), n)
    before = {part: [weight.detach().clone() for weight in weights] for part, weights in parts(stack).items()}
    batch = encode(stack.tokenizer, CORPUS, list(range(len(TEXT))), max_length=stack.max_length)
    trained = [weight for weight in stack.model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained or [torch.zeros(1, requires_grad=True)], lr=0.1, weight_decay=0.1)
    top = stack.head_input(stack.read(batch)[DEPTH])
    loss = (top * torch.linspace(-1, 1, top.shape[1])).tanh().sum()
    if loss.requires_grad:
        loss.backward()
    optimiser.step()
    for part, weights in parts(stack).items():
        same = [torch.equal(old, new) for old, new in zip(before[part], weights, strict=True)]
        assert all(same) if part <= n else not all(same), f"part {part} with freeze {n}"


def test_freezing_again_unfreezes_what_it_does_not_name(tiny):
    stack = load(tiny("bert"))
    freeze(stack, 3)
    freeze(stack, 1)
    assert [all(w.requires_grad for w in weights) for weights in parts(stack).values()] == [False, False, True, True]
    with pytest.raises(InputError, match="freeze takes -1 to 3"):
        freeze(stack, 4)


@pytest.mark.parametrize("family", ENCODERS)
def test_only_the_blocks_named_are_drawn_again(tiny, family):
    """`layer.[10]{2}` matched more than was meant; here layers are numbers."""
    stack = load(tiny(family))
    fresh = reinitialise(stack, [2], seed=7)
    for part, weights in parts(stack).items():
        same = [torch.equal(old, new) for old, new in zip(weights, parts(fresh)[part], strict=True)]
        assert all(same) if part != 2 else not all(same)
    with pytest.raises(InputError, match="blocks 1 to 3"):
        reinitialise(stack, [0], seed=7)


@pytest.mark.parametrize("family", ENCODERS)
def test_fresh_blocks_come_from_the_models_own_initialiser(tiny, family):
    """Blocks that silently fall back to another initialiser (torch's own) would have another spread and other norms."""
    stack = reinitialise(load(tiny(family)), [1, 3], seed=7)
    deviation = getattr(stack.model.config, "initializer_range", 0.02)
    for number in (1, 3):
        for name, weight in stack.blocks[number - 1].named_parameters():
            if weight.dim() > 1:
                assert weight.abs().max() < 6 * max(deviation, 0.02), name
                assert weight.std() < 1.5 * max(deviation, 0.02), name
            elif "norm" in name.lower() and name.endswith("weight"):
                assert torch.equal(weight, torch.ones_like(weight)), name
            elif name.endswith("bias"):
                assert torch.equal(weight, torch.zeros_like(weight)), name


@pytest.mark.parametrize("family", ENCODERS)
def test_the_default_initialiser_of_pytorch_is_uniform_and_has_biases(tiny, family):
    """The re-release of muller2021: within 1/sqrt(inputs), a deviation of 1/sqrt(3 inputs), norms 1 and 0."""
    before = load(tiny(family))
    stack = reinitialise(before, [2], seed=7, initialiser="torch")
    linears = [one for one in stack.blocks[1].modules() if isinstance(one, torch.nn.Linear)]
    assert linears
    for one in linears:
        bound = one.in_features**-0.5
        assert one.weight.abs().max() <= bound and one.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
        assert one.weight.abs().max() > 0.95 * bound
        if one.bias is not None:
            assert 0 < one.bias.abs().max() <= bound and one.bias.std().item() == pytest.approx(bound / 3**0.5, rel=0.4)
    for one in stack.blocks[1].modules():
        if isinstance(one, torch.nn.LayerNorm):
            assert torch.equal(one.weight, torch.ones_like(one.weight))
            assert one.bias is None or torch.equal(one.bias, torch.zeros_like(one.bias))
    for part, weights in parts(before).items():
        same = [torch.equal(old, new) for old, new in zip(weights, parts(stack)[part], strict=True)]
        assert all(same) if part != 2 else not all(same)
    again = reinitialise(before, [2], seed=7, initialiser="torch")
    for one, other in zip(stack.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(InputError, match="the initialiser 'numpy' is not known; choose own or torch"):
        reinitialise(before, [2], seed=7, initialiser="numpy")


def test_the_seed_decides_the_draw_and_the_global_state_is_untouched(tiny):
    stack = load(tiny("bert"))
    before = torch.get_rng_state()
    one, same, other = (reinitialise(stack, [1], seed=seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [next(each.blocks[0].parameters()) for each in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_all_blocks_and_embeddings_drawn_again_is_a_model_from_scratch(tiny):
    stack = load(tiny("bert"))
    scratch = reinitialise(stack, range(1, DEPTH + 1), seed=1, embeddings=True)
    assert all(not torch.equal(a[0], b[0]) for a, b in zip(parts(stack).values(), parts(scratch).values(), strict=True))


def test_blocks_below_fresh_ones_keep_their_kind_of_attention():
    """A configuration may list kinds that its class would not give, here global attention in every second block."""
    config = tiny_config("modernbert", len(tiny_tokenizer()))
    own = ["sliding_attention", "full_attention", "sliding_attention"]
    stack = wrap(tiny_model(type(config)(**{**config.to_dict(), "layer_types": own})), tiny_tokenizer())
    fresh = with_fresh_blocks(stack, 2, count=2, seed=0)
    assert fresh.model.config.layer_types[:2] == own[:2] and stack.model.config.layer_types == own
    assert torch.equal(ig.vectors(fresh, CORPUS, layers=[1, 2]), ig.vectors(stack, CORPUS, layers=[1, 2]))


@pytest.mark.parametrize("family", [*ENCODERS, "gpt2", "bloom"])
def test_nothing_that_feeds_a_frozen_block_trains(tiny, family):
    """Position tables, relative biases and embedding norms lie outside the blocks and outside `embeddings`."""
    stack = freeze(load(tiny(family)), DEPTH)
    trained = [name for name, weight in stack.model.named_parameters() if weight.requires_grad]
    assert all(name.startswith(("pooler", stack.family.norm or "pooler")) for name in trained), trained


@pytest.mark.parametrize("family", ["bert", "modernbert", "llama", "gpt2", "gpt_neox"])
def test_adapters_add_twice_their_product_and_can_be_merged(family):
    """By hand: what a matrix W gives of x becomes W x + 2 B A x, in every matrix of the blocks and nowhere else."""
    model = tiny_language_model(family, tied=True)
    stack = wrap(model, tiny_tokenizer())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    start = ig.vectors(stack, CORPUS)
    add_adapters(stack, 4, seed=0)
    assert torch.equal(ig.vectors(stack, CORPUS), start), "it begins as it was"
    train_adapters_only(model)
    adapters = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert adapters and all(".lora_" in name for name in adapters)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in adapters.items():
            if ".lora_B." in name:
                weight.normal_(std=0.1, generator=draw)
    whole = merged(model)
    assert whole is not model and merged(whole) is whole
    inside = {name for name in before if stack.family.blocks + "." in name and before[name].dim() == 2}
    for name, weight in whole.state_dict().items():
        if name not in inside:
            assert torch.equal(weight, before[name]), name
            continue
        path = name.removesuffix(".weight")
        product = 2 * adapters[f"{path}.lora_B.default.weight"] @ adapters[f"{path}.lora_A.default.weight"]
        product = product.T if family == "gpt2" else product  # which keeps its matrices turned
        torch.testing.assert_close(weight, before[name] + product.detach(), atol=1e-5, rtol=1e-5)
    adapted, again = ig.vectors(stack, CORPUS), ig.vectors(wrap(whole, tiny_tokenizer()), CORPUS)
    assert not torch.allclose(adapted, start, atol=1e-2)
    torch.testing.assert_close(again, adapted, atol=1e-3, rtol=1e-3)


def test_adapters_are_drawn_from_the_seed(tiny):
    drawn = []
    for seed in (0, 0, 1):
        stack = load(tiny("llama"))
        add_adapters(stack, 2, seed=seed)
        drawn.append(next(weight for name, weight in stack.model.named_parameters() if ".lora_A." in name))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_adapters_need_their_package(tiny, monkeypatch):
    monkeypatch.setattr(edit, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs the package peft, .*pip install 'isogloss\[lora\]'"):
        add_adapters(load(tiny("bert")), 2, seed=0)


def test_dropout_that_is_read_from_the_configuration_is_taken_out_and_saved_as_it_was(tmp_path):
    config = tiny_config("falcon", 60)
    config.hidden_dropout = config.attention_dropout = 0.3
    model, ids = AutoModelForCausalLM.from_config(config).train(), torch.arange(5, 45).view(4, 10)
    with torch.no_grad():
        assert not torch.equal(model(ids).logits, model(ids).logits)
        without_dropout(model)
        assert torch.equal(model(ids).logits, model.eval()(ids).logits)
    model.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).hidden_dropout == 0.3
