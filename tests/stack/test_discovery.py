"""Models of any architecture: where their parts are is found in them, and what is read is what they compute."""

import copy
import gc
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import accelerate
import psutil
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM
from transformers.models.auto import modeling_auto

import isogloss as ig
import isogloss.stack.stack as stack_module
import tiny_models
from isogloss.errors import InputError
from isogloss.recipes.recipe import tokenizer_notes
from isogloss.stack import FAMILIES, Family, families, load, wrap
from isogloss.stack.families import without_cache
from isogloss.stack.head import head_of
from isogloss.stack.load import SENTENCE, _prepending
from isogloss.text.batches import encode
from isogloss.text.corpora import Corpus
from tiny_models import DEPTH, DISCOVERED, ENCODERS, READ_ONLY, TEXT, tiny_config, tiny_model, tiny_tokenizer

CORPUS = Corpus("en", TEXT)
loading = sys.modules["isogloss.stack.load"]  # the package's attribute of this name is the function
MOST = 2_000_000  # weights of a model that is small enough to be made here
CUT_DECODERS = (
    "gpt_neox", "falcon", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi3", "olmo2", "smollm3",
    "cohere2", "mixtral", "qwen3_moe",
)  # fmt: skip
LEFT_OUT = {  # types of transformers' list that are not tried
    "falcon_h1": "reads a token in a second without its CUDA kernels",
    "nemotron_h": "the same",
    "mra": "attends to nothing without its CUDA kernel",
}


def batch_of(stack, rows=None):
    return encode(stack.tokenizer, CORPUS, rows or list(range(len(TEXT))), max_length=stack.max_length)


