"""`isogloss export`: write a model with a layer and a pooling in a format that does not need isogloss.

The output is checked before it is moved to its place: sentences are encoded by the other package, and the vectors must
equal those of isogloss. A model does not know the language of a sentence, so `centre` subtracts one mean; to subtract a
mean per language, as in `isogloss map`, export a folder for each language.

An `Encoder` is a model cut at a layer, pooling, and a list of steps of two kinds that every format supports: an affine
map, and division of each vector by its norm. A fitted mapping with its normalisation is a list of such steps, and so is
centring. There are three formats:

`write_model` writes the stack cut at a layer as a `transformers` model that `from_pretrained` reads. Weights are shared
with the stack until they are written. A pooler is left out: no cut uses it, and one that was trained on another layer
would be meaningless.

`write_sentence_transformer` writes a folder that sentence-transformers loads with its own modules:

    Transformer    the model, cut at the layer; a pre-norm model keeps one block above the cut, whose input is read
    WordWeights    0 for special tokens, 1 for all others, for the mean of content tokens (not with the first token)
    Pooling        mean, or the first token
    Dense          an affine map; Normalize, division by the norm: a mapping, centring

sentence-transformers need not be installed to write it. The names of its modules are those of folders on the hub.

`write_onnx` writes the encoder as one graph: from token ids and their mask to sentence vectors.
"""

import copy
import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from isogloss.errors import InputError, readable, require
from isogloss.files import whole_folder, write_text
from isogloss.mappings.mapping import Mapping as Fitted, load_mapping
from isogloss.progress import listening, silent
from isogloss.recipes.model_card import markdown_table, model_card, read_metadata
from isogloss.recipes.recipe import Option, check_arguments, language_files, model_name
from isogloss.runs.run import read_facts
from isogloss.stack.load import load, locate, quietly
from isogloss.stack.stack import Stack, graft
from isogloss.text.batches import marks
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.readers.parallel import joined_corpus
from isogloss.vectors.extract import vectors

Side = Literal["source", "target"]
Pooling = Literal["mean", "first"]  # supported by every format
POOLED = {"mean": "mean of the content tokens", "first": "first token"}
CARDS = Path(__file__).parent / "cards"  # usage instructions for the model card, in Markdown
FILE = "model.onnx"
LARGEST = 2**31 - 2**26  # bytes of weights in one file; the limit of protobuf is 2 GiB
INPUTS = ("input_ids", "attention_mask")
TOLERANCE = 1e-4  # relative to the largest entry of a vector, or to 1
LONGEST = 512  # models with at most this maximum length are also checked on a sentence that is too long


# --- what is exported ------------------------------------------------------------------------------------------------


