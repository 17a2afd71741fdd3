"""Pairs laid out as rows, by hand; and their states, padded or packed, against transformers' own."""

import numpy as np
import pytest
import torch

from isogloss.stack.load import load_masked_lm
from isogloss.text.streams import Borders, borders_of
from isogloss.training.pairbatches import Texts, fill_pairs, fill_single, fitting, read_sides, row_states
from tiny_alignment import LONGEST, own_states, pack_invented, write_models

BORDERS = Borders((2,), (3,), (2,), (3,), (3,))
DOUBLE = Borders((2,), (3,), (2,), (3, 3), (3,))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("models"), bert=2, modernbert=3, roberta=3)


@pytest.fixture(scope="module")
def pairs(models):
    return pack_invented(models["bert"], ("qaa", "qab"), ("qaa", "qac"), sentences=24)


def texts(*sentences):
    return Texts(np.concatenate(sentences), np.array([len(one) for one in sentences]))


def test_rows_are_laid_out_by_hand():
    one, two = np.array([7, 8, 9]), np.array([5])
    filled = fill_single(texts(one, two), BORDERS, 0)
    assert filled.ids.tolist() == [[2, 7, 8, 9, 3], [2, 5, 3, 0, 0]]
    assert filled.content.tolist() == [[False, True, True, True, False], [False, True, False, False, False]]
    both = fill_pairs((texts(one, two), texts(two, two)), BORDERS, 0, longest=20)
    assert both.ids.tolist() == [[2, 7, 8, 9, 3, 5, 3], [2, 5, 3, 5, 3, 0, 0]]
    assert both.lengths.tolist() == [7, 5] and both.second.tolist() == [5, 3]
    assert both.content[0].nonzero()[0].tolist() == [1, 2, 3, 5]
    two_marks = fill_pairs((texts(one), texts(two)), DOUBLE, 0, longest=20)
    assert two_marks.ids.tolist() == [[2, 7, 8, 9, 3, 3, 5, 3]] and two_marks.second.tolist() == [5]
    assert fill_pairs((texts(one), texts(one)), BORDERS, 0, longest=7).ids.tolist() == [[2, 7, 8, 3, 7, 8, 3]]


def test_sides_are_read_from_the_streams_they_are_of_and_change_places(pairs):
    streams, groups, numbers = list(pairs.values()), np.array([1, 0, 1, 0, 0]), np.array([3, 23, 0, 5, 5])
    swapped = np.array([False, True, True, False, True])
    found = [np.split(side.ids, np.cumsum(side.sizes)[:-1]) for side in read_sides(streams, groups, numbers, swapped)]
    for row in range(5):
        expected = streams[groups[row]].sides(numbers[row])[:: -1 if swapped[row] else 1]
        assert [side[row].tolist() for side in found] == [one.tolist() for one in expected]


def test_sentences_that_fit_stay_and_others_share_the_room():
    for first in range(1, 12):
        for second in range(1, 12):
            a, b = fitting(first, second, 9)
            assert a <= first and b <= second and a + b == min(9, first + second)
            assert a >= min(first, 4) and b >= min(second, 4)


@pytest.mark.parametrize("family", ["bert", "modernbert", "roberta"])
def test_states_of_padded_and_packed_rows_are_those_of_each_row_alone(models, pairs, family):
    model, stack = load_masked_lm(models[family], device="cpu")
    sides = read_sides([pairs["qaa-qab"]], np.zeros(4, dtype=np.int64), np.arange(4))
    filled = fill_pairs(sides, borders_of(stack.tokenizer), stack.model.config.pad_token_id, longest=LONGEST)
    ids, lengths, second = (torch.from_numpy(one) for one in (filled.ids, filled.lengths, filled.second))
    for reset in (False, True):
        for end_to_end in (False, True):
            with torch.no_grad():
                found = row_states(stack[:1], ids, lengths, end_to_end=end_to_end, second=second, reset=reset)
            for row, length in enumerate(lengths.tolist()):
                places = torch.arange(length)
                later = places >= second[row]
                positions = torch.where(later & reset, places - second[row], places) + stack.first_position
                more = {"position_ids": positions[None]}
                if stack.tells_types:
                    more["token_type_ids"] = later.long()[None]
                expected = own_states(stack.model, ids[row], length, 1, **more)
                torch.testing.assert_close(found.at(places[None].expand(4, -1))[row], expected, atol=1e-5, rtol=1e-4)
