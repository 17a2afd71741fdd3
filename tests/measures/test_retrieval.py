"""Retrieval and dictionary induction: points a reader can check by eye, ties, copies, and explicit loops."""

import math
from importlib import import_module

import numpy as np
import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures.retrieval import (
    METHODS,
    both_ways,
    induction,
    mexa,
    mutual,
    nearest,
    retrieval,
    retrieve,
    retrieve_each,
    xsim,
)

MODULE = import_module("isogloss.measures.retrieval")  # the package's attribute of this name is the function


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def angles(*degrees):
    """Unit vectors at these angles: a reader can see which two are near."""
    radians = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([radians.cos(), radians.sin()], dim=1)


def globe(*places):
    """Unit vectors at these latitudes and longitudes."""
    latitude, longitude = (torch.tensor(places, dtype=torch.float64) * math.pi / 180).T
    return torch.stack([latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()], dim=1)


def test_nearest_by_eye():
    _, found = nearest(angles(0, 90, 180), angles(80, 10, 200, 300), k=2)
    assert found.tolist() == [[1, 3], [0, 1], [2, 0]]


def test_ranks_by_eye():
    """0 degrees: 10 is right and first. 100: 60 is right, 95 is nearer. 200: 95 is right, nobody is nearer."""
    there, _ = retrieve(angles(0, 100, 200), angles(10, 60, 95), ks=(1, 2))
    assert there.ranks.tolist() == [1, 2, 1]
    assert {k: precision.value for k, precision in there.p.items()} == {1: 2 / 3, 2: 1.0}
    assert there.mrr.value == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_both_directions_are_averaged():
    x, y = angles(0, 100, 200), angles(10, 60, 95)
    there, back = retrieve(x, y, ks=(1,))
    # Back: 10 finds 0; 60 finds 100; 95 finds 100 (5 away) before 200 and 0 (95 away).
    assert back.ranks.tolist()[:2] == [1, 1]
    assert back.ranks.tolist()[2] > 1
    answer = retrieval(x, y, ks=(1,))
    assert answer["p@1"] == pytest.approx((there.p[1].value + back.p[1].value) / 2)
    assert answer["mrr"] == pytest.approx((there.mrr.value + back.mrr.value) / 2)


def test_csls_frees_queries_from_a_hub():
    """Three queries on a globe at latitude 40, far from each other; each translation lies 55 degrees south of it.

    The north pole is no translation, but only 50 degrees from each of them: by cosine it takes all three queries. It is
    near to everybody, so CSLS takes that nearness off.
    """
    x, y = globe((40, 0), (40, 120), (40, 240)), globe((-15, 0), (-15, 120), (-15, 240), (90, 0))
    diagonal = torch.tensor([[0, 0], [1, 1], [2, 2]])
    assert nearest(x, y, k=1)[1].flatten().tolist() == [3, 3, 3]
    for method in ("csls", "margin"):
        assert nearest(x, y, method=method, k=1, neighbours=2)[1].flatten().tolist() == [0, 1, 2]
    assert retrieve(x, y, gold=diagonal, ks=(1,))[0].p[1].value == 0
    assert retrieve(x, y, gold=diagonal, method="csls", k=2, ks=(1,))[0].p[1].value == 1


def test_centring_undoes_a_shift():
    x = draw(100, 8, 1)
    y = x + 0.1 * draw(100, 8, 2) + 5
    assert retrieval(x, y)["p@1"] < 0.9
    assert retrieval(x, y, method="centred")["p@1"] == 1
    assert retrieval(x, y, method="centred-csls")["p@1"] > 0.98


@pytest.mark.parametrize("method", METHODS)
def test_a_collapsed_encoder_scores_nothing(method):
    """Ties must not count as hits: all vectors equal is the worst encoder, not the best."""
    same = torch.full((50, 8), 0.3)
    answer = retrieval(same, same, method=method)
    assert answer == {"p@1": 0, "p@5": 0, "p@10": 0, "mrr": pytest.approx(1 / 50)}