class UnitLength(nn.Module):
    """Each row divided by its length."""

    def forward(self, x: Tensor) -> Tensor:
        """Divide the rows of x (..., d); a row of zeros stays zero."""
        return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def affine(weight: Tensor, bias: Tensor) -> nn.Linear:
    """X W' + b for each row: weight (d_out, d_in), bias (d_out,), both in float64."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = nn.Parameter(weight.double(), False), nn.Parameter(bias.double(), False)
    return layer


def shifted(offset: Tensor) -> nn.Linear:
    """X + offset for each row: offset (d,)."""
    return affine(torch.eye(len(offset), dtype=torch.float64, device=offset.device), offset)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Text to sentence vectors: the hidden states of `stack` at `layer`, pooled, then mapped, then centred.

    side: the mapping's space that the sentences belong to; mean: (width,), float64, subtracted at the end.
    """

    stack: Stack
    layer: int
    pooling: Pooling = "mean"
    mapping: Fitted | None = None
    side: Side = "source"
    mean: Tensor | None = None

    @property
    def steps(self) -> list[nn.Module]:
        """The steps after pooling, merged where possible: `nn.Linear` in float64, and `UnitLength`."""
        steps: list[nn.Module] = []
        mapping = self.mapping
        if mapping is not None and mapping.restore == "normalised":
            space = getattr(mapping, self.side)  # alternates division by norms and centring; ends with a division
            lengths: list[nn.Module] = [UnitLength()] if space.lengths else []
            steps = [step for mean in space.means for step in (*lengths, shifted(-mean))] + lengths
            if space.removed is not None:
                read, subtracted = space.removed
                taken = subtracted.T @ read  # (d, d)
                steps = [affine(torch.eye(len(taken), dtype=taken.dtype) - taken, taken @ space.means[0])]
        if mapping is not None and self.side == "source":
            moved = mapping.target.mean - mapping.weight @ mapping.source.mean
            recentred = mapping.restore == "recentred"
            steps.append(affine(mapping.weight, moved if recentred else torch.zeros_like(moved)))
        if self.mean is not None:
            steps.append(shifted(-self.mean))
        merged: list[nn.Module] = []  # consecutive affine maps are merged
        for step in steps:
            last = merged[-1] if merged else None
            if isinstance(step, nn.Linear) and isinstance(last, nn.Linear):
                merged[-1] = affine(step.weight @ last.weight, step.weight @ last.bias + step.bias)
            else:
                merged.append(step)
        return merged

    def vectors(self, corpus: Corpus) -> Tensor:
        """The vectors from isogloss, (sentences, width), float32; every export is checked against them."""
        x = vectors(self.stack, corpus, layers=[self.layer], pooling=self.pooling)[0]
        if self.mapping is not None and self.side == "source":
            x = self.mapping(x)
        elif self.mapping is not None and self.mapping.restore == "normalised":
            x = self.mapping.target(x)
        return x if self.mean is None else x - self.mean.to(x.dtype)


# --- the three formats -----------------------------------------------------------------------------------------------


def write_model(folder: Path, stack: Stack, layer: int, *, spare: bool = False) -> None:
    """Write the model with its first `layer` blocks, with weights in float32, configuration and tokenizer.

    A pre-norm model normalises the output of its last block, so the raw output of block k is only available as the
    input of block k + 1. `spare` adds such a block above the cut; its weights are zero, so it adds nothing.
    """
    from transformers import AutoModel

    blocks = list(stack.model.get_submodule(stack.family.blocks))[:layer]
    depth, old = layer + spare, stack.model.config
    changed = copy.deepcopy(old)
    changed.num_hidden_layers = depth
    if kinds := getattr(old, "layer_types", None):  # a layer beyond the last has the type of the last
        changed.layer_types = [*kinds, *[kinds[-1]] * depth][:depth]
    wanted = f"transformers makes no {old.model_type}"
    with readable(wanted, f"of {depth} blocks", "cut it at another layer, or take another format"):
        config = type(old).from_dict(changed.to_dict())
    if spare:
        with torch.device("meta"):
            skeleton = AutoModel.from_config(config)
        block = skeleton.get_submodule(stack.family.blocks)[layer].to_empty(device="cpu").to(torch.float32)
        for tensor in block.state_dict().values():
            tensor.zero_()
        blocks.append(block)
    model: Any = graft(stack.model, stack.family.blocks, nn.ModuleList(blocks))
    if "pooler" in model._modules:
        model._modules["pooler"] = None
    model.config = config
    with quietly():
        model.save_pretrained(folder)
    write_tokenizer(folder, stack)


