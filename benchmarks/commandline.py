"""What the command lines of benchmarks share: the device, sizes that are small on a CPU, a file for the numbers."""

import argparse
import os
from pathlib import Path

import torch
import transformers

from isogloss.recipes.training_options import autocast_dtype
from isogloss.stack.load import choose_device


def make_parser(description, sizes):
    """A parser of --device, --out and the sizes, name -> (on a GPU, on a CPU); those that are lists are left out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    for name, (large, small) in sizes.items():
        if isinstance(large, int):
            option = f"--{name.replace('_', '-')}"
            parser.add_argument(option, type=int, help=f"default: {large:,}; {small:,} on a CPU")
    return parser


def read(parser, sizes):
    """What is given, with the device's own sizes where there are none; dtype: that of autocast."""
    given = parser.parse_args()
    given.device = torch.device("cuda" if choose_device(given.device).type == "cuda" else "cpu")
    for name, both in sizes.items():
        if getattr(given, name) is None:
            setattr(given, name, both[given.device.type == "cpu"])
    given.dtype = autocast_dtype(None, given.device)
    return given


def quiet_on_one_gpu():
    """Have Trainer say nothing and take one GPU."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # Trainer would spread over all there are
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.logging.set_verbosity_error()