def alone(stack, text):
    """transformers' own hidden states of one sentence, and its last hidden state: (tokens, width) each."""
    ids = torch.tensor([stack.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        out = stack.model(input_ids=ids, output_hidden_states=True, **without_cache(stack.model))
    return [*(states[0] for states in out.hidden_states[:-1]), out[0][0]]


def error(x, y):
    """The largest distance of two states of a token, relative to the length of the second."""
    return float(((x - y).norm(dim=-1) / y.norm(dim=-1)).max())


def errors(stack, rows=None, **options):
    """How far each cut of a batch is from what transformers says of each sentence alone."""
    rows = rows or list(range(len(TEXT)))
    batch = batch_of(stack, rows)
    with torch.no_grad():
        cuts = replace(stack, **options).read(batch)
        cuts[stack.last] = stack.head_input(cuts[stack.last])
    expected = [torch.cat(states) for states in zip(*(alone(stack, TEXT[row]) for row in rows), strict=True)]
    return [error(cuts[cut], expected[cut]) for cut in stack.cuts]


@pytest.mark.parametrize("family", ENCODERS + DISCOVERED + READ_ONLY)
def test_what_is_read_is_what_the_model_computes_for_each_sentence_alone(tiny, family):
    stack = load(tiny(family))
    assert list(stack.cuts) == list(range(DEPTH + 1))
    assert max(errors(stack, pack=False)) < 1e-5, "padded"
    assert max(errors(stack, [6, 3, 0], pack=False)) < 1e-5, "in another order"
    if stack.family.packs:
        assert max(errors(stack, pack=True)) < 1e-5, "end to end"
    with torch.no_grad():
        whole = stack.read(batch_of(stack))
        assert torch.equal(stack.read(batch_of(stack), [1])[1], whole[1]), "a low cut by itself"
    stack.tokenizer.padding_side = "left"
    left = ig.vectors(stack, Corpus("en", TEXT[:4]))
    stack.tokenizer.padding_side = "right"
    assert torch.equal(left, ig.vectors(stack, Corpus("en", TEXT[:4]))), "the side of padding changes nothing"


@pytest.mark.parametrize("family", DISCOVERED + CUT_DECODERS)
def test_a_discovered_model_is_cut(tiny, family):
    stack = load(tiny(family))
    batch = batch_of(stack)
    with torch.no_grad():
        whole = stack.read(batch)
        for cut in stack.cuts:
            assert error(stack[cut:].read(batch, [DEPTH], hidden=whole[cut])[DEPTH], whole[DEPTH]) < 1e-5
            joined = ig.chain(stack[:cut], stack[cut:]).read(batch)
            assert max(error(joined[k], whole[k]) for k in whole) < 1e-5


def test_decoders_pack_where_their_attention_is_the_interfaces(tiny):
    packing = {family for family in READ_ONLY if load(tiny(family)).family.packs}
    assert packing >= {"gpt2", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3_text", "phi3"}
    assert packing >= {"olmo2", "smollm3", "cohere2", "mixtral", "qwen3_moe"}
    assert "gemma2" not in packing, "its scores are capped, which packed attention does not do"
    assert load(tiny("llama")).packs, "on a CPU as well"


def answer(name, tokenizer):
    """Whether a small random model of a type is read, refused, read wrong, or not tried, as `SIZES` do not make it."""
    try:
        config = tiny_config(name, len(tokenizer))
        if config.sub_configs:
            return "not tried: made of several models"
        with torch.device("meta"):
            size = sum(weight.numel() for weight in AutoModel.from_config(config).parameters())
    except Exception as reason:  # each configuration that does not go together has an error of its own
        return f"not tried: {type(reason).__name__}"
    if size > MOST:
        return "not tried: its sizes have names of their own"
    try:
        stack = wrap(tiny_model(config), tokenizer)
    except InputError as reason:
        return f"refused: {reason}"
    wrong = max(max(errors(stack, [0, 1, 6], pack=packed)) for packed in {False, stack.family.packs})
    return "read" if wrong < 1e-4 else f"wrong by {wrong}"


def test_the_types_of_models_that_transformers_lists(request):
    """At least 60 of transformers' text models are read right (140 of transformers 5.22), and none is read wrong."""
    lists = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    names = {name for each in lists for name in each} & set(modeling_auto.MODEL_MAPPING_NAMES) - set(LEFT_OUT)
    # Half a minute, most of it to import each type's module: answers are kept until transformers or the stack changes.
    sources = [*Path(families.__file__).parent.glob("*.*"), Path(tiny_models.__file__), Path(__file__)]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()
    place = f"isogloss/model-types/{transformers.__version__}"
    answers, tokenizer = request.config.cache.get(place, {}), tiny_tokenizer()
    if answers.get("version") != version:
        answers = {"version": version} | {name: answer(name, tokenizer) for name in sorted(names)}
        request.config.cache.set(place, answers)
    report = "\n".join(f"{name}: {answers[name]}" for name in sorted(names))
    sys.stdout.write(report)  # pytest -rP shows it
    assert report.count(": read\n") >= 100, report
    assert ": wrong" not in report, report


def test_a_model_in_memory_with_a_head():
    tokenizer = tiny_tokenizer()
    model = AutoModelForCausalLM.from_config(tiny_config("llama", len(tokenizer)))
    model.train()
    stack = ig.wrap(model, tokenizer, name="mine")
    assert (stack.name, stack.family.kind, stack.model is model.model) == ("mine", "decoder", True)
    assert all(module.training for module in model.modules()), "the model is as it was"
    assert ig.vectors(stack, CORPUS).shape == (DEPTH + 1, len(TEXT), 32)
    assert ig.wrap(tiny_model(tiny_config("bert", len(tokenizer))), tokenizer).family is FAMILIES["bert"]


def test_a_pre_norm_top_is_found_where_the_model_leaves_it_out():
    """OPT has a last norm or not, as its configuration says: a row in a table could not know."""
    tokenizer = tiny_tokenizer()
    config = tiny_config("opt", len(tokenizer))
    assert wrap(tiny_model(config), tokenizer).family.norm == "decoder.final_layer_norm"
    config.do_layer_norm_before = False
    stack = wrap(tiny_model(config), tokenizer)
    assert stack.family.norm is None
    assert max(errors(stack)) < 1e-5


def test_a_norm_that_is_not_the_identity_is_no_part_of_the_top_cut(tiny):
    stack = load(tiny("llama"))
    with torch.no_grad():
        stack.model.norm.weight.mul_(3)
        top = stack.read(batch_of(stack, [0]))[DEPTH]
        assert error(top, alone(stack, TEXT[0])[-1]) > 0.1
        assert error(stack.head_input(top), alone(stack, TEXT[0])[-1]) < 1e-5


def test_a_model_that_cannot_be_read_says_how_to_register_it():
    tokenizer = tiny_tokenizer()
    albert = tiny_model(tiny_config("albert", len(tokenizer)))
    with pytest.raises(InputError, match=r"AlbertModel cannot be read.*FAMILIES\[\"albert\"\] = Family\(blocks="):
        wrap(albert, tokenizer)


def test_a_registered_family_is_used_and_checked(monkeypatch):
    tokenizer = tiny_tokenizer()
    model = tiny_model(tiny_config("llama", len(tokenizer)))
    right = Family(blocks="layers", norm="norm", embeddings=("embed_tokens",), token_types=False, kind="decoder")
    monkeypatch.setitem(FAMILIES, "llama", right)
    assert wrap(model, tokenizer).family == right
    monkeypatch.setitem(FAMILIES, "llama", replace(right, norm=None))
    with pytest.raises(InputError, match="cannot be read as a stack of layers: .*hidden states"):
        wrap(model, tokenizer)


def test_an_encoder_that_cannot_be_cut_says_so(tiny):
    stack = load(tiny("xlm"))
    assert stack.family.kind == "encoder"
    with pytest.raises(InputError, match="can be read, but not sliced: its embeddings are not one"):
        stack[1:]


def test_tied_embeddings_are_stored_once_and_not_missing(tmp_path):
    tokenizer = tiny_tokenizer()
    model = tiny_model(tiny_config("bart", len(tokenizer)))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stack = load(tmp_path)
    assert torch.equal(stack.model.embed_tokens.weight, model.shared.weight)
    assert max(errors(stack)) < 1e-5


def with_bos(*, added):
    """A tokenizer that has a first token, and perhaps adds it."""
    tokenizer = tiny_tokenizer([*TEXT, SENTENCE])
    tokenizer.bos_token, tokenizer.eos_token = "[CLS]", "[SEP]"
    tokenizer.backend_tokenizer.post_processor = None
    return _prepending(tokenizer, "[CLS]") if added else tokenizer


@cache
def trained_decoder(*, first):
    """A causal LM that knows one sentence by heart, with or without the first token before it."""
    tokenizer = with_bos(added=first)
    config = tiny_config("llama", len(tokenizer))
    config.tie_word_embeddings = True
    ids = torch.tensor([tokenizer(SENTENCE)["input_ids"]])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(60):
            optimiser.zero_grad()
            model(input_ids=ids, labels=ids).loss.backward()
            optimiser.step()
    return model.eval()


def test_a_first_token_that_the_tokenizer_forgets_is_put_before_every_text():
    model, tokenizer = trained_decoder(first=True), with_bos(added=False)
    right = wrap(model, with_bos(added=True))
    assert not right.notes
    for each in (model, model.model):  # with the head, and with the embeddings that are tied to it
        stack = wrap(each, tokenizer, name="mine")
        assert stack.notes[0].startswith("mine: its tokenizer does not add the first token [CLS], with which the loss ")
        assert torch.equal(ig.vectors(stack, CORPUS), ig.vectors(right, CORPUS))
        batch = batch_of(stack, [0])
        assert int(batch.ids[0]) == 2 and not batch.content[0], "which is no part of a mean"
    assert tokenizer(TEXT[0])["input_ids"][0] != 2, "the tokenizer that was given is as it was"
    assert tokenizer("a cat")["input_ids"] == stack.tokenizer("a cat")["input_ids"][1:]


@pytest.mark.parametrize(
    ("bos", "eos", "unk", "told"),
    [
        ("[CLS]", "[CLS]", "[UNK]", 2),  # as in GPT-2: texts end by it, too
        ("[CLS]", "[SEP]", "[UNK]", None),
        ("[CLS]", "[SEP]", "[UNK]", 1),  # the configuration names another one
        (None, "[SEP]", "[UNK]", 2),
        ("[SEP]", "[PAD]", "[CLS]", 3),  # as in SmolLM2: it is called the unknown token, and another one BOS
    ],
)
def test_a_first_token_is_found_by_the_loss_whatever_it_is_called(bos, eos, unk, told):
    model, tokenizer = copy.deepcopy(trained_decoder(first=True)), with_bos(added=False)
    right = ig.vectors(wrap(model, with_bos(added=True)), CORPUS)
    model.config.bos_token_id = told
    tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token = bos, eos, unk
    tokenizer.cls_token = tokenizer.sep_token = None
    stack = wrap(model, tokenizer, name="mine")
    assert "the first token [CLS], with which the loss of a sentence is" in stack.notes[0]
    assert torch.equal(ig.vectors(stack, CORPUS), right)


def test_a_first_token_that_a_model_was_not_trained_with_is_left_out():
    stack = wrap(trained_decoder(first=False), with_bos(added=False))
    assert not stack.notes and int(batch_of(stack, [0]).ids[0]) != 2


def test_a_first_token_is_believed_where_nothing_can_be_predicted():
    config = copy.deepcopy(trained_decoder(first=True).config)
    config.tie_word_embeddings = False
    assert (
        "[CLS], which the configuration names; it was put before"
        in wrap(tiny_model(config), with_bos(added=False)).notes[0]
    )
    config.bos_token_id = None
    stack = wrap(tiny_model(config), with_bos(added=False))
    assert stack.notes[0].endswith("whether it was trained with one cannot be told without its language modelling head")
    assert int(batch_of(stack, [0]).ids[0]) != 2


@pytest.mark.parametrize("change", ["no id fits", "no tokenizer", "no loss"])
def test_a_decoder_is_read_as_it_comes_where_no_first_token_can_be_tried(change):
    model, tokenizer = copy.deepcopy(trained_decoder(first=True)), with_bos(added=False)
    if change == "no id fits":  # GPT-2's default beside a small vocabulary, and a tokenizer without special tokens
        tokenizer.bos_token = tokenizer.eos_token = tokenizer.cls_token = tokenizer.sep_token = tokenizer.unk_token = (
            None
        )
    model.config.bos_token_id = {"no id fits": 50_256}.get(change, -1)
    if change == "no loss":
        model.lm_head = torch.nn.Linear(32, model.config.vocab_size, bias=False)
        torch.nn.init.constant_(model.lm_head.weight, torch.nan)
    stack = wrap(model, None if change == "no tokenizer" else tokenizer, name="mine")
    assert not stack.notes and stack.tokenizer is (None if change == "no tokenizer" else tokenizer)


def test_no_head_is_taken_from_the_folder_that_one_is_in(tmp_path, monkeypatch):
    model = copy.deepcopy(trained_decoder(first=True))
    save_file({"lm_head.weight": torch.zeros(3, 4)}, tmp_path / "other.safetensors")
    monkeypatch.chdir(tmp_path)
    model.config.tie_word_embeddings, model.config.bos_token_id, model.config.name_or_path = False, None, ""
    assert (
        wrap(model.model, with_bos(added=False)).notes[0].endswith("cannot be told without its language modelling head")
    )
    model.config.name_or_path = str(tmp_path)
    assert "cannot be told" in wrap(model.model, with_bos(added=False)).notes[0], "whose head has another shape"


def test_the_loss_of_a_model_that_is_read_without_its_head_is_that_of_the_head_in_its_files(tmp_path):
    model = copy.deepcopy(trained_decoder(first=True))
    model.config.tie_word_embeddings, model.config.bos_token_id = False, None
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.save_pretrained(tmp_path)
    with_bos(added=False).save_pretrained(tmp_path)
    stack = load(tmp_path, device="cpu")
    assert stack.language_model is None and "the first token [CLS], with which the loss" in stack.notes[0]


def test_the_run_says_that_a_first_token_was_added(tmp_path):
    stack = wrap(trained_decoder(first=True), with_bos(added=False), name="mine")
    ig.map(stack, ig.embedded(("en", "nl")).take(range(20)), layers="0,1", points=0, out=tmp_path)
    assert "it was put before every text" in (tmp_path / "run.json").read_text()


@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        (transformers.NllbTokenizer, {"en": "eng_Latn", "nl": "nld_Latn", "zh": "zho_Hans", "qaa": "eng_Latn"}),
        (transformers.MBart50Tokenizer, {"en": "en_XX", "nl": "nl_XX", "zh": "zh_CN", "qaa": "en_XX"}),
    ],
)
def test_each_text_of_a_translation_model_is_marked_with_its_own_language(kind, marks):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *sorted(set("".join(TEXT)) - {" "})]
    if kind is transformers.NllbTokenizer:
        tokenizer = kind(vocab={piece: number for number, piece in enumerate(pieces)}, merges=[])
    else:
        tokenizer = kind(vocab=[(piece, 0.0) for piece in pieces])
    before = tokenizer.src_lang
    for language, mark in marks.items():
        batch = encode(tokenizer, ig.Corpus(language, TEXT[:3]), [0, 1], max_length=60)
        first = batch.ids[torch.cumsum(batch.lengths, 0) - batch.lengths]
        assert tokenizer.convert_ids_to_tokens(first.tolist()) == 2 * [mark] and not batch.content[0]
        notes = tokenizer_notes(tokenizer, [ig.Corpus(language, TEXT[:3])])
        assert any("has no token for the language" in note for note in notes) is (language == "qaa")
    assert tokenizer.src_lang == before == marks["en"]


