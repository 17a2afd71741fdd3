"""Tiny models of every family, saved as folders the way a user has them, with a tokenizer made on the spot."""

from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

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
    "gpt2", "bloom", "gpt_neox", "xglm", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
    "t5", "mt5", "umt5", "bart", "marian", "mbart", "m2m_100",
)  # fmt: skip


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


def tiny_config(family, vocabulary):
    """A configuration of `family` with three blocks, 32 wide."""
    sizes = {"vocab_size": vocabulary, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    common = {
        "hidden_size": 32,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    encoder = {
        "d_model": 32, "encoder_layers": DEPTH, "decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 66,
        "decoder_start_token_id": 2,
    }  # fmt: skip
    grouped = {**common, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 66}
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": DEPTH, "num_heads": 4}
    extra = {
        "distilbert": {"dim": 32, "n_layers": DEPTH, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 66},
        "electra": {**common, "embedding_size": 16, "max_position_embeddings": 66},
        # Windows narrower than the longest sentence, on every second block, so that local attention is exercised.
        "modernbert": {**common, "global_attn_every_n_layers": 2, "local_attention": 6, "max_position_embeddings": 66},
        "gpt2": {"n_embd": 32, "n_layer": DEPTH, "n_head": 4, "n_positions": 66},
        "bloom": {"hidden_size": 32, "n_layer": DEPTH, "n_head": 4},
        "xglm": {"d_model": 32, "num_layers": DEPTH, "attention_heads": 4, "ffn_dim": 64},
        **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2"), grouped),
        **dict.fromkeys(("bart", "marian", "mbart", "m2m_100"), encoder),
        **dict.fromkeys(("t5", "mt5", "umt5"), t5),
    }  # fmt: skip
    settings = extra.get(family, {**common, "max_position_embeddings": 66})
    return AutoConfig.for_model(family, **sizes, **settings)


@cache
def saved(root, family):
    folder = Path(root) / family
    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(hash_of(family))
        model = AutoModel.from_config(tiny_config(family, len(tokenizer)))
        for name, weight in model.named_parameters():
            if weight.dim() > 1:  # the default draw is so small that every token looks alike
                torch.nn.init.normal_(weight, std=0.2)
                if "embed" in name and getattr(model.config, "pad_token_id", None) is not None:
                    weight.data[0] = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def hash_of(text):
    """A small number that is the same in every process, unlike hash()."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))
