import hashlib
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel

import isogloss.stack.stack as stack_module
from isogloss.errors import InputError
from isogloss.stack import chain, load
from isogloss.stack.load import locate
from isogloss.stack.packing import packed
from isogloss.text.batches import encode
from isogloss.text.corpora import Corpus
from tiny_models import DEPTH, ENCODERS, READ_ONLY, TEXT

CORPUS = Corpus("en", TEXT)


def batch_of(stack, rows=None):
    return encode(stack.tokenizer, CORPUS, rows or list(range(len(TEXT))), max_length=stack.max_length)


def reference_states(stack, text):
    """transformers' own hidden states of one sentence alone."""
    ids = torch.tensor([stack.tokenizer(text)["input_ids"]])
    options = {"use_cache": False} if stack.family.kind == "decoder" else {}
    with torch.no_grad():
        return [one[0] for one in stack.model(input_ids=ids, output_hidden_states=True, **options).hidden_states]


@pytest.mark.parametrize("family", ENCODERS + READ_ONLY)
def test_cuts_equal_hidden_states_of_each_sentence_alone(tiny, family):
    stack = load(tiny(family))
    batch = batch_of(stack)
    with torch.no_grad():
        states = stack.read(batch)
    assert list(states) == list(range(DEPTH + 1)) == list(stack.cuts)
    ends = torch.cumsum(batch.lengths, 0).tolist()
    for row, end in enumerate(ends):
        start = end - int(batch.lengths[row])
        reference = reference_states(stack, TEXT[row])
        assert len(reference) == DEPTH + 1
        for cut in range(DEPTH if stack.family.norm else DEPTH + 1):
            torch.testing.assert_close(states[cut][start:end], reference[cut], atol=2e-5, rtol=1e-4)
        if stack.family.norm:
            normed = stack.head_input(states[DEPTH][start:end])
            torch.testing.assert_close(normed, reference[DEPTH], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ["xglm", "biogpt"])
def test_a_stack_is_read_in_the_mode_its_model_is_in_now(tiny, family):
    """The forward pass of these models has dropout of its own, in the module that holds the blocks."""
    stack = load(tiny(family))
    batch = batch_of(stack, [0, 1])
    rows = {"ids": batch.ids[None], "attention": torch.ones_like(batch.ids[None])}
    for training in (False, True, False):
        stack.model.train(training)
        for block in stack.blocks:
            block.eval()
        with torch.no_grad():
            one, other = (stack.read(batch, [DEPTH])[DEPTH] for _ in range(2))
            left, right = (stack.read_table(rows) for _ in range(2))
        assert torch.equal(one, other) == torch.equal(left, right) == (not training)


