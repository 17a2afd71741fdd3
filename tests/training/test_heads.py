"""The head at the asked places gives what the whole model gives there, for every family."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, GPT2Config

from isogloss.errors import InputError
from isogloss.stack.families import FAMILIES, trainable_family
from isogloss.stack.head import scores
from isogloss.stack.load import fingerprint, load_language_model
from tiny_drift import write_model
from tiny_models import ENCODERS, states_at, tiny_config

VOCABULARY = 97
LENGTHS = (11, 7, 11, 5)


def tiny_model(family):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        kind = AutoModelForMaskedLM if family in (*ENCODERS, "deberta-v2") else AutoModelForCausalLM
        model = kind.from_config(tiny_config(family, VOCABULARY))
        for weight in model.parameters():  # also biases and norms, whose default draw is constant
            torch.nn.init.normal_(weight, mean=1.0 if weight.dim() == 1 else 0.0, std=0.2)
    return model.eval()


def tiny_text(padded):
    draw = torch.Generator().manual_seed(5)
    ids = torch.randint(5, VOCABULARY, (4, 11), generator=draw)
    places = torch.randint(0, 5, (4, 3), generator=draw)
    labels = torch.randint(5, VOCABULARY, (4, 3), generator=draw)
    attention = (torch.arange(11)[None] < torch.tensor(LENGTHS)[:, None]).long() if padded else None
    return (ids if attention is None else ids * attention), attention, places, labels


def picked(logits, places):
    """Row by row, place by place."""
    rows = [[logits[row, place] for place in chosen.tolist()] for row, chosen in enumerate(places)]
    return torch.stack([torch.stack(row) for row in rows])


def test_the_table_knows_the_families_that_are_pretrained():
    assert {name for name, family in FAMILIES.items() if family.head} == {*ENCODERS, "llama"}


@pytest.mark.parametrize("family", [*ENCODERS, "llama", "gemma2", "deberta-v2"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_scores_and_gradients_equal_those_of_the_full_logits(family, padded):
    model = tiny_model(family)
    twin = copy.deepcopy(model)
    ids, attention, places, labels = tiny_text(padded)

    found = scores(model, states_at(model, ids, places, attention))
    expected = picked(twin(input_ids=ids, attention_mask=attention).logits, places)
    assert found.shape == (4, 3, VOCABULARY)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1, "scores that hardly differ would prove nothing"

    cross_entropy(found.flatten(0, 1), labels.flatten()).backward()
    cross_entropy(expected.flatten(0, 1), labels.flatten()).backward()
    wanted = dict(twin.named_parameters())
    for name, weight in model.named_parameters():
        assert (weight.grad is None) == (wanted[name].grad is None), name
        if weight.grad is not None:
            torch.testing.assert_close(
                weight.grad, wanted[name].grad, atol=1e-5, rtol=1e-5, msg=lambda m, n=name: n + m
            )
    assert model.get_output_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("family", ENCODERS)
def test_the_rows_point_at_the_right_modules(family):
    model = tiny_model(family)
    output = model.get_output_embeddings()
    assert output.weight is model.get_input_embeddings().weight
    below = (f"{model.base_model_prefix}.", *(f"{path}." for path in trainable_family(model.config).transform))
    outside = {name: weight for name, weight in model.named_parameters() if not name.startswith(below)}
    assert all(weight is output.bias or weight is output.weight for weight in outside.values()), list(outside)
    states = torch.randn(2, 32, generator=torch.Generator().manual_seed(0))
    assert scores(model, states).shape == (2, VOCABULARY)


def test_an_unknown_family_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="'gpt2'.*bert.*modernbert"):
        trainable_family(GPT2Config())


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_the_fingerprint_hangs_on_every_weight_of_encoder_and_head(family, tmp_path):
    stack = load_language_model(write_model(tmp_path / "model", family=family), device="cpu")
    again, model = load_language_model(tmp_path / "model", device="cpu"), stack.language_model
    seen = {fingerprint(stack)}
    assert seen == {fingerprint(again)}
    for weight in model.parameters():
        with torch.no_grad():
            weight.view(-1)[0] += 1
        seen.add(fingerprint(stack))
    assert len(seen) == 1 + len(list(model.parameters()))
