"""Prepare the texts of `isogloss reproduce pan2021`, so that they can be taken to a machine without the data.

    python scripts/pan_text.py DATA OUT
    isogloss reproduce pan2021 --scale mini --texts OUT --out runs/pan2021

It writes what the command itself would write into the `text` folder of its run: chosen parallel text, what models are
mapped and measured by, and the tasks, with a hash of every file in `texts.json`.
"""

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace

from isogloss.errors import InputError
from isogloss.papers.pan2021 import SCALES, texts_in


def main(given: list[str]) -> int:
    """The script; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of data sets")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--scale", choices=("mini", "paper"), default="mini")
    parser.add_argument("--limit", type=int, help="rows of every data set, at most, for a rehearsal")
    asked = parser.parse_args(given)
    scale = SimpleNamespace(**{**vars(SCALES[asked.scale]), "limit": asked.limit})
    texts = texts_in(asked.out, scale, asked.data)
    try:
        texts.write()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in texts.facts["notes"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