def test_prenorm_top_cut_is_the_raw_output_of_the_last_block(tiny):
    stack = load(tiny("modernbert"))
    batch = batch_of(stack, [0])
    with torch.no_grad():
        top = stack.read(batch)[DEPTH]
    after_norm = reference_states(stack, TEXT[0])[-1]
    assert not torch.allclose(top, after_norm, atol=1e-2)
    torch.testing.assert_close(stack.model.final_norm(top), after_norm, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("family", ENCODERS)
def test_a_slice_from_any_cut_reaches_the_top_cut(tiny, family):
    stack = load(tiny(family))
    batch = batch_of(stack)
    with torch.no_grad():
        states = stack.read(batch)
        for cut in stack.cuts:
            top = stack[cut:].read(batch, [DEPTH], hidden=states[cut])[DEPTH]
            torch.testing.assert_close(top, states[stack.last], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ENCODERS)
def test_slices_meet_in_a_chain(tiny, family):
    stack = load(tiny(family))
    batch = batch_of(stack)
    with torch.no_grad():
        whole = stack.read(batch)
        for k in stack.cuts:
            joined = chain(stack[:k], stack[k:])
            states = joined.read(batch)
            assert sorted(states) == list(whole)
            for cut in whole:
                torch.testing.assert_close(states[cut], whole[cut], atol=1e-5, rtol=1e-5)
        lower = stack[:2].read(batch)
        assert list(lower) == [0, 1, 2]


def test_a_map_in_a_chain_changes_its_own_cut_and_those_above(tiny):
    stack = load(tiny("bert"))
    batch = batch_of(stack)
    with torch.no_grad():
        whole = stack.read(batch)
        states = chain(stack[:2], lambda x: x * 2, stack[2:]).read(batch)
    torch.testing.assert_close(states[1], whole[1])
    torch.testing.assert_close(states[2], whole[2] * 2)
    assert not torch.allclose(states[3], whole[3])


def test_slice_of_a_slice_keeps_the_numbers(tiny):
    stack = load(tiny("bert"))
    part = stack[1:][:2]
    assert (part.first, part.last, len(part.blocks)) == (1, 2, 1)
    assert part.blocks[0] is stack.blocks[1]
    with pytest.raises(InputError, match="cuts 1 to 2"):
        part[0:2]


def test_reading_a_low_cut_does_not_run_the_blocks_above(tiny):
    stack = load(tiny("bert"))
    ran = []
    for number, block in enumerate(stack.blocks, 1):
        block.register_forward_hook(lambda *_, number=number: ran.append(number))
    with torch.no_grad():
        stack.read(batch_of(stack), [0, 1])
    assert ran == [1]


@pytest.mark.parametrize("family", [f for f in ENCODERS if f != "mpnet"])
def test_packed_sentences_equal_padded_ones(tiny, family, monkeypatch):
    stack = load(tiny(family))
    batch = batch_of(stack)
    with torch.no_grad():
        monkeypatch.setattr(stack_module.Stack, "packs", property(lambda self: False))
        padded = stack.read(batch)
        monkeypatch.setattr(stack_module.Stack, "packs", property(lambda self: True))
        with packed(stack.model):
            pass  # registering twice is harmless
        ends = stack.read(batch)
        for cut in padded:
            torch.testing.assert_close(ends[cut], padded[cut], atol=1e-5, rtol=1e-4)
        top = stack[1:].read(batch, [DEPTH], hidden=ends[1])[DEPTH]
        torch.testing.assert_close(top, padded[DEPTH], atol=1e-5, rtol=1e-4)
    assert stack.model.config._attn_implementation != "isogloss_packed"


@pytest.mark.parametrize("family", ENCODERS)
def test_attention_is_what_is_added_to_the_input_of_a_block(tiny, family):
    """Post-norm: norm(x + attention) must be what the block's feed-forward reads; pre-norm: x + attention."""
    stack = load(tiny(family))
    batch = batch_of(stack, [3])
    norm, inside = {
        "modernbert": (None, "mlp_norm"),
        "distilbert": ("sa_layer_norm", "ffn"),
        "mpnet": ("attention.LayerNorm", "intermediate"),
    }.get(family, ("attention.output.LayerNorm", "intermediate"))
    fed = []
    for block in stack.blocks:
        block.get_submodule(inside).register_forward_pre_hook(lambda _, args: fed.append(args[0][0]))
    with torch.no_grad():
        states = stack.read(batch)
        fed.clear()
        attention = stack.read(batch, part="attention")
        assert list(attention) == list(range(1, DEPTH + 1))
        for cut, found in attention.items():
            added = states[cut - 1] + found
            expected = added if norm is None else stack.blocks[cut - 1].get_submodule(norm)(added)
            torch.testing.assert_close(fed[cut - 1], expected, atol=1e-5, rtol=1e-4)


def test_attention_of_padded_and_packed_sentences_is_that_of_each_alone(tiny, monkeypatch):
    stack = load(tiny("bert"))
    with torch.no_grad():
        alone = [stack.read(batch_of(stack, [row]), part="attention") for row in range(len(TEXT))]
        monkeypatch.setattr(stack_module.Stack, "packs", property(lambda self: False))
        padded = stack.read(batch_of(stack), part="attention")
        monkeypatch.setattr(stack_module.Stack, "packs", property(lambda self: True))
        end_to_end = stack.read(batch_of(stack), [2], part="attention")
    for cut in padded:
        torch.testing.assert_close(padded[cut], torch.cat([one[cut] for one in alone]), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(end_to_end[2], padded[2], atol=1e-5, rtol=1e-4)


def test_attention_is_read_in_blocks_of_encoders(tiny):
    stack = load(tiny("bert"))
    with pytest.raises(InputError, match=r"cuts 1 to 3, not \[0\], where attention"):
        stack.read(batch_of(stack), [0, 1], part="attention")
    with pytest.raises(InputError, match="is a decoder: of its blocks only the states are read"):
        load(tiny("gpt2")).cuts_of("attention")


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_models_that_take_no_hidden_states_are_read_but_not_cut(tiny, family):
    stack = load(tiny(family))
    with pytest.raises(InputError, match="can be read, but (not|it cannot be) sliced"):
        stack[:1]


@pytest.mark.parametrize("family", ["bert", "llama", "t5", "bart"])
def test_missing_weights_are_refused_in_every_kind_of_model(tiny, family, tmp_path):
    shutil.copytree(tiny(family), tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    block = next(name for name in weights if re.search(r"(layer|layers|block)\.1\.", name) and "decoder" not in name)
    del weights[block]
    save_file(weights, tmp_path / "model" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="would be random numbers"):
        load(tmp_path / "model")


def test_the_fingerprint_follows_the_weights_and_not_the_last_call(tiny):
    stack = load(tiny("bert"))
    before = stack.fingerprint
    batch_of(stack)  # leaves truncation behind in the tokenizer
    assert stack.fingerprint == before == load(tiny("bert")).fingerprint
    with torch.no_grad():
        next(stack.model.parameters()).add_(1)
    assert stack.fingerprint != before


def test_every_number_of_a_weight_counts_in_its_hash(monkeypatch):
    monkeypatch.setattr(stack_module, "HASHED", 10)
    monkeypatch.setattr(stack_module, "HASHED_TOGETHER", 2)

    def hash_of(weight):
        holder, digest = torch.nn.Module(), hashlib.sha256()
        holder.register_buffer("first", torch.empty(0))
        holder.register_buffer("weight", weight)
        stack_module.hash_weights(digest, holder)
        return digest.hexdigest()

    weight = torch.arange(35.0).view(7, 5)
    changed = [weight.flatten().index_fill(0, torch.tensor(number), -1.0).view(7, 5) for number in range(35)]
    assert len({hash_of(each) for each in [weight, *changed]}) == 36
    assert hash_of(weight.T.contiguous().T) == hash_of(weight), "by its numbers, not by its layout in memory"


@pytest.mark.parametrize("family", ENCODERS)
def test_the_fingerprint_of_a_masked_lm_is_the_same_at_every_loading(family, tmp_path):
    from transformers import AutoModelForMaskedLM

    from tiny_models import tiny_config, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    AutoModelForMaskedLM.from_config(tiny_config(family, len(tokenizer))).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)  # such a folder holds no pooler
    assert load(tmp_path).fingerprint == load(tmp_path).fingerprint


@pytest.mark.parametrize("family", ["roberta", "mpnet", "bert"])
def test_the_longest_sentence_fits_the_position_table(tiny, family):
    stack = load(tiny(family))
    stack.tokenizer.model_max_length = int(1e30)
    batch = encode(stack.tokenizer, Corpus("en", ["cat " * 120]), [0], max_length=stack.max_length)
    with torch.no_grad():
        assert len(stack.read(batch)[DEPTH]) == stack.max_length


def test_language_codes_are_no_content(tiny):
    tokenizer = load(tiny("bert")).tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["en_XX"]})
    batch = encode(tokenizer, Corpus("en", ["en_XX the cat"]), [0], max_length=64)
    assert tokenizer.convert_ids_to_tokens(batch.ids[batch.content].tolist()) == ["the", "cat"]