def write_tokenizer(folder: Path, stack: Stack) -> None:
    """Write the tokenizer, which truncates sentences at the same length as isogloss."""
    tokenizer = copy.deepcopy(stack.tokenizer)
    tokenizer.model_max_length = stack.max_length
    if tokenizer.is_fast:  # for readers of tokenizer.json, which would have the settings of the last call
        tokenizer.backend_tokenizer.enable_truncation(stack.max_length)
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def write_sentence_transformer(folder: Path, encoder: Encoder) -> None:
    """Write a folder that sentence-transformers 5.4 or later loads."""
    stack, spare = encoder.stack, encoder.stack.family.norm is not None
    write_model(folder, stack, encoder.layer, spare=spare)
    # Without padding, sentences would have no attention mask, which WordWeights needs.
    settings: dict[str, Any] = {"unpad_inputs": False}
    if spare:
        output = {"method": "forward", "method_output_name": ["hidden_states", encoder.layer]}
        settings |= {"modality_config": {"text": output}, "module_output_name": "token_embeddings"}
    if "pooler" in stack.model._modules:
        settings["model_args"] = {"add_pooling_layer": False}
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    modules = []
    for number, (kind, config, weights) in enumerate([("Transformer", settings, {}), *_modules(encoder)]):
        path = f"{number}_{kind}" if number else ""
        modules.append(
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        )
        (folder / path).mkdir(exist_ok=True)
        # Not indented: the vocabulary would have a line for every word.
        file = "config.json" if number else "sentence_bert_config.json"
        _write(folder / path / file, config, indent=None if kind == "WordWeights" else 2)
        if weights:
            save_file(weights, folder / path / "model.safetensors")
    _write(folder / "modules.json", modules)


def _modules(encoder: Encoder) -> Iterator[tuple[str, dict[str, Any], dict[str, Tensor]]]:
    """The modules after the model: the type, configuration and weights of each."""
    mean = encoder.pooling == "mean"
    if mean:
        # Token ids instead of words: sentence-transformers would lowercase words.
        vocabulary = [str(number) for number in range(encoder.stack.model.get_input_embeddings().num_embeddings)]
        silent = {str(number): 0.0 for number in marks(encoder.stack.tokenizer)}
        yield "WordWeights", {"vocab": vocabulary, "word_weights": silent, "unknown_word_weight": 1.0}, {}
    pooling = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    yield "Pooling", {"word_embedding_dimension": encoder.stack.width, **pooling}, {}
    for step in encoder.steps:
        if not isinstance(step, nn.Linear):
            yield "Normalize", {}, {}
            continue
        sizes = {"in_features": step.in_features, "out_features": step.out_features, "bias": True}
        weights = {f"linear.{name}": value.float().contiguous() for name, value in step.state_dict().items()}
        yield "Dense", {**sizes, "activation_function": "torch.nn.modules.linear.Identity"}, weights


def _write(path: Path, content: Any, *, indent: int | None = 2) -> None:
    path.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")


class SentenceGraph(nn.Module):
    """ids, mask (sentences, tokens) -> vectors (sentences, width)."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        stack = encoder.stack
        self.body = stack[: encoder.layer]._body  # returns the raw output of the last block, before any final norm
        self.mean = encoder.pooling == "mean"
        self.marks: Tensor
        self.register_buffer("marks", torch.tensor(marks(stack.tokenizer)))
        self.steps = nn.Sequential(*encoder.steps).float()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Pool the hidden states of the last block and apply the steps."""
        states = self.body(input_ids=input_ids, attention_mask=attention_mask)[0]  # (sentences, tokens, width)
        if self.mean:
            content = torch.ne(input_ids.unsqueeze(-1), self.marks).all(dim=-1) & (attention_mask > 0)
            weights = content.to(states.dtype).unsqueeze(-1)  # (sentences, tokens, 1)
            x = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
        else:
            x = states[:, 0]  # `write_onnx` ensures that the tokenizer pads at the end
        return self.steps(x)


def write_onnx(folder: Path, encoder: Encoder) -> None:
    """Write `model.onnx`, and the tokenizer beside it."""
    stack = encoder.stack
    front = f"the tokenizer of {stack.name} pads at the front, where the first token is; use --pooling mean"
    require(stack.tokenizer.padding_side == "right" or encoder.pooling == "mean", front)
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, stack)
    graph = SentenceGraph(encoder).eval()
    special = set(marks(stack.tokenizer))  # not used for tracing, which might specialise the graph to them
    ids = torch.full((2, 5), next(number for number in range(len(stack.tokenizer)) if number not in special))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("tokens")}
    bytes_ = sum(weight.numel() * weight.element_size() for weight in graph.parameters())
    # Warnings of the exporter are suppressed: the check of the vectors shows whether the file is correct.
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            torch.onnx.export(
                graph,
                (ids, mask),
                folder / FILE,
                input_names=list(INPUTS),
                output_names=["sentence_vector"],
                dynamic_shapes=dict.fromkeys(INPUTS, sizes),
                dynamo=True,
                external_data=bytes_ > LARGEST,
                verbose=False,
            )
    finally:
        logger.setLevel(level)


