"""Dependency parsing: a biaffine scorer of arcs and relations (Dozat and Manning 2017), each word by its first subword.

Two small layers represent each place as a dependent d and as a head h, once for arcs and once for relations. Place 0,
the first token, is the root. With a 1 appended to a vector for a bias:

    arc(i, j)    = [d_i; 1]' A h_j             score of word j as the head of word i
    rel(i, j, r) = [d_i; 1]' R_r [h_j; 1]      score of r as their relation

The bias on the dependents' side of the arcs scores how likely a word is to be a head at all. Sizes, dropout and the
zero initialisation are those of muller2021's code. Loss: cross entropy of the gold head among the places, and of the
gold relation at the gold head. Decoding: the best tree with one root (`measures.parsing`), then the best relation of
each of its arcs; only the root's word gets the relation of root arcs, as in Universal Dependencies.

Relation subtypes (after the colon) are removed in training and in scoring. `las` and `uas` count punctuation, as the
evaluator of CoNLL 2018 does; the scores without it leave out words tagged PUNCT or SYM. The parser does not see parts
of speech. Words without a token, and words whose head has none, are not trained on; in a test, words without a token
are attached to the root's word as `dep`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from isogloss.measures.parsing import attachment, best_tree, universal
from isogloss.measures.scores import Score
from isogloss.tasks.task import Item, Labels, Prediction, Task, Tensors, encode_words, shuffle_words
from isogloss.text.masking import IGNORE
from isogloss.text.readers.conll import Tree, read_parses
from isogloss.text.readers.lines import fail

ARC, RELATION = 500, 200
DROPOUT = 0.1
SLOPE = 0.1  # of the leaky ReLU
UNKNOWN = "dep"
AT_ONCE = 2**24  # relation scores in memory at a time


@dataclass(frozen=True)
class Parse:
    """The head of each word (0 the root) and its relation, without subtypes."""

    heads: tuple[int, ...]
    relations: tuple[str, ...]


def relations_of(examples: Sequence[Tree]) -> Labels:
    """Every relation of the trees: that of root arcs first, then the others in alphabetical order."""
    pairs = [pair for tree in examples for pair in zip(tree.heads, map(universal, tree.relations), strict=True)]
    root = Counter(relation for head, relation in pairs if head == 0).most_common(1)[0][0]
    return (root, *sorted({relation for _, relation in pairs} - {root}))


def encode(examples: Sequence[Tree], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
    """One item for each sentence: the first token, then the words with a token; units are word numbers from 1."""
    numbers = {label: number for number, label in enumerate(labels)}
    items = []
    encoded = encode_words([tree.forms for tree in examples], tokenizer, length=length)
    for owner, (tree, (ids, tokens)) in enumerate(zip(examples, encoded, strict=True)):
        words = [0, *(word for word, token in enumerate(tokens, start=1) if token >= 0)]
        position = {word: number for number, word in enumerate(words)}
        gold = [[IGNORE, IGNORE]]
        for word in words[1:]:
            head = position.get(tree.heads[word - 1], IGNORE)
            relation = numbers.get(universal(tree.relations[word - 1]), IGNORE) if head != IGNORE else IGNORE
            gold.append([head, relation])
        places = [0, *(tokens[word - 1] for word in words[1:])]
        targets = sum(head != IGNORE for head, _ in gold)
        units = [[word] for word in words]
        items.append(
            Item(ids, places, gold=gold, units=units, targets=targets, owner=owner, lost=len(tokens) - targets)
        )
    return items


class Biaffine(nn.Module):
    """The four small layers and the two bilinear forms.

    states (rows, k, width) -> arcs (rows, k dependents, k heads), minus infinity where the head is not present; the
    places as dependents and as heads of relations, both (rows, k, RELATION + 1); and the relations' forms (labels,
    RELATION + 1, RELATION + 1). Relation scores of all pairs would be labels x k x k, so `relation_scores` computes
    only those needed.
    """

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.arc_dependent, self.arc_head = _layer(width, ARC), _layer(width, ARC)
        self.relation_dependent, self.relation_head = _layer(width, RELATION), _layer(width, RELATION)
        self.arcs = nn.Parameter(torch.zeros(ARC + 1, ARC))
        self.relations = nn.Parameter(torch.zeros(labels, RELATION + 1, RELATION + 1))

    def forward(self, states: Tensor, present: Tensor) -> Tensors:
        """Logits of arcs, and vectors and forms of relations."""
        dependents, heads = self.arc_dependent(states), self.arc_head(states)
        arcs = _with_one(dependents) @ self.arcs @ heads.transpose(1, 2)  # (rows, k, k)
        arcs = arcs.masked_fill(~present[:, None, :], -torch.inf)
        return arcs, _with_one(self.relation_dependent(states)), _with_one(self.relation_head(states)), self.relations


def _layer(width: int, size: int) -> nn.Module:
    linear = nn.Linear(width, size)
    nn.init.orthogonal_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, nn.LeakyReLU(SLOPE), nn.Dropout(DROPOUT))


def _with_one(vectors: Tensor) -> Tensor:
    return pad(vectors, (0, 1), value=1.0)


def relation_scores(dependents: Tensor, heads: Tensor, forms: Tensor) -> Tensor:
    """Scores of each relation for n pairs: dependents, heads (n, d), forms (labels, d, d) -> (n, labels)."""
    turned = torch.einsum("ni,rij->nrj", dependents, forms)
    return (turned @ heads.unsqueeze(-1)).squeeze(-1)


def loss(scores: Tensors, gold: Tensor, present: Tensor) -> Tensor:
    """Cross entropy of gold heads plus that of gold relations at them, in nats, summed over words."""
    arcs, dependents, heads, forms = scores
    arc_loss = cross_entropy(arcs.flatten(0, 1), gold[..., 0].flatten(), ignore_index=IGNORE, reduction="sum")
    # At every place, even without a gold label: a selection would force a device synchronisation.
    chosen = gold[..., 0].clamp(min=0).unsqueeze(-1).expand_as(heads)
    named = relation_scores(dependents.flatten(0, 1), heads.gather(1, chosen).flatten(0, 1), forms)
    return arc_loss + cross_entropy(named, gold[..., 1].flatten(), ignore_index=IGNORE, reduction="sum")


def guess(scores: Tensors, present: Tensor) -> Tensors:
    """Scores of arcs, and the best relation for each pair of dependent and head, (rows, k, k) each.

    Root arcs have the first relation, all others a different one, if there is any.
    """
    arcs, dependents, heads, forms = scores
    rows, k = dependents.shape[:2]
    best = []
    count = max(1, AT_ONCE // (len(forms) * k * max(k, forms.shape[1])))
    for start in range(0, rows, count):
        left, right = dependents[start : start + count], heads[start : start + count]
        turned = torch.einsum("nki,rij->nkrj", left, forms)
        pairs = torch.einsum("nkrj,nlj->nklr", turned, right)  # (some, k, k, labels)
        if len(forms) > 1:
            pairs[..., 0] = -torch.inf
        best.append(pairs.argmax(-1).to(torch.int16))
    relations = torch.cat(best)
    relations[:, :, 0] = 0
    return arcs, relations


def decode(example: Tree, predictions: Sequence[Prediction], labels: Labels) -> Parse:
    """The best tree, and the best relation for each of its arcs."""
    (prediction,) = predictions
    words = prediction.units[:, 0].tolist()  # 0 for the root, then numbers from 1
    heads, relations = {1: 0}, {1: labels[0]}
    if len(words) > 1:
        tree = [0, *best_tree(prediction.guess[0][1:, : len(words)])]
        heads = {word: words[tree[position]] for position, word in enumerate(words) if word}
        relations = {
            word: labels[prediction.guess[1][position, tree[position]]] for position, word in enumerate(words) if word
        }
    root = next(word for word, head in heads.items() if head == 0)
    numbers = range(1, len(example.forms) + 1)
    return Parse(
        tuple(heads.get(word, root) for word in numbers), tuple(relations.get(word, UNKNOWN) for word in numbers)
    )


def score(examples: Sequence[Tree], answers: Sequence[Parse], language: str) -> Mapping[str, Score]:
    """Labelled and unlabelled attachment, with and without punctuation; n counts words."""
    scores = {}
    for ending, punctuation in (("", True), ("_without_punctuation", False)):
        rows = attachment(examples, answers, punctuation=punctuation).astype(np.float64)
        scores["las" + ending] = Score(rows[:, [0, 2]])  # (sentences, 2)
        scores["uas" + ending] = Score(rows[:, [1, 2]])
    return scores


def shuffle(answers: Sequence[Parse], generator: np.random.Generator) -> list[Parse]:
    """Shuffle arcs, as offsets of the head with their relations, over the words of all sentences; root arcs stay so.

    An offset beyond the end of a sentence wraps around to its other end. The result is not a tree.
    """
    arcs = []
    for answer in answers:
        far = [0 if head == 0 else head - word for word, head in enumerate(answer.heads, 1)]
        arcs.append(list(zip(far, answer.relations, strict=True)))
    parses = []
    for dealt in shuffle_words(arcs, generator):
        heads = [0 if far == 0 else (word - 1 + far) % len(dealt) + 1 for word, (far, _) in enumerate(dealt, 1)]
        parses.append(Parse(tuple(heads), tuple(relation for _, relation in dealt)))
    return parses


PARSING = Task(
    name="parsing",
    main="las",
    # In a test a relation that was not trained on must at least be universal.
    read=lambda source, language, *, labels=None, problem=fail: read_parses(source, problem, relations=labels),
    labels=relations_of,
    encode=encode,
    head=lambda width, labels: Biaffine(width, len(labels)),
    loss=loss,
    guess=guess,
    decode=decode,
    gold=lambda tree: Parse(tree.heads, tuple(map(universal, tree.relations))),  # without subtypes
    score=score,
    shuffle=shuffle,
    first_token=True,
)