def test_ties_up_to_rounding_count_against():
    """float32 vectors that are equal but for the last bit: a matrix product may order them either way."""
    one = draw(1, 300, 1, torch.float32)
    y = one.repeat(64, 1) * (1 + 1e-7 * torch.arange(64)[:, None])
    there, back = retrieve(y, y)
    assert set(there.ranks.tolist()) == {64}
    assert set(back.ranks.tolist()) == {64}


def test_a_copy_of_the_right_sentence_is_right_when_the_texts_are_given():
    x = draw(6, 8, 1)
    x[4] = x[1]
    y = x.clone()
    texts = ["a", "b", "c", "d", "b", "e"]
    without, _ = retrieve(x, y, ks=(1,))
    assert without.p[1].value == pytest.approx(4 / 6)  # both copies are tied with the other
    assert without.duplicates == 1
    known, _ = retrieve(x, y, ks=(1,), keys_x=texts, keys_y=texts)
    assert known.p[1].value == 1
    assert known.duplicates == 1


def test_the_same_source_with_two_translations_accepts_both():
    """Rows 0 and 1 are the same sentence; its translations differ, and either is right for either."""
    x, y = angles(0, 0, 90), angles(5, 30, 95)
    assert retrieve(x, y, ks=(1,))[0].ranks.tolist() == [1, 2, 1]
    assert retrieve(x, y, ks=(1,), keys_x=["ja", "ja", "nee"])[0].ranks.tolist() == [1, 1, 1]


def test_several_right_answers_count_by_the_best_and_do_not_block_each_other():
    x, y = angles(0, 90), angles(8, 4, 2, 80)
    there, back = retrieve(x, y, gold=torch.tensor([[0, 0], [0, 1], [1, 3]]), ks=(1, 2))
    assert there.ranks.tolist() == [2, 1]  # 2 degrees is wrong and nearer; 8 is right and not in the way of 4
    assert there.m == 4
    assert there.n == 2
    assert back.n == 3
    assert back.queries.tolist() == [0, 1, 3]
    as_pairs = retrieve(x, y, gold=torch.tensor([[1, 3], [0, 1], [0, 0]]), ks=(1, 2))
    assert as_pairs[0].ranks.tolist() == there.ranks.tolist()


def test_rows_without_an_answer_remain_candidates():
    x, y = angles(0, 90, 91), angles(1, 89)
    there, back = retrieve(x, y, gold=torch.tensor([[0, 0], [2, 1]]), ks=(1,))
    assert there.queries.tolist() == [0, 2]
    assert back.ranks.tolist() == [1, 2]  # 90 is no query, but nearer to 89 than 91


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_block_size_changes_nothing(method, block, monkeypatch):
    x = draw(60, 8, 1)
    y = x + 0.7 * draw(60, 8, 2)
    whole = retrieve(x, y, method=method)
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 60 * block)
    monkeypatch.setattr(MODULE, "MOST_HELD_COSINES", 0)
    for one, other in zip(whole, retrieve(x, y, method=method), strict=True):
        assert torch.equal(one.ranks, other.ranks)


def test_methods_judged_together_are_those_judged_one_by_one(monkeypatch):
    x = draw(60, 8, 1, torch.float32)
    y = torch.cat([x + 0.7 * draw(60, 8, 2, torch.float32), draw(9, 8, 3, torch.float32)])
    given = {
        "gold": torch.arange(60)[:, None].expand(60, 2),
        "keys_x": [i // 2 for i in range(60)],
        "keys_y": [i % 50 for i in range(69)],
    }
    together = retrieve_each(x, y, methods=METHODS, **given)
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 7 * 69)
    monkeypatch.setattr(MODULE, "MOST_HELD_COSINES", 0)
    for method, found in zip(METHODS, together, strict=True):
        alone = retrieve(x, y, method=method, **given)
        assert found == alone
        assert all(torch.equal(one.ranks, other.ranks) for one, other in zip(found, alone, strict=True))
    with pytest.raises(InputError, match="unknown retrieval method 'cosines'"):
        retrieve_each(x, x, methods=("cosine", "cosines", "csls"))


