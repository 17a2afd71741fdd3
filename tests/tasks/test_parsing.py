"""Parsing: the biaffine scorer against explicit loops, trees out of scores, what has no token."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from isogloss.tasks.parsing import PARSING, Biaffine, Parse, decode, encode, guess, loss, relation_scores
from isogloss.tasks.task import IGNORE, Prediction
from isogloss.text.readers.conll import read_parses
from tiny_models import tiny_tokenizer

LABELS = ("root", "case", "nsubj")


def tree(forms, heads, relations, tags=None):
    return SimpleNamespace(forms=forms, heads=heads, relations=relations, tags=tags or ("X",) * len(forms))


@pytest.fixture
def drawn():
    """A head with weights that are not zero, states of a row of four places and one of two, and gold."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = Biaffine(6, len(LABELS)).eval()
        for form in (head.arcs, head.relations):
            torch.nn.init.normal_(form, std=0.1)
        states = torch.randn(2, 4, 6)
    present = torch.tensor([[True] * 4, [True, True, False, False]])
    right = torch.full((2, 4, 2), IGNORE)
    right[0, 1:] = torch.tensor([[2, 2], [0, 0], [2, 1]])
    right[1, 1] = torch.tensor([0, 0])
    return head, states * present[..., None], present, right


def by_loop(head, states):
    """The two formulas, number by number: arcs (k, k), relations (k, k, labels) of one row."""
    k = len(states)
    layers = (head.arc_dependent, head.arc_head, head.relation_dependent, head.relation_head)
    d, h, e, g = ([one(state).tolist() for state in states] for one in layers)
    arcs = np.zeros((k, k))
    relations = np.zeros((k, k, len(LABELS)))
    form, forms = head.arcs.tolist(), head.relations.detach().double().numpy()
    for i in range(k):
        for j in range(k):
            for a in range(len(h[j])):
                arcs[i, j] += form[-1][a] * h[j][a]  # the bias stands behind the dependent
                arcs[i, j] += sum(d[i][b] * form[b][a] for b in range(len(d[i]))) * h[j][a]
            left, right = np.array([*e[i], 1.0]), np.array([*g[j], 1.0])
            for r in range(len(LABELS)):
                relations[i, j, r] = sum(left[a] * (forms[r][a] @ right) for a in range(len(left)))
    return arcs, relations


