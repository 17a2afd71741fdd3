"""The encoder that an export writes: a model cut at a layer, pooling, and linear steps; and the three formats.

After pooling come steps of two kinds, which every format knows in some form: an affine map, and a division of each
vector by its length. A fitted mapping with its normalisation is a list of such steps, and so is centring.

`write_model` writes the stack cut at a layer as a `transformers` model of its own that `from_pretrained` reads. Weights
are shared with the stack until they are written. A pooler is left out: no cut reads it, and one that was trained on
another layer would mean nothing.

`write_sentence_transformer` writes a folder that sentence-transformers loads with its own modules alone:

    Transformer    the model, cut at the layer; a pre-norm model keeps one block above the cut, whose input is read
    WordWeights    0 for special tokens, 1 for all others: the mean is of content tokens (not with the first token)
    Pooling        mean, or the first token
    Dense          an affine map; Normalize a division by length: a mapping, centring

sentence-transformers need not be installed to write it. The names of its modules are those of folders on the hub.

`write_onnx` writes the whole of an encoder as one graph: token ids and their mask in, sentence vectors out.
"""

import copy
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.mappings import Mapping, Normalisation
from isogloss.progress import Progress, silent
from isogloss.stack.load import quietly
from isogloss.stack.stack import Stack, graft
from isogloss.text.batches import marks
from isogloss.text.corpora import Corpus
from isogloss.vectors.extract import Unit, vectors

Pooling = Literal["mean", "first"]
Side = Literal["source", "target"]
UNIT: dict[Pooling, Unit] = {"mean": "sentence", "first": "first"}
FILE = "model.onnx"
LARGEST = 2**31 - 2**26  # bytes of weights in one file: protobuf ends at 2 GiB
INPUTS = ("input_ids", "attention_mask")


@dataclass(frozen=True, eq=False)
class Affine:
    """x W' + b, row by row: weight (d_out, d_in) or None for the identity, bias (d_out,), both float64."""

    weight: Tensor | None = field(repr=False)
    bias: Tensor = field(repr=False)

    def after(self, first: "Affine") -> "Affine":
        """The one map that does what `first` and then this one do."""
        if self.weight is None:
            return replace(first, bias=first.bias + self.bias)
        weight = self.weight if first.weight is None else self.weight @ first.weight
        return Affine(weight, self.weight @ first.bias + self.bias)


@dataclass(frozen=True)
class UnitLength:
    """Each row divided by its length."""


Step = Affine | UnitLength


@dataclass(frozen=True, eq=False)
class Encoder:
    """Text to sentence vectors: the states of `stack` at `layer`, pooled, then mapped, then centred.

    side: which of the mapping's two spaces these sentences are of; mean: (width,), float64, subtracted at the end.
    """

    stack: Stack
    layer: int
    pooling: Pooling = "mean"
    mapping: Mapping | None = None
    side: Side = "source"
    mean: Tensor | None = None

    @property
    def width(self) -> int:
        """Width of the vectors that come out."""
        if self.mapping is None or self.side == "target":
            return self.stack.width
        return int(self.mapping.weight.shape[0])

    @property
    def steps(self) -> list[Step]:
        """What follows the pooling, as few steps as there can be."""
        steps: list[Step] = []
        mapping = self.mapping
        if mapping is not None and self.side == "target":
            steps = normalisation_steps(mapping.target) if mapping.restore == "normalised" else []
        elif mapping is not None:
            turn = Affine(mapping.weight.double(), torch.zeros(mapping.weight.shape[0], dtype=torch.float64))
            if mapping.restore == "raw":
                steps = [turn]
            elif mapping.restore == "recentred":
                steps = [Affine(None, -mapping.source.mean), turn, Affine(None, mapping.target.mean)]
            else:
                steps = [*normalisation_steps(mapping.source), turn]
        if self.mean is not None:
            steps.append(Affine(None, -self.mean.double()))
        merged: list[Step] = []  # neighbouring affine maps made one
        for step in steps:
            if isinstance(step, Affine) and merged and isinstance(merged[-1], Affine):
                merged[-1] = step.after(merged[-1])
            else:
                merged.append(step)
        return merged

    def vectors(self, corpus: Corpus, *, progress: Progress = silent) -> Tensor:
        """What isogloss itself gives, (sentences, width), float32: every export is held to this."""
        pooled = vectors(self.stack, corpus, layers=[self.layer], unit=UNIT[self.pooling], progress=progress)[0]
        if self.mapping is not None:
            pooled = mapped(pooled, self.mapping, self.side)
        return pooled if self.mean is None else pooled - self.mean.to(pooled.dtype)