def test_cosines_are_held_only_where_they_are_few(monkeypatch):
    x, y, seen = draw(6, 8, 1), draw(6, 8, 2), []
    one_way = MODULE.one_way
    monkeypatch.setattr(
        MODULE, "one_way", lambda scores, *rest, **how: seen.append(scores) or one_way(scores, *rest, **how)
    )
    monkeypatch.setattr(MODULE, "MOST_HELD_COSINES", 36)
    held = retrieve(x, y)
    assert torch.equal(seen[0].cosines, seen[0].x @ seen[0].y.T) and torch.equal(seen[1].cosines, seen[0].cosines.T)
    monkeypatch.setattr(MODULE, "MOST_HELD_COSINES", 35)
    assert retrieve(x, y) == held and seen[2].cosines is None


def test_a_right_pair_named_twice_counts_once():
    x, y = draw(5, 8, 1), draw(5, 8, 2)
    pairs = torch.tensor([[4, 1], [0, 3], [0, 2], [4, 0]])
    once, again = retrieve(x, y, gold=pairs), retrieve(x, y, gold=torch.cat([pairs.flip(0), pairs]))
    assert once == again
    assert once[0].queries.tolist() == [0, 4] and once[1].queries.tolist() == [0, 1, 2, 3]
    assert once[0].p[1].floor == pytest.approx(2 / 5) and once[1].p[1].floor == pytest.approx(1 / 5)


def test_floor_is_what_random_vectors_score():
    x, y = draw(400, 64, 1), draw(400, 64, 2)
    there, _ = retrieve(x, y)
    assert {k: precision.floor for k, precision in there.p.items()} == {1: 1 / 400, 5: 5 / 400, 10: 10 / 400}
    assert there.p[10].low <= there.p[10].floor <= there.p[10].high
    assert there.mrr.floor == pytest.approx(sum(1 / r for r in range(1, 401)) / 400)
    assert there.mrr.low <= there.mrr.floor <= there.mrr.high


def test_floor_with_several_right_answers_by_hand():
    """4 candidates, 2 right: 1/2 at 1; two draws miss both with 1/2 * 1/3, so 5/6 at 2. MRR: 1/2 + 1/3/2 + 1/6/3."""
    there, _ = retrieve(angles(0), angles(1, 2, 3, 4), gold=torch.tensor([[0, 0], [0, 1]]), ks=(1, 2, 3))
    assert [there.p[k].floor for k in (1, 2, 3)] == pytest.approx([1 / 2, 5 / 6, 1])
    assert there.mrr.floor == pytest.approx(1 / 2 + 1 / 6 + 1 / 18)


def test_mutual_neighbours_by_eye():
    """170 likes 180 best, but 180 likes 181 better."""
    pairs, scores = mutual(angles(0, 170, 181), angles(180, 5), method="cosine")
    assert pairs.tolist() == [[2, 0], [0, 1]]
    assert scores[0] > scores[1]


def test_queries_can_be_restricted_while_hubs_are_judged_by_all():
    x, y = draw(50, 6, 1), draw(40, 6, 2)
    rows = torch.tensor([3, 17, 4])
    scores, found = nearest(x, y, method="csls", k=5)
    some_scores, some = nearest(x, y, method="csls", k=5, rows=rows)
    assert torch.equal(found[rows], some)
    assert torch.allclose(scores[rows], some_scores)


def test_few_candidates_are_no_error():
    x = draw(3, 4, 1)
    assert retrieval(x, x, method="csls", k=10, ks=(1, 10))["p@10"] == 1
    assert nearest(x, x, k=10)[1].shape == (3, 3)


