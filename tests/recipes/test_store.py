"""What the pass over a text leaves on disk, against sums written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from isogloss.recipes.map import SampleStore
from isogloss.text.corpora import Corpus
from isogloss.text.vocabulary import Vocabulary
from isogloss.vectors.extract import Vectors

CORPUS = Corpus("en", ["The cat saw the dog", "a dog", "No one saw THE cat", "nothing"])
TYPES = ["cat", "the", "unseen", "dog"]


def chunk(rows, seed):
    """Vectors of these sentences at two layers, three wide."""
    words = [(row, word) for row in rows for word in range(len(CORPUS.sentences[row].split()))]
    generator = torch.Generator().manual_seed(seed)
    values = {"sentence": torch.randn(2, len(rows), 3, generator=generator)}
    values["word"] = torch.randn(2, len(words), 3, generator=generator)
    items = {"sentence": torch.tensor([(row, 0) for row in rows]), "word": torch.tensor(words)}
    return Vectors(rows, values, items, [])


def filled(folder, chunks):
    store = SampleStore(folder, ["en"], [4, 7], 4, 3)
    store.begin(Vocabulary({"en": TYPES}, {"en": {}}, {}))
    for one in chunks:
        store.put("en", [4, 7], one, CORPUS)
    store.finish()
    return store


def test_word_types_are_means_over_all_their_uses(tmp_path):
    chunks = [chunk([2, 0], 1), chunk([3], 2), chunk([1], 3)]
    store = filled(tmp_path, chunks)
    for number, layer in enumerate((4, 7)):
        uses = {name: [] for name in TYPES}
        for one in chunks:
            for (row, word), vector in zip(one.items["word"].tolist(), one.values["word"][number], strict=True):
                written = CORPUS.sentences[row].split()[word].lower()
                if written in uses:
                    uses[written].append(vector.double().numpy())
        assert [len(uses[name]) for name in TYPES] == [2, 3, 0, 2]
        found = store.types("en", layer).numpy()
        for name, vector in zip(TYPES, found, strict=True):
            assert np.isnan(vector).all() if name == "unseen" else vector == pytest.approx(np.mean(uses[name], axis=0))
        kept = torch.cat([one.values["sentence"][number] for one in chunks])
        assert torch.equal(store.sentences("en", layer), kept)


def test_layers_read_in_several_passes_are_the_same_as_in_one(tmp_path):
    one = chunk([2, 0, 3, 1], 5)
    store = SampleStore(tmp_path / "passes", ["en"], [4, 7], 4, 3)
    store.begin(Vocabulary({"en": TYPES}, {"en": {}}, {}))
    for number, layer in enumerate((4, 7)):
        part = {unit: values[number : number + 1] for unit, values in one.values.items()}
        store.put("en", [layer], replace(one, values=part), CORPUS)
    store.finish()
    assert torch.equal(store.types("en").nan_to_num(9), filled(tmp_path / "once", [one]).types("en").nan_to_num(9))