def test_the_biaffine_forms_are_an_explicit_loop(drawn):
    head, states, present, _ = drawn
    with torch.no_grad():
        arcs, dependents, heads, forms = head(states, present)
        for row, count in enumerate((4, 2)):
            expected, named = by_loop(head, states[row, :count])
            np.testing.assert_allclose(arcs[row, :count, :count].numpy(), expected, rtol=1e-4, atol=1e-5)
            assert torch.isinf(arcs[row, :, count:]).all()
            for i in range(count):
                found = relation_scores(dependents[row, i].expand(count, -1), heads[row, :count], forms)
                np.testing.assert_allclose(found.numpy(), named[i], rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_surprise_at_heads_and_at_relations_of_gold_heads(drawn):
    head, states, present, right = drawn
    with torch.no_grad():
        found = float(loss(head(states, present), right, present))
        expected = 0.0
        for row, count in enumerate((4, 2)):
            arcs, named = by_loop(head, states[row, :count])
            for place in range(1, count):
                where, relation = right[row, place].tolist()
                expected -= arcs[place, where] - np.log(np.exp(arcs[place]).sum())
                expected -= named[place, where, relation] - np.log(np.exp(named[place, where]).sum())
    assert found == pytest.approx(expected, rel=1e-4)


def test_a_new_scorer_says_nothing_and_learns(drawn):
    _, states, present, right = drawn
    head = Biaffine(6, len(LABELS)).eval()
    scores = head(states, present)
    assert torch.equal(scores[0][0], torch.zeros(4, 4))
    total = loss(scores, right, present)
    assert total.item() == pytest.approx(3 * np.log(4) + np.log(2) + 4 * np.log(3), rel=1e-5)
    total.backward()
    assert head.arcs.grad.abs().sum() > 0
    assert head.relations.grad.abs().sum() > 0
    assert all(torch.isfinite(one.grad).all() for one in head.parameters())


def test_guesses_are_the_best_relations_and_root_arcs_have_the_roots(drawn):
    head, states, present, _ = drawn
    with torch.no_grad():
        arcs, relations = guess(head(states, present), present)
        _, named = by_loop(head, states[0])
    assert arcs.shape == relations.shape == (2, 4, 4)
    assert (relations[:, :, 0] == 0).all()
    np.testing.assert_array_equal(relations[0, :, 1:].numpy(), 1 + named[:, 1:, 1:].argmax(-1))


def test_dependents_alone_have_a_bias_in_arcs():
    head = Biaffine(6, 3)
    assert head.arcs.shape == (501, 500)
    assert head.relations.shape == (3, 201, 201)


def test_a_tree_is_decoded_and_lost_words_hang_on_its_root():
    example = tree(tuple("abcd"), (2, 0, 2, 2), ("nsubj",) * 4)
    arcs = np.array([[0.0, 0, 0, 9], [0, 0, 5, 0], [6, 1, 0, 0], [0, 0, 0, 0]])  # the last column is another row's
    relations = np.array([[0, 0, 0, 0], [0, 1, 2, 0], [0, 1, 1, 0], [0, 0, 0, 0]])[:3]
    found = Prediction(np.array([[0], [1], [3]]), (arcs[:3], relations))
    assert decode(example, [found], LABELS) == Parse((3, 3, 0, 3), ("nsubj", "dep", "root", "dep"))
    nothing = Prediction(np.array([[0]]), (np.zeros((1, 4)), np.zeros((1, 4), dtype=int)))
    assert decode(example, [nothing], LABELS) == Parse((0, 1, 1, 1), ("root", "dep", "dep", "dep"))


def test_places_are_the_first_token_and_the_words_and_gold_counts_places():
    forms = ("the", "sleeps", "cat")
    one = tree(forms, (3, 0, 2), ("det", "root", "nsubj:pass"))
    tokenizer = tiny_tokenizer()
    (item,) = encode([one], ("root", "det", "nsubj"), tokenizer=tokenizer, length=64)
    assert item.places[0] == 0
    assert [tokenizer.convert_ids_to_tokens(item.ids[place]) for place in item.places[1:]] == [*forms]
    assert item.gold == [[IGNORE, IGNORE], [3, 1], [0, 0], [2, 2]]
    assert (item.targets, item.lost) == (3, 0)
    (short,) = encode([one], ("root", "det"), tokenizer=tokenizer, length=4)  # [CLS] the sleeps [SEP]
    assert short.units == [[0], [1], [2]]
    assert short.gold == [[IGNORE, IGNORE], [IGNORE, IGNORE], [0, 0]]  # the head of "the" is cut off
    assert (short.targets, short.lost) == (1, 2)


def test_relations_are_cut_and_the_roots_comes_first():
    trees = [tree(("a", "b"), (0, 1), ("root", "aux:pass")), tree(("a", "b"), (2, 0), ("acl", "root"))]
    assert PARSING.labels(trees) == ("root", "acl", "aux")
    assert PARSING.gold(trees[0]) == Parse((0, 1), ("root", "aux"))


def test_scores_with_and_without_punctuation_count_words(tmp_path):
    rows = ["1\tJa\t_\tINTJ\t_\t_\t0\troot\t_\t_", "2\t.\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_", "", ""]
    path = tmp_path / "nl_x.conllu"
    path.write_text("\n".join(rows))
    (one,) = read_parses(path)
    scores = PARSING.score([one], [Parse((2, 0), ("punct", "root"))], "nl")
    assert {name: (each.value, each.n) for name, each in scores.items()} == {
        "las": (0.0, 2),
        "uas": (0.0, 2),
        "las_without_punctuation": (0.0, 1),
        "uas_without_punctuation": (0.0, 1),
    }
    scores = PARSING.score([one], [Parse((0, 0), ("root", "x"))], "nl")
    assert scores["las"].value == 0.5
    assert scores["las_without_punctuation"].value == 1.0
