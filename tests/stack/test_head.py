"""The head at any cut: the top cut gives the model's own logits, to the bit, whatever the family does to its scores."""

from dataclasses import replace

import pytest
import torch

from isogloss.errors import InputError
from isogloss.stack import head as heads
from isogloss.stack.families import FAMILIES
from isogloss.stack.head import head_of, in_blocks, loss_head, next_tokens, scores
from isogloss.stack.load import load, load_language_model, wrap
from isogloss.stack.stack import measuring
from isogloss.text.batches import encode
from isogloss.text.corpora import Corpus
from tiny_models import ENCODERS, TEXT, tiny_language_model, tiny_tokenizer

DECODERS = (
    "gpt2", "llama", "mistral", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3", "cohere2", "opt", "bloom", "xglm",
    "falcon", "gpt_neox", "phi3", "olmo2", "smollm3", "mixtral", "qwen3_moe",
)  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", [*DECODERS, *ENCODERS])
def test_the_top_cut_gives_the_logits_of_the_model(family, tied):
    model = tiny_language_model(family, tied=tied)
    stack = replace(wrap(model, tiny_tokenizer()), pack=False)  # as the lens reads it
    head = head_of(stack)
    for number in range(3):  # one sentence each: the model itself would need padding
        batch = encode(stack.tokenizer, Corpus("en", TEXT), [number], max_length=64)
        with measuring(model):
            logits = model(input_ids=batch.ids[None]).logits[0]
            read = stack.read(batch, reduce=lambda cut, states: head(states))
        assert torch.equal(read[stack.last], logits)
        assert not torch.allclose(read[0], logits) and read[0].shape == logits.shape


def test_soft_caps_and_scales_are_there():
    model = tiny_language_model("gemma2", tied=True)
    capped = wrap(model, tiny_tokenizer())
    states = 100 * torch.randn(4, capped.width, generator=torch.Generator().manual_seed(0))
    with measuring(model):
        assert head_of(capped)(states).abs().max() <= model.config.final_logit_softcapping


def test_scores_in_blocks_are_those_of_all_places_at_once(monkeypatch):
    model = tiny_language_model("llama", tied=True)
    stack = wrap(model, tiny_tokenizer())
    head, states = head_of(stack), torch.randn(7, stack.width)
    vocabulary = len(stack.tokenizer)
    monkeypatch.setattr(heads, "SCORES_AT_ONCE", 3 * vocabulary)
    with measuring(model):
        blocks = list(in_blocks(head, states, vocabulary))
        assert [len(scores) for _, scores in blocks] == [3, 3, 1]
        torch.testing.assert_close(torch.cat([scores for _, scores in blocks]), head(states))


MASKED = [family for family in ENCODERS if FAMILIES[family].head]


def odd_vocabulary(family):
    """A small masked LM whose vocabulary is 1 more than a multiple of 8; some random states, and labels."""
    model = tiny_language_model(family, tied=True)
    model.resize_token_embeddings(len(tiny_tokenizer()) // 8 * 8 + 1)
    drawn = torch.Generator().manual_seed(0)
    return model, torch.randn(5, model.config.hidden_size, generator=drawn), torch.tensor([0, 3, 7, 9, 20])


def loss_and_gradients(head, model, states, labels):
    loss = torch.nn.functional.cross_entropy(head(states).float(), labels)
    loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    return loss.detach(), gradients


@pytest.mark.parametrize("family", MASKED)
def test_a_rounded_vocabulary_changes_no_loss_and_no_gradient(family):
    model, states, labels = odd_vocabulary(family)
    rounded, size = heads._rounded_head(model.eval(), torch.float32), model.config.vocab_size
    assert rounded(states).shape[1] == -(-size // 8) * 8 and rounded(states)[:, size:].isinf().all()
    assert rounded(states[:0]).shape == (0, rounded(states).shape[1])
    assert loss_head(model)(states).shape[1] % 8 == 1  # on a CPU
    for found, expected in zip(
        loss_and_gradients(rounded, model, states, labels),
        loss_and_gradients(lambda given: scores(model, given), model, states, labels),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_the_rounded_head_in_half_precision_is_about_the_plain_one():
    model, states, labels = odd_vocabulary("bert")
    with torch.autocast("cpu", torch.bfloat16):
        rounded = heads._rounded_head(model.eval(), torch.bfloat16)
        assert rounded(states).dtype == torch.bfloat16
        found, expected = (
            loss_and_gradients(one, model, states, labels) for one in (rounded, lambda given: scores(model, given))
        )
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.gpu
def test_an_output_layer_of_another_class_is_applied_as_it_is():
    class Adapted(torch.nn.Linear):
        def forward(self, states):
            return super().forward(states) + 1

    model, states, _ = odd_vocabulary("bert")
    model.eval().cuda().get_output_embeddings().__class__ = Adapted
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        assert torch.equal(loss_head(model)(states.cuda()), scores(model, states.cuda()))


@pytest.mark.gpu
@pytest.mark.parametrize("family", MASKED)
def test_losses_in_half_precision_on_a_gpu_are_of_a_rounded_vocabulary(family):
    model, states, labels = odd_vocabulary(family)
    model, states, labels = model.eval().cuda(), states.cuda(), labels.cuda()
    with torch.autocast("cuda", torch.bfloat16):
        head = loss_head(model)
        assert (
            head(states).shape[1] % 8 == 0 and head(states).isfinite().sum(1).eq(scores(model, states).shape[1]).all()
        )
        found, expected = (
            loss_and_gradients(one, model, states, labels) for one in (head, lambda given: scores(model, given))
        )
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-3)


def test_next_tokens_are_content_with_a_token_before_it():
    tokenizer = tiny_tokenizer()
    batch = encode(tokenizer, Corpus("en", TEXT), [6, 0, 1], max_length=64)
    expected, start = [], 0
    for number, length in enumerate(batch.lengths.tolist()):
        ids = batch.ids[start : start + length].tolist()
        for place in range(1, length):
            if ids[place] not in (tokenizer.cls_token_id, tokenizer.sep_token_id):
                expected.append((start + place - 1, ids[place], number))
        start += length
    assert list(zip(*(part.tolist() for part in next_tokens(batch)), strict=True)) == expected


def test_a_model_without_a_head_is_refused(tiny, tmp_path):
    with pytest.raises(InputError, match="has no head that predicts words; give a model with its head"):
        head_of(load(tiny("bert")))
    with pytest.raises(InputError, match=r"has no head that predicts masked words; .*\(AutoModelForMaskedLM\)"):
        load_language_model(tiny("bert"))
    untied = tmp_path / "llama"
    tiny_language_model("llama", tied=False).model.save_pretrained(untied)
    tiny_tokenizer().save_pretrained(untied)
    with pytest.raises(InputError, match=r"has no head that predicts words; .*\(AutoModelForCausalLM\)"):
        load_language_model(untied)
    with pytest.raises(InputError, match="is an encoder-decoder, whose encoder predicts no words"):
        load_language_model(tiny("t5"))


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_saved_language_model_is_loaded_with_its_head(family, tmp_path):
    model = tiny_language_model(family, tied=True)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    stack = load_language_model(tmp_path, device="cpu")
    assert type(stack.language_model) is type(model)
    states = torch.randn(2, stack.width)
    with measuring(model):
        assert torch.equal(head_of(stack)(states), head_of(wrap(model, tiny_tokenizer()))(states))
