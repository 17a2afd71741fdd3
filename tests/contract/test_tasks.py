"""What every task promises: gold is perfect, ten examples are learned by heart, and a permuted test is at chance."""

import numpy as np
import pytest

from isogloss.measures.registry import MEASURES
from isogloss.tasks import TASKS
from isogloss.tasks.task import join_items
from tiny_tasks import learn, read_task, said, write_task


def test_the_main_score_of_a_task_declares_its_direction():
    for task in TASKS.values():
        assert task.main in MEASURES
        assert task.higher_is_better is MEASURES[task.main].higher_is_better


@pytest.mark.parametrize("name", TASKS)
def test_gold_answers_score_as_perfect(name, tmp_path):
    task, examples, _ = read_task(name, write_task(tmp_path, name, count=9))
    scores = task.score(examples, [task.gold(one) for one in examples], "qaa")
    assert task.main in scores
    assert {key: score.value for key, score in scores.items()} == dict.fromkeys(scores, 1.0)
    assert all(len(score.counts) == len(examples) for score in scores.values())


@pytest.mark.parametrize("name", TASKS)
def test_ten_examples_are_learned_by_heart_and_permuted_answers_are_at_chance(name, tiny, tmp_path):
    task, examples, labels = read_task(name, write_task(tmp_path, name, count=10))
    learner, items = learn(tiny("bert"), task, examples, labels)
    answers = said(learner, task, examples, items)
    assert answers == [task.gold(one) for one in examples]
    assert task.score(examples, answers, "qaa")[task.main].value == 1.0
    rng = np.random.default_rng(0)
    values = [task.score(examples, [answers[i] for i in rng.permutation(10)], "qaa") for _ in range(200)]
    permuted = np.mean([one[task.main].value for one in values])
    golds = [task.gold(one) for one in examples]
    pairs = [task.score([examples[i]], [golds[j]], "qaa")[task.main] for i in range(10) for j in range(10)]
    chance = pairs[0].ratio(sum(np.asarray(one.counts).sum(0) for one in pairs))
    assert permuted == pytest.approx(float(chance), abs=0.03)


@pytest.mark.parametrize("name", TASKS)
def test_items_are_what_the_interface_says(name, tiny, tmp_path):
    from isogloss.stack.load import load

    task, examples, labels = read_task(name, write_task(tmp_path, name, count=7))
    tokenizer = load(tiny("bert"), device="cpu").tokenizer
    items = task.encode(examples, labels, tokenizer=tokenizer, length=64)
    assert sorted({one.owner for one in items}) == list(range(len(examples)))
    for one in items:
        assert len(one.places) == len(one.gold) == len(one.units)
        assert all(0 <= place < len(one.ids) for place in one.places)
        assert len(one.ids) <= 64 and one.targets >= 0
    joined = join_items(items)
    assert joined.counts.sum() == len(joined.places) == len(joined.gold) == len(joined.units)
