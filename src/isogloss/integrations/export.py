"""`isogloss export`: a model, a layer and a pooling, as something that runs without isogloss.

What is written is checked before it takes its place: sentences go through the other package's own loading code, and the
vectors must be those of isogloss. One model knows nothing of the language of a sentence, so `centre` subtracts one
mean; where each language is to have its own, as in `isogloss map`, each gets a folder of its own.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.files import whole_folder, write_text
from isogloss.integrations.encoder import (
    Encoder,
    Pooling,
    Side,
    encode_with_onnxruntime,
    encode_with_sentence_transformers,
    needed,
    write_model,
    write_onnx,
    write_sentence_transformer,
)
from isogloss.mappings import Mapping as Fitted
from isogloss.mappings import load_mapping
from isogloss.progress import Progress, silent
from isogloss.recipes.model_card import markdown_table, model_card, read_metadata
from isogloss.recipes.recipe import joined_corpus, language_files, model_name, one_of
from isogloss.runs.run import read_facts
from isogloss.stack.load import load, locate, quietly
from isogloss.stack.stack import Stack
from isogloss.text import embedded
from isogloss.text.corpora import Bitext, Corpus

TOLERANCE = 1e-4  # of the largest entry of a vector, or of 1
POOLED = {"mean": "mean of the content tokens", "first": "first token"}
LONGEST = 512  # tokens up to which the check reads a sentence that is too long for the model


@dataclass(frozen=True)
class Format:
    """write(folder, encoder) fills a folder; read(folder, corpus) gives its vectors, by a package that may miss."""

    write: Callable[[Path, Encoder], None]
    read: Callable[[Path, Corpus], Any]
    package: str


@dataclass(frozen=True)
class Exported:
    """What was written: where, what it is, and the largest difference from isogloss' own vectors, None if unchecked."""

    folder: Path
    facts: Mapping[str, str]
    difference: float | None


def export(
    model: str | Path,
    folder: str | Path,
    *,
    to: Annotated[str, "sentence-transformers, transformers or onnx"] = "sentence-transformers",
    layer: Annotated[int | None, "layer to cut at; default the last, or the one that a run of align aligned"] = None,
    pooling: Annotated[str, "a sentence is the mean of its content tokens, or its first token"] = "mean",
    mapping: Annotated[str | Path | Fitted | None, "a fitted mapping, a file that ig.save wrote"] = None,
    side: Annotated[str, "the mapping's space these sentences are of: source or target"] = "source",
    centre: Annotated[list[str] | Corpus | Bitext | None, "text whose mean is subtracted, LANG=FILE"] = None,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    progress: Progress = silent,
) -> Exported:
    """Write a model, cut at a layer, as a folder that gives isogloss' vectors without isogloss.

    Example: isogloss export runs/aligned search --to sentence-transformers
    """
    kind = FORMATS[one_of("to", to, tuple(FORMATS))]
    one_of("pooling", pooling, get_args(Pooling)), one_of("side", side, get_args(Side))
    target = Path(folder)
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} is already there; choose another folder, or remove it")
    if to == "transformers" and (mapping is not None or centre is not None or pooling != "mean"):
        raise InputError(
            "--to transformers writes the states of tokens; --pooling, --mapping and --centre are of sentences, so "
            "take another format or leave them out"
        )
    if to == "onnx":
        needed("onnx", "onnxscript")
    if mapping is None and side != "source":
        raise InputError(f"--side {side} says which space of a --mapping is meant; give one, or leave --side out")
    # A run folder stands for the model in it.
    source, run, path = model, None, Path(model)
    if (path / "run.json").is_file() and (path / "model").is_dir():
        source, run = path / "model", path
    elif path.name == "model" and (path.parent / "run.json").is_file():
        run = path.parent
    stack = load(source, revision, dtype="float32", device="cpu")
    encoder = _encoder(stack, layer, run, cast(Pooling, pooling), mapping, cast(Side, side))
    if centre is None or isinstance(centre, Corpus | Bitext):
        texts = [] if centre is None else [centre] if isinstance(centre, Corpus) else list(centre)
    else:
        texts = [joined_corpus(language, files) for language, files in language_files(centre, option="centre").items()]
    if texts:  # the mean of the languages' means, in float64: a language with more text does not count for more
        means = [encoder.vectors(text, progress=progress).mean(dim=0, dtype=torch.float64) for text in texts]
        encoder = replace(encoder, mean=torch.stack(means).mean(dim=0))
    facts = _facts(model, encoder, mapping, texts, tokens=to == "transformers")
    metadata = inherited(source_cards(source, run, revision))
    facts |= {"licence": str(metadata.get("license", "the source's card names none"))}
    with whole_folder(target) as beside:
        kind.write(beside, encoder)
        difference = _check_vectors(beside, encoder, kind, to)
        pre_norm = stack.family.norm is not None
        write_text(beside / "README.md", _card(to, model_name(source), facts, metadata, pre_norm, difference))
        if target.exists():
            raise InputError(f"{target} was made by someone else meanwhile; choose another folder")
    return Exported(target, facts, difference)


