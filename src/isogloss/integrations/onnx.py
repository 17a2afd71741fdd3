"""The whole of an encoder as one ONNX graph: token ids and their mask in, sentence vectors out."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.integrations.encoder import Affine, Encoder, matrices, write_tokenizer
from isogloss.stack.stack import Stack
from isogloss.text.batches import marks
from isogloss.text.corpora import Corpus

FILE = "model.onnx"
LARGEST = 2**31 - 2**26  # bytes of weights in one file: protobuf ends at 2 GiB
INPUTS = ("input_ids", "attention_mask")


class SentenceGraph(nn.Module):
    """ids, mask (sentences, tokens) -> vectors (sentences, width)."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        stack = encoder.stack
        self.body = stack[: encoder.layer]._body  # the states of the last block as they are, before any final norm
        self.mean = encoder.pooling == "mean"
        self.marks: Tensor
        self.register_buffer("marks", torch.tensor(marks(stack.tokenizer)))
        self.steps = nn.ModuleList(
            _linear(step) if isinstance(step, Affine) else _UnitLength() for step in encoder.steps
        )

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
    ids = torch.full((2, 5), _any_token(stack))
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


def _linear(step: Affine) -> nn.Linear:
    weight, bias = matrices(step)
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer


def _any_token(stack: Stack) -> int:
    """A token that is no mark: a graph traced on padding alone might learn of it."""
    known = set(marks(stack.tokenizer))
    return next(number for number in range(len(stack.tokenizer)) if number not in known)


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