def test_margin_by_hand():
    x, y = angles(0, 90), angles(0, 60)
    near_x = [(1 + 0.5) / 2, (0 + math.cos(math.pi / 6)) / 2]
    near_y = [(1 + 0) / 2, (0.5 + math.cos(math.pi / 6)) / 2]
    scores, found = nearest(x, y, method="margin", k=2, neighbours=2)
    assert found[0].tolist() == [0, 1]
    assert scores[0].tolist() == pytest.approx(
        [1 / ((near_x[0] + near_y[0]) / 2), 0.5 / ((near_x[0] + near_y[1]) / 2)], rel=1e-9
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: retrieval(x, x[:3]), "x has 5 items and y has 3"),
        (lambda x: retrieval(x, x[:, :1]), "width"),
        (lambda x: retrieval(x, x, method="csls_knn_10"), "unknown retrieval method"),
        (lambda x: retrieval(x, x, k=0), "k must be at least 1"),
        (lambda x: retrieval(x, x, ks=(0,)), "ks must be"),
        (lambda x: retrieval(x, x, gold=torch.tensor([[0, 9]])), "outside"),
        (lambda x: retrieval(x, x, gold=torch.zeros((0, 2), dtype=torch.long)), "no pair"),
        (lambda x: retrieval(x, x, gold=torch.zeros(2, 3)), "shape"),
        (lambda x: retrieval(x, x, keys_x=["a"]), "1 labels for 5 items"),
        (lambda x: retrieval(x, torch.full_like(x, math.nan)), "y holds a value that is not finite"),
        (lambda x: nearest(x, x, k=0), "k must be at least 1"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call(draw(5, 2, 1))


def draw_words(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def vocabulary(n=60, m=75, d=8):
    x = draw_words(n, d, seed=1)
    y = torch.cat([x[torch.arange(m - 20) % n] + 0.7 * draw_words(m - 20, d, seed=2), draw_words(20, d, seed=3)])
    gold = [(i, i) for i in range(0, 40, 2)] + [(4, 20), (4, 70), (6, 1)]
    return x, y, gold


def explicit(x, y, gold, method, ks):
    """P@k by loops: share of source words with any translation among the first k, ties against us."""
    x, y = x.double().numpy(), y.double().numpy()

    def cosine(a, b):
        return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))

    table = [[cosine(a, b) for b in y] for a in x]
    near_x = [sum(sorted(row)[-10:]) / 10 for row in table]
    near_y = [sum(sorted(table[i][j] for i in range(len(x)))[-10:]) / 10 for j in range(len(y))]
    hits = dict.fromkeys(ks, 0)
    words = sorted({i for i, _ in gold})
    for i in words:
        scores = [c if method == "cosine" else 2 * c - near_x[i] - near_y[j] for j, c in enumerate(table[i])]
        right = {j for word, j in gold if word == i}
        best = max(scores[j] for j in right)
        rank = 1 + sum(score >= best for j, score in enumerate(scores) if j not in right)
        for k in ks:
            hits[k] += rank <= k
    return {k: hits[k] / len(words) for k in ks}


@pytest.mark.parametrize("method", ["cosine", "csls"])
@pytest.mark.parametrize("scores", [2**25, 7 * 75])
def test_precision_equals_an_explicit_implementation(method, scores, monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", scores)
    x, y, gold = vocabulary()
    found = induction(x, y, torch.tensor(gold), method=method)
    precision = {k: estimate.value for k, estimate in found.p.items()}
    assert precision == explicit(x, y, gold, method, (1, 5, 10))
    assert 0 < precision[1] < precision[10] <= 1
    assert (found.n, found.m) == (20, 75)
    assert found.queries.tolist() == sorted({i for i, _ in gold})


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_it_is_one_way_of_retrieval(method):
    x, y, gold = vocabulary()
    pairs = torch.tensor(gold)
    there, _ = retrieve(x, y, method=method, gold=pairs)
    found = induction(x, y, pairs, method=method)
    assert torch.equal(found.ranks, there.ranks) and torch.equal(found.queries, there.queries)
    assert found.p == there.p


def test_chance_is_that_of_a_random_order():
    x, y, gold = vocabulary()
    floor = {k: precision.floor for k, precision in induction(x, y, torch.tensor(gold)).p.items()}
    single = [1 for word in {i for i, _ in gold} if word not in (4, 6)]
    expected = (len(single) * 1 / 75 + 3 / 75 + 2 / 75) / 20
    assert floor[1] == pytest.approx(expected)


def test_mistakes_are_one_sentence():
    x, y, gold = vocabulary()
    with pytest.raises(InputError, match="unknown method 'margin'; dictionary induction uses cosine or csls"):
        induction(x, y, torch.tensor(gold), method="margin")
    with pytest.raises(InputError, match="width 8 and y has width 3"):
        induction(x, y[:, :3], torch.tensor(gold))
    with pytest.raises(InputError, match="gold holds no pair"):
        induction(x, y, torch.zeros((0, 2), dtype=torch.long))


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_no_more_scores_are_held_than_were_said(method, monkeypatch):
    x, y, gold = vocabulary()
    product, sizes = torch.mm, []
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 200)
    monkeypatch.setattr(torch, "mm", lambda *given, out: sizes.append(out.numel()) or product(*given, out=out))
    induction(x, y, torch.tensor(gold), method=method)
    assert len(sizes) > 9 and max(sizes) <= 200


