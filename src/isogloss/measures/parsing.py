"""Dependency parsing: the best one under given scores, and how well a guess agrees with the gold tree.

Words are numbered from 1; 0 is the root, which is no word. A tree gives every word one head, from every word the root
is reached, and exactly one word hangs on the root, as Universal Dependencies ask for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isogloss.errors import InputError
from isogloss.measures.inputs import Sums
from isogloss.measures.registry import score

PUNCTUATION = frozenset({"PUNCT", "SYM"})
_NEVER = -(2.0**40)  # first of a pair where there is no arc: below anything contraction can make of the others

Pairs = NDArray[np.complex128]  # numpy compares complex numbers by the real part first, then by the other
_Cycle = list[tuple[list[int], int, int]]  # of each node: its words, and the arc into it, from a word to its head


def best_tree(scores: ArrayLike) -> list[int]:
    """The heads of the tree with the highest sum of scores, among trees with exactly one word on the root.

    scores: (n, n + 1), row i for word i + 1, column h for head h (0 the root); a word's score as its own head is not
    looked at. Chu-Liu (1965) and Edmonds (1967), with pairs (minus the number of root arcs, score) in the place of
    scores, compared first by first: a second word on the root is then never worth any score, and unlike a large
    constant taken off the root's scores this costs no precision (Zmigrod et al. 2020 and Stanojevic and Cohen 2021
    on why trying each root, or keeping the best root of a many-rooted tree, is slow or wrong).

    >>> best_tree([[5.0, 0.0, 4.0], [6.0, 1.0, 0.0]])  # both words like the root best; 2 on the root scores 6 + 4
    [2, 0]
    """
    table = np.asarray(scores, dtype=np.float64)
    n = len(table)
    if table.ndim != 2 or table.shape[1] != n + 1 or n == 0:
        raise InputError(f"the scores of n words are n x (n + 1), the root in column 0, not of shape {table.shape}")
    words = np.arange(n)
    table = table.copy()
    table[words, words + 1] = 0.0
    if not np.isfinite(table).all():
        raise InputError("a score is not finite; the training that made these scores has gone wrong")
    table[words, words + 1] = -np.inf
    heads = table.argmax(axis=1)
    reached = np.concatenate([[0], heads])  # after one step towards the root, then after 2, 4, 8 ...
    for _ in range(n.bit_length()):
        reached = reached[reached]
    if (heads == 0).sum() == 1 and not reached.any():  # without a cycle every word reaches the root
        return [int(head) for head in heads]  # each word has its best head, so no tree is better
    pairs = np.zeros((n + 1, n + 1), dtype=np.complex128)
    pairs[1:].imag = table
    pairs[:, 0] -= 1.0
    np.fill_diagonal(pairs, _NEVER)
    return _arborescence(pairs)[1:]


def _arborescence(pairs: Pairs) -> list[int]:
    """The head of each node but 0 in the best arborescence from 0; pairs: (nodes, nodes), dependent by head.

    From each node the best heads are followed until a node that reaches 0, and a cycle on the way becomes one node
    (Tarjan 1977). It takes the row and the column of its first one, so every other node's best head stays what it was.
    """
    size = len(pairs)
    arcs = np.indices((size, size))  # dependent and head of the words that an arc between nodes joins
    best = pairs.argmax(axis=1).tolist()
    inside, words = list(range(size)), [[node] for node in range(size)]
    reaches, cycles = [True, *[False] * (size - 1)], list[_Cycle]()

    def node_of(node: int) -> int:
        while inside[node] != node:
            node = inside[node]
        return node

    for start in range(1, size):
        path, node = list[int](), node_of(start)
        while not reaches[node]:
            if node not in path:
                path.append(node)
                node = node_of(best[node])
                continue
            members = path[path.index(node) :]
            del path[-len(members) :]
            heads = [node_of(best[member]) for member in members]
            cycles.append(
                [(words[member], *arcs[:, member, head].tolist()) for member, head in zip(members, heads, strict=True)]
            )
            _contract(pairs, arcs, members, heads)
            node = members[0]
            words[node] = [word for member in members for word in words[member]]
            for member in members:
                inside[member] = node
            best[node] = int(pairs[node].argmax())
        for visited in path:
            reaches[visited] = True
    tree = [-1] * size
    for node in range(1, size):
        if inside[node] == node:
            word, head = arcs[:, node, node_of(best[node])].tolist()
            tree[word] = head
    for cycle in reversed(cycles):  # broken where an arc enters it
        for inner, word, head in cycle:
            if all(tree[member] < 0 for member in inner):
                tree[word] = head
    return tree


def _contract(pairs: Pairs, arcs: NDArray[np.int64], members: list[int], heads: list[int]) -> None:
    """Make one node of a cycle, the first of these, whose heads in it are given.

    An arc into it breaks the cycle at some node, and counts with what is gained or lost there; an arc from it leaves
    from the node that is best for the dependent.
    """
    first, every = members[0], np.arange(len(pairs))
    gained = pairs[members] - pairs[members, heads][:, None]
    entry, leaving = gained.argmax(axis=0), np.array(members)[pairs[:, members].argmax(axis=1)]
    pairs[:, first], arcs[:, :, first] = pairs[every, leaving], arcs[:, every, leaving]
    pairs[first], arcs[:, first] = gained[entry, every], arcs[:, np.array(members)[entry], every]
    pairs[:, members[1:]] = _NEVER
    pairs[first, members] = _NEVER


@dataclass(frozen=True)
class Attachment(Sums):
    """What attachment scores are made of; two of them are added to pool two texts.

    heads: words with the right head; relations: those of them with the right relation, too; words: all that count.

    >>> both = Attachment(2, 1, 3) + Attachment(1, 1, 1)
    >>> both.uas, both.las
    (0.75, 0.5)
    """

    heads: int
    relations: int
    words: int

    @property
    def uas(self) -> float:
        """Unlabelled attachment score: share of the words with the right head; NaN without words."""
        return self.heads / self.words if self.words else math.nan

    @property
    def las(self) -> float:
        """Labelled attachment score: share of the words with the right head and relation; NaN without words."""
        return self.relations / self.words if self.words else math.nan


def attachment(
    gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True, subtypes: bool = False
) -> Attachment:
    """Compare trees over the same words; gold and guess: one a sentence.

    A tree has the head of each word, counted from 1 (`heads`, 0 the root), and the relation to it (`relations`); a gold
    tree also has universal parts of speech (`tags`).

    As in the evaluator of the CoNLL 2018 shared task (Zeman et al.) when the words are given: every word counts,
    punctuation too, and relations are compared up to the colon (`nmod:poss` is `nmod`). punctuation=False leaves out
    the words whose gold tag is PUNCT or SYM, as AllenNLP and wu2020 do; subtypes=True compares whole relations.

    >>> from types import SimpleNamespace as Tree
    >>> gold = Tree(heads=(2, 0, 2), relations=("nmod:poss", "root", "punct"), tags=("PRON", "NOUN", "PUNCT"))
    >>> guess = Tree(heads=(2, 0, 1), relations=("nmod", "root", "punct"))
    >>> attachment([gold], [guess])
    Attachment(heads=2, relations=2, words=3)
    >>> attachment([gold], [guess], punctuation=False, subtypes=True)
    Attachment(heads=2, relations=1, words=2)
    """
    if len(gold) != len(guess):
        raise InputError(f"there are {len(gold):,} gold and {len(guess):,} guessed trees; they must be as many")
    total = Attachment(0, 0, 0)
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
        total += Attachment(len(right), sum(named), len(counted))
    return total


def universal(relation: str) -> str:
    """A relation without its language's own subtype.

    >>> universal("nmod:poss")
    'nmod'
    """
    return relation.partition(":")[0]


@score("uas", "Unlabelled attachment", "The share of words with the right head.", paper="Zeman et al. 2018, CoNLL 2018")
def uas(gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True) -> float:
    """Unlabelled attachment score, see `attachment`."""
    return attachment(gold, guess, punctuation=punctuation).uas


@score(
    "las",
    "Labelled attachment",
    "The share of words with the right head and the right relation to it.",
    paper="Zeman et al. 2018, CoNLL 2018",
)
def las(gold: Sequence[Any], guess: Sequence[Any], *, punctuation: bool = True, subtypes: bool = False) -> float:
    """Labelled attachment score, see `attachment`."""
    return attachment(gold, guess, punctuation=punctuation, subtypes=subtypes).las