def test_a_slow_tokenizer_gives_sentence_measures(tmp_path):
    tokenizer = transformers.ByT5Tokenizer()
    stack = wrap(tiny_model(tiny_config("llama", 400)), tokenizer, name="mine")
    text = ig.embedded(("en", "nl")).take(range(20))
    rows = ig.map(stack, text, layers="0,1", out=tmp_path)
    assert set(rows.unit.dropna()) == {"sentence"} and {"cka", "p@1"} <= set(rows.measure)
    assert "sentences alone were compared: the slow tokenizer of mine" in (tmp_path / "run.json").read_text()
    fast = wrap(tiny_model(tiny_config("llama", 400)), tiny_tokenizer(), name="mine")
    asked = ig.map(fast, text, layers="0,1", words=0)
    assert "word" not in set(asked.unit)
    both = ig.map(fast, text, layers="0,1")
    same = both[both.unit == "sentence"].reset_index(drop=True)
    assert same.equals(asked[asked.unit == "sentence"].reset_index(drop=True)), "sentences are measured as before"


@pytest.mark.parametrize("reason", ["XTokenizer requires the SentencePiece library but it was not found", "no gguf"])
def test_a_missing_package_is_named_with_the_extra_that_installs_it(tiny, monkeypatch, reason):
    def refuse(*_, **__):
        raise ImportError(f"\n{reason} in your environment.\nCheck out the instructions")

    package = "gguf" if "gguf" in reason else "sentencepiece"
    extra = {"sentencepiece": "tokenizers", "gguf": "gguf"}[package]
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", refuse)
    monkeypatch.setattr(loading, "find_spec", lambda module: None)
    with pytest.raises(InputError, match=rf"needs the package {package}, .*: pip install 'isogloss\[{extra}\]'$"):
        load(tiny("llama"))
    monkeypatch.setattr(loading, "find_spec", lambda module: True)  # it is here, and the reason is another
    with pytest.raises(InputError, match="cannot be loaded as a model"):
        load(tiny("llama"))


