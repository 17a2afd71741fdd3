"""Masking against explicit counts, and its shares by statistics on large draws."""

import numpy as np
import pytest
import torch
from scipy import stats

from isogloss.errors import InputError
from isogloss.text import masking
from isogloss.text.masking import IGNORE, draws, fixed_masks, mask, masking_of, slots
from tiny_models import tiny_tokenizer

MASK, PAD, BORDER = 4, 0, 2
POOL = torch.arange(5, 1000)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(count, length, *, seed=0, padded=False):
    """Random content between two special tokens, with padding after it where asked."""
    ids = POOL[torch.randint(len(POOL), (count, length), generator=generator(seed))]
    content = torch.ones(count, length, dtype=torch.bool)
    ids[:, 0], content[:, 0] = BORDER, False
    if padded:
        ends = torch.randint(1, length + 1, (count, 1), generator=generator(seed + 1))
        content &= torch.arange(length) < ends
        ids[torch.arange(length) >= ends] = PAD
    return ids, content


def taken(ids, content, seed=0, **options):
    return mask(ids, content, mask_id=MASK, pool=POOL, generator=generator(seed), **options)


def chosen(found, row):
    """Places in use in one row."""
    return [
        place
        for place, label in zip(found.places[row].tolist(), found.labels[row].tolist(), strict=True)
        if label != IGNORE
    ]


@pytest.mark.parametrize("length", [1, 2, 3, 8, 33, 128])
@pytest.mark.parametrize("share", [0.15, 0.5, 1.0])
def test_every_row_against_an_explicit_loop(length, share):
    ids, content = rows(200, length, padded=True)
    found = taken(ids, content, share=share)
    k = max(1, round(share * length))
    assert found.places.shape == found.labels.shape == (200, k) == (200, slots(length, share))
    for row in range(200):
        allowed = content[row].nonzero().flatten().tolist()
        places = chosen(found, row)
        assert len(places) == (max(1, round(share * len(allowed))) if allowed else 0)
        assert len(set(places)) == len(places)
        assert set(places) <= set(allowed)
        for place, label in zip(found.places[row].tolist(), found.labels[row].tolist(), strict=True):
            assert label in (ids[row, place].item(), IGNORE)
        for place in range(length):
            if place not in places:
                assert found.inputs[row, place] == ids[row, place]
            else:
                assert found.inputs[row, place].item() in {MASK, ids[row, place].item(), *POOL.tolist()}


def test_all_counts_of_content_round_as_python_does():
    """0.15 * 10 and 0.15 * 30 lie on the border of rounding."""
    length = 200
    content = torch.arange(length) < torch.arange(length + 1)[:, None]
    found = taken(torch.full((length + 1, length), 7), content)
    expected = [0] + [max(1, round(0.15 * count)) for count in range(1, length + 1)]
    assert (found.labels != IGNORE).sum(dim=1).tolist() == expected


def test_eighty_ten_ten():
    ids, content = rows(4000, 128)
    found = taken(ids, content)
    used = found.labels != IGNORE
    new, old = found.inputs.gather(1, found.places)[used], found.labels[used]
    n = len(new)
    same_by_chance = 0.1 / len(POOL)
    for count, share in (
        ((new == MASK).sum(), 0.8),
        ((new == old).sum(), 0.1 + same_by_chance),
        (((new != MASK) & (new != old)).sum(), 0.1 - same_by_chance),
    ):
        assert abs(count.item() - n * share) < 4 * (n * share * (1 - share)) ** 0.5
    # What a token becomes does not hang on which slot it sits in.
    table = torch.stack([(found.inputs.gather(1, found.places) == MASK).sum(0), used.sum(0)])
    assert stats.chi2_contingency(torch.stack([table[0], table[1] - table[0]]).numpy()).pvalue > 1e-4


def test_random_words_are_uniform_over_the_pool(monkeypatch):
    monkeypatch.setattr(masking, "MASKED", 0.0)
    monkeypatch.setattr(masking, "RANDOM", 1.0)
    ids = torch.full((3000, 64), 3)
    pool = torch.tensor([11, 22, 33, 44, 55])
    found = mask(ids, ids == 3, mask_id=MASK, pool=pool, generator=generator())
    counts = [int((found.inputs == word).sum()) for word in pool.tolist()]
    assert sum(counts) == int((found.labels != IGNORE).sum())
    assert stats.chisquare(counts).pvalue > 1e-4


def test_places_are_uniform_over_content():
    ids, content = rows(1, 40)
    content[0, 10:15] = False
    many = ids.expand(30000, -1), content.expand(30000, -1)
    found = taken(*many)
    counts = torch.bincount(found.places[found.labels != IGNORE], minlength=40)
    assert counts[~content[0]].sum() == 0
    assert stats.chisquare(counts[content[0]].numpy()).pvalue > 1e-4


