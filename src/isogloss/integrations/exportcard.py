"""The card of an exported model: what it was made of, under which licence, and how it is used."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.recipes.steps.card import markdown_table
from isogloss.runs.run import read_facts
from isogloss.stack.load import locate

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
LIBRARY = {"sentence-transformers": "sentence-transformers", "transformers": "transformers", "onnx": "onnx"}
TASK = {
    "sentence-transformers": "sentence-similarity",
    "transformers": "feature-extraction",
    "onnx": "feature-extraction",
}


def card(kind: str, name: str, facts: Mapping[str, str], front: Sequence[str], *, pre_norm: bool, checked: str) -> str:
    """README.md of a folder; front: lines of the source's own card on licence and languages."""
    lines = ["---", *front, f"library_name: {LIBRARY[kind]}", f"pipeline_tag: {TASK[kind]}", "tags:", "- isogloss"]
    lines += ["---", "", f"# {name}, layer {facts['layer']}", ""]
    lines += [f"Made with `isogloss export` from {name}, in float32.", ""]
    lines += markdown_table(("", ""), list(facts.items()))
    lines += ["", USE[kind]]
    lines += [NORM] if pre_norm and kind == "transformers" else []
    return "\n".join([*lines, "", checked, ""])


def inherited(cards: Sequence[Path]) -> tuple[list[str], str]:
    """Lines on licence and languages from the first of these cards that has each, and the licence in words."""
    licence: list[str] = []
    languages: list[str] = []
    for path in cards:
        found = _front(path)
        licence = licence or [line for line in found if re.match(r"license(_name|_link)?:\s*\S", line)]
        languages = languages or _entry(found, "language")
    named = next((line.partition(":")[2].strip().strip("\"'") for line in licence if line.startswith("license:")), "")
    return [*licence, *languages], named or "the source's card names none"


def cards(source: str | Path, run: Path | None, revision: str | None) -> list[Path]:
    """Cards that may name the licence: the model's own, then those of the models it was trained from."""
    found: list[Path] = []
    seen: set[str] = set()
    now: str | None = str(source)
    while now is not None and now not in seen:
        seen.add(now)
        try:
            place = Path(locate(now))
        except InputError:  # the model a run began with is no longer there
            break
        found += [place / "README.md"] if place.is_dir() else _hub_card(now, revision)
        run = run or (place.parent if (place.parent / "run.json").is_file() else None)
        now = read_facts(run).get("arguments", {}).get("model") if run is not None else None
        run, revision = None, None
    return found


def _hub_card(name: str, revision: str | None) -> list[Path]:
    from huggingface_hub import hf_hub_download

    try:
        return [Path(hf_hub_download(name, "README.md", revision=revision))]
    except Exception:  # no network, no card: what the hub raises differs by version, and a card is no condition
        return []


def _front(path: Path) -> list[str]:
    """The lines between the two rules at the head of a card; none where it has no such head."""
    if not path.is_file():
        return []
    found = re.match(r"---\r?\n(.*?)\n---\s*(\n|$)", path.read_text(encoding="utf-8", errors="replace"), re.DOTALL)
    return found[1].splitlines() if found else []


def _entry(lines: Sequence[str], key: str) -> list[str]:
    """The lines of one entry: `language: nl`, or its name and the list below it."""
    for number, line in enumerate(lines):
        if line.startswith(f"{key}:"):
            below = []
            for one in lines[number + 1 :]:
                if not re.match(r"\s*- ", one):
                    break
                below.append(one)
            return [line, *below]
    return []