def encode_with_sentence_transformers(folder: Path, corpus: Corpus) -> Any:
    """The vectors from sentence-transformers, (sentences, width)."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode(list(corpus.sentences), convert_to_tensor=True, show_progress_bar=False)


def encode_with_transformers(folder: Path, corpus: Corpus) -> Tensor:
    """The vectors from the folder loaded as a model, (sentences, width)."""
    stack = load(folder, dtype="float32", device="cpu")
    return Encoder(stack, stack.cuts[-1]).vectors(corpus)


def encode_with_onnxruntime(folder: Path, corpus: Corpus) -> Tensor:
    """The vectors from onnxruntime, (sentences, width), with the tokenizer in the same folder."""
    import onnxruntime
    from transformers import AutoTokenizer

    session = onnxruntime.InferenceSession(str(folder / FILE), providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded: Any = tokenizer(list(corpus.sentences), padding=True, truncation=True, return_tensors="np")
    fed = {name: encoded[name].astype("int64") for name in INPUTS}
    return torch.from_numpy(session.run(None, fed)[0])


@dataclass(frozen=True)
class Format:
    """One format: write(folder, encoder) fills a folder; read(folder, corpus) returns its vectors.

    `read` needs a package that may not be installed. `task` is the hub's name of the model's task, for the card.
    Instructions for loading are in `cards`, in a file named by the format.
    """

    write: Callable[[Path, Encoder], None]
    read: Callable[[Path, Corpus], Any]
    package: str
    task: str


FORMATS = {
    "sentence-transformers": Format(
        write_sentence_transformer,
        encode_with_sentence_transformers,
        "sentence-transformers",
        "sentence-similarity",
    ),
    "transformers": Format(
        lambda folder, encoder: write_model(folder, encoder.stack, encoder.layer),
        encode_with_transformers,
        "transformers",
        "feature-extraction",
    ),
    "onnx": Format(write_onnx, encode_with_onnxruntime, "onnxruntime", "feature-extraction"),
}


# --- the command -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exported:
    """The exported folder, its facts, and the largest difference from isogloss' vectors, None if not checked."""

    folder: Path
    facts: Mapping[str, str]
    difference: float | None


