"""Floors of tasks: what a model's own answers score when nothing ties them to their examples."""

from collections import Counter

import numpy as np
import pytest

from isogloss.tasks import TASKS
from isogloss.tasks.parsing import Parse, shuffle
from isogloss.tasks.task import chance_floors, shuffle_words
from tiny_tasks import read_task, write_task


def expected(said, gold):
    """The share of agreement if answers are given as often as here, at random."""
    one, other = Counter(said), Counter(gold)
    return sum(one[label] / len(said) * other[label] / len(gold) for label in one)


@pytest.mark.parametrize("name", ["nli", "pos"])
def test_the_floor_is_what_the_shares_of_the_answers_give(name, tmp_path):
    task, examples, _ = read_task(name, write_task(tmp_path, name, count=300))
    rng = np.random.default_rng(1)
    golds = [task.gold(one) for one in examples]
    first = golds[0] if name == "nli" else golds[0][0]
    said = [first if rng.random() < 0.5 else one for one in golds]  # answers that lean to one label
    if name == "pos":
        said = [[first if rng.random() < 0.5 else tag for tag in one] for one in golds]
    flat = (lambda some: [tag for one in some for tag in one]) if name == "pos" else list
    floor = chance_floors(task, examples, said, "qaa", draws=20)["accuracy"]
    assert floor == pytest.approx(expected(flat(said), flat(golds)), abs=0.02)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_floor_below_what_its_gold_scores(name, tmp_path):
    task, examples, _ = read_task(name, write_task(tmp_path, name, count=40))
    golds = [task.gold(one) for one in examples]
    floors = chance_floors(task, examples, golds, "qaa", name="test")
    assert floors.keys() == task.score(examples, golds, "qaa").keys()
    assert all(0 <= floor < 0.75 for floor in floors.values())
    assert floors == chance_floors(task, examples, golds, "qaa", name="test")
    assert floors != chance_floors(task, examples, golds, "qaa", name="another")


def test_words_keep_their_answers_and_sentences_their_lengths():
    answers = [["a", "b", "b"], ["c"], [], ["a", "d"]]
    dealt = shuffle_words(answers, np.random.default_rng(3))
    assert [len(one) for one in dealt] == [3, 1, 0, 2]
    assert Counter(tag for one in dealt for tag in one) == Counter("abbcad")


def test_arcs_keep_their_direction_and_length_and_stay_in_the_sentence():
    parses = [Parse((2, 0, 2, 3), ("det", "root", "obj", "punct")), Parse((0, 1), ("root", "obj"))]
    seen = Counter()
    for seed in range(50):
        dealt = shuffle(parses, np.random.default_rng(seed))
        assert [len(one.heads) for one in dealt] == [4, 2]
        assert Counter(r for one in dealt for r in one.relations) == Counter(
            ["det", "root", "obj", "punct"] + ["root", "obj"]
        )
        for one in dealt:
            assert all(0 <= head <= len(one.heads) for head in one.heads)
            assert all(
                (head == 0) == (relation == "root") for head, relation in zip(one.heads, one.relations, strict=True)
            )
        if dealt[0].relations[0] == "det":
            seen[dealt[0].heads[0]] += 1
    assert set(seen) == {2}  # to the right by one, wherever it is dealt to word 1
