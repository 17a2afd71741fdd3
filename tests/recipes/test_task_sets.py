"""Translated sets and code-switching: rows that correspond, draws, cached states, kill and resume."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import isogloss as ig
from isogloss.recipes.task_sets import (
    add_translations,
    dictionary_note,
    read_sets,
    switched_examples,
    switched_items,
    tokenise_set,
)
from isogloss.runs import read_facts
from isogloss.stack.load import load
from isogloss.tasks import TASKS, frozen_prefix
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.tasks.nli import NLI
from isogloss.tasks.task import COLUMNS, chain_items, join_items
from isogloss.text.switching import Switching
from tiny_models import tiny_tokenizer
from tiny_tasks import NOUNS, SMALL, VERBS, write_sets
from tiny_training import interrupted

# A language in which every noun is the next one, and so every verb: its words are in the tiny vocabulary.
NEXT = {word: some[(place + 1) % len(some)] for some in (NOUNS, VERBS) for place, word in enumerate(some)}
AFTER = {word: NEXT[NEXT[word]] for word in NEXT}
ORDER = ["measure", "target", "data", "plan", "selection", "step", "seed"]


def translate(text, words=NEXT):
    return " ".join(words.get(word, word) for word in text.split(" "))


def translate_pairs(source, path, words=NEXT):
    rows = [line.split("\t") for line in source.read_text().splitlines()]
    path.write_text("".join(f"{translate(a, words)}\t{translate(b, words)}\t{c}\n" for a, b, c in rows))
    return path


def translate_questions(source, path, *, keep=lambda number: True):
    """The same questions, each with a mark, about the same contexts with one more word in front."""
    content = json.loads(source.read_text())
    for number, paragraph in enumerate(content["data"][0]["paragraphs"]):
        paragraph["context"] = f"garden {paragraph['context']}"
        for one in paragraph["qas"]:
            one["question"] = f"{one['question']} book"
            one["answers"][0]["answer_start"] += len("garden ")
        paragraph["qas"] = [one for one in paragraph["qas"] if keep(number)]
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", ["qa", "nli"])
def test_examples_that_are_tokenised_in_parts_keep_their_numbers(tmp_path, monkeypatch, name):
    sets = {part: files for part, files in write_sets(tmp_path, name, count=7).items() if part != "task"}
    read = read_sets(TASKS[name], **sets)
    whole = tokenise_set(read, read.train, tiny_tokenizer(), length=40)
    monkeypatch.setattr("isogloss.recipes.task_sets.TOKENISED_TOGETHER", 2)
    parts = tokenise_set(read, read.train, tiny_tokenizer(), length=40)
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(parts, column), getattr(whole, column))
    assert sorted(set(parts.owners.tolist())) == list(range(len(read.train.examples)))


@pytest.fixture
def nli(tmp_path):
    """Arguments of `transfer`, with the training set in two more languages."""
    sets = write_sets(tmp_path / "data", "nli", count=13)
    source = sets["train"]["qaa"]
    return {
        **sets,
        "translated": {
            "qab": translate_pairs(source, tmp_path / "train-qab.tsv"),
            "qac": translate_pairs(source, tmp_path / "train-qac.tsv", AFTER),
        },
    }


@pytest.fixture
def qa(tmp_path):
    sets = write_sets(tmp_path / "data", "qa", count=9)
    return {**sets, "translated": {"qab": translate_questions(sets["train"]["qaa"], tmp_path / "train-qab.json")}}


def read(given, **more):
    task = TASKS[given["task"]]
    sets = read_sets(task, train=given["train"], dev=given["dev"], test=given["test"], **more)
    return add_translations(sets, given["translated"], **more)


def changed(sets, switching, *, seed=0, epoch=0):
    return dict(switched_examples(sets, switching, seed=seed, epoch=epoch))


def test_one_segment_of_a_pair_is_the_sources_and_the_rest_stays(nli):
    sets = read(nli)
    count = len(sets.train.examples)
    every = changed(sets, Switching(1.0))
    assert set(every) == set(range(count, 3 * count)), "the source's own examples have no other source"
    premises = 0
    for number, found in every.items():
        own, row = divmod(number, count)
        mine, source = sets.trained[own].examples[row], sets.train.examples[row]
        assert found.label == mine.label == source.label
        swapped = {(source.first, mine.second): True, (mine.first, source.second): False}
        premises += swapped[found.first, found.second]
    assert 5 < premises < 21, "a coin decides"
    some = [len(changed(sets, Switching(0.5), epoch=epoch)) / (2 * count) for epoch in range(40)]
    assert np.mean(some) == pytest.approx(0.5, abs=0.06)


def test_any_other_language_may_be_drawn_and_never_ones_own(nli):
    sets = read(nli)
    count, seen = len(sets.train.examples), set()
    for epoch in range(6):
        for number, found in changed(sets, Switching(1.0, "any"), epoch=epoch).items():
            own, row = divmod(number, count)
            texts = [{one.examples[row].first, one.examples[row].second} for one in sets.trained]
            foreign = {found.first, found.second} - texts[own]
            assert len(foreign) == 1
            (other,) = [place for place, some in enumerate(texts) if foreign <= some]
            assert other != own
            seen.add((own, other))
    assert seen == {(a, b) for a in range(3) for b in range(3) if a != b}


def test_draws_hang_on_seed_epoch_and_example(nli):
    sets, how = read(nli), Switching(0.5, "any")
    assert changed(sets, how, seed=1, epoch=2) == changed(sets, how, seed=1, epoch=2)
    each = [changed(sets, how, seed=seed, epoch=epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(one != other for place, one in enumerate(each) for other in each[:place])


def test_words_are_replaced_in_text_of_the_source_language_alone(nli):
    words = {"cat": {"qab": ["CAT"]}, "the": {"qac": ["THE"]}}
    sets = read(nli)
    count = len(sets.train.examples)
    every = changed(sets, Switching(words=1.0, dictionary=words))
    assert set(every) <= set(range(count)) and len(every) > 5
    for number, found in every.items():
        one = sets.train.examples[number]
        for now, old in ((found.first, one.first), (found.second, one.second)):
            assert now.split() == [word.upper() if word in words else word for word in old.split()]
    mixed = changed(sets, Switching(1.0, words=1.0, dictionary=words))
    for number in range(count, 3 * count):
        found, source = mixed[number], sets.train.examples[number % count]
        own = sets.trained[number // count].examples[number % count]
        assert found.first == own.first or found.second == own.second, "what is not the source's stays"
        other = found.second if found.first == own.first else found.first
        assert other.lower() in (source.first, source.second)


def test_only_questions_are_switched_and_their_context_holds_the_answer(qa):
    sets = read(qa)
    count = len(sets.train.examples)
    every = changed(sets, Switching(1.0, "any"))
    assert set(every) == set(range(2 * count))
    for number, found in every.items():
        own, row = divmod(number, count)
        mine, other = sets.trained[own].examples[row], sets.trained[1 - own].examples[row]
        assert (found.question, found.context, found.starts) == (other.question, mine.context, mine.starts)


@pytest.mark.parametrize("name", ["nli", "qa"])
def test_items_of_an_epoch_are_those_of_its_examples_tokenised_as_a_whole(name, tiny, request):
    given = request.getfixturevalue(name)
    task, sets = TASKS[name], read(given)
    tokenizer, length = load(tiny("bert"), device="cpu").tokenizer, 20 if name == "nli" else 14
    words = {"cat": {"qab": ["garden garden"]}, "the": {"qab": ["book", "cat cat cat"]}, "old": {"qac": ["man"]}}
    how = Switching(0.5, words=0.5, dictionary=words)

    def whole(examples):
        return join_items(task.encode(examples, sets.labels, tokenizer=tokenizer, length=length))

    plain = [whole(one.examples) for one in sets.trained]
    count = len(sets.train.examples)
    items = chain_items([replace(one, owners=one.owners + number * count) for number, one in enumerate(plain)])
    changing = partial(switched_items, sets, items, how, tokenizer=tokenizer, length=length)
    examples = [one for some in sets.trained for one in some.examples]
    same(items, whole(examples))
    sizes = set()
    for epoch in range(4):
        now = changing(3, epoch)
        new = changed(sets, how, seed=3, epoch=epoch)
        same(now, whole([new.get(number, one) for number, one in enumerate(examples)]))
        sizes.add(len(now))
    assert (len(sizes) > 1) is (name == "qa"), "a longer context has more windows"
    assert switched_items(sets, items, Switching(), 0, 0, tokenizer=tokenizer, length=length) is items


def same(one, other):
    for name in ("ids", "types", "lengths", "places", "counts", "gold", "units", "targets", "owners"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_an_epoch_sees_every_item_once_however_many_there_are(tiny, nli):
    sets, stack = read(nli), load(tiny("bert"), device="cpu")
    items = join_items(NLI.encode(sets.train.examples, sets.labels, tokenizer=stack.tokenizer, length=32))
    model = TaskModel(stack, NLI, sets.labels, seed=0)
    sizes = [13, 12, 10, 19, 3]
    objective = task_objective(
        model, items, batch=4, seed=0, changing=lambda epoch: items.take(np.arange(sizes[epoch]) % 13)
    )
    for epoch, size in enumerate(sizes):
        steps = [objective.draw(4 * epoch + step)[0].rows for step in range(4)]
        seen = [number for rows in steps for number in rows["items"].tolist()]
        assert set(seen) == set(range(size)) and (len(seen) == size or size < 4)
        assert all(1 <= objective.count(rows) == len(rows["items"]) <= 5 for rows in steps)


def test_translations_join_the_training_set_and_their_states_are_kept(tiny, nli, monkeypatch):
    given = {**nli, **SMALL, "plans": "freeze:2", "rate": "1e-2"}
    seen, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(frozen_prefix, "read_prefix", lambda *a, **k: seen.append(len(a[1])) or real(*a, **k))
    tables = [ig.transfer(tiny("bert"), **given, cache=cache) for cache in (True, False)]
    assert seen == [3 * 13, 13, 13, 13, 13] and set(tables[0].selection) == {"", "oracle"}
    losses = tables[0][tables[0].measure == "loss"]
    assert losses.n.sum() == 2 * 3 * 13 and losses.step.max() == 2 * 10
    assert np.allclose(tables[0].value, tables[1].value, atol=1e-4, equal_nan=True)


def test_of_text_that_changes_no_states_are_kept_and_the_rows_say_what_was_switched(tiny, nli, monkeypatch):
    given = {**nli, **SMALL, "plans": "freeze:2", "rate": "1e-2", "switch": 0.5}
    seen, real = [], frozen_prefix.read_prefix
    monkeypatch.setattr(frozen_prefix, "read_prefix", lambda *a, **k: seen.append(len(a[1])) or real(*a, **k))
    kept, plain = (ig.transfer(tiny("bert"), **given, cache=cache) for cache in (True, False))
    assert seen == [13, 13, 13, 13], "those of the scored sets are"
    assert np.allclose(kept.value, plain.value, atol=1e-4, equal_nan=True)
    assert set(kept.plan) == {"freeze:2"} and set(kept.condition) == {"switch:0.5"}
    assert set(kept.selection) == {"", "oracle"}
    still = ig.transfer(tiny("bert"), **{**given, "switch": 0.0})
    first = [table[(table.measure == "loss")].value.iloc[0] for table in (kept, still)]
    assert first[0] != first[1], "another text was trained on"


@pytest.mark.parametrize("after", [3, 11])
def test_a_switched_run_that_was_killed_goes_on_to_the_same_rows(after, tiny, nli, lexicon, tmp_path, monkeypatch):
    given = {**nli, **SMALL, "batch": 6, "switch": 0.5, "switch_to": "any", "lexicon": lexicon, "switch_words": 0.3}
    whole = ig.transfer(tiny("bert"), **given, out=tmp_path / "whole")
    with interrupted(monkeypatch, after=after):
        ig.transfer(tiny("bert"), **given, out=tmp_path / "killed")
    again = ig.transfer(tiny("bert"), **given, out=tmp_path / "killed", resume=True)
    one, other = (table.sort_values(ORDER).reset_index(drop=True) for table in (whole, again))
    assert one.equals(other)
    assert set(one.condition) == {"switch:0.5/any switch-words:0.3"}


@pytest.fixture
def lexicon(tmp_path):
    path = tmp_path / "qaa-qab.txt"
    path.write_text("".join(f"{word}\t{other}\n" for word, other in NEXT.items()) + "cat\tbread\n")
    return {"qab": path}


def test_dictionaries_are_recorded_and_what_they_know_is_told(tiny, nli, lexicon, tmp_path):
    given = {**nli, **SMALL, "epochs": 1, "lexicon": lexicon, "switch_words": 0.5}
    ig.transfer(tiny("bert"), **given, out=tmp_path / "run")
    facts = read_facts(tmp_path / "run")
    assert list(facts["hashes"]["dictionaries"]) == ["qab qaa-qab.txt"]
    assert "translated qac train-qac" in facts["hashes"]["data"]
    sets = read(nli)
    words = [word for one in sets.train.examples for word in f"{one.first} {one.second}".replace("?", " ?").split()]
    share = sum(word in NEXT for word in words) / len(words)
    assert f"{share:.0%} of the words of train (qaa), punctuation included, are in qaa-qab.txt" in facts["notes"]
    with pytest.raises(ig.InputError, match=r"none of the \d+ words of train \(qaa\) that were looked up is in "):
        dictionary_note(sets, Switching(words=0.5, dictionary={"nothing": {"qab": ["x"]}}))
    ig.transfer(tiny("bert"), **given | {"switch_words": 0.0}, out=tmp_path / "none")
    assert "no word is replaced by one of --lexicon: --switch-words is 0" in read_facts(tmp_path / "none")["notes"]
    lexicon["qab"].write_text("chess\tgo\n")
    with pytest.raises(ig.InputError, match="check the languages of --lexicon"):
        ig.transfer(tiny("bert"), **given, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_sweep_over_what_is_switched_tells_jobs_apart_by_their_condition(tiny, nli, tmp_path):
    given = {**nli, **SMALL, "epochs": 1, "plans": "freeze:2"}
    grid = {"switch": [0.0, 1.0], "switch_to": ["source", "any"]}
    table = ig.sweep("transfer", grid=grid, out=tmp_path / "sweep", model=tiny("bert"), **given)
    scores = table[(table.measure == "accuracy") & table.step.isna() & (table.target == "qab")]
    conditions = ["", "switch:1", "switch:1/any"]
    expected = sorted((condition, end) for condition in conditions for end in ("", "oracle"))
    assert sorted(zip(scores.condition, scores.selection, strict=True)) == expected


def test_a_row_that_is_bad_in_one_language_is_left_out_of_all(nli, tmp_path, tiny):
    lines = {name: path.read_text().splitlines() for name, path in nli["translated"].items()}
    lines["qab"][2] = "only one cell"
    lines["qac"][2] = "a\t\tneutral"
    lines["qac"][5] = lines["qac"][5].replace(lines["qac"][5].split("\t")[2], "neutral")
    for name, some in lines.items():
        nli["translated"][name].write_text("\n".join(some) + "\n")
    with pytest.raises(ig.InputError, match=r"train-qab\.tsv:3: 1 cells where 3 were expected"):
        read(nli)
    sets = read(nli, skip_bad=True)
    source = NLI.read(nli["train"]["qaa"], "qaa")
    left = [number for number in range(13) if number not in (2, 5)]
    assert sets.train.examples == [source[number] for number in left]
    for one, words in zip(sets.translated, (NEXT, AFTER), strict=True):
        expected = [
            (translate(row.first, words), translate(row.second, words), row.label) for row in sets.train.examples
        ]
        assert [(row.first, row.second, row.label) for row in one.examples] == expected
    table = ig.transfer(tiny("bert"), **nli, **SMALL, skip_bad=True, out=tmp_path / "run")
    counted = table[table.measure == "skipped"].set_index("target").value
    assert counted.to_dict() == {"qaa": 2, "qab": 2, "qac": 2}
    told = (
        "2 rows that are bad in one of train (qaa), train-qab (qab), train-qac (qac) were left out of all of them, the"
    )
    assert any(note.startswith(told) for note in read_facts(tmp_path / "run")["notes"])


def test_rows_that_do_not_correspond_are_refused_with_file_and_line(nli):
    path = nli["translated"]["qab"]
    whole = path.read_text().splitlines()

    def sentence(lines, **more):
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(ig.InputError) as error:
            read(nli, **more)
        return str(error.value)

    for skip_bad in (False, True):
        short = sentence(whole[:-1], skip_bad=skip_bad)
        assert "train.tsv:13: this row has no counterpart in" in short and "train-qab.tsv, which has 12 rows" in short
        assert "train-qab.tsv:14: this row has no counterpart" in sentence([*whole, whole[0]], skip_bad=skip_bad)
    other = sentence([*whole[:4], whole[4].rpartition("\t")[0] + "\tentailment", *whole[5:]])
    assert "train-qab.tsv:5: the label is 'entailment', and 'neutral' in" in other and "train.tsv:5" in other
    none = sentence([*whole[:4], whole[4].rpartition("\t")[0] + "\t-", *whole[5:]])
    assert "train-qab.tsv:5: this row has no gold label, and" in none


def test_pairs_without_a_gold_label_in_any_language_are_passed_over(nli):
    for path in (nli["train"]["qaa"], *nli["translated"].values()):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:3], lines[3].rpartition("\t")[0] + "\t-", *lines[4:]]) + "\n")
    sets = read(nli)
    assert [len(one.examples) for one in sets.trained] == [12] * 3 and sets.train.skipped == 0


def test_questions_correspond_by_their_id_whatever_their_order(qa, tmp_path):
    path = qa["translated"]["qab"]
    content = json.loads(path.read_text())
    content["data"][0]["paragraphs"].reverse()
    path.write_text(json.dumps(content))
    sets = read(qa)
    for one, other in zip(*(some.examples for some in sets.trained), strict=True):
        assert other.identifier == one.identifier and other.question == f"{one.question} book"
    translate_questions(qa["train"]["qaa"], path, keep=lambda number: number != 4)
    with pytest.raises(ig.InputError, match=r"train\.json: question 4 is not in .*train-qab\.json"):
        read(qa)
    assert [[one.identifier for one in some.examples] for some in read(qa, skip_bad=True).trained] == [
        [str(number) for number in range(9) if number != 4]
    ] * 2


MISTAKES = [
    ({"switch": 1.5}, "--switch is a probability, from 0 to 1, not 1.5"),
    ({"switch_words": -0.1}, "--switch-words is a probability, from 0 to 1, not -0.1"),
    ({"switch": 0.5, "switch_to": "all"}, "--switch-to takes source or any, not 'all'"),
    ({"switch": 0.5, "translated": None}, "--switch takes a segment from an example's translation; give --translated"),
    ({"switch_words": 0.5}, "--switch-words takes words from dictionaries; give --lexicon"),
    ({"translated": [f"qaa={__file__}"]}, "--translated has a set of qaa, the language of --train"),
    ({"translated": ["qab=x.tsv", "qab=y.tsv"]}, "--translated: qab is listed twice; give its files together"),
    ({"translated": ["qab="]}, "--translated qab: no file is named"),
    ({"translated": ["qab=none.tsv"]}, "--translated qab: there is no file none.tsv"),
    ({"lexicon": ["qab=none.txt"], "switch_words": 0.5}, "--lexicon qab: there is no file none.txt"),
    ({"lexicon": [f"qaa={__file__}"], "switch_words": 0.5}, "a lexicon joins two different languages"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_no_folder(change, sentence, tiny, nli, tmp_path):
    with pytest.raises(ig.InputError) as error:
        ig.transfer(tiny("bert"), **{**nli, **SMALL, **change}, out=tmp_path / "run")
    assert sentence in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["ner", "parsing"])
def test_a_task_without_two_segments_is_refused(name, tiny, tmp_path, lexicon):
    sets = write_sets(tmp_path / "data", name)
    for change in ({"translated": sets["train"]}, {"switch": 0.5}, {"lexicon": lexicon, "switch_words": 0.5}):
        with pytest.raises(ig.InputError, match=f"two segments of text, nli and qa; {name} labels single words"):
            ig.transfer(tiny("bert"), **sets, **SMALL, **change)


def test_questions_are_trained_on_in_mixed_languages(tiny, qa, lexicon):
    given = {**qa, **SMALL, "epochs": 1, "switch": 0.5, "lexicon": lexicon, "switch_words": 0.5, "length": 16}
    table = ig.transfer(tiny("bert"), **given)
    assert set(table.condition) == {"switch:0.5 switch-words:0.5"}
    assert len(table[(table.measure == "answer_f1") & table.step.isna() & (table.target == "qab")]) == 2
