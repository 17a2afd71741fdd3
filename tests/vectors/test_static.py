"""Vectors of word types, streamed, against explicit means; counting; static vectors against their formula."""

import tracemalloc

import numpy as np
import pytest
import torch
from benchmarks.invented import invented

import isogloss as ig
from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.text.readers.dictionaries import read_word_vectors
from isogloss.vectors import static
from isogloss.vectors.extract import Sinks, Vectors
from isogloss.vectors.static import TypeSums, cooccurrences, count_types, ppmi_vectors, type_vectors


@pytest.fixture
def stack(tiny):
    return ig.load(tiny("bert"))


TEXT = [
    "The cat sleeps on the chair",
    "the old man reads a new book",
    "a CAT, a book and the chair",
    "***",
    "we drink water and eat bread with cheese",
    "the cat",
]


def explicit(stack, word, layer):
    """The mean over all uses of a word, found by a plain loop over word vectors."""
    found = []
    for sentence in TEXT:
        corpus = ig.Corpus("en", [sentence])
        vectors = ig.vectors(stack, corpus, layers=[layer], unit="word")[0]
        words = static.types_of(sentence, "en")
        assert len(words) == len(vectors)
        found += [vector for vector, one in zip(vectors, words, strict=True) if one == word]
    return torch.stack(found).double().mean(0)


def test_type_vectors_are_means_over_all_uses_at_every_layer(stack, tmp_path, monkeypatch):
    chosen = ["the", "cat", "chair", "cheese", "unseen"]
    whole = type_vectors(stack, iter(TEXT), "en", types=chosen, folder=tmp_path / "a")
    monkeypatch.setattr(static, "CHUNK_BYTES", 1)  # a sentence at a time
    told = []
    with listening(lambda *news: told.append(news)):
        apart = type_vectors(stack, iter(TEXT), "en", types=chosen, folder=tmp_path / "b")
    assert whole.words == chosen[:4], "a word that does not occur has no vector"
    assert len(told) == len(TEXT) and whole.sentences == apart.sentences == len(TEXT)
    for layer in stack.cuts:
        assert torch.allclose(whole.vectors[layer], apart.vectors[layer], atol=1e-5)
        for place, word in enumerate(chosen[:4]):
            assert torch.allclose(whole.vectors[layer][place].double(), explicit(stack, word, layer), atol=1e-5)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["en.json", "en.npy"]
    again = type_vectors(stack, iter([]), "en", types=chosen, folder=tmp_path / "a")  # what is there is not read again
    assert torch.equal(again.vectors[2], whole.vectors[2])
    assert (again.words, again.sentences, again.shortened) == (whole.words, 6, 0)


def test_memory_is_bounded_by_the_vocabulary(stack, tmp_path):
    """What is held while sentences stream by does not grow with them."""
    alive = []

    def endless():
        for number in range(700):
            alive.append(number)
            yield f"the cat number {number} sleeps"

    def watch(stage, done, total):
        assert len(alive) <= done + 1, "sentences are drawn only when they are needed"

    with listening(watch):
        found = type_vectors(stack, endless(), "en", types=["cat"], folder=tmp_path, layers=[0, 1])
    assert found.sentences == 700


def test_sums_lie_on_disk_and_a_layer_at_a_time_is_in_memory(stack, tmp_path):
    chosen = ["the", "cat", *(f"word{number}" for number in range(20_000))]
    tracemalloc.start()
    type_vectors(stack, TEXT, "en", types=chosen, folder=tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.8 * len(stack.cuts) * len(chosen) * stack.width * 8


def test_types_are_counted_lower_cased_and_with_letters(monkeypatch):
    found = count_types(TEXT, "en")
    assert found["the"] == 5 and found["cat"] == 3 and "*" not in found and "," not in found
    monkeypatch.setattr(static, "MOST_COUNTED", 3)
    assert count_types(["a b", "a b", "a b c d", "e f g h"], "en")["a"] == 3, "frequent words survive forgetting"


def test_cooccurrences_equal_a_loop(monkeypatch):
    text = invented(("qaa", "qab"), sentences=40, seed=2)["qaa"].sentences
    kept = [word for word, _ in count_types(text, "qaa").most_common(25)]
    expected = np.zeros((25, 25))
    for sentence in text:
        words = static.types_of(sentence, "qaa")
        for i, one in enumerate(words):
            for j, other in enumerate(words):
                if i != j and abs(i - j) <= 3 and one in kept and other in kept:
                    expected[kept.index(one), kept.index(other)] += 1
    for at_once in (static.PAIRS_AT_ONCE, 10):
        monkeypatch.setattr(static, "PAIRS_AT_ONCE", at_once)
        assert np.array_equal(cooccurrences(text, "qaa", types=kept, window=3).toarray(), expected)


def test_ppmi_vectors_are_the_formula():
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (12, 12))
    counts = counts + counts.T
    vectors = ppmi_vectors(static.sparse.csr_matrix(counts), width=11)
    words, contexts = counts.sum(1), counts.sum(1) ** 0.75
    with np.errstate(divide="ignore"):
        ratio = counts / counts.sum() / np.outer(words / words.sum(), contexts / contexts.sum())
        matrix = np.maximum(0, np.log(ratio))
    u, s, _ = np.linalg.svd(matrix)
    assert vectors.dtype == np.float32 and vectors.shape == (12, 11)
    assert np.allclose(vectors @ vectors.T, (u[:, :11] * s[:11]) @ u[:, :11].T, atol=1e-4)
    with pytest.raises(InputError, match="no two words"):
        ppmi_vectors(static.sparse.csr_matrix((4, 4)))