def test_a_file_of_packed_weights_needs_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr(loading, "find_spec", lambda module: None)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"model.gguf needs the package gguf, .*: pip install 'isogloss\[gguf\]'$"):
        load(tmp_path / "model.gguf")
    with pytest.raises(InputError, match=r"model.gguf needs the package gguf, .*: pip install 'isogloss\[gguf\]'$"):
        loading.load_tokenizer(tmp_path / "model.gguf")


def test_a_gguf_file_is_a_model(tmp_path, capsys):
    """Weights in half precision, as a converter writes them: its rows of queries and keys are in another order."""
    gguf = pytest.importorskip("gguf")
    model = tiny_model(tiny_config("llama", 300))
    config, file = model.config, tmp_path / "tiny.gguf"
    letters = [chr(code) for code in range(33, 127)]
    words = ["<s>", "</s>", *letters, *("".join(pair) for pair in zip(letters, letters[1:], strict=False))]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(DEPTH)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(300)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*words, *(f"<{number}>" for number in range(300 - len(words)))])
    writer.add_token_merges([f"{a} {b}" for a, b in zip(letters, letters[1:], strict=False)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    names = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    for path, weight in model.named_parameters():
        name = path.replace("model.", "").replace("layers.", "blk.").replace("embed_tokens", "token_embd")
        name = "output_norm.weight" if name == "norm.weight" else name
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        values = weight.detach().numpy()
        for part, heads in (("attn_q", 4), ("attn_k", config.num_key_value_heads)):
            if part in name:
                values = values.reshape(heads, 2, -1, 32).swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(name, values.astype("float32"))
    for write in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        write()
    capsys.readouterr()
    stack = load(file, device="cpu")
    assert not capsys.readouterr().err, "no progress bar but ours"
    assert (stack.last, stack.width, stack.dtype) == (DEPTH, 32, torch.float32)
    with torch.no_grad():
        ids = torch.tensor([stack.tokenizer(TEXT[0])["input_ids"]])
        states = model(input_ids=ids, output_hidden_states=True).hidden_states[1][0]
    torch.testing.assert_close(ig.vectors(stack, Corpus("en", TEXT[:1]), unit="token")[1], states, atol=1e-5, rtol=0)
    stack.model.save_pretrained(tmp_path / "saved")
    stack.tokenizer.save_pretrained(tmp_path / "saved")
    saved = load(tmp_path / "saved", device="cpu")
    one = Corpus("en", TEXT[:1])
    assert torch.equal(ig.vectors(saved, one), ig.vectors(stack, one)), "a plain model, which can be saved"
    file.write_bytes(file.read_bytes()[:-2000])
    for loaded in (load, loading.load_tokenizer):
        with pytest.raises(InputError, match="is damaged or cut off, or no GGUF file"):
            loaded(file)


def test_a_model_too_large_for_memory_is_said_before_it_is_loaded(tiny, monkeypatch):
    folder, free = tiny("llama"), 100_000
    tensors = load_file(Path(folder) / "model.safetensors")
    count = sum(weight.numel() for weight in tensors.values())
    monkeypatch.setattr(loading, "virtual_memory", lambda: SimpleNamespace(available=free))
    monkeypatch.setattr(AutoModel, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(InputError, match=f"has {count:,} weights, which take 0.0 GB in float32, and 0.0 GB of memory"):
        load(folder, device="cpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_several_files_of_half_precision_is_read_in_float32(tiny, tmp_path, dtype):
    model = AutoModel.from_pretrained(tiny("llama"), dtype=dtype)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    tiny_tokenizer().save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 2
    stack = load(tmp_path, device="cpu")
    assert stack.dtype == torch.float32
    expected = wrap(model.float(), stack.tokenizer)
    assert torch.equal(ig.vectors(stack, CORPUS), ig.vectors(expected, CORPUS))


def test_a_model_that_is_too_large_for_its_gpu_is_refused_before_it_is_loaded(monkeypatch):
    gpu = torch.device("cuda:1")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: ({gpu: 2_500_000_000}[device], 0))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 800_000_000)  # of which torch uses some
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 300_000_000)
    monkeypatch.setattr(loading, "virtual_memory", lambda: SimpleNamespace(available=9_000_000_000))
    loading._check_memory("it", 1_500_000_000, torch.bfloat16, None, gpu)
    with pytest.raises(InputError, match="which take 3.2 GB in bfloat16, and 3.0 GB of GPU memory are free"):
        loading._check_memory("it", 1_600_000_000, torch.bfloat16, None, gpu)


def test_a_model_that_is_split_may_be_larger_than_its_gpu(monkeypatch):
    """A GGUF file is unpacked in memory, and split over all devices afterwards."""
    asked = []
    monkeypatch.setattr(loading, "choose_device", lambda device: torch.device("cuda"))
    monkeypatch.setattr(loading, "_count_gguf", lambda path: 5)
    monkeypatch.setattr(loading, "locate", lambda name: str(name))
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: tiny_config("llama", 300))

    def check(*args):
        asked.append(args[-1].type)
        raise InputError("enough")

    monkeypatch.setattr(loading, "_check_memory", check)
    for device in ("split", "cuda"):
        with pytest.raises(InputError, match="enough"):
            load("it.gguf", device=device)
    assert asked == ["cpu", "cuda"]


