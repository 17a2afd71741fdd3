"""Trees: the best one against all there are, attachment against an explicit loop."""

import itertools
from types import SimpleNamespace

import networkx
import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.measures.parsing import attachment, best_tree, las, uas


def is_tree(heads):
    """Whether every word reaches the root, and one word hangs on it."""
    for word in range(1, len(heads) + 1):
        node = word
        for _ in heads:
            node = heads[node - 1] if node else 0
        if node:
            return False
    return list(heads).count(0) == 1


def total(scores, heads):
    return sum(scores[word][head] for word, head in enumerate(heads))


def every_tree(n):
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if is_tree(heads)]


TREES = {n: every_tree(n) for n in range(1, 6)}


def test_there_are_as_many_trees_as_the_theorem_says():
    assert [len(TREES[n]) for n in TREES] == [n ** (n - 1) for n in TREES]  # rooted labelled trees: Cayley


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_no_tree_is_better(n):
    draw = np.random.default_rng(n)
    for _ in range(60):
        scores = draw.normal(size=(n, n + 1))
        scores[:, 0] += draw.choice([-2, 0, 4])  # sometimes every word wants the root
        heads = best_tree(scores)
        assert is_tree(heads)
        assert total(scores, heads) == pytest.approx(max(total(scores, each) for each in TREES[n]))


def test_no_tree_of_six_words_is_better():
    trees = np.array(every_tree(6))
    draw = np.random.default_rng(0)
    for _ in range(20):
        scores = draw.normal(size=(6, 7)) + 3 * (np.arange(7) == 0)
        best = scores[np.arange(6), trees].sum(axis=1).max()
        assert total(scores, best_tree(scores)) == pytest.approx(best)


def test_ties_of_small_whole_numbers_still_give_the_best_tree():
    draw = np.random.default_rng(5)
    for _ in range(100):
        scores = draw.integers(0, 3, size=(5, 6)).astype(float)
        heads = best_tree(scores)
        assert is_tree(heads)
        assert total(scores, heads) == max(total(scores, each) for each in TREES[5])


@pytest.mark.parametrize("n", [8, 15, 30])
def test_long_sentences_agree_with_networkx(n):
    draw = np.random.default_rng(n)
    scores = draw.normal(size=(n, n + 1))
    graph = networkx.DiGraph()
    for word, head in itertools.product(range(1, n + 1), range(n + 1)):
        if word != head:
            # Far below anything else for the root: then the best arborescence uses it once.
            graph.add_edge(head, word, weight=scores[word - 1, head] - (1000.0 if head == 0 else 0.0))
    theirs = networkx.maximum_spanning_arborescence(graph)
    expected = [next(iter(theirs.predecessors(word))) for word in range(1, n + 1)]
    assert best_tree(scores) == expected


def test_a_hundred_words_all_in_cycles_make_a_tree():
    n = 100
    scores = np.zeros((n, n + 1))
    for word in range(n):
        scores[word, (word ^ 1) + 1] = 5.0  # 1 and 2 want each other, so do 3 and 4, ...
    assert is_tree(best_tree(scores))


def test_huge_scores_do_not_hide_small_differences():
    scores = np.array([[1e12, 0.0, 0.25], [1e12, 0.5, 0.0]])
    assert best_tree(scores) == [0, 1]
    assert best_tree([[3.0, 7.0]]) == [0]


def test_a_words_score_with_itself_is_not_looked_at():
    scores = np.random.default_rng(1).normal(size=(4, 5))
    changed = scores.copy()
    changed[np.arange(4), np.arange(4) + 1] = np.nan
    assert best_tree(changed) == best_tree(scores)


@pytest.mark.parametrize("shape", [(2, 2), (0, 1), (3,)])
def test_scores_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match=r"n x \(n \+ 1\)"):
        best_tree(np.zeros(shape))


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="not finite"):
        best_tree([[np.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])


RELATIONS = ["nsubj", "nmod:poss", "nmod", "obl:tmod", "punct"]


def drawn(seed, sentences=12):
    draw = np.random.default_rng(seed)
    trees = []
    for _ in range(sentences):
        n = int(draw.integers(1, 6))
        trees.append(
            SimpleNamespace(
                heads=TREES[n][draw.integers(len(TREES[n]))],
                relations=tuple(draw.choice(RELATIONS, n)),
                tags=tuple(draw.choice(["NOUN", "PUNCT", "SYM", "VERB"], n)),
            )
        )
    return trees


def paired(seed):
    gold = drawn(seed)
    others = drawn(seed + 100, 60)
    guess = [next(each for each in others if len(each.heads) == len(tree.heads)) for tree in gold]
    return gold, guess


@pytest.mark.parametrize("punctuation", [True, False])
@pytest.mark.parametrize("subtypes", [True, False])
def test_attachment_is_an_explicit_loop(punctuation, subtypes):
    for seed in range(5):
        gold, guess = paired(seed)
        words = heads = relations = 0
        for one, other in zip(gold, guess, strict=True):
            for i in range(len(one.heads)):
                if not punctuation and one.tags[i] in ("PUNCT", "SYM"):
                    continue
                words += 1
                if one.heads[i] == other.heads[i]:
                    heads += 1
                    a, b = one.relations[i], other.relations[i]
                    relations += a == b if subtypes else a.split(":")[0] == b.split(":")[0]
        found = attachment(gold, guess, punctuation=punctuation, subtypes=subtypes)
        assert found.sum(0).tolist() == [relations, heads, words]
        assert las(gold, guess, punctuation=punctuation, subtypes=subtypes) == relations / words
        assert uas(gold, guess, punctuation=punctuation) == heads / words


def test_gold_scores_1_and_sentences_add():
    gold, guess = paired(7)
    assert (uas(gold, gold), las(gold, gold, subtypes=True)) == (1.0, 1.0)
    apart = [attachment([one], [other])[0].tolist() for one, other in zip(gold, guess, strict=True)]
    assert attachment(gold, guess).tolist() == apart and np.isnan(uas([], []))


def test_trees_over_other_words_are_refused():
    gold = drawn(1)
    with pytest.raises(InputError, match="12 gold and 11 guessed trees"):
        attachment(gold, gold[1:])
    short = SimpleNamespace(heads=(0,), relations=("root",), tags=("X",))
    long = SimpleNamespace(heads=(0, 1), relations=("root", "x"), tags=("X", "X"))
    with pytest.raises(InputError, match="tree 0 has 1 gold and 2 guessed words"):
        attachment([short], [long])