def test_pairs_of_places_are_uniform_too():
    """Without replacement: each of the 15 pairs of six tokens comes equally often."""
    ids = torch.full((30000, 6), 9)
    found = taken(ids, ids == 9, share=1 / 3)
    low, high = found.places.sort(dim=1).values.T
    counts = torch.bincount(low * 6 + high)
    assert stats.chisquare(counts[counts > 0].numpy()).pvalue > 1e-4
    assert int((counts > 0).sum()) == 15


def test_a_row_without_content_is_left_alone():
    ids, content = rows(5, 20)
    content[2] = False
    found = taken(ids, content)
    assert torch.equal(found.inputs[2], ids[2])
    assert (found.labels[2] == IGNORE).all()
    assert ((found.places >= 0) & (found.places < 20)).all()


def test_unused_slots_never_overwrite_used_ones(monkeypatch):
    """One content token among a hundred, fifteen slots: it is always the one that is masked."""
    monkeypatch.setattr(masking, "MASKED", 1.0)
    ids, content = torch.full((500, 100), 9), torch.zeros(500, 100, dtype=torch.bool)
    where = torch.arange(500) % 100
    content[torch.arange(500), where] = True
    found = taken(ids, content)
    expected = ids.clone()
    expected[content] = MASK
    assert torch.equal(found.inputs, expected)
    assert torch.equal(found.places[:, 0], where)
    assert (found.labels[:, 0] == 9).all()
    assert (found.labels[:, 1:] == IGNORE).all()


def test_one_seed_one_mask_and_arguments_are_left_as_they_were():
    ids, content = rows(50, 64, padded=True)
    copies = ids.clone(), content.clone()
    first, second, other = taken(ids, content), taken(ids, content), taken(ids, content, seed=1)
    for name in ("inputs", "places", "labels"):
        assert torch.equal(getattr(first, name), getattr(second, name))
    assert not torch.equal(first.inputs, other.inputs)
    assert torch.equal(ids, copies[0])
    assert torch.equal(content, copies[1])


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    taken(*rows(10, 16))
    assert torch.equal(before, torch.get_rng_state())


def test_nothing_is_read_back_to_the_host():
    """On the meta device there is nothing to read, so any .item() or boolean index would raise."""
    ids = torch.zeros(4, 32, dtype=torch.long, device="meta")
    found = mask(ids, ids == 0, mask_id=MASK, pool=torch.zeros(9, dtype=torch.long, device="meta"), generator=None)
    assert found.inputs.shape == (4, 32)
    assert found.labels.shape == (4, 5)


@pytest.mark.gpu
def test_a_gpu_draws_without_waiting_and_keeps_the_same_rules():
    ids, content = (one.cuda() for one in rows(500, 128, padded=True))
    pool, draw = POOL.cuda(), torch.Generator("cuda").manual_seed(0)
    mask(ids, content, mask_id=MASK, pool=pool, generator=draw)  # the first call loads kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = mask(ids, content, mask_id=MASK, pool=pool, generator=draw)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    used = found.labels != IGNORE
    counts = content.sum(dim=1).tolist()
    assert used.sum(dim=1).tolist() == [max(1, round(0.15 * count)) if count else 0 for count in counts]
    assert content.gather(1, found.places)[used].all()
    assert torch.equal(ids.gather(1, found.places)[used], found.labels[used])
    changed = (found.inputs != ids).nonzero().tolist()
    assert {tuple(one) for one in changed} <= {(row, place) for row in range(500) for place in chosen(found, row)}


def test_whole_words_are_chosen_together_and_the_share_stays_exact():
    rows, length = 200, 40
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(10, 90, (rows, length), generator=generator)
    content = torch.ones(rows, length, dtype=torch.bool)
    content[:, 0] = content[:, -1] = False
    starts = torch.rand(rows, length, generator=generator) < 0.5
    starts[:, :2] = starts[:, -1] = True
    found = mask(ids, content, mask_id=4, pool=torch.arange(10, 90), generator=generator, share=0.3, starts=starts)
    cut = 0
    for row in range(rows):
        chosen = {int(p) for p, label in zip(found.places[row], found.labels[row], strict=True) if label != IGNORE}
        assert len(chosen) == round(0.3 * int(content[row].sum()))
        borders = [*torch.nonzero(starts[row]).flatten().tolist(), length]
        words = [set(range(a, b)) for a, b in zip(borders[:-1], borders[1:], strict=True)]
        parts = [word for word in words if chosen & word and not word <= chosen]
        assert len(parts) <= 1, "at most the last word of a row is cut"
        cut += len(parts)
    assert 0 < cut < rows


