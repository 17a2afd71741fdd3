"""The card of a pretrained model: what it was made from, how, and how far it came, beside its weights."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isogloss.files import write_text
from isogloss.recipes.steps.texts import Packed
from isogloss.runs.run import Run
from isogloss.text.languages import name as language_name
from isogloss.text.sampling import Sampler
from isogloss.training.loop import Training
from isogloss.training.sharing import Languages


def write_cards(folder: Path, run: Run, packed: Packed, *, facts: Mapping[str, Any], licence: str | None) -> None:
    """Write README.md into every model folder at or below `folder`.

    facts: what was trained and how, shown as a table: name -> value.
    """
    for config in sorted(folder.rglob("config.json")):
        own = config.parent.name if config.parent != folder else None
        write_text(config.parent / "README.md", _card(run, packed, facts, licence, own))


def training_facts(
    training: Training, models: Languages, run: Run, packed: Packed, diet: Mapping[str, Any]
) -> dict[str, Any]:
    """What the card says of the training; diet: batch, length, exponent, share and whole words of its objective."""
    losses = [one for one in run.rows if one["measure"] == "loss"]
    tokens = training.step * diet["batch"] * diet["length"]
    way = training.settings.optimisation
    sizes = {language: stream.tokens for language, stream in packed.train.items()}
    sampler = Sampler(sizes, length=diet["length"], exponent=diet["exponent"], seed=training.settings.seed)
    seen = sampler.epochs(training.step, diet["batch"])
    return {
        "weights": sum(one.numel() for one in models.parameters()),
        "vocabulary": _vocabulary(packed),
        "separate parts": str(models.sharing),
        "steps": training.step,
        "tokens seen": tokens,
        "times the text was seen": ", ".join(f"{language} {times:.1f}" for language, times in seen.items()),
        "streams": f"{diet['batch']} of {diet['length']} tokens a step, languages by size ** {diet['exponent']}",
        "tokens predicted": f"{diet['share']:.0%}, of them 80% masked, 10% random, 10% as they are"
        + ("; words whole" if diet["whole words"] else ""),
        "optimiser": f"AdamW, rate {way.rate:g}, {way.warm_up} steps of warm-up, {way.decay} decay, weight decay "
        f"{way.weight_decay:g}, betas {way.betas}, clipping at {way.clip:g}",
        "last training loss": f"{losses[-1]['value']:.3f} nats a predicted token" if losses else "none",
        "seed": training.settings.seed,
    }


def _card(run: Run, packed: Packed, facts: Mapping[str, Any], licence: str | None, own: str | None) -> str:
    languages = [own] if own else packed.languages
    front = ["---", "language:", *(f"- {yaml_word(one)}" for one in languages)]
    front += [f"license: {yaml_word(licence)}"] if licence else []
    front += ["library_name: transformers", "pipeline_tag: fill-mask", "tags:", "- isogloss", "---", ""]
    names = ", ".join(language_name(one) for one in packed.languages)
    lines = [f"# {run.facts['model']}", ""]
    lines += [f"A masked language model of {names}, pretrained from scratch with `isogloss pretrain`.", ""]
    if own:
        lines += [f"This folder is its {language_name(own)} side; the other languages are beside it.", ""]
    lines += ["## Training", "", *markdown_table(("", ""), [(name, _shown(value)) for name, value in facts.items()])]
    lines += ["", "## Text", "", *_text(packed)]
    lines += ["", "## Held-out text", "", *perplexity_lines(run.rows)]
    versions = ", ".join(f"{name} {version}" for name, version in run.facts["versions"].items())
    machine = run.facts["hardware"]
    hardware = ", ".join(str(f"{value} CPUs" if name == "cpus" else value) for name, value in machine.items())
    lines += ["", "## Made with", "", f"{versions}; {hardware}.", ""]
    return "\n".join(front + lines)


def _vocabulary(packed: Packed) -> str:
    """How many pieces, of which kind, and how languages share them."""
    told = packed.facts["tokenizer"]
    sizes = {len(one) for one in packed.tokenizers.values()}
    size = f"{min(sizes):,} pieces" if len(sizes) == 1 else f"{min(sizes):,} to {max(sizes):,} pieces"
    kind = told.get("kind", "tokenizer given")
    shared = SPACES[told.get("spaces", "joint")] if len(packed.languages) > 1 else ""
    anchors = ", extra anchors" if "extra anchors" in packed.facts else ""
    return f"{size}, {kind}{', lower case' if told.get('lowercase') else ''}{shared}{anchors}"


SPACES = {
    "joint": ", of all languages together",
    "union": ", a tokenizer each; pieces spelled alike are one",
    "prefix": ", a tokenizer each; no piece is shared",
    "own": " each, a tokenizer and embeddings for every language",
}


def _text(packed: Packed) -> list[str]:
    rows = []
    for language in packed.languages:
        several = packed.facts["text"][language]
        files = ", ".join(one["name"] + (f" ({one['times']} times)" if "times" in one else "") for one in several)
        train, held = packed.train[language], packed.held.get(language)
        size = sum(one["bytes"] for one in several) / 1e6
        rows.append((language, files, f"{size:,.1f}", f"{train.paragraphs:,}", f"{train.tokens:,}",
                     f"{held.tokens:,}" if held else "none"))  # fmt: skip
    return markdown_table(("language", "files", "MB", "paragraphs", "tokens", "tokens held out"), rows)


def perplexity_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Perplexity of each language at the last reading, and from where it rose, if it did."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for one in rows:
        if one["measure"] == "perplexity":
            curve = found.setdefault(one["target"], {}).setdefault(one["unit"], [])
            curve.append((int(one["step"]), float(one["value"])))
    if not found:
        return ["None was kept."]
    table, rising = [], []
    for language, units in found.items():
        last = {unit: sorted(curve)[-1] for unit, curve in units.items()}
        table.append((language, *(f"{last[unit][1]:.2f}" if unit in last else "" for unit in UNITS)))
        lowest = min(units["character"], key=lambda point: point[1])
        if lowest[1] < last["character"][1]:
            rising.append(
                f"{language} was lowest at step {lowest[0]:,} ({lowest[1]:.3f} a character) and rose from there"
            )
    steps = max(step for units in found.values() for curve in units.values() for step, _ in curve)
    lines = [
        f"Perplexity of masked tokens after step {steps:,}; only per word and character do vocabularies compare.",
        "",
    ]
    lines += markdown_table(("language", *(f"per {unit}" for unit in UNITS)), table)
    lines += ["", ("; ".join(rising) if rising else "No language's perplexity had risen by the end") + "."]
    return lines


UNITS = ("token", "word", "character")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; a bar in a cell stays a bar."""
    lines = (head, ["---"] * len(head), *rows)
    return [" | ".join(("", *(_cell(one) for one in cells), "")).strip() for cells in lines]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def yaml_word(text: str) -> str:
    """For YAML: as it is where that is plainly a word; `no` (Norwegian) would be read as false."""
    return text if re.fullmatch(r"[a-z][\w.-]*", text) and text not in _NO_WORDS else json.dumps(text)


_NO_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)
