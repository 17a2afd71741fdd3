"""Record the rows of small reference runs, and compare two recordings, to show that a refactoring changes no number.

    python scripts/reference_runs.py record BEFORE --inputs INPUTS           # the recipes: a few minutes on one core
    python scripts/reference_runs.py record BEFORE --inputs INPUTS --papers  # the five papers at scale smoke
    python scripts/reference_runs.py record AFTER --inputs INPUTS --only map drift
    python scripts/reference_runs.py compare BEFORE AFTER                    # exit code 1 if anything differs

Every run is a process of its own, `python -m isogloss ...`, with one thread on the CPU and the caller's PYTHONPATH, so
the same script records any version of the package. Random weights and invented text are made once, into INPUTS, by the
helpers of the tests; later recordings are given the same INPUTS. What a run printed is kept in `OUT/logs/NAME.txt`.
Reports are drawn with --pages only, which doubles the time.

Rows are the same when their coordinates are equal and their numbers differ by at most 1e-9, relative to the larger
one. Recordings are comparable only on the same machine.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 1e-9  # relative to the larger of two numbers
ROUNDING = 1e-12  # a smaller difference is zero with another rounding, whatever it is relative to
NUMBERS = ("value", "low", "high", "floor", "published", "n")
NOT_COORDINATES = (*NUMBERS, "over")
SENTENCES = ("the cat sleeps on the chair", "yes", "we drink water and eat bread with cheese", "the [SEP] cat sleeps")

# Parts that several command lines share. $IN and $OUT: the folders of the inputs and of this recording.
BITEXT = "--bitext $IN/long/qaa.txt --bitext $IN/long/qab.txt --languages qaa,qab"
PLANTED = "--bitext $IN/planted/qaa.txt --bitext $IN/planted/qab.txt --languages qaa,qab --links $IN/planted/links.txt"
TEXT = "--text qaa=$IN/long/qaa.txt --text qab=$IN/long/qab.txt"
DRIFT = (
    "drift $IN/multi --target qaa=$IN/texts/qaa.txt --epochs 1 --batch 8 --rate 1e-2 --probe 2 --distance 4"
    " --words 60 --checkpoint 2"
)
OTHERS = "--others qab=$IN/texts/qab.txt --others qac=$IN/texts/qac.txt"
NATIVE = "--native $IN/own"
TRAIN = "--epochs 2 --batch 4 --checkpoint 3"
STITCH = (
    "stitch $IN/bert --other $IN/turned " + PLANTED + " --epochs 4 --batch 8 --rate 3e-3 --fresh-layers 1 --layers 0,2"
)
ALIGN = (
    "align $IN/multi --train-bitext qaa-qab=$IN/long/qaa.txt,$IN/long/qab.txt --batch 6 --steps 6 --warm-up 0.17"
    " --rate 1e-3 --report 2 --probe 3 --checkpoint 2 --held-out 0.2"
)
PRETRAIN = (
    "pretrain "
    + TEXT
    + " --depth 2 --width 16 --heads 2 --vocabulary 150 --length 16 --batch 4 --steps 6 --warm-up 0.34"
    " --report 2 --probe 2 --checkpoint 2 --held-out 0.1"
)


def task(name: str, folder: str, suffix: str, dev: str = "qaa qab") -> str:
    """The words that name a task and its sets; dev: the languages of the development sets."""
    path = "$IN/" + folder
    sets = [f"--dev {code}={path}/dev-{code}.{suffix}" for code in dev.split()]
    sets += [f"--test {code}={path}/test-{code}.{suffix}" for code in ("qaa", "qab")]
    return f"--task {name} --train qaa={path}/train.{suffix} {' '.join(sets)}"


NLI = task("nli", "nli", "tsv")
SWITCHED = (
    "--translated qab=$IN/nli/train-qab.tsv --translated qac=$IN/nli/train-qac.tsv --switch 0.5"
    " --switch-to any --lexicon qab=$IN/nli/qaa-qab.txt --switch-words 0.3"
)

# Name of a run -> its command line, without --out and --quiet. A run may read an earlier one, as $OUT/NAME.
RECIPES = {
    "map": "map mini --languages en,nl,zh --layers 0,6,12 --sample 60 --words 100 --points 20",
    "map-links": f"map $IN/bert {PLANTED} --pairs first --no-centre --sample 60 --words 60 --points 12"
    " --tsne-perplexity 5",
    "lens": f"lens $IN/gpt2 {PLANTED} --sample 20 --prompts 6 --shots 2",
    "lens-masked": f"lens $IN/multi {BITEXT} --lexicon qaa-qab=$IN/long/all.txt --sample 20 --prompts 6",
    "tokens": f"tokens $IN/multi {BITEXT} --sample 60 --bits",
    "lexicon": f"lexicon $IN/multi {TEXT} --train-lexicon $IN/long/train.txt --test-lexicon $IN/long/test.txt"
    " --mappings raw,centred,procrustes+iterative,least-squares,ridge --refine 1 --static train --min-count 1",
    "lexicon-other": f"lexicon $IN/multi --other $IN/own {TEXT} --train-lexicon $IN/long/train.txt"
    " --test-lexicon $IN/long/test.txt --levels word --no-identical --sample 100 --vocabulary 60",
    "rotate": "rotate $IN/multi --bitext $IN/texts/qaa.txt --bitext $IN/texts/qab.txt"
    " --languages qaa,qab --train-bitext $IN/long/qaa.txt --train-bitext $IN/long/qab.txt"
    " --train-sample 120 --sample 50 --refine 1"
    " --save-mappings 1,2 --mappings raw,centred,procrustes,procrustes+iterative,least-squares,ridge+length",
    "rotate-other": f"rotate $IN/bert --other $IN/turned {PLANTED} --train-bitext $IN/planted/more-qaa.txt"
    " --train-bitext $IN/planted/more-qab.txt --mappings raw,procrustes",
    "rotate-random": f"rotate $IN/multi --random-weights {BITEXT} --mappings none",
    "stitch-ner": f"{STITCH} {task('ner', 'stitch-ner', 'tsv', 'qaa')} --seeds 2",
    "stitch-parsing": f"{STITCH} {task('parsing', 'stitch-parsing', 'conllu', 'qaa')} --denormalise raw --pooling mean",
    "drift": f"{DRIFT} {OTHERS} {NATIVE} {BITEXT} --plans freeze:0,last:1 --seeds 2 --attention",
    "drift-stop": f"{DRIFT} {OTHERS} --plans unfreeze:1/epoch --epochs 3 --stop balance --patience 2 --decay cosine"
    " --warm-up 0.12 --no-dropout --weight-decay 0.01",
    "drift-defects": f"{DRIFT} {OTHERS} {NATIVE} --plans last:1 --condition legacy:all --no-dropout"
    " --attend-padding --read-first 32 --redraw-masks --keep-worst --by-position",
    "drift-save": f"{DRIFT} {OTHERS} --plans freeze:0,last:1 --seeds 2 --save-every 4",
    "map-kept": f"sweep map --grid model=$OUT/drift-save {BITEXT} --sample 60 --words 60 --points 0",
    "transfer-kept": f"sweep transfer --grid model=$OUT/drift-save {NLI} --epochs 1 --batch 4 --rate 1e-3 --seeds 2",
    "transfer-nli": f"transfer $IN/bert {NLI} {TRAIN} --plans freeze:-1,freeze:2 --rate 1e-3,1e-2 --seeds 2",
    "transfer-switch": f"transfer $IN/bert {NLI} {TRAIN} {SWITCHED} --plans freeze:0 --rate 1e-3 --save-models",
    "transfer-pos": f"transfer $IN/bert {task('pos', 'pos', 'conllu')} {TRAIN} {PLANTED} --rate 1e-2"
    " --plans freeze:-1,reinit:1-2 --cka-condition legacy:windows,specials --cka-shifted --cka-specials --seeds 2",
    "transfer-own": f"transfer $IN/bert {task('ner', 'ner', 'tsv', 'qaa')} {TRAIN} --target-models qab=$IN/turned"
    " --plans freeze:1 --rate 2e-2 --probe 2",
    "transfer-parsing": f"transfer $IN/bert {task('parsing', 'parsing', 'conllu')} {TRAIN} --rate 1e-2",
    "transfer-qa": f"transfer $IN/modernbert {task('qa', 'qa', 'json')} {TRAIN} --rate 1e-2 --plans last:1",
    "align-queue": f"{ALIGN} --negatives queue --queue 18 --projection-width 8 --tlm 1 --layer 1 --best",
    "align-batch": f"{ALIGN} --negatives batch --projection none --tlm 0 --pull 1 --pooling mean",
    "pretrain": f"{PRETRAIN} {BITEXT} --architecture bert --whole-words --dropout 0.1",
    "pretrain-modern": f"{PRETRAIN} --tokenizer unigram --decay trapezoid --save-dtype float16",
    "pretrain-anchors": f"{PRETRAIN} --architecture bert --anchors extra --lexicon qaa-qab=$IN/long/all.txt",
    "pretrain-none": f"{PRETRAIN} --architecture bert --anchors none",
    "pretrain-separate": f"{PRETRAIN} {BITEXT} --architecture bert --vocabularies separate --separate embeddings+1-1",
    "sweep-map": f"sweep map --grid model=$IN/gpt2,$IN/t5 --grid seed=0,1 {PLANTED} --words 60 --points 0",
    "sweep-align": f"sweep {ALIGN} --queue 18 --projection-width 8 --grid tlm=0,1 --grid seed=0,1",
}
# These write a folder, which is given in place of --out; the vectors that it gives are compared instead of rows.
EXPORTS = {
    "export-sentence-transformers": "export $IN/bert FOLDER --to sentence-transformers --layer 2",
    "export-centred": "export $IN/modernbert FOLDER --to sentence-transformers --pooling first"
    " --centre en=$IN/planted/qaa.txt",
    "export-aligned": "export $OUT/align-queue FOLDER --to sentence-transformers",
    "export-transformers": "export $IN/bert FOLDER --to transformers --layer 1",
}
WITHOUT_PAGES = (  # matplotlib is hidden, and what cannot be drawn is not
    "import runpy, sys; sys.modules['matplotlib'] = None; sys.argv[0] = 'isogloss';"
    " runpy.run_module('isogloss', run_name='__main__')"
)
PAPERS = {
    name: f"reproduce {name} --scale smoke" for name in ("hussain2020", "jexus2020", "muller2021", "pan2021", "wu2020")
}


def prepare(inputs: Path) -> None:
    """Write the models, texts and task sets that the command lines name; the same bytes every time."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from tiny_drift import write_tuning
    from tiny_models import saved
    from tiny_pretraining import write_lexicon, write_lexicons, write_texts
    from tiny_stitching import parallel_text, turned_model, write_stitching
    from tiny_tasks import NOUNS, VERBS, write_sets

    inputs.mkdir(parents=True)
    write_tuning(inputs)
    write_texts(inputs / "long")
    for path, name in zip(write_lexicons(inputs / "long"), ("train.txt", "test.txt"), strict=True):
        path.rename(path.with_name(name))
    write_lexicon(inputs / "long" / "all.txt")
    for family in ("bert", "modernbert", "gpt2", "t5"):
        saved(str(inputs), family)
    turned_model(inputs / "bert", inputs / "turned")
    (inputs / "planted").mkdir()
    for name, count in (("", 40), ("more-", 120)):  # the longer one begins as the other
        for corpus in parallel_text(count):
            (inputs / "planted" / f"{name}{corpus.language}.txt").write_text("\n".join(corpus.sentences) + "\n")
    links = [" ".join(f"{i}-{i}" for i in range(len(one.split()))) for one in parallel_text(40)["qaa"].sentences]
    (inputs / "planted" / "links.txt").write_text("\n".join(links) + "\n")
    for name in ("ner", "parsing"):
        write_stitching(inputs / f"stitch-{name}", name)
    for name in ("nli", "pos", "ner", "parsing", "qa"):
        write_sets(inputs / name, name, count=16)
    following = {word: words[(at + 1) % len(words)] for words in (NOUNS, VERBS) for at, word in enumerate(words)}
    lines = (inputs / "nli" / "train.tsv").read_text().splitlines()
    for code in ("qab", "qac"):
        lines = ["\t".join(_replaced(cell, following) for cell in line.split("\t")) for line in lines]
        (inputs / "nli" / f"train-{code}.tsv").write_text("\n".join(lines) + "\n")
    (inputs / "nli" / "qaa-qab.txt").write_text("".join(f"{word}\t{other}\n" for word, other in following.items()))


