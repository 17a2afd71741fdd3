"""Dependency parsing: the best tree under given scores, and attachment scores against the gold tree.

Words are numbered from 1; 0 is the root, which is not a word. In a tree every word has one head, the root is reached
from every word, and exactly one word is attached to the root, as in Universal Dependencies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isogloss.errors import InputError, require
from isogloss.measures.registry import score
from isogloss.measures.scores import share

PUNCTUATION = frozenset({"PUNCT", "SYM"})
_NEVER = -(2.0**40)  # first of a pair without an arc: smaller than any value that contraction can produce

Pairs = NDArray[np.complex128]  # numpy compares complex numbers by the real part, then by the imaginary part


def best_tree(scores: ArrayLike) -> list[int]:
    """The heads of the tree with the highest sum of scores, among trees with exactly one word on the root.

    scores: (n, n + 1), row i for word i + 1, column h for head h (0 the root); a word's score as its own head is
    ignored. Chu-Liu (1965) and Edmonds (1967), with scores replaced by pairs (minus the number of root arcs, score) in
    lexicographic order: a second word on the root then never pays, and unlike subtracting a large constant from the
    root's scores this costs no precision (Zmigrod et al. 2020 and Stanojevic and Cohen 2021 explain why trying each
    root, or keeping the best root of a tree with several, is slow or wrong).

    >>> best_tree([[5.0, 0.0, 4.0], [6.0, 1.0, 0.0]])  # both words prefer the root; 2 on the root scores 6 + 4
    [2, 0]
    """
    table = np.asarray(scores, dtype=np.float64)
    n = len(table)
    if table.ndim != 2 or table.shape[1] != n + 1 or n == 0:
        raise InputError(f"the scores of n words are n x (n + 1), the root in column 0, not of shape {table.shape}")
    words = np.arange(n)
    table = table.copy()
    table[words, words + 1] = 0.0
    require(np.isfinite(table).all(), "a score is not finite; the training that made these scores has gone wrong")
    table[words, words + 1] = -np.inf
    heads = np.concatenate([[0], table.argmax(axis=1)])
    if (heads[1:] == 0).sum() > 1 or _cycle(heads):  # otherwise each word has its best head, which is optimal
        pairs = np.zeros((n + 1, n + 1), dtype=np.complex128)
        pairs[1:].imag = table
        pairs[:, 0] -= 1.0
        np.fill_diagonal(pairs, _NEVER)
        heads = _arborescence(pairs, np.append(0, pairs[1:].argmax(axis=1)))
    return [int(head) for head in heads[1:]]


def _cycle(heads: NDArray[np.int64]) -> list[int]:
    """The nodes of one cycle among the heads (nodes,), each followed by its head; empty if all paths end at 0.

    Node 0 is its own head.
    """
    reached = heads
    for _ in range(len(heads).bit_length()):  # after 2, 4, 8 ... steps along the heads
        reached = reached[reached]
    cycle = [int(node) for node in reached[reached != 0][:1]]
    while cycle and heads[cycle[-1]] != cycle[0]:
        cycle.append(int(heads[cycle[-1]]))
    return cycle


def _arborescence(pairs: Pairs, heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """The head of each node in the best arborescence from node 0; pairs: (nodes, nodes), dependent by head.

    heads: the best head of each node on its own. If these form a cycle, it is contracted to one node. An arc into it
    breaks the cycle at some node, and is scored by the gain or loss there; an arc from it leaves from the node that is
    best for the dependent. The best arborescence of the smaller graph determines the entering arc, and so the break.
    """
    cycle = np.array(_cycle(heads))
    if not len(cycle):
        return heads
    number = np.zeros(len(pairs), dtype=np.int64)  # of each node in the smaller graph, in which the cycle is the last
    number[cycle] = 1
    rest = np.flatnonzero(number == 0)  # node 0 first
    number[rest], number[cycle] = np.arange(len(rest)), len(rest)
    gained = (pairs[cycle] - pairs[cycle, heads[cycle]][:, None])[:, rest]  # (cycle, rest)
    entered, left = gained.argmax(axis=0), cycle[pairs[rest[:, None], cycle].argmax(axis=1)]  # (rest,) each
    smaller = np.full((len(rest) + 1, len(rest) + 1), _NEVER, dtype=np.complex128)
    smaller[:-1, :-1], smaller[:-1, -1] = pairs[rest[:, None], rest], pairs[rest, left]
    smaller[-1, :-1] = gained[entered, np.arange(len(rest))]
    inner = _arborescence(smaller, np.append(number[heads[rest]], smaller[-1].argmax()))
    heads[rest] = np.where(inner[:-1] == len(rest), left, np.append(rest, 0)[inner[:-1]])
    heads[cycle[entered[inner[-1]]]] = rest[inner[-1]]
    return heads


def attachment(
    gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True, subtypes: bool = False
) -> NDArray[np.int64]:
    """Compare trees over the same words, one for each sentence -> (sentences, 3).

    The columns count words with the correct head and relation, words with the correct head, and all compared words.

    A tree has the head of each word, counted from 1 (`heads`, 0 the root), and the relation to it (`relations`); a gold
    tree also has universal parts of speech (`tags`).

    As in the evaluator of the CoNLL 2018 shared task (Zeman et al.) with gold words: every word counts, including
    punctuation, and relations are compared without subtypes (`nmod:poss` is `nmod`). punctuation=False leaves out words
    with the gold tag PUNCT or SYM, as AllenNLP and wu2020 do; subtypes=True compares complete relations.

    >>> from types import SimpleNamespace as Tree
    >>> gold = Tree(heads=(2, 0, 2), relations=("nmod:poss", "root", "punct"), tags=("PRON", "NOUN", "PUNCT"))
    >>> guess = Tree(heads=(2, 0, 1), relations=("nmod", "root", "punct"))
    >>> attachment([gold], [guess]).tolist(), attachment([gold], [guess], punctuation=False, subtypes=True).tolist()
    ([[2, 2, 3]], [[1, 2, 2]])
    """
    if len(gold) != len(guess):
        raise InputError(f"there are {len(gold):,} gold and {len(guess):,} guessed trees; there must be equally many")
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for number, (tree, parsed) in enumerate(zip(gold, guess, strict=True)):
        if not len(tree.heads) == len(tree.relations) == len(parsed.heads) == len(parsed.relations):
            raise InputError(
                f"tree {number} has {len(tree.heads)} gold and {len(parsed.heads)} guessed words; "
                "attachment is scored over the same words"
            )
        counted = [word for word in range(len(tree.heads)) if punctuation or tree.tags[word] not in PUNCTUATION]
        right = [word for word in counted if tree.heads[word] == parsed.heads[word]]
        pairs = [(tree.relations[word], parsed.relations[word]) for word in right]
        named = [mine == theirs if subtypes else universal(mine) == universal(theirs) for mine, theirs in pairs]
        counts[number] = sum(named), len(right), len(counted)
    return counts


def universal(relation: str) -> str:
    """A relation without its language-specific subtype.

    >>> universal("nmod:poss")
    'nmod'
    """
    return relation.partition(":")[0]


@score(
    "uas", "Unlabelled attachment", "The share of words with the correct head.", paper="Zeman et al. 2018, CoNLL 2018"
)
def uas(gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True) -> float:
    """Unlabelled attachment score, see `attachment`; NaN without words."""
    return float(share(attachment(gold, guess, punctuation=punctuation).sum(0)[1:]))


@score(
    "las",
    "Labelled attachment",
    "The share of words with the correct head and the correct relation to it.",
    paper="Zeman et al. 2018, CoNLL 2018",
)
def las(gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True, subtypes: bool = False) -> float:
    """Labelled attachment score, see `attachment`; NaN without words."""
    return float(share(attachment(gold, guess, punctuation=punctuation, subtypes=subtypes).sum(0)[[0, 2]]))
