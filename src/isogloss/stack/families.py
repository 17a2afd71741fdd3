"""Where a `transformers` model keeps its embeddings, blocks and final norm, and configurations for new encoders.

A `Family` contains everything needed to read, cut and re-join a model. `discover` derives it from the model itself, by
what its modules compute. The families that can be trained have a row in `families.toml`, which also lists what cannot
be found in a base model, such as the masked-LM head. Paths are attribute names below the base model (`AutoModel`), or
below its encoder for an encoder-decoder; those of a masked-LM head are below the `...ForMaskedLM`. `configure` creates
the configuration of a new encoder from its depth, width and number of heads.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isogloss.errors import InputError, readable, require

Kind = Literal["encoder", "decoder", "encoder-decoder"]


@dataclass(frozen=True)
class Family:
    """Where the parts of one architecture are.

    blocks: path of the list of blocks. entry: the module whose input is cut 0, if that is not the first block; such a
    model always runs whole (in XLM a block is not a module, only its last norm is). embeddings: modules applied in
    turn, whose last output is cut 0. norm: the norm after the last block of pre-norm models, which is not part of any
    cut. packs: attention runs through `transformers`' attention interface and takes explicit positions, so sentences
    can be packed. first_position: position of the first token, "padding" if positions start after the padding index.
    rotary: the module that computes rotary positions. token_types: whether the model takes `token_type_ids`. attention:
    path, within a block, of the last projection of its attention, whose output is added to the residual; None: not
    read. kind: of an encoder-decoder, the encoder can be read, but not cut. cuts: whether the model takes hidden states
    at any cut. head: the modules of the masked-LM head, applied in turn to the base model's output, the last of which
    returns logits; empty if the family has no known head. transform: the parts of that head before its output layer,
    which do not depend on the vocabulary. feedforward, dropout: fields of the configuration for the feed-forward width
    and for every dropout. fields: values for new encoders that differ from the defaults of `transformers`.
    """

    blocks: str
    entry: str | None = None
    embeddings: tuple[str, ...] = ("embeddings",)
    norm: str | None = None
    packs: bool = True
    first_position: Literal["zero", "padding"] = "zero"
    rotary: str | None = None
    token_types: bool = True
    attention: str | None = None
    kind: Kind = "encoder"
    cuts: bool = True
    head: tuple[str, ...] = ()
    transform: tuple[str, ...] = ()
    feedforward: str = "intermediate_size"
    dropout: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    fields: tuple[tuple[str, Any], ...] = ()


def _read_table() -> dict[str, Family]:
    """Read the rows of `families.toml`, by the name of the family."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

    def facts(name: str) -> dict[str, Any]:
        own = {key: _frozen(fact) for key, fact in table[name].items()}
        return facts(own.pop("like")) | own if "like" in own else own

    return {name: Family(**facts(name)) for name in table}


def _frozen(fact: Any) -> Any:
    """Convert a list, and every list in it, into a tuple."""
    return tuple(map(_frozen, fact)) if isinstance(fact, list) else fact


TESTED = _read_table()
"""The rows of the table, checked against `hidden_states` by the tests; other families are checked when loaded."""
FAMILIES = dict(TESTED)
"""Families by `model_type`. Register a new one with `FAMILIES["my_type"] = Family(blocks="layers", ...)`."""