def _replaced(text: str, words: dict[str, str]) -> str:
    return " ".join(words.get(word, word) for word in text.split(" "))


def record(out: Path, inputs: Path, runs: dict[str, str], *, pages: bool) -> int:
    """Run the command lines one after the other; returns how many failed. pages: whether reports are drawn."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    start = [sys.executable, *(["-m", "isogloss"] if pages else ["-c", WITHOUT_PAGES])]
    failed = []
    for name, command in runs.items():
        words = command.replace("$IN", str(inputs)).replace("$OUT", str(out)).split()
        exports = "FOLDER" in words
        words = [str(out / name / "model") if word == "FOLDER" else word for word in words]
        words += ["--quiet"] if exports else ["--out", str(out / name), "--quiet"]
        shutil.rmtree(out / name, ignore_errors=True)  # of an earlier recording
        began = time.monotonic()
        with (out / "logs" / f"{name}.txt").open("w") as log:
            log.write(f"isogloss {' '.join(words)}\n")
            log.flush()
            code = subprocess.run([*start, *words], env=environment, stdout=log, stderr=subprocess.STDOUT).returncode
        if code == 0 and exports:
            np.save(out / name / "vectors.npy", encode(out / name / "model"))
        print(f"{name}: {'done' if code == 0 else f'exit code {code}'} in {time.monotonic() - began:.0f} s", flush=True)
        failed += [name] if code else []
    if failed:
        print(f"failed: {', '.join(failed)}; see {out / 'logs'}")
    return len(failed)


def encode(folder: Path) -> np.ndarray:
    """Vectors of `SENTENCES` (sentences, width) by the package that an exported folder is for, without isogloss."""
    import torch

    torch.set_num_threads(1)
    if (folder / "modules.json").is_file():
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device="cpu").encode(list(SENTENCES), batch_size=1)
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = [model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0] for sentence in SENTENCES]
    return torch.stack([one.mean(0) for one in states]).numpy()


def compare(before: Path, after: Path) -> int:
    """Print how the runs of two recordings differ; returns how many do."""
    marks = ("run.json", "vectors.npy")
    names = [
        {str(path.parent.relative_to(root)) for mark in marks for path in root.rglob(mark)} for root in (before, after)
    ]
    different = 0
    for name in sorted(names[0] & names[1]):
        vectors = [root / name / "vectors.npy" for root in (before, after)]
        if vectors[0].is_file():
            one, other = map(np.load, vectors)
            largest = _largest(one, other) if one.shape == other.shape else np.inf
            same, text = largest <= TOLERANCE, f"vectors {one.shape}, largest relative difference {largest:.1e}"
        else:
            same, text = compare_rows(before / name, after / name)
        different += not same
        print(f"{'same     ' if same else 'DIFFERENT'}  {name}: {text}")
    failed = {path.stem for path in (after / "logs").glob("*.txt")} & (names[0] - names[1])
    for name in sorted(failed):
        print(f"DIFFERENT  {name}: it left no rows; see {after / 'logs' / name}.txt")
    for root, missing in ((after, names[0] - names[1] - failed), (before, names[1] - names[0])):
        shown = [name for name in sorted(missing) if name.split("/")[0] not in missing | failed or "/" not in name]
        if shown:
            print(f"not in {root}: {', '.join(shown)}")
    different += len(failed)
    print(f"{len(names[0] & names[1])} runs compared, {different} differ")
    return different


def compare_rows(before: Path, after: Path) -> tuple[bool, str]:
    """Whether the rows of two run folders are the same, and a line that says how they differ."""
    from isogloss.runs import read_rows

    tables = [read_rows(folder) for folder in (before, after)]
    coordinates = [name for name in tables[0] if name in tables[1] and name not in NOT_COORDINATES]
    one, other = (_by_coordinates(table, coordinates) for table in tables)
    shared = one.index.intersection(other.index)
    missing, new = one.index.difference(other.index), other.index.difference(one.index)
    largest = {name: _largest(one.loc[shared, name], other.loc[shared, name]) for name in NUMBERS}
    numbers = ", ".join(f"{name} {most:.0e}" for name, most in largest.items())
    lines = [f"{len(one)} rows, {len(missing)} missing, {len(new)} new; largest relative differences: {numbers}"]
    for title, keys in (("missing", missing), ("new", new)):
        lines += [f"    {title}: " + ", ".join(cell for cell in key[:-1] if cell) for key in keys[:3]]
    for name in NUMBERS:
        if largest[name] > TOLERANCE:
            key = shared[int(np.argmax(_differences(one.loc[shared, name], other.loc[shared, name])))]
            coordinate_text = ", ".join(cell for cell in key[:-1] if cell)
            lines.append(f"    {name} {one.loc[key, name]:.12g} is now {other.loc[key, name]:.12g}: {coordinate_text}")
    return not len(missing) and not len(new) and max(largest.values()) <= TOLERANCE, "\n".join(lines)


def _by_coordinates(table: pd.DataFrame, coordinates: list[str]) -> pd.DataFrame:
    """The numbers of a table under its coordinates as text; rows with equal ones are told apart by their values."""
    keys = table[coordinates].astype("object").where(table[coordinates].notna(), "").astype("str")
    numbers = table[list(NUMBERS)].astype("float64")
    ordered = pd.concat([keys, numbers], axis=1).sort_values([*coordinates, *NUMBERS], kind="stable")
    ordered["again"] = ordered.groupby(coordinates).cumcount().astype("str")
    return ordered.set_index([*coordinates, "again"])


def _differences(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of each pair of numbers, the difference relative to the larger; infinite where only one of them is a number."""
    one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
    apart = np.abs(one - other)
    close = (one == other) | (apart <= ROUNDING) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = apart / np.maximum(np.abs(one), np.abs(other))
    return np.where(close, 0.0, np.where(np.isfinite(relative), relative, np.inf))


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    return float(_differences(one, other).max(initial=0.0))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run the command lines into OUT/NAME")
    recording.add_argument("out", type=Path)
    recording.add_argument(
        "--inputs", type=Path, help="folder of the inputs, made if it is not there; default OUT/inputs"
    )
    recording.add_argument("--only", nargs="+", metavar="NAME", help="these runs alone")
    recording.add_argument("--papers", action="store_true", help="the papers instead of the recipes")
    recording.add_argument("--pages", action="store_true", help="draw the report of each run, which doubles the time")
    comparing = commands.add_parser("compare", help="compare the rows of two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        sys.exit(compare(given.before, given.after) > 0)
    known = {**RECIPES, **EXPORTS, **PAPERS}
    unknown = set(given.only or ()) - set(known)
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    chosen = {name: known[name] for name in given.only} if given.only else PAPERS if given.papers else RECIPES | EXPORTS
    inputs = (given.inputs or given.out / "inputs").resolve()
    if not inputs.is_dir():
        prepare(inputs)
    sys.exit(record(given.out.resolve(), inputs, chosen, pages=given.pages) > 0)


if __name__ == "__main__":
    main()
