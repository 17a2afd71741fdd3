"""What tasks share: the floor that shuffled answers give, and the segments of an example."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from isogloss.stack.load import load
from isogloss.tasks import TASKS
from isogloss.tasks.nli import NLI
from isogloss.tasks.parsing import Parse, shuffle
from isogloss.tasks.qa import QA
from isogloss.tasks.task import (
    Item,
    LabelHead,
    before_second,
    chain_items,
    chance_floors,
    encode_words,
    join_items,
    read_at_ends,
    shuffle_words,
)
from isogloss.text.masking import IGNORE
from isogloss.text.readers.examples import Question, SentencePair
from isogloss.text.switching import Switched, switch_words
from tiny_models import sentencepiece_tokenizer, tiny_tokenizer
from tiny_tasks import read_task, write_task


def expected(said, gold):
    """The share of agreement if answers are given as often as here, at random."""
    one, other = Counter(said), Counter(gold)
    return sum(one[label] / len(said) * other[label] / len(gold) for label in one)


@pytest.mark.parametrize("name", ["nli", "pos"])
def test_the_floor_is_what_the_shares_of_the_answers_give(name, tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.tasks.task.DRAWS", 20)
    task, examples, _ = read_task(name, write_task(tmp_path, name, count=300))
    rng = np.random.default_rng(1)
    golds = [task.gold(one) for one in examples]
    first = golds[0] if name == "nli" else golds[0][0]
    said = [first if rng.random() < 0.5 else one for one in golds]  # answers that lean to one label
    if name == "pos":
        said = [[first if rng.random() < 0.5 else tag for tag in one] for one in golds]
    flat = (lambda some: [tag for one in some for tag in one]) if name == "pos" else list
    floor = chance_floors(task, examples, said, "qaa")["accuracy"]
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


PAIR = SentencePair("a man sleeps", "he is awake", "contradiction")
DUTCH = SentencePair("een man slaapt", "hij is wakker", "contradiction")
CONTEXT = "The old cat sleeps on the cat of Cat House, the cat says"
QUESTION = Question("q1", "Where does the cat sleep?", CONTEXT, ("cat of Cat House", "Cat"), (26, 33))


def test_tasks_of_words_have_no_segments():
    assert [name for name, task in TASKS.items() if task.segments is not None] == ["nli", "nli-mean", "qa"]


def test_the_mean_head_scores_the_mean_of_content_tokens_at_every_place(tiny):
    tokenizer, labels = load(tiny("bert"), device="cpu").tokenizer, ("contradiction", "neutral")
    long, _ = TASKS["nli-mean"].encode(
        [PAIR, SentencePair("yes", "", "neutral")], labels, tokenizer=tokenizer, length=64
    )
    special = set(tokenizer.all_special_ids)
    assert [long.ids[place] for place in long.places] == [token for token in long.ids if token not in special]
    assert [gold for (gold,) in long.gold] == [0, *[IGNORE] * (len(long.places) - 1)] and long.targets == 1
    states, present = torch.randn(2, 3, 8), torch.tensor([[True, True, True], [True, False, False]])
    states[1, 1:] = 0
    mean, first = (LabelHead(8, 2, pooled=True, mean=mean).eval() for mean in (True, False))
    first.load_state_dict(mean.state_dict())
    expected = [first(state.mean(dim=0)[None, None], present)[0][0, 0] for state in (states[0], states[1, :1])]
    for row, scores in enumerate(mean(states, present)[0]):
        assert scores.shape == (3, 2) and all(torch.allclose(each, expected[row]) for each in scores)


def test_either_sentence_of_a_pair_is_swapped_and_the_label_stays():
    swap = NLI.segments.swap
    assert swap(PAIR, DUTCH, 0) == SentencePair("een man slaapt", "he is awake", "contradiction")
    assert swap(PAIR, DUTCH, 1) == SentencePair("a man sleeps", "hij is wakker", "contradiction")
    assert NLI.segments.differ(PAIR, DUTCH) == ""
    assert "'neutral', and 'contradiction'" in NLI.segments.differ(PAIR, SentencePair("x", "y", "neutral"))


def test_of_a_question_only_the_question_is_swapped_so_that_the_answer_stays_in_its_context():
    other = Question("q1", "Waar slaapt de kat?", "De kat slaapt op het dak", ("dak",), (21,))
    assert QA.segments.switched == (0,)
    found = QA.segments.swap(QUESTION, other, 0)
    assert (found.question, found.context, found.answers) == (other.question, CONTEXT, QUESTION.answers)


def test_answers_move_with_the_words_before_them_and_are_never_replaced():
    assert all(CONTEXT.startswith(text, start) for text, start in zip(QUESTION.answers, QUESTION.starts, strict=True))
    words = {"cat": {"nl": ["poesje"]}, "the": {"nl": ["de"]}, "old": {"fr": ["très vieux"]}, "house": {"nl": ["huis"]}}
    seen = set()
    for seed in range(30):
        chance = np.random.default_rng(seed)
        now = [
            switch_words(text, words, language="en", share=0.6, chance=chance, kept=kept)
            for text, kept in QA.segments.texts(QUESTION)
        ]
        found = QA.segments.rebuild(QUESTION, now)
        assert found.answers == QUESTION.answers
        for text, start in zip(found.answers, found.starts, strict=True):
            assert found.context.startswith(text, start)
        seen.add(found.context)
    assert len(seen) > 5
    every = [switch_words(text, words, language="en", share=1.0, chance=np.random.default_rng(0), kept=kept)
             for text, kept in QA.segments.texts(QUESTION)]  # fmt: skip
    found = QA.segments.rebuild(QUESTION, every)
    assert found.context == "De très vieux poesje sleeps on de cat of Cat House, de poesje says"
    assert found.question == "Where does de poesje sleep?" and found.starts == (34, 41)


def test_a_pair_is_rebuilt_from_its_segments():
    now = [Switched("een man sleeps", ()), Switched("he is wakker", ())]
    assert NLI.segments.rebuild(PAIR, now) == SentencePair("een man sleeps", "he is wakker", "contradiction")
    assert [text for text, kept in NLI.segments.texts(PAIR) if not kept] == [PAIR.first, PAIR.second]


def test_every_row_of_a_table_has_its_place_bad_ones_too(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(
        b"premise\thypothesis\tlabel\na\tb\tneutral\na\tb\n\xff\tb\tneutral\na\t\tneutral\na\tb\t-\nc\td\tentailment\n"
    )
    told = []
    rows = list(NLI.segments.rows(path, told.append))
    assert [row.where for row in rows] == [f"{path}:{line}" for line in (2, 3, 4, 5, 6, 7)]
    assert [row.bad for row in rows] == [False, True, True, True, False, False] and len(told) == 3
    assert [row.example is None for row in rows] == [False, True, True, True, True, False]
    lines = tmp_path / "pairs.jsonl"
    sound = json.dumps({"premise": "a", "hypothesis": "b", "label": "neutral"})
    lines.write_text(f"{sound}\n\nno json\n{json.dumps({'premise': 'a'})}\n{sound}\n", encoding="utf-8")
    assert [(row.where[-1], row.bad) for row in NLI.segments.rows(lines, told.append)] == [
        ("1", False), ("3", True), ("4", True), ("5", False)
    ]  # fmt: skip


def test_every_question_has_its_id_bad_ones_too(tmp_path):
    path = tmp_path / "qa.json"
    asked = [
        {"id": "x", "question": "who?", "answers": [{"text": "cat", "answer_start": 4}]},
        {"id": "y", "question": "who?", "answers": [{"text": "cat", "answer_start": 5}]},
        {"id": "x", "question": "what?", "answers": [{"text": "the", "answer_start": 0}]},
        {"question": "what?", "answers": [{"text": "the", "answer_start": 0}]},
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": "the cat", "qas": asked}]}]}), encoding="utf-8")
    told = []
    rows = list(QA.segments.rows(path, told.append))
    assert [(row.name, row.bad) for row in rows] == [("x", False), ("y", True), ("x", True), ("1-4", False)]
    assert "begin at character 5" in told[0] and "this id has occurred before" in told[1]
    assert [one.identifier for one in QA.read(path, "en", problem=told.append)] == ["x", "1-4"]


def test_items_that_are_taken_and_chained_are_those_of_a_loop(tiny, tmp_path):
    tokenizer = load(tiny("bert"), device="cpu").tokenizer
    for name in ("ner", "qa", "parsing"):
        task, examples, labels = read_task(name, write_task(tmp_path, name, count=7))
        each = task.encode(examples, labels, tokenizer=tokenizer, length=12)
        items, chosen = join_items(each), np.array([3, 0, 3, len(each) - 1])
        same(items.take(chosen), join_items([each[number] for number in chosen]))
        same(items.take(chosen[:0]), items.take(np.array([], dtype=int)))
        halves = [join_items(each[:3]), join_items(each[3:])]
        same(chain_items(halves), items)
        assert chain_items(halves).lost == items.lost


def same(one, other):
    for name in ("ids", "types", "lengths", "places", "counts", "gold", "units", "targets", "owners"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_a_word_is_read_at_its_first_subword_and_not_at_the_space_before_it():
    tokenizer = sentencepiece_tokenizer(["▁", "中国", "人", "▁the", "▁cat", "s"])
    ((ids, places),) = encode_words([["中国", "the", "cats", "猫", "人"]], tokenizer, length=32)
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert [pieces[place] for place in places] == ["中国", "▁the", "▁cat", "<unk>", "人"]


def test_a_decoder_is_read_where_what_is_asked_about_ends():
    """[CLS] a b c [SEP] d e [SEP]: the pair at e; every token where it is; words of two pieces at the second."""
    ids, marks = [2, 7, 8, 9, 3, 10, 11, 3], [2, 3]
    for places, moved in (([0], [6]), ([1, 2, 3, 5, 6], [1, 2, 3, 5, 6]), ([1, 3, 5], [2, 3, 6]), ([0, 1], [0, 6])):
        item = Item(ids, places, [[0]] * len(places), [[0]] * len(places), len(places), 0)
        for before in ([], [Item([2, 7, 3], [], [], [], 0, 0)]):
            assert read_at_ends(join_items([*before, item]), marks).places.tolist() == moved
    bare = Item([7, 8, 9], [0, 2], [[0]] * 2, [[0]] * 2, 2, 0)
    assert read_at_ends(join_items([bare, bare]), marks).places.tolist() == [1, 2, 1, 2], "without special tokens"


def test_sentences_of_a_pair_are_never_run_together():
    bare = tiny_tokenizer()
    bare.backend_tokenizer.post_processor = None
    assert before_second(["a cat"], tiny_tokenizer()) == ["a cat"] and before_second(["a cat"], bare) == ["a cat\n"]