# MEXA and xSIM


def test_mexa_is_the_share_of_cosines_that_lead_their_row_and_their_column(monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 100)  # several blocks
    x = draw(40, 6, 1)
    y = x + draw(40, 6, 2)
    right = 0
    for i in range(40):
        cosine = [float(torch.cosine_similarity(x[i], y[j], dim=0)) for j in range(40)]
        column = [float(torch.cosine_similarity(x[j], y[i], dim=0)) for j in range(40)]
        right += all(cosine[i] > cosine[j] and cosine[i] > column[j] for j in range(40) if j != i)
    assert 0 < right < 40
    assert mexa(x, y) == pytest.approx(right / 40)
    found = both_ways(*retrieve(x, y))
    assert (found.n, found.floor) == (40, 1 / 79) and found.low < found.value < found.high


def test_mexa_of_unrelated_vectors_is_its_floor_and_of_equal_ones_nothing():
    found = [mexa(draw(30, 20, seed), draw(30, 20, seed + 500)) for seed in range(100)]
    assert np.mean(found) == pytest.approx(1 / 59, abs=0.004)
    assert mexa(torch.ones(5, 3), torch.ones(5, 3)) == 0


def test_xsim_takes_the_largest_margin_of_the_four_nearest_by_a_loop():
    """As LASER does: the margin of all candidates would give other numbers."""
    shape, origin = torch.linspace(3, 0.2, 32), 2 * draw(1, 32, 4)
    x = draw(200, 32, 1) * shape + origin
    y, more = (x + noise * draw(200, 32, seed) * shape for noise, seed in ((1.0, 2), (1.1, 3)))
    for candidates, negatives in ((y, None), (torch.cat([y, more]), more)):
        cosines = torch.nn.functional.cosine_similarity(x[:, None], candidates[None], dim=2)
        near_x, near_y = (side.topk(4).values.mean(dim=1) for side in (cosines, cosines.T))
        margins = cosines / ((near_x[:, None] + near_y) / 2)
        wrong = 0
        for i in range(200):
            four = cosines[i].topk(4).indices.tolist()
            wrong += max(four, key=margins[i].tolist().__getitem__) != i
        assert wrong != int((margins.argmax(dim=1) != torch.arange(200)).sum())
        assert xsim(x, y, negatives=negatives) == pytest.approx(wrong / 200)
    assert xsim(x, y, negatives=more) > xsim(x, y)
    with pytest.raises(InputError, match="x has 200 items and y has 199"):
        xsim(x, y[:199])


def test_ties_count_against_us_in_xsim():
    x = draw(10, 4, 1)
    assert xsim(torch.ones(10, 4), torch.ones(10, 4)) == 1
    assert [xsim(x, x, k=k) for k in (1, 4)] == [0, 0]
    assert [xsim(x, x, negatives=x[:3], k=k) for k in (1, 4)] == pytest.approx([0.3, 0.3])