def mapped(x: Tensor, mapping: Mapping, side: Side) -> Tensor:
    """Vectors of one side (n, d) where the other side's can be compared with them."""
    if side == "source":
        return mapping(x)
    return mapping.target(x) if mapping.restore == "normalised" else x


def normalisation_steps(normalisation: Normalisation) -> list[Step]:
    """Rounds of "divide each row by its length, subtract the mean", and a last division."""
    steps: list[Step] = []
    for mean in normalisation.means:
        steps += [UnitLength()] if normalisation.lengths else []
        steps.append(Affine(None, -mean))
    return [*steps, UnitLength()] if normalisation.lengths else steps


def matrices(step: Affine) -> tuple[Tensor, Tensor]:
    """Weight (d_out, d_in) and bias (d_out,) in float32, as files hold them."""
    weight = torch.eye(len(step.bias), dtype=torch.float64) if step.weight is None else step.weight
    return weight.float().contiguous(), step.bias.float().contiguous()


def write_model(folder: Path, stack: Stack, layer: int, *, spare: bool = False) -> None:
    """The model with its first `layer` blocks, its weights in float32, with configuration and tokenizer.

    A pre-norm model normalises whatever its last block gives, so the raw output of block k is to be had only as what
    block k + 1 reads. `spare` adds such a block above the cut: all its weights are zero, so it adds nothing.
    """
    from transformers import AutoModel

    blocks = list(stack.model.get_submodule(stack.family.blocks))[:layer]
    depth, old = layer + spare, stack.model.config
    changed = copy.deepcopy(old)
    changed.num_hidden_layers = depth
    if kinds := getattr(old, "layer_types", None):  # of layers beyond the last, the kind is that of the last
        changed.layer_types = [*kinds, *[kinds[-1]] * depth][:depth]
    try:
        config = type(old).from_dict(changed.to_dict())
    except Exception as error:  # what a configuration raises differs by family and version
        raise InputError(
            f"transformers makes no {old.model_type} of {depth} blocks; cut it at another layer, or take another format"
        ) from error
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
    """The tokenizer, which cuts sentences where isogloss does."""
    tokenizer = copy.deepcopy(stack.tokenizer)
    tokenizer.model_max_length = stack.max_length
    if tokenizer.is_fast:  # for those who read tokenizer.json alone, whatever the last call asked for
        tokenizer.backend_tokenizer.enable_truncation(stack.max_length)
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


def write_sentence_transformer(folder: Path, encoder: Encoder) -> None:
    """Write the folder; sentence-transformers 5.4 or later loads it."""
    stack, spare = encoder.stack, encoder.stack.family.norm is not None
    write_model(folder, stack, encoder.layer, spare=spare)
    # Run without padding, sentences would have no attention mask, which WordWeights reads.
    settings: dict[str, Any] = {"unpad_inputs": False}
    if spare:
        output = {"method": "forward", "method_output_name": ["hidden_states", encoder.layer]}
        settings |= {"modality_config": {"text": output}, "module_output_name": "token_embeddings"}
    if "pooler" in stack.model._modules:
        settings["model_args"] = {"add_pooling_layer": False}
    _write(folder / "sentence_bert_config.json", settings)
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    kinds = ["Transformer"]
    for kind, config, step in _modules(encoder):
        module_folder = folder / f"{len(kinds)}_{kind}"
        module_folder.mkdir()
        # Indented, the vocabulary would take a line for every word.
        _write(module_folder / "config.json", config, indent=None if kind == "WordWeights" else 2)
        if step is not None:
            weight, bias = matrices(step)
            save_file({"linear.weight": weight, "linear.bias": bias}, module_folder / "model.safetensors")
        kinds.append(kind)
    modules = []
    for number, kind in enumerate(kinds):
        path, name = f"{number}_{kind}" if number else "", f"sentence_transformers.models.{kind}"
        modules.append({"idx": number, "name": str(number), "path": path, "type": name})
    _write(folder / "modules.json", modules)


