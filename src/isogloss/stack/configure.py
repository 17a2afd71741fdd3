"""Configurations for new encoders of any known family, from the few numbers that give one its shape."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

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
# silu is cheaper than one of gelu: its gradient's kernel took 0.27 ms a layer instead of 0.46 on an H200.
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
    from transformers import AutoConfig, AutoModelForMaskedLM

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
    plain = AutoConfig.for_model(architecture, **sizes, **marks)
    if more is None:
        return plain
    given = _read(Path(more))
    _refuse_unknown(plain, given, more)
    if given.pop("model_type", architecture) != architecture:
        raise InputError(f"--config {more} is of another family than --architecture {architecture}")
    try:
        made = AutoConfig.for_model(architecture, **sizes | marks | given)
    except Exception as error:  # what a configuration raises differs by family and version
        raise _refusal(more, architecture, error) from error
    _refuse_too_small(made, more, positions=length + before, vocabulary=vocabulary if tokenizer is not None else 0)
    try:
        with torch.device("meta"):  # an activation that does not exist shows only when layers are made
            AutoModelForMaskedLM.from_config(made)
    except Exception as error:
        raise _refusal(more, architecture, error) from error
    return made


def _refusal(more: str | Path, architecture: str, error: Exception) -> InputError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
    known = " is not known" if isinstance(error, KeyError) else ""
    return InputError(f"--config {more} cannot be used for {architecture}: {reason}{known}")


def _marks(tokenizer: Any) -> dict[str, int]:
    """Ids of the special tokens, as configurations name them; borders are the tokenizer's, or else its [CLS], [SEP]."""
    ids: dict[str, int | None] = {"pad": 0, "cls": 2, "sep": 3, "bos": None, "eos": None}
    if tokenizer is not None:
        ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ids}
    for border, mark in (("bos", "cls"), ("eos", "sep")):
        ids[border] = ids[mark] if ids[border] is None else ids[border]
    return {f"{name}_token_id": number for name, number in ids.items() if number is not None}


def _refuse_unknown(plain: Any, given: Mapping[str, Any], more: str | Path) -> None:
    """Refuse fields the family has not: transformers keeps any name, so a misspelled one would do nothing."""
    known = {*plain.to_dict(), *vars(plain), *plain.attribute_map, "dtype", "torch_dtype"}
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; is {near[0]} meant?" if near else ""
            raise InputError(f"--config {more}: {plain.model_type} has no field {name}{hint}")


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
