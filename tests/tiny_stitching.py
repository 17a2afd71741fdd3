"""Two models that never met but have one shape: a tiny BERT, and the same with its hidden space turned and its
alphabet replaced, so that what a rotation should find is known.
"""

import numpy as np
import torch
from transformers import AutoModel

import isogloss as ig
from tiny_models import MARKS, TEXT, framed, tiny_tokenizer, wordpiece_machine
from tiny_tasks import write_task

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CIPHER = str.maketrans(LETTERS, LETTERS[13:] + LETTERS[:13])
SMALL = {"epochs": 4, "batch": 8, "rate": 3e-3, "fresh_layers": 1, "device": "cpu", "checkpoint": 3}
READ = ("query.weight", "key.weight", "value.weight", "intermediate.dense.weight", "_embeddings.weight")
WRITTEN = ("output.dense.weight", "output.dense.bias", "LayerNorm.weight", "LayerNorm.bias")


def said_otherwise(text):
    """The same words in the other language's letters."""
    return text.translate(CIPHER)


def turned_model(folder, into):
    """The model in `folder` with the coordinates of its hidden space in another order, and the other alphabet.

    A permutation is a rotation that commutes with layer norm, so every cut k of this model is exactly cut k of the
    other times one orthogonal matrix, which is returned: states' = states @ turn.T.
    """
    model, known = AutoModel.from_pretrained(folder), tiny_tokenizer()
    order = torch.randperm(model.config.hidden_size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(READ):
                weight.copy_(weight[:, order])
            elif name.endswith(WRITTEN):
                weight.copy_(weight[order])
    model.save_pretrained(into)
    pieces = {piece if piece in MARKS else said_otherwise(piece): number for piece, number in known.get_vocab().items()}
    machine = wordpiece_machine(pieces)
    machine.add_special_tokens(list(MARKS))
    framed(machine).save_pretrained(into)
    return str(into), torch.eye(len(order))[order]


def parallel_text(count=40, *, links=True):
    """Sentences in both alphabets, word by word: any word at any place, so that pairs reach every direction."""
    rng = np.random.default_rng(7)
    known = sorted({word for text in TEXT for word in text.split() if word.isascii() and word.isalpha()})
    words = [rng.choice(known, size=rng.integers(4, 10)).tolist() for _ in range(count)]
    corpora = (
        ig.Corpus("qaa", [" ".join(one) for one in words]),
        ig.Corpus("qab", [said_otherwise(" ".join(one)) for one in words]),
    )
    straight = {("qaa", "qab"): [[(i, i) for i in range(len(one))] for one in words]}
    return ig.Bitext(corpora, straight if links else {}, name="planted")


def write_stitching(folder, task="ner", *, count=24):
    """Keyword arguments of `stitch`: qaa is trained in; the test set of qab is that of qaa in the other alphabet."""
    made = {
        part: write_task(folder, task, count=count, seed=number, called=part)
        for number, part in enumerate(("train", "dev-qaa", "test-qaa"))
    }
    column = 1 if task == "parsing" else 0
    lines = []
    for line in made["test-qaa"].read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        if len(cells) > 1:
            cells[column] = said_otherwise(cells[column])
        lines.append("\t".join(cells))
    other = made["test-qaa"].with_stem("test-qab")
    other.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "task": task,
        "train": {"qaa": made["train"]},
        "dev": {"qaa": made["dev-qaa"]},
        "test": {"qaa": made["test-qaa"], "qab": other},
    }