def test_whole_words_are_drawn_evenly_whatever_their_length():
    length, rows = 12, 20_000
    starts = torch.tensor([[True, False, False, True, True, False, True, True, True, True, False, True]])
    ids, content = torch.full((rows, length), 7), torch.ones(rows, length, dtype=torch.bool)
    generator = torch.Generator().manual_seed(1)
    found = mask(
        ids, content, mask_id=4, pool=torch.tensor([7]), generator=generator, share=0.25, starts=starts.expand(rows, -1)
    )
    share = torch.zeros(length).index_add_(0, found.places.flatten(), torch.ones(found.places.numel())) / rows
    assert float(share.sum()) == 3  # a quarter of twelve
    single = share[[3, 6, 7, 8]]
    assert float(single.max() - single.min()) < 0.02


# Masks that belong to a sentence, against a loop in whole numbers, and what they must not depend on


IDS = np.arange(10, 60)
BITS = 2**64 - 1


def sentences(lengths, seed=0):
    """Ids between borders, and which of them are content."""
    draw = np.random.default_rng(seed)
    ids = [np.concatenate([[2], draw.integers(5, 90, length - 2), [3]]) for length in lengths]
    flat = np.concatenate(ids)
    return flat, np.array(lengths), flat > 4


def fixed(ids, lengths, content, **changes):
    return fixed_masks(ids, lengths, **{"content": content, "mask_id": MASK, "pool": IDS, "seed": 7} | changes)


def mixed(state):
    state = (state + 0x9E3779B97F4A7C15) & BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & BITS
    return state ^ (state >> 31)


def drawn(seed, kind, sentence, place):
    return (mixed(mixed(mixed(mixed(seed) ^ kind) ^ sentence) ^ place) >> 11) / 2**53


def test_fixed_masks_by_hand():
    ids, lengths, content = sentences([2, 3, 9, 31, 12, 2, 64])
    inputs, chosen = fixed(ids, lengths, content)
    start = 0
    for number, length in enumerate(lengths.tolist()):
        places = sorted((drawn(7, 0, number, i), i) for i in range(length) if content[start + i])
        wanted = min(max(1, round(0.15 * len(places))), len(places))
        expected = {place for _, place in places[:wanted]}
        assert set(np.flatnonzero(chosen[start : start + length]).tolist()) == expected
        for i in range(length):
            here, kind = ids[start + i], drawn(7, 1, number, i)
            if i in expected and kind < 0.9:
                here = MASK if kind < 0.8 else IDS[int(drawn(7, 2, number, i) * len(IDS))]
            assert inputs[start + i] == here
        start += length


def test_a_mask_hangs_on_nothing_but_its_sentence():
    ids, lengths, content = sentences([9, 31, 12, 64])
    longer = np.concatenate([[2, *range(5, 45), 3], ids[9:], ids]), np.array([42, 31, 12, 64, *lengths])
    inputs, chosen = fixed(ids, lengths, content)
    again, chosen_again = fixed(*longer, longer[0] > 4)
    assert (inputs[9:] == again[42 : 42 + 107]).all()
    assert (chosen[9:] == chosen_again[42 : 42 + 107]).all()
    assert (fixed(ids, lengths, content, seed=8)[1] != chosen).any()
    assert not (again[-116:] == inputs).all(), "the same sentence under another number is masked elsewhere"


def test_shares_of_fixed_masks_are_as_declared():
    ids, lengths, content = sentences([42] * 2_000)
    inputs, chosen = fixed(ids, lengths, content)
    assert chosen.reshape(2_000, 42).sum(axis=1).tolist() == [6] * 2_000
    assert not chosen[~content].any()
    assert (inputs[~chosen] == ids[~chosen]).all()
    assert np.mean(inputs[chosen] == MASK) == pytest.approx(0.8, abs=0.012)
    assert np.mean(inputs[chosen] == ids[chosen]) == pytest.approx(0.1 + 0.1 / 85, abs=0.012)
    places = np.tile(np.arange(42), 2_000)[chosen]
    assert np.bincount(places, minlength=42)[1:-1] == pytest.approx(300, abs=75), "every place is as likely"
    numbers = draws(1, np.arange(100_000), np.zeros(100_000), kind=0)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert np.histogram(numbers, 10)[0] == pytest.approx(10_000, abs=400)


def test_a_tokenizer_without_a_mask_is_for_decoders_alone():
    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    with pytest.raises(InputError, match="has no mask token, which masked-language modelling needs"):
        masking_of(tokenizer)
    assert masking_of(tokenizer, causal=True).causal