def test_a_model_of_the_hub_is_measured_by_its_files_or_by_what_their_index_says(tiny, tmp_path):
    """In the hub's cache: a model of one file, and the index alone of one of several."""
    for name, keep in (("whole", "*"), ("parts", "*.json")):
        snapshot = tmp_path / f"hub/models--me--{name}" / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("abc")
        for path in Path(tiny("llama")).glob(keep):
            shutil.copyfile(path, snapshot / path.name)
    index = {"metadata": {"total_size": 4_000_000_000}, "weight_map": {"it": "model-1-of-2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    script = """
import isogloss as ig, isogloss.stack.load, sys
from types import SimpleNamespace
loading = sys.modules["isogloss.stack.load"]
loading.virtual_memory = lambda: SimpleNamespace(available=1_000)
for name in ("me/whole", "me/parts"):
    try:
        ig.load(name, device="cpu")
    except ig.InputError as error:
        print(error)
"""
    surroundings = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    said = subprocess.run([sys.executable, "-c", script], env=surroundings, capture_output=True, text=True).stdout
    whole, parts = said.splitlines()
    assert whole.startswith("me/whole has ") and "0.0 GB of memory are free" in whole
    assert parts.startswith("me/parts has 1,000,000,000 weights, which take 4.0 GB in float32")


def test_tables_that_are_computed_are_no_missing_weights(tiny, tmp_path):
    """Marian's folders hold no sinusoidal positions: the model makes them."""
    shutil.copytree(tiny("marian"), tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.embed_positions.weight"]
    save_file(weights, path, {"format": "pt"})
    assert max(errors(load(tmp_path / "model"))) < 1e-5


def test_the_text_half_of_a_model_that_also_sees_is_read():
    tokenizer = tiny_tokenizer()
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    text = tiny_config("gemma3_text", len(tokenizer)).to_dict()
    config = transformers.Gemma3Config(
        text_config=text, vision_config={**vision, "image_size": 28, "patch_size": 14}, mm_tokens_per_image=4
    )
    stack = wrap(tiny_model(config), tokenizer)
    assert (stack.family.blocks, stack.width, stack.max_length) == ("language_model.layers", 32, 64)
    assert max(errors(stack, pack=False)) < 1e-5 and max(errors(stack, pack=True)) < 1e-5


def offloaded(folder, monkeypatch, read=load):
    """A model of which about half has room in memory."""
    size = sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
    with monkeypatch.context() as patch:
        patch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=size // 2, total=size))
        return read(folder, device="split")


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v2", "llama", "gpt2", "m2m_100"])
def test_a_model_that_is_partly_on_disk_is_read_as_one_in_memory(tiny, monkeypatch, family):
    monkeypatch.setattr(stack_module, "HASHED", 1_000)  # several pieces of a weight
    whole, split = load(tiny(family), device="cpu"), offloaded(tiny(family), monkeypatch)
    assert any(weight.is_meta for weight in split.blocks[-1].parameters()) and split.device == torch.device("cpu")
    assert (split.family, split.fingerprint, split.notes) == (whole.family, whole.fingerprint, whole.notes)
    with torch.no_grad():
        states, read = (stack.read(batch_of(stack)) for stack in (whole, split))
        assert all(torch.equal(states[cut], read[cut]) for cut in whole.cuts)
        assert torch.equal(split.read(batch_of(split), [1])[1], states[1]), "a low cut by itself"
        if whole.family.cuts and whole.family.kind == "encoder":
            upper = split[2:].read(batch_of(split), [DEPTH], hidden=states[2])[DEPTH]
            assert error(upper, states[DEPTH]) < 1e-5


def test_a_head_on_disk_says_what_one_in_memory_says(tmp_path, monkeypatch):
    for tied in (False, True):
        folder = tmp_path / str(tied)
        tiny_models.tiny_language_model("llama", tied=tied).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        read = loading.load_language_model
        stacks = read(folder, device="cpu"), offloaded(folder, monkeypatch, read)
        scores = [head_of(stack)(stack.read(batch_of(stack))[2]) for stack in stacks]
        assert any(weight.is_meta for weight in stacks[1].language_model.parameters()) and torch.equal(*scores)


def test_the_folder_of_weights_on_disk_is_gone_with_their_model(tmp_path, monkeypatch):
    """Files are read as they are, in any precision; experts that a model keeps as one weight are written once more."""
    tiny_model(tiny_config("mixtral", len(tiny_tokenizer()))).bfloat16().save_pretrained(tmp_path / "half")
    tiny_tokenizer().save_pretrained(tmp_path / "half")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    split = offloaded(tmp_path / "half", monkeypatch)
    assert list(tmp_path.glob("temporary/*/*"))
    whole = load(tmp_path / "half", device="cpu")
    assert torch.equal(*(ig.vectors(stack, CORPUS) for stack in (split, whole)))
    assert split.fingerprint == whole.fingerprint
    del split
    gc.collect()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_model_that_waits_in_memory_is_read_and_its_first_token_found():
    model = trained_decoder(first=True)
    expected = ig.vectors(wrap(model, with_bos(added=False)), CORPUS)
    stack = wrap(accelerate.cpu_offload(model, execution_device="cpu"), with_bos(added=False))
    assert all(weight.is_meta for weight in stack.model.parameters()) and stack.notes
    assert torch.equal(ig.vectors(stack, CORPUS), expected)


@pytest.mark.parametrize(("dtype", "most"), [("int8", 0.05), ("int4", 0.3)])
def test_weights_in_few_bits_are_read(dtype, most):
    pytest.importorskip("bitsandbytes")
    whole, few = load("mini", device="cpu"), load("mini", dtype=dtype, device="cpu")
    assert 1e-3 < error(*(ig.vectors(stack, CORPUS)[6] for stack in (few, whole))) < most
    assert few.fingerprint != whole.fingerprint and few.family == whole.family


def test_what_a_machine_cannot_do_is_refused_in_a_sentence(tiny, monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda module: None)
    with pytest.raises(InputError, match="--dtype int4 needs the package bitsandbytes, .*: pip install bitsandbytes"):
        load(tiny("llama"), dtype="int4", device="cpu")
    with pytest.raises(InputError, match="'split' is not known, as split is for commands that only read a model"):
        loading.choose_device("split")


def test_a_decoder_of_an_encoders_classes_is_read_as_a_decoder():
    config = tiny_config("bert", len(tiny_tokenizer()))
    config.is_decoder = True
    stack = wrap(transformers.BertLMHeadModel(config).eval(), tiny_tokenizer())
    assert stack.causal and max(errors(stack)) < 1e-5