def _read_again(folder: Path, corpus: Corpus) -> Tensor:
    stack = load(folder, dtype="float32", device="cpu")
    return Encoder(stack, stack.cuts[-1]).vectors(corpus)


FORMATS = {
    "sentence-transformers": Format(
        write_sentence_transformer, encode_with_sentence_transformers, "sentence-transformers"
    ),
    "transformers": Format(
        lambda folder, encoder: write_model(folder, encoder.stack, encoder.layer), _read_again, "transformers"
    ),
    "onnx": Format(write_onnx, encode_with_onnxruntime, "onnxruntime"),
}


def _encoder(
    stack: Stack,
    layer: int | None,
    run: Path | None,
    pooling: Pooling,
    mapping: str | Path | Fitted | None,
    side: Side,
) -> Encoder:
    """The encoder that was asked for; a run of align says which layer it aligned."""
    if stack.family.kind != "encoder":
        raise InputError(f"{stack.name} is of the kind {stack.family.kind}; only encoders can be cut and exported")
    if layer is None and run is not None:
        facts = read_facts(run)
        layer = facts.get("arguments", {}).get("layer") if facts.get("command") == "align" else None
    layer = stack.cuts[-1] if layer is None else layer
    if layer not in stack.cuts:
        raise InputError(f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layer asks for {layer}")
    fitted = load_mapping(mapping) if isinstance(mapping, str | Path) else mapping
    if fitted is not None:
        width = fitted.source.width if side == "source" else fitted.target.width
        if width != stack.width:
            raise InputError(
                f"--mapping: its {side} space is {width} wide and {stack.name} is {stack.width} wide; was it fitted on "
                "another model, or is the other --side meant?"
            )
    return Encoder(stack, int(layer), pooling, fitted, side)


def _facts(
    model: str | Path,
    encoder: Encoder,
    mapping: str | Path | Fitted | None,
    texts: Sequence[Corpus],
    *,
    tokens: bool,
) -> dict[str, str]:
    """What the card says, name -> value; tokens: it is of tokens, not of sentences."""
    stack = encoder.stack
    facts = {
        "model": str(model),
        "layer": f"{encoder.layer} of {stack.cuts[-1]}",
        "vector": "tokens" if tokens else f"{POOLED[encoder.pooling]} of a sentence",
        "width": str(encoder.width),
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
    """The largest difference between isogloss' vectors and those of the folder, which must be small."""
    if find_spec(kind.package.replace("-", "_")) is None:
        return None
    corpora = [text.take(range(2)) for text in embedded()]
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    if encoder.stack.max_length <= LONGEST:
        sentences.append(" ".join(sentences * (1 + LONGEST // (10 * len(sentences)))))
    corpus = Corpus("en", sentences, name="check")
    expected = encoder.vectors(corpus)
    try:
        with quietly():
            exported = torch.as_tensor(kind.read(folder, corpus)).float().cpu()
    except Exception as error:  # whatever an older version makes of what it does not know
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{kind.package} {version(kind.package)} cannot read what --to {to} writes ({reason}); nothing was "
            "written; update it, or export where it is not installed"
        ) from error
    difference = float((exported - expected).abs().max()) if exported.shape == expected.shape else float("inf")
    if not difference <= TOLERANCE * max(1.0, float(expected.abs().max())):
        raise InputError(
            f"{encoder.stack.name} cannot be exported --to {to}: read by {kind.package} it gives vectors that differ "
            f"from isogloss' by {difference:.2g}; nothing was written"
        )
    return difference


USE = {
    "sentence-transformers": """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["a sentence", "een zin"])
```

It is made of the package's own modules (5.4 or later). A sentence that has special tokens only gets a vector of zeros,
before any mapping or centring.""",
    "transformers": """```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
model = AutoModel.from_pretrained("path/to/this/folder")
```

`isogloss` reads it as a model of so many layers. A pooler is left out, so `pooler_output` means nothing.""",
    "onnx": """```python
import onnxruntime
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder")
session = onnxruntime.InferenceSession("path/to/this/folder/model.onnx")
encoded = tokenizer(["a sentence", "een zin"], padding=True, truncation=True, return_tensors="np")
vectors = session.run(None, {name: encoded[name] for name in ("input_ids", "attention_mask")})[0]
```""",
}
NORM = """
The model normalises what its last block gives: `last_hidden_state` is after that norm, isogloss' layer before it."""
TASK = {
    "sentence-transformers": "sentence-similarity",
    "transformers": "feature-extraction",
    "onnx": "feature-extraction",
}


def _card(
    to: str,
    name: str,
    facts: Mapping[str, str],
    metadata: Mapping[str, Any],
    pre_norm: bool,
    difference: float | None,
) -> str:
    """README.md of a folder; metadata: the licence and the languages of the source's own card."""
    package = FORMATS[to].package
    checked = f"Not checked: {package} is not installed where it was made."
    if difference is not None:
        checked = (
            f"Checked when it was made: on sentences in seven languages, read by {package} {version(package)}, "
            f"its vectors differ from isogloss' by {difference:.1g} at most."
        )
    body = [f"Made with `isogloss export` from {name}, in float32.", ""]
    body += markdown_table(("", ""), list(facts.items()))
    body += ["", USE[to], *([NORM] if pre_norm and to == "transformers" else []), "", checked]
    title = f"{name}, layer {facts['layer']}"
    return model_card(title, body, **metadata, library_name=to, pipeline_tag=TASK[to])


def inherited(cards: Sequence[Path]) -> dict[str, Any]:
    """The licence (with its name and link) and the languages of the first of these cards that has each."""
    licence: dict[str, Any] = {}
    languages: dict[str, Any] = {}
    for path in cards:
        metadata = read_metadata(path)
        if metadata.get("license"):
            names = ("license", "license_name", "license_link")
            licence = licence or {name: metadata[name] for name in names if metadata.get(name)}
        if metadata.get("language"):
            languages = languages or {"language": metadata["language"]}
    return licence | languages


def source_cards(source: str | Path, run: Path | None, revision: str | None) -> list[Path]:
    """Cards that may name the licence: the model's own, then those of the models it was trained from."""
    from huggingface_hub import hf_hub_download

    cards: list[Path] = []
    seen: set[str] = set()
    now: str | None = str(source)
    while now is not None and now not in seen:
        seen.add(now)
        try:
            location = Path(locate(now))
        except InputError:  # the model a run began with is no longer there
            break
        if location.is_dir():
            cards.append(location / "README.md")
        else:
            with suppress(Exception):  # no network, no card: what the hub raises differs by version
                cards.append(Path(hf_hub_download(now, "README.md", revision=revision)))
        run = run or (location.parent if (location.parent / "run.json").is_file() else None)
        now = read_facts(run).get("arguments", {}).get("model") if run is not None else None
        run, revision = None, None
    return cards
