"""What a drift run leaves on disk: 1,500 updates, read every 50, with everything that is measured by default.

The aim is under 50 MB without checkpoints; Hussain & Dudev (2020) wrote about 2 TiB of activations. What is left is
rows, the report and its figures, and their number hangs on readings, layers and languages, not on the model's width or
the length of the text: so a BERT of 12 layers that is 32 wide, tuned on one invented language with six others watched
and a native model beside it, leaves as much as mBERT would. Runs on a CPU in minutes.

    python -m benchmarks.drift [--steps 1500] [--probe 50] [--distance 250] [--out FOLDER]
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
import transformers
from benchmarks.invented import invented

from isogloss.recipes.drift import drift
from isogloss.report import write_figures, write_page
from isogloss.stack.load import locate

LANGUAGES = ("qaa", "qab", "qac", "qad", "qae", "qaf", "qag")
BATCH, EPOCHS, HELD_OUT = 8, 3, 0.1
AIM = 50e6


def write_model(folder, seed):
    """A random masked LM, 12 layers deep."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(locate("mini"))
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=12, num_attention_heads=2, intermediate_size=64,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        transformers.BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def write_text(folder, steps):
    """A file a language: enough of the first for so many updates, a little of the others."""
    sentences = round(steps * BATCH / EPOCHS / (1 - 2 * HELD_OUT))
    files = {}
    for corpus in invented(LANGUAGES, sentences=sentences, seed=0):
        files[corpus.language] = folder / f"{corpus.language}.txt"
        kept = corpus.sentences if corpus.language == LANGUAGES[0] else corpus.sentences[:100]
        files[corpus.language].write_text("\n".join(kept), encoding="utf-8")
    return files


def sizes(folder):
    """Bytes below a folder: of checkpoints, of rows, of the report and its figures, of anything else."""
    found = {"checkpoints": 0, "rows": 0, "report": 0, "other": 0}
    for path in (one for one in folder.rglob("*") if one.is_file()):
        first = path.relative_to(folder).parts[0]
        kind = {"checkpoints": "checkpoints", "figures": "report", "report.html": "report"}.get(first)
        found[kind or ("rows" if first.startswith("rows") else "other")] += path.stat().st_size
    return found


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--probe", type=int, default=50)
    parser.add_argument("--distance", type=int, default=250)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="keep the run here")
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as passing:
        place = Path(passing)
        files = write_text(place, given.steps)
        models = [write_model(place / name, seed) for seed, name in enumerate(("multi", "native"))]
        out, begin = given.out or place / "run", time.perf_counter()
        table = drift(
            models[0], invented(LANGUAGES, sentences=50, seed=1), target={LANGUAGES[0]: files.pop(LANGUAGES[0])},
            others=files, native=models[1], epochs=EPOCHS, batch=BATCH, held_out=HELD_OUT, probe=given.probe,
            distance=given.distance, words=500, device=given.device, out=out,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        write_figures(out, out / "figures")
        write_page([out], out / "report.html")
        found = sizes(out)
    left = sum(found.values()) - found["checkpoints"]
    print(
        f"{int(table.step.max()):,} updates, {table.step.nunique()} steps read, {len(table):,} rows, {seconds:.0f} s\n"
    )
    print(
        "| rows, MB | report and figures, MB | other, MB | together, MB | checkpoints, MB |\n|---:|---:|---:|---:|---:|"
    )
    cells = [found["rows"], found["report"], found["other"], left, found["checkpoints"]]
    print("| " + " | ".join(f"{one / 1e6:.1f}" for one in cells) + " |")
    print(f"\nThe aim is under {AIM / 1e6:.0f} MB without checkpoints.")


if __name__ == "__main__":
    main()
