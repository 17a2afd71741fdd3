"""Configurations for new encoders of any known family, from the few numbers that give one its shape."""

import json
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.stack.families import FAMILIES

# How a family spells what BERT calls intermediate_size, hidden_dropout_prob, attention_probs_dropout_prob.
_BERT = {"feedforward": ("intermediate_size",), "dropout": ("hidden_dropout_prob", "attention_probs_dropout_prob")}
_SPELLED: dict[str, dict[str, tuple[str, ...]]] = {
    "distilbert": {"feedforward": ("hidden_dim",), "dropout": ("dropout", "attention_dropout")},
    "modernbert": {
        "feedforward": ("intermediate_size",),
        "dropout": ("embedding_dropout", "attention_dropout", "mlp_dropout"),
    },
}
# Global attention in every layer: streams are short, and layers of one kind can be compared with each other. A gate of
# silu learns as well as one of gelu, whose gradient takes three times as long to compute on a GPU.
_EXTRA: dict[str, dict[str, Any]] = {"modernbert": {"global_attn_every_n_layers": 1, "hidden_activation": "silu"}}


def configure(
    architecture: str,
    *,
    vocabulary: int,
    depth: int,
    width: int,
    heads: int,
    feedforward: int | None = None,
    length: int = 128,
    dropout: float = 0.0,
    tokenizer: Any = None,
    more: str | Path | None = None,
) -> Any:
    """The configuration of a new encoder; special tokens are the tokenizer's, or BERT's order from 0 on.

    length: the longest input the encoder learns positions for; rotary families take 512 at least. more: a JSON file
    whose entries override anything.
    """
    from transformers import AutoConfig

    known = [name for name, family in FAMILIES.items() if family.kind == "encoder"]
    if architecture not in known:
        raise InputError(f"--architecture {architecture!r} is not known; choose {', '.join(known)}")
    for name, value in (("depth", depth), ("width", width), ("heads", heads), ("feedforward", feedforward)):
        if value is not None and value < 1:
            raise InputError(f"--{name} must be at least 1, not {value}")
    if not 0 <= dropout < 1:
        raise InputError(f"--dropout must be from 0 to below 1, not {dropout}")
    if width % heads:
        raise InputError(f"--width {width} is no multiple of --heads {heads}")
    spelled = _SPELLED.get(architecture, _BERT)
    gated = rotary = architecture == "modernbert"  # a gated layer has three matrices where others have two
    marks = _marks(tokenizer)
    after_padding = FAMILIES[architecture].first_position == "padding"
    before = max(2, marks.get("pad_token_id", 1) + 1) if after_padding else 0  # positions no token ever has
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "max_position_embeddings": max(512, length) if rotary else length + before,
        **dict.fromkeys(spelled["feedforward"], feedforward or (8 * width // 3 if gated else 4 * width)),
        **dict.fromkeys(spelled["dropout"], dropout),
        **_EXTRA.get(architecture, {}),
    }
    if architecture == "electra":
        sizes["embedding_size"] = width
    if more is None:
        return AutoConfig.for_model(architecture, **sizes, **marks)
    fields = sizes | marks | _read(Path(more))
    try:
        made = AutoConfig.for_model(architecture, **fields)
    except Exception as error:  # what a configuration raises differs by family and version
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"--config {more} cannot be used for {architecture}: {reason}") from error
    _refuse_too_small(made, more, positions=length + before, vocabulary=vocabulary if tokenizer is not None else 0)
    return made


def _marks(tokenizer: Any) -> dict[str, int]:
    """Ids of the special tokens, as configurations name them; borders are the tokenizer's, or else its [CLS], [SEP]."""
    ids: dict[str, int | None] = {"pad": 0, "cls": 2, "sep": 3, "bos": None, "eos": None}
    if tokenizer is not None:
        ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ids}
    for border, mark in (("bos", "cls"), ("eos", "sep")):
        ids[border] = ids[mark] if ids[border] is None else ids[border]
    return {f"{name}_token_id": number for name, number in ids.items() if number is not None}


def _refuse_too_small(made: Any, more: str | Path, *, positions: int, vocabulary: int) -> None:
    """Refuse what would only show as an index out of range, on a GPU as a failed assertion, once training begins."""
    if made.max_position_embeddings < positions:
        raise InputError(
            f"--config {more} gives {made.max_position_embeddings} positions, but --length needs {positions}"
        )
    if made.vocab_size < vocabulary:
        raise InputError(
            f"--config {more} gives a vocabulary of {made.vocab_size}, but the tokenizer has {vocabulary}; "
            "leave vocab_size out"
        )
    if made.hidden_size % made.num_attention_heads:
        raise InputError(
            f"--config {more} gives a width of {made.hidden_size}, no multiple of {made.num_attention_heads} heads"
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"--config {path} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"--config {path} must hold one JSON object")
    return found
