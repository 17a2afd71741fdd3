"""The table of architectures: where a `transformers` model keeps its embeddings, its blocks and its last norm.

A row is all it takes to read, cut and re-join a family. Paths are attribute names below the base model (`AutoModel`),
below its encoder for an encoder-decoder.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from isogloss.errors import InputError

Kind = Literal["encoder", "decoder", "encoder-decoder"]


@dataclass(frozen=True)
class Family:
    """Where things are in one architecture.

    blocks: path of the list of blocks. embeddings: modules applied in turn, whose last output is cut 0.
    norm: the norm after the last block of pre-norm models, which is not part of any cut. packs: attention runs
    through `transformers`' attention interface and takes explicit positions, so sentences can lie end to end.
    first_position: position of the first token, "padding" where positions start after the padding index.
    rotary: the module that gives rotary positions. token_types: takes `token_type_ids`. attention: path, within a
    block, of the last projection of its attention, whose output is added to the residual; None: not read.
    expands, activation: paths, within a block, of a projection and of the activation its result goes straight into.
    kind: decoders and encoder-decoders are read, not cut.
    """

    blocks: str
    embeddings: tuple[str, ...] = ("embeddings",)
    norm: str | None = None
    packs: bool = True
    first_position: Literal["zero", "padding"] = "zero"
    rotary: str | None = None
    token_types: bool = True
    attention: str | None = None
    expands: str | None = None
    activation: str | None = None
    kind: Kind = "encoder"


_BERT = Family(
    "encoder.layer",
    attention="attention.output.dense",
    expands="intermediate.dense",
    activation="intermediate.intermediate_act_fn",
)
_ROBERTA = replace(_BERT, first_position="padding")
_LLAMA = Family("layers", ("embed_tokens",), norm="norm", packs=False, token_types=False, kind="decoder")
_BART = Family("layers", ("embed_tokens",), packs=False, token_types=False, kind="encoder-decoder")
_MBART = Family("layers", ("embed_tokens",), norm="layer_norm", packs=False, token_types=False, kind="encoder-decoder")
_T5 = Family(
    "block",
    ("embed_tokens",),
    norm="final_layer_norm",
    packs=False,
    token_types=False,
    kind="encoder-decoder",
)

FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": replace(_BERT, embeddings=("embeddings", "embeddings_project")),
    "distilbert": Family(
        "transformer.layer",
        token_types=False,
        attention="attention.out_lin",
        expands="ffn.lin1",
        activation="ffn.activation",
    ),
    # Relative position biases are computed for one row of positions, so sentences cannot share a row.
    "mpnet": replace(_ROBERTA, packs=False, token_types=False, attention="attention.attn.o"),
    "modernbert": Family("layers", norm="final_norm", rotary="rotary_emb", token_types=False, attention="attn.Wo"),
    "gpt2": Family("h", ("wte",), norm="ln_f", packs=False, token_types=False, kind="decoder"),
    "bloom": Family("h", ("word_embeddings",), norm="ln_f", packs=False, token_types=False, kind="decoder"),
    "gpt_neox": Family(
        "layers", ("embed_in",), norm="final_layer_norm", packs=False, token_types=False, kind="decoder"
    ),
    "xglm": Family("layers", ("embed_tokens",), norm="layer_norm", packs=False, token_types=False, kind="decoder"),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "gemma": _LLAMA,
    "gemma2": _LLAMA,
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "bart": _BART,
    "marian": _BART,
    "mbart": _MBART,
    "m2m_100": _MBART,
}


def family_of(config: Any, name: str) -> Family:
    """The row for a model's configuration; an unknown family is refused with the names of the known ones."""
    if config.model_type not in FAMILIES:
        raise InputError(
            f"{name} is of the family {config.model_type!r}, which isogloss does not know; "
            f"it knows {', '.join(FAMILIES)}"
        )
    return FAMILIES[config.model_type]
