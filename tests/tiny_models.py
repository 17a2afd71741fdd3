"""Tiny models of every family, saved as folders the way a user has them, with a tokenizer made on the spot."""

from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedTokenizerFast,
    XLMRobertaTokenizer,
)

TEXT = [
    "the cat sleeps on the chair",
    "de kat slaapt op de stoel",
    "we drink water and eat bread with cheese",
    "a longer sentence, which has (some) punctuation, goes here: does it not?",
    "кошка спит на стуле",
    "猫在椅子上睡觉。",
    "yes",
    "the old man reads a new book in the garden every day after lunch",
]

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
DEPTH = 3
ENCODERS = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "electra", "modernbert")
READ_ONLY = (
    "gpt2", "bloom", "gpt_neox", "xglm", "opt", "falcon", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
    "gemma3_text", "phi3", "olmo2", "smollm3", "cohere2", "mixtral", "qwen3_moe",
    "t5", "mt5", "umt5", "bart", "marian", "mbart", "m2m_100", "pegasus", "xlm",
)  # fmt: skip
DISCOVERED = ("deberta-v2", "eurobert")  # encoders without a row in the table, which can be cut
# Sizes under all the names that configurations have for them. Windows are narrower than most sentences.
SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers"), DEPTH),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("hidden_dim", "ffn_hidden_size", "n_inner"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "sliding_window"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "n_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("head_dim", "d_kv", "rotary_dim", "moe_intermediate_size"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 66),
    "word_embed_proj_dim": 32, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2,
}  # fmt: skip


def states_at(model, ids, places, attention=None):
    """What the base model of a masked LM leaves at some places (rows, k) of each row, (rows, k, width)."""
    states = model.base_model(input_ids=ids, attention_mask=attention)[0]
    return states[torch.arange(len(ids))[:, None], places]


def wordpiece_machine(vocabulary):
    """A tokenizer that cuts text as BERT does, with these pieces."""
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def framed(machine):
    """A tokenizer of transformers that puts BERT's marks around what a machine cuts."""
    machine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=machine, model_max_length=64, unk_token="[UNK]", pad_token="[PAD]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def tiny_tokenizer(texts=TEXT, size=400):
    """A WordPiece tokenizer with BERT's marks, trained on a handful of sentences: the same in every process.

    The trainer numbers continuation characters in the order of a hash table, which differs between processes, and
    breaks ties by these numbers; so it is given them in order, as if they were marks.
    """
    learner = wordpiece_machine({})
    cleaned = map(learner.normalizer.normalize_str, texts)
    words = [word for text in cleaned for word, _ in learner.pre_tokenizer.pre_tokenize_str(text)]
    inside = sorted({f"##{letter}" for word in words for letter in word[1:]})
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=[*MARKS, *inside], show_progress=False)
    learner.train_from_iterator(texts, trainer)
    tokenizer = wordpiece_machine(learner.get_vocab())  # a new one, where only the marks are marks
    tokenizer.add_special_tokens(list(MARKS))
    return framed(tokenizer)


def byte_level_tokenizer(merges=()):
    """Byte-level BPE whose pieces are the 256 bytes and these merges."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    machine = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, list(merges)))
    machine.pre_tokenizer, machine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=machine)


def sentencepiece_tokenizer(pieces):
    """XLM-R's tokenizer with these pieces, all of them equally likely, and its marks."""
    scored = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")] + [(piece, -3.0) for piece in pieces]
    return XLMRobertaTokenizer(vocab=[*scored, ("<mask>", 0.0)])


def tiny_config(family, vocabulary):
    """A configuration of `family` with three blocks, 32 wide."""
    extra = {
        "electra": {"embedding_size": 16},
        # Windows narrower than the longest sentence, on every second block, so that local attention is exercised.
        "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 6},
    }
    fields = AutoConfig.for_model(family)
    fields = {*fields.to_dict(), *fields.attribute_map}
    sizes = {name: size for name, size in SIZES.items() if name in fields}
    return AutoConfig.for_model(family, **{"vocab_size": vocabulary, **sizes, **extra.get(family, {})})


def tiny_model(config, seed=0):
    """A random model of a configuration, whose tokens differ."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
        for name, weight in model.named_parameters():
            if weight.dim() > 1:  # the default draw is so small that every token looks alike
                torch.nn.init.normal_(weight, std=0.2)
                if "embed" in name and getattr(model.config, "pad_token_id", None) is not None:
                    weight.data[0] = 0
    return model.eval()


def tiny_language_model(family, *, tied=None, vocabulary=None, seed=0):
    """A random decoder, or masked language model of an encoder's family, with its head."""
    config = tiny_config(family, vocabulary or len(tiny_tokenizer()))
    config.tie_word_embeddings = config.tie_word_embeddings if tied is None else tied
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = (AutoModelForMaskedLM if family in ENCODERS else AutoModelForCausalLM).from_config(config).eval()
        for weight in model.parameters():
            if weight.dim() > 1:  # wide enough for scores that a soft cap bends
                torch.nn.init.normal_(weight, std=0.5)
    return model


@cache
def saved(root, family):
    folder = Path(root) / family
    tokenizer = tiny_tokenizer()
    tiny_model(tiny_config(family, len(tokenizer)), hash_of(family)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def hash_of(text):
    """A small number that is the same in every process, unlike hash()."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))