def export(
    model: str | Path,
    folder: str | Path,
    *,
    to: Annotated[
        str, Option("sentence-transformers, transformers or onnx", choices=tuple(FORMATS))
    ] = "sentence-transformers",
    layer: Annotated[int | None, "layer to cut at; default the last, or the aligned layer of a run of align"] = None,
    pooling: Annotated[Pooling, "sentence vector: mean of the content tokens, or first token"] = "mean",
    mapping: Annotated[str | Path | Fitted | None, "a fitted mapping, a file written by ig.save"] = None,
    side: Annotated[Side, "the mapping's space that the sentences belong to: source or target"] = "source",
    centre: Annotated[list[str] | Corpus | Bitext | None, "text whose mean is subtracted, LANG=FILE"] = None,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
) -> Exported:
    """Write a model, cut at a layer, as a folder that other libraries load; the vectors are the same.

    Example: isogloss export runs/aligned search --to sentence-transformers
    """
    check_arguments(export, {"to": to, "pooling": pooling, "side": side})
    target, kind = Path(folder), FORMATS[to]
    new = not (target.exists() or target.is_symlink())
    require(new, f"{target} is already there; choose another folder, or remove it")
    require(
        to != "transformers" or (mapping is None and centre is None and pooling == "mean"),
        "--to transformers writes the states of tokens; --pooling, --mapping and --centre are of sentences, so take "
        "another format or leave them out",
    )
    missing = [name for name in ("onnx", "onnxscript") if to == "onnx" and find_spec(name) is None]
    require(not missing, f"--to onnx needs {' and '.join(missing)}; install isogloss[onnx]")
    alone = f"--side {side} says which space of a --mapping is meant; give one, or leave --side out"
    require(mapping is not None or side == "source", alone)
    in_run = Path(model) / "model"  # a run folder means the model in it
    source = in_run if (Path(model) / "run.json").is_file() and in_run.is_dir() else model
    stack = load(source, revision, dtype="float32", device="cpu")
    fitted = load_mapping(mapping) if isinstance(mapping, str | Path) else mapping
    encoder = Encoder(stack, _layer(stack, layer, source), pooling, fitted, side)
    width = stack.width if fitted is None else len(getattr(fitted, side).mean)
    require(
        width == stack.width,
        f"--mapping: its {side} space is {width} wide and {stack.name} is {stack.width} wide; was it fitted on another "
        "model, or is the other --side meant?",
    )
    if isinstance(centre, Corpus | Bitext):
        texts = [centre] if isinstance(centre, Corpus) else list(centre)
    else:
        files = {} if centre is None else language_files(centre, option="centre")
        texts = [joined_corpus(language, own) for language, own in files.items()]
    if texts:  # the mean of the languages' means, in float64, so that the amount of text does not matter
        means = [encoder.vectors(text).mean(dim=0, dtype=torch.float64) for text in texts]
        encoder = replace(encoder, mean=torch.stack(means).mean(dim=0))
    metadata = inherited(source_cards(source, revision))
    licence = str(metadata.get("license", "the source's card names none"))
    facts = _facts(model, encoder, mapping, texts, tokens=to == "transformers") | {"licence": licence}
    with whole_folder(target) as beside:
        kind.write(beside, encoder)
        with listening(silent):
            difference = _check_vectors(beside, encoder, kind, to)
        pre_norm = stack.family.norm is not None
        write_text(
            beside / "README.md",
            _card(to, model_name(source), facts=facts, metadata=metadata, pre_norm=pre_norm, difference=difference),
        )
        require(not target.exists(), f"{target} was made by someone else meanwhile; choose another folder")
    return Exported(target, facts, difference)