def test_parts_of_a_chain_are_equally_wide(tiny, tmp_path):
    wide = AutoConfig.from_pretrained(tiny("bert"), hidden_size=64)
    AutoModel.from_config(wide).save_pretrained(tmp_path)
    load(tiny("bert")).tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="equally wide, not 32 and 64"):
        chain(load(tiny("bert"))[:1], load(tmp_path)[1:])


@pytest.mark.parametrize("device", ["mps", "cuda", "cuda:9", "tpu"])
def test_a_device_that_is_not_there_is_one_sentence(tiny, device):
    with pytest.raises(InputError, match="--device"):
        load(tiny("bert"), device=device)


@pytest.mark.parametrize("family", ENCODERS)
def test_a_masked_lm_loads_with_its_head_and_its_stack_shares_its_weights(family, tmp_path):
    from transformers import AutoModelForMaskedLM

    from isogloss.stack.load import load_language_model
    from tiny_models import tiny_config, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    saved = AutoModelForMaskedLM.from_config(tiny_config(family, len(tokenizer))).half()
    saved.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stack = load_language_model(tmp_path, device="cpu")
    model = stack.language_model
    assert not model.training and {one.dtype for one in model.parameters()} == {torch.float32}
    for name, weight in saved.named_parameters():
        assert torch.equal(dict(model.named_parameters())[name], weight.float()), name
    inside = {id(one) for one in model.parameters()}
    assert all(id(one) in inside for one in stack.model.parameters())


def test_a_model_without_a_masked_lm_head_is_refused(tiny):
    from isogloss.stack.load import load_language_model

    with pytest.raises(InputError, match="has no head that predicts masked words; it would be random numbers"):
        load_language_model(tiny("bert"), device="cpu")


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "gpt2"])
def test_a_model_without_a_tokenizer_is_refused(tiny, family, tmp_path):
    AutoModel.from_pretrained(tiny(family)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="has no tokenizer; save the one it was trained with"):
        load(tmp_path)


def test_a_mistyped_folder_among_runs_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.json").write_text("{}")
    assert locate("owner/name") == "owner/name"
    with pytest.raises(InputError, match="there is no folder runs/mien"):
        locate("runs/mien")


def test_weights_that_one_may_not_read_are_said_to_be_there(tiny, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(tiny("bert"), tmp_path / "model"))
    monkeypatch.setattr("os.access", lambda path, mode: path != folder / "model.safetensors")
    with pytest.raises(InputError, match="model.safetensors cannot be read: permission denied"):
        load(folder)


def test_a_tokenizer_with_more_pieces_than_the_model_is_refused(tiny, tmp_path):
    small = AutoConfig.from_pretrained(tiny("bert"), vocab_size=50)
    AutoModel.from_config(small).save_pretrained(tmp_path)
    tokenizer = load(tiny("bert")).tokenizer
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=rf"has {len(tokenizer)} pieces, and the model knows 50: they do not belong"):
        load(tmp_path)


def test_slow_tokenizers_are_told_apart_by_their_vocabularies():
    hashes = []
    for vocabulary in ({"a": 0, "b": 1}, {"b": 1, "a": 0}, {"a": 1, "b": 0}):
        digest = hashlib.sha256()
        stack_module.hash_tokenizer(
            digest, SimpleNamespace(is_fast=False, get_vocab=lambda vocabulary=vocabulary: vocabulary)
        )
        hashes.append(digest.hexdigest())
    assert hashes[0] == hashes[1] != hashes[2]
