"""Options for an alignment that takes a second, small models, and pairs of invented languages in files or packed."""

import torch
from benchmarks.invented import invented

from isogloss.stack.load import load_language_model
from isogloss.text.streams import pack_pairs
from tiny_commands import flags
from tiny_drift import write_model
from tiny_pretraining import write_texts

SMALL = {
    "batch": 6,
    "queue": 18,
    "projection_width": 8,
    "steps": 4,
    "warm_up": 0.25,
    "rate": 1e-3,
    "report": 2,
    "probe": 4,
    "checkpoint": 2,
    "held_out": 0.2,
    "device": "cpu",
}
LONGEST = 64  # tokens that the models read


def write_pairs(folder):
    """Two line-aligned files; returns what `--train-bitext` is given."""
    return f"qaa-qab={','.join(map(str, write_texts(folder, sentences=120).values()))}"


def words(model, train_bitext, **changes):
    """The same as words of a command."""
    return [str(model), *flags({**SMALL, "train_bitext": train_bitext, **changes})]


def write_models(folder, **depths):
    """A folder for each family, with a model that has so many blocks."""
    return {family: write_model(folder / family, family=family, depth=depth) for family, depth in depths.items()}


def pack_invented(model, *pairs, sentences):
    """The same text in each pair of languages, packed beside a model and by its tokenizer; by title."""
    stack = load_language_model(model, device="cpu")
    found = {}
    for languages in pairs:
        some = zip(*(one.sentences for one in invented(languages, sentences=sentences, seed=1)), strict=True)
        path = model.parent / f"{'-'.join(languages)}.npy"
        found[path.stem] = pack_pairs(stack.tokenizer, some, path, languages=languages, longest=LONGEST)
    return found


def own_states(encoder, ids, length, layer, **more):
    """Transformers' own states of one row without its padding."""
    with torch.no_grad():
        out = encoder(input_ids=ids[None, :length], output_hidden_states=True, **more)
    return out.hidden_states[layer][0]