def discover(model: Any, ids: Tensor) -> Family:
    """Find the parts of a base model from the inputs and outputs of its modules when it runs on ids (1, tokens).

    The blocks are the module list whose outputs are `hidden_states`, one by one. The embeddings are the module around
    the token embeddings that outputs the input of the first block; without one (a scale or positions are applied later)
    the model cannot be cut. The final norm is the module that maps the output of the last block to `last_hidden_state`.
    A model is a decoder if changing the last token changes no state before it. `packs` is only a first guess.
    """
    taken: dict[str, Any] = {}
    given: dict[str, Any] = {}

    def record(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        taken[path] = args[0] if args else kwargs.get("hidden_states")
        given[path] = output[0] if isinstance(output, tuple) else output

    modules = {path: module for path, module in model.named_modules() if path}
    handles = [
        module.register_forward_hook(partial(record, path), with_kwargs=True) for path, module in modules.items()
    ]
    try:
        out = model(input_ids=ids, output_hidden_states=True, **without_cache(model))
    finally:
        for handle in handles:
            handle.remove()
    states, last = out.hidden_states, out[0]
    depth = len(states) - 1
    lists = (path for path, module in modules.items() if isinstance(module, nn.ModuleList) and len(module) == depth)
    blocks = next(
        (path for path in lists if all(_same(given.get(f"{path}.{k}"), states[k + 1]) for k in range(depth - 1))), None
    )
    require(blocks is not None, f"none of its lists of {depth} modules gives its hidden states")
    top = given.get(f"{blocks}.{depth - 1}")
    entry = next((path for path in (f"{blocks}.0", *modules) if _same(taken.get(path), states[0])), None)
    require(entry is not None, "none of its modules takes its first hidden state")
    norms = [path for path, module in modules.items() if _same(taken.get(path), top) and _same(given.get(path), last)]
    require(_same(top, last) or norms, "no module turns the output of its last block into its last hidden state")
    tokens = model.get_input_embeddings()
    around = [path for path, module in modules.items() if tokens in module.modules()]
    embeddings = [path for path in around if _same(given.get(path), states[0])]
    other = ids.clone()
    other[0, -1] = ids[0, 0]
    before, after = (state[0, :-1].float() for state in (last, model(input_ids=other, **without_cache(model))[0]))
    limit = torch.finfo(last.dtype).eps ** 0.75  # rounding error; the median, since a token may go to another expert
    causal = bool(((before - after).norm(dim=-1) / before.norm(dim=-1)).median() <= limit)
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    # GPT-2 and others have no token types, and would look them up in the word embeddings.
    typed = hasattr(model.config, "type_vocab_size") and "token_type_ids" in signature(model.forward).parameters
    return Family(
        blocks=str(blocks),
        entry=None if entry == f"{blocks}.0" else entry,
        embeddings=(min(embeddings, key=len) if embeddings else max(around, key=len),),
        norm=None if _same(top, last) else min(norms, key=len),
        token_types=typed,
        kind="decoder" if causal else "encoder",
        packs=kinds <= {"full_attention", "sliding_attention"},
        cuts=bool(embeddings) and entry == f"{blocks}.0",
    )


def _same(x: Any, y: Any) -> bool:
    """Whether both are tensors and bitwise equal."""
    return isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape and torch.equal(x, y)


def without_cache(model: Any) -> dict[str, bool]:
    """The argument that stops a decoder from caching keys and values, if its forward pass accepts it."""
    return {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}


def trainable_family(config: Any) -> Family:
    """The row for a language model's configuration; raises for a family without a known head."""
    known = {name: family for name, family in FAMILIES.items() if family.head}
    unknown = f"masked-LM training does not know the family {config.model_type!r}"
    require(config.model_type in known, f"{unknown}; choose one of {', '.join(known)}")
    return known[config.model_type]


def language_model_class(config: Any) -> Any:
    """The `transformers` class that creates a new language model with a head from this configuration."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    return AutoModelForCausalLM if trainable_family(config).kind == "decoder" else AutoModelForMaskedLM


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
    """Create the configuration of a new encoder, with the tokenizer's special tokens, or BERT's order from 0 on.

    length: the number of positions the encoder learns; at least 512 in rotary families. more: a JSON file whose entries
    override any field.
    """
    from transformers import AutoConfig

    known = [name for name, family in FAMILIES.items() if family.head]
    require(architecture in known, f"--architecture {architecture!r} is not known; choose {', '.join(known)}")
    require(width % heads == 0, f"--width {width} is no multiple of --heads {heads}")
    family = FAMILIES[architecture]
    gated = rotary = family.rotary is not None  # a gated layer has three matrices where others have two
    ids: dict[str, int | None] = {"pad": 0, "cls": 2, "sep": 3, "bos": None, "eos": None}
    if tokenizer is not None:
        ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ids}
    for border, mark in (("bos", "cls"), ("eos", "sep")):  # borders are the tokenizer's, or else its [CLS] and [SEP]
        ids[border] = ids[mark] if ids[border] is None else ids[border]
    marks = {f"{name}_token_id": number for name, number in ids.items() if number is not None}
    after_padding = family.first_position == "padding"
    before = max(2, marks.get("pad_token_id", 1) + 1) if after_padding else 0  # unused positions
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": heads,
        "max_position_embeddings": max(512, length) if rotary else length + before,
        family.feedforward: feedforward or (8 * width // 3 if gated else 4 * width),
        **dict.fromkeys(family.dropout, dropout),
        **dict(family.fields),
    }
    if architecture == "electra":
        sizes["embedding_size"] = width
    plain = AutoConfig.for_model(architecture, **sizes, **marks)
    if more is None:
        return plain
    needed = length + before, vocabulary if tokenizer is not None else 0
    return _overridden(plain, sizes | marks, more, *needed)


def _overridden(plain: Any, fields: Mapping[str, Any], more: str | Path, positions: int, vocabulary: int) -> Any:
    """Override fields of a configuration by those of a JSON file; positions, vocabulary: the minimum required."""
    from transformers import AutoConfig

    with readable(f"--config {more}", "cannot be read as JSON", "give a file with one JSON object"):
        overrides = json.loads(Path(more).read_text(encoding="utf-8"))
    require(isinstance(overrides, dict), f"--config {more} must hold one JSON object")
    # Unknown fields raise: transformers accepts any name, so a misspelled one would be ignored.
    known = {*plain.to_dict(), *vars(plain), *plain.attribute_map, "dtype", "torch_dtype"}
    if unknown := [name for name in overrides if name not in known]:
        near = get_close_matches(unknown[0], known, n=1)
        hint = f"; is {near[0]} meant?" if near else ""
        raise InputError(f"--config {more}: {plain.model_type} has no field {unknown[0]}{hint}")
    architecture = plain.model_type
    if overrides.pop("model_type", architecture) != architecture:
        raise InputError(f"--config {more} is of another family than --architecture {architecture}")
    try:
        config = AutoConfig.for_model(architecture, **{**fields, **overrides})
        # Too small a value would only fail in training, as an index out of range, or on a GPU as a failed assertion.
        room, pieces = config.max_position_embeddings, config.vocab_size
        require(room >= positions, f"--config {more} gives {room} positions, but --length needs {positions}")
        few = f"--config {more} gives a vocabulary of {pieces}, but the tokenizer has {vocabulary}"
        require(pieces >= vocabulary, f"{few}; leave vocab_size out")
        width, heads = config.hidden_size, config.num_attention_heads
        require(width % heads == 0, f"--config {more} gives a width of {width}, no multiple of {heads} heads")
        with torch.device("meta"):  # an unknown activation raises only when layers are created
            language_model_class(config).from_config(config)
    except InputError:
        raise
    except Exception as error:  # the exception type differs by family and version
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        ending = " is not known" if isinstance(error, KeyError) else ""
        raise InputError(f"--config {more} cannot be used for {architecture}: {reason}{ending}") from error
    return config