def encode_with_sentence_transformers(folder: Path, corpus: Corpus) -> Any:
    """What the folder gives through the package, (sentences, width)."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode(list(corpus.sentences), convert_to_tensor=True, show_progress_bar=False)


def _modules(encoder: Encoder) -> list[tuple[str, dict[str, Any], Affine | None]]:
    """What follows the model: the kind of each module, its configuration, and the matrices it holds."""
    width = encoder.stack.width
    modules: list[tuple[str, dict[str, Any], Affine | None]] = []
    if encoder.pooling == "mean":
        # Named by their numbers: sentence-transformers would take a word for its lower-case twin.
        vocabulary = [str(number) for number in range(encoder.stack.model.get_input_embeddings().num_embeddings)]
        silent = {str(number): 0.0 for number in marks(encoder.stack.tokenizer)}
        modules.append(("WordWeights", {"vocab": vocabulary, "word_weights": silent, "unknown_word_weight": 1.0}, None))
    mean = encoder.pooling == "mean"
    pooling = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    modules.append(("Pooling", {"word_embedding_dimension": width, **pooling}, None))
    for step in encoder.steps:
        if isinstance(step, Affine):
            outputs = len(step.bias)
            inputs = outputs if step.weight is None else step.weight.shape[1]
            sizes = {"in_features": inputs, "out_features": outputs, "bias": True}
            modules.append(("Dense", {**sizes, "activation_function": "torch.nn.modules.linear.Identity"}, step))
        else:
            modules.append(("Normalize", {}, None))
    return modules


def _write(path: Path, content: Any, *, indent: int | None = 2) -> None:
    path.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")


class SentenceGraph(nn.Module):
    """ids, mask (sentences, tokens) -> vectors (sentences, width)."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        stack = encoder.stack
        self.body = stack[: encoder.layer]._body  # the states of the last block as they are, before any final norm
        self.mean = encoder.pooling == "mean"
        self.marks: Tensor
        self.register_buffer("marks", torch.tensor(marks(stack.tokenizer)))
        self.steps = nn.ModuleList()
        for step in encoder.steps:
            if isinstance(step, Affine):
                weight, bias = matrices(step)
                layer = nn.Linear(weight.shape[1], weight.shape[0])
                layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
            self.steps.append(layer if isinstance(step, Affine) else _UnitLength())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Pool the states of the last block and take the steps that follow."""
        states = self.body(input_ids=input_ids, attention_mask=attention_mask)[0]  # (sentences, tokens, width)
        if self.mean:
            content = torch.ne(input_ids.unsqueeze(-1), self.marks).all(dim=-1) & (attention_mask > 0)
            weights = content.to(states.dtype).unsqueeze(-1)  # (sentences, tokens, 1)
            x = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
        else:
            x = states[:, 0]  # tokenizers pad at the end, as `write_onnx` makes sure
        for step in self.steps:
            x = step(x)
        return x


def write_onnx(folder: Path, encoder: Encoder) -> None:
    """Write `model.onnx`, and the tokenizer beside it."""
    needed("onnx", "onnxscript")
    stack = encoder.stack
    if stack.tokenizer.padding_side != "right" and encoder.pooling == "first":
        raise InputError(
            f"the tokenizer of {stack.name} pads at the front, where the first token is; use --pooling mean"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, stack)
    graph = SentenceGraph(encoder).eval()
    special = set(marks(stack.tokenizer))  # a graph traced on padding alone might learn of it
    ids = torch.full((2, 5), next(number for number in range(len(stack.tokenizer)) if number not in special))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]])
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("tokens")}
    bytes_ = sum(weight.numel() * weight.element_size() for weight in graph.parameters())
    with _quiet(), torch.no_grad():
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


def encode_with_onnxruntime(folder: Path, corpus: Corpus) -> Tensor:
    """What the file gives through onnxruntime, (sentences, width), with the tokenizer beside it."""
    import onnxruntime
    from transformers import AutoTokenizer

    session = onnxruntime.InferenceSession(str(folder / FILE), providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded: Any = tokenizer(list(corpus.sentences), padding=True, truncation=True, return_tensors="np")
    fed = {name: encoded[name].astype("int64") for name in INPUTS}
    return torch.from_numpy(session.run(None, fed)[0])


def needed(*packages: str) -> None:
    """Refuse where a package of the extra `onnx` is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise InputError(f"--to onnx needs {' and '.join(missing)}; install isogloss[onnx]")


class _UnitLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


@contextmanager
def _quiet() -> Iterator[None]:
    """No advice from the exporter: what matters is whether the file gives the same vectors, which is checked."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
