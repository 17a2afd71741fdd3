"""Model cards: README.md with metadata for the Hugging Face Hub and a few sections.

`align` and `pretrain` write a card beside the saved weights, `export` writes one into its folder. The metadata is
written and read by `huggingface_hub`, so that languages, licences and names are quoted correctly in YAML (`no` is
Norwegian, not false).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isogloss.runs.run import Run
from isogloss.runs.table import Row, frame
from isogloss.training.loop import Settings

UNITS = ("token", "word", "character")


def model_card(title: str, body: Sequence[str], **metadata: Any) -> str:
    """The text of README.md: the metadata, the title as a heading, and the lines of the body.

    metadata: non-empty fields of `huggingface_hub.ModelCardData`, such as language, license and library_name.
    """
    from huggingface_hub import ModelCard, ModelCardData

    fields = {name: value for name, value in metadata.items() if value}
    data = ModelCardData(**fields, tags=["isogloss"])
    return str(ModelCard("\n".join(["---", data.to_yaml(), "---", "", f"# {title}", "", *body, ""])))


def training_card(
    run: Run,
    *,
    title: str,
    summary: Sequence[str],
    facts: Mapping[str, Any],
    text: Sequence[str],
    held_out: Sequence[str],
    languages: Sequence[str],
    licence: str | None = None,
    causal: bool = False,
) -> str:
    """The card of a language model that a run has trained.

    summary: paragraphs that describe the model. facts: training settings, shown as a table. text: lines about the
    training text. held_out: lines about the evaluation on held-out text. causal: whether it continues a text, and does
    not fill masks.
    """
    versions = ", ".join(f"{name} {version}" for name, version in run.facts["versions"].items())
    machine = run.facts["hardware"].items()
    hardware = ", ".join(f"{value} CPUs" if name == "cpus" else str(value) for name, value in machine)
    table = {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in facts.items()}
    sections = {
        "Training": markdown_table(("", ""), list(table.items())),
        "Text": text,
        "Held-out text": held_out,
        "Made with": [f"{versions}; {hardware}."],
    }
    body = "\n\n".join([*summary, *("\n".join([f"## {name}", "", *lines]) for name, lines in sections.items())])
    task = "text-generation" if causal else "fill-mask"
    metadata = {"license": licence, "library_name": "transformers", "pipeline_tag": task}
    return model_card(title, [body], language=list(languages), **metadata)


def optimiser_facts(settings: Settings) -> str:
    """A description of the optimiser and its schedule."""
    optimisation, warm_up = settings.optimisation, round(settings.optimisation.warm_up * settings.steps)
    return (
        f"AdamW, rate {optimisation.rate:g}, {warm_up} steps of warm-up, {optimisation.decay} decay, "
        f"weight decay {optimisation.weight_decay:g}, betas {optimisation.betas}, clipping at {optimisation.clip:g}"
    )


def perplexity_lines(rows: Sequence[Row]) -> list[str]:
    """Lines with the final perplexity of each language, and the step of its lowest value if it rose after that."""
    table = frame(rows)
    table = table[table["measure"] == "perplexity"].sort_values("step", kind="stable")
    if table.empty:
        return ["No perplexity was measured."]
    lines, rising = [], []
    for language, readings in table.groupby("target", sort=False):
        last, curve = readings.groupby("unit")["value"].last(), readings[readings["unit"] == "character"]
        lines.append((str(language), *(f"{last[unit]:.2f}" if unit in last else "" for unit in UNITS)))
        lowest = curve.sort_values("value", kind="stable").iloc[0]
        if lowest["value"] < last["character"]:
            at = f"step {lowest['step']:,} ({lowest['value']:.3f} a character)"
            rising.append(f"{language} was lowest at {at} and rose from there")
    steps = table["step"].max()
    predicted = "of each token given those before it" if "causal" in set(table["method"]) else "of masked tokens"
    return [
        f"Perplexity {predicted} after step {steps:,}; compare different vocabularies only per word or character.",
        "",
        *markdown_table(("language", *(f"per {unit}" for unit in UNITS)), lines),
        "",
        ("; ".join(rising) if rising else "No language's perplexity had risen by the end") + ".",
    ]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown; `|` in a cell is escaped."""
    lines = (head, ["---"] * len(head), *rows)
    return [
        " | ".join(("", *(" ".join(cell.replace("|", "\\|").split()) for cell in cells), "")).strip() for cells in lines
    ]


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a card; empty if there is no card or it cannot be read."""
    from huggingface_hub import metadata_load

    try:
        return dict(metadata_load(path) or {}) if path.is_file() else {}
    except Exception:  # a damaged card counts as missing; the YAML parser raises errors of many types
        return {}