def _layer(stack: Stack, layer: int | None, source: str | Path) -> int:
    """The layer to cut at, checked; by default the aligned layer of a run of align, or the last."""
    kind = stack.family.kind
    require(kind == "encoder", f"{stack.name} is of the kind {kind}; only encoders can be cut and exported")
    run = _run_facts(Path(source))
    if layer is None and run.get("command") == "align":
        layer = run.get("arguments", {}).get("layer")
    layer = stack.cuts[-1] if layer is None else int(layer)
    require(layer in stack.cuts, f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layer asks for {layer}")
    return layer


def _run_facts(model: Path) -> dict[str, Any]:
    """The record of the run that a model belongs to; empty if it belongs to none."""
    return read_facts(model.parent) if (model.parent / "run.json").is_file() else {}


def _facts(
    model: str | Path, encoder: Encoder, mapping: str | Path | Fitted | None, texts: Sequence[Corpus], *, tokens: bool
) -> dict[str, str]:
    """The facts of the card, name -> value; tokens: whether vectors are of tokens, not of sentences."""
    stack, mapped = encoder.stack, encoder.mapping if encoder.side == "source" else None
    facts = {
        "model": str(model),
        "layer": f"{encoder.layer} of {stack.cuts[-1]}",
        "vector": "tokens" if tokens else f"{POOLED[encoder.pooling]} of a sentence",
        "width": str(stack.width if mapped is None else mapped.weight.shape[0]),
        "most tokens": str(stack.max_length),
        "hash of the model": stack.fingerprint,
    }
    if encoder.mapping is not None:
        fitted = encoder.mapping
        called = f"{fitted.method}, {fitted.source.kind}, {fitted.restore}, fitted on {fitted.pairs:,} pairs"
        hashed = hashlib.sha256(fitted.weight.contiguous().numpy().tobytes()).hexdigest()
        facts["mapping"] = f"{mapping} ({called})" if isinstance(mapping, str | Path) else called
        facts |= {"side": encoder.side, "hash of the mapping": hashed}
    if texts:
        facts["centred on"] = ", ".join(f"{text.language} ({len(text):,} sentences)" for text in texts)
        facts["hash of that text"] = ", ".join(text.fingerprint for text in texts)
    return facts


def _check_vectors(folder: Path, encoder: Encoder, kind: Format, to: str) -> float | None:
    """The largest difference between isogloss' vectors and those of the folder; too large ones are refused."""
    if find_spec(kind.package.replace("-", "_")) is None:
        return None
    sentences = [sentence for text in embedded() for sentence in text.sentences[:2]]
    if encoder.stack.max_length <= LONGEST:
        sentences.append(" ".join(sentences * (1 + LONGEST // (10 * len(sentences)))))
    corpus = Corpus("en", sentences, name="check")
    expected = encoder.vectors(corpus)
    reader, wrong = f"{kind.package} {version(kind.package)}", f"cannot read what --to {to} writes"
    with readable(reader, wrong, "nothing was written; update it, or export where it is not installed"), quietly():
        exported = torch.as_tensor(kind.read(folder, corpus)).float().cpu()
    difference = float((exported - expected).abs().max()) if exported.shape == expected.shape else float("inf")
    require(
        difference <= TOLERANCE * max(1.0, float(expected.abs().max())),
        f"{encoder.stack.name} cannot be exported --to {to}: read by {kind.package} it gives vectors that differ from "
        f"isogloss' by {difference:.2g}; nothing was written",
    )
    return difference


NORM = """
The model normalises what its last block gives: `last_hidden_state` is after that norm, isogloss' layer before it."""


def _card(
    to: str, name: str, facts: Mapping[str, str], metadata: Mapping[str, Any], pre_norm: bool, difference: float | None
) -> str:
    """The text of README.md; metadata: licence and languages from the card of the source model."""
    package = FORMATS[to].package
    checked = f"Not checked: {package} is not installed where it was made."
    if difference is not None:
        checked = (
            f"Checked when it was made: on sentences in seven languages, read by {package} {version(package)}, "
            f"its vectors differ from isogloss' by {difference:.1g} at most."
        )
    body = [f"Made with `isogloss export` from {name}, in float32.", ""]
    body += markdown_table(("", ""), list(facts.items()))
    use = (CARDS / f"{to}.md").read_text(encoding="utf-8").rstrip("\n")
    body += ["", use, *([NORM] if pre_norm and to == "transformers" else []), "", checked]
    title = f"{name}, layer {facts['layer']}"
    return model_card(title, body, **metadata, library_name=to, pipeline_tag=FORMATS[to].task)


def inherited(cards: Sequence[Path]) -> dict[str, Any]:
    """The licence (with its name and link) and the languages, each from the first of these cards that has it."""
    inherited: dict[str, Any] = {}
    for names in (("license", "license_name", "license_link"), ("language",)):
        card = next((metadata for metadata in map(read_metadata, cards) if metadata.get(names[0])), {})
        inherited |= {name: card[name] for name in names if card.get(name)}
    return inherited


def source_cards(source: str | Path, revision: str | None) -> list[Path]:
    """Cards that may name the licence: the model's own, then those of the models it was trained from."""
    from huggingface_hub import hf_hub_download

    cards: list[Path] = []
    seen: list[str] = []
    now: str | None = str(source)
    while now is not None and now not in seen:
        seen.append(now)
        try:
            location = Path(locate(now))
        except InputError:  # the original model of a run was removed
            break
        if location.is_dir():
            cards.append(location / "README.md")
        else:
            with suppress(Exception):  # without network there is no card; the hub's errors differ by version
                cards.append(Path(hf_hub_download(now, "README.md", revision=revision)))
        now, revision = _run_facts(location).get("arguments", {}).get("model"), None
    return cards