def test_word_vectors_of_fasttext_and_glove_are_read(tmp_path):
    lines = ["The 1 2 3", "the 9 9 9", "New York 4 5 6", "cat -1 0.5 1e-3"]
    for head in (["4 3"], []):
        path = tmp_path / "en.vec"
        path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
        words, values = read_word_vectors(path)
        assert words == ["the", "new york", "cat"]
        assert values.tolist() == [[1, 2, 3], [4, 5, 6], [-1, 0.5, pytest.approx(1e-3)]]
        assert read_word_vectors(path, keep={"cat"})[0] == ["cat"]
        assert read_word_vectors(path, most=2)[0] == ["the"]
        path.write_text("\n".join(["900 3", *lines[:2]]) + "\n", encoding="utf-8")
        assert read_word_vectors(path, most=2)[0] == ["the"], "the rest is not looked at, so it may be missing"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2 3\nthe 1 2 3\ncat 1 2\n", r"en.vec:3: 2 numbers where 3 were expected"),
        ("1 3\nthe 1 x 3\n", r"en.vec:2: .*numbers were expected after the word"),
        ("1 3\nthe 1 nan 3\n", r"en.vec:2: a number of this vector is not finite"),
        ("just words here\n", r"en.vec:1: no word vector"),
        ("3 3\nthe 1 2 3\ncat 1 2 3\n", r"en.vec:3: the file ends here, after 2 words, but says 3 on its first line"),
        ("1 3\nthe 1 2 3\n", r"en.vec has no vectors of the words that are needed"),
    ],
)
def test_bad_word_vectors_are_refused_with_the_line(tmp_path, text, sentence):
    path = tmp_path / "en.vec"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=sentence):
        read_word_vectors(path, keep={"cat"} if "has no vectors" in sentence else None)


def test_sums_of_chunks_give_means_over_all_uses_and_keep_nan_for_a_type_without_any():
    corpus = ig.Corpus("en", ["The cat saw the dog", "a dog", "No one saw THE cat", "nothing"])
    kinds, chunks = ["cat", "the", "unseen", "dog"], []
    for seed, rows in enumerate(([2, 0], [3], [1])):
        words = [(row, word) for row in rows for word in range(len(corpus.sentences[row].split()))]
        values = torch.randn(2, len(words), 3, generator=torch.Generator().manual_seed(seed))
        chunks.append(Vectors(rows, {"word": values}, {"word": torch.tensor(words)}, []))
    sums, means = TypeSums(kinds, np.zeros((2, 4, 3)), exact=True), np.zeros((2, 4, 3), dtype=np.float32)
    for chunk in chunks:
        sums.add(chunk, corpus)
    sums.write_means(means)
    assert sums.counts.tolist() == [2, 3, 0, 2]
    for layer in (0, 1):
        uses = {kind: [] for kind in kinds}
        for chunk in chunks:
            for (row, word), vector in zip(chunk.items["word"].tolist(), chunk.values["word"][layer], strict=True):
                uses.get(corpus.sentences[row].split()[word].lower(), []).append(vector.double().numpy())
        for kind, vector in zip(kinds, means[layer], strict=True):
            expected = np.full(3, np.nan) if kind == "unseen" else np.mean(uses[kind], axis=0)
            assert vector == pytest.approx(expected, nan_ok=True)


def test_a_word_as_long_as_a_sink_counts_only_if_its_type_has_no_other_use():
    """In the second layer "the" is a sink where it comes first, and "no" comes first only."""
    corpus = ig.Corpus("en", ["the cat saw the dog", "no dog"])
    items = torch.tensor([(0, word) for word in range(5)] + [(1, 0), (1, 1)])
    values = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0))
    values[:, [0, 5]] *= 1_000 / values[:, [0, 5]].norm(dim=2, keepdim=True)
    kinds, means = ["the", "no"], np.zeros((2, 2, 3), dtype=np.float32)
    sums = TypeSums(kinds, np.zeros((2, 2, 3)), exact=True, sinks=[None, Sinks(0.3, 900.0, 1.0, limit=100.0)])
    sums.add(Vectors([0, 1], {"word": values}, {"word": items}, []), corpus)
    sums.write_means(means)
    x = values.double().numpy()
    assert means[0] == pytest.approx(np.stack([x[0, [0, 3]].mean(axis=0), x[0, 5]])), "no sink is known in this layer"
    assert means[1] == pytest.approx(np.stack([x[1, 3], x[1, 5]]), rel=1e-5)


def test_sinks_are_found_in_a_model_and_left_out_of_its_words(tiny, tmp_path):
    """The state of the first content token of a text is planted to be over 1,000 times as long as all others."""
    stack = ig.load(tiny("gpt2"), device="cpu")
    with torch.no_grad():
        stack.model.wpe.weight[1] = 20_000 * stack.model.wpe.weight[2].norm() / 32**0.5
    sentences = ["the cat saw the dog", "the dog sleeps", "we saw the cat"]
    found = type_vectors(stack, sentences, "en", types=["the", "we", "dog"], folder=tmp_path, layers=[2])
    words = [ig.vectors(stack, ig.Corpus("en", [each]), unit="word", layers=[2])[0] for each in sentences]
    the = torch.stack([words[0][3], words[2][2]]).mean(dim=0)
    torch.testing.assert_close(found.vectors[2][found.words.index("the")], the, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.vectors[2][found.words.index("we")], words[2][0], rtol=1e-3, atol=1e-3)
