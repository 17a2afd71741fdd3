"""Small files of every task in invented languages, and what trains on them in a second."""

import json

import numpy as np

from isogloss.stack.load import load
from isogloss.tasks import TASKS
from isogloss.tasks.model import TaskModel, predict, task_objective
from isogloss.tasks.task import join_items
from isogloss.training.loop import Optimisation, Processes, Settings, Training, train

NOUNS = ("cat", "chair", "book", "garden", "man", "water", "bread", "cheese")
VERBS = ("sleeps", "drink", "eat", "reads", "goes")
SMALL = {"epochs": 2, "batch": 4, "rate": "1e-3", "device": "cpu", "checkpoint": 3}


def draw(rng, words):
    return words[int(rng.integers(len(words)))]


def nli_rows(rng, count):
    """The label hangs on what the second sentence is about."""
    labels = ("entailment", "neutral", "contradiction")
    for number in range(count):
        first = f"the {draw(rng, NOUNS)} {draw(rng, VERBS)} on the {draw(rng, NOUNS)}"
        ends = {"entailment": "yes", "neutral": "the old garden", "contradiction": "does it not?"}
        label = labels[number % 3]
        yield f"{first}\t{draw(rng, NOUNS)} {ends[label]}\t{label}\n"


def sentence(rng):
    """Words, universal parts of speech, tags of entities."""
    noun, verb, other = draw(rng, NOUNS), draw(rng, VERBS), draw(rng, NOUNS)
    words = ["the", noun, verb, "on", "the", other]
    entities = ["O", "B-PER" if noun in NOUNS[:4] else "O", "O", "O", "B-LOC", "I-LOC"]
    return words, ["DET", "NOUN", "VERB", "ADP", "DET", "NOUN"], entities


def pos_rows(rng, count):
    for _ in range(count):
        words, tags, _ = sentence(rng)
        for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
            yield "\t".join([str(number), word, "_", tag, *["_"] * 6]) + "\n"
        yield "\n"


def ner_rows(rng, count):
    for _ in range(count):
        words, _, tags = sentence(rng)
        yield from (f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
        yield "\n"


def parsing_rows(rng, count):
    """Where the last noun hangs, and what the first one is, hangs on the nouns."""
    for _ in range(count):
        words, tags, _ = sentence(rng)
        near, subject = words[5] in NOUNS[:4], words[1] in NOUNS[:4]
        heads = [2, 3, 0, 6, 6, 2 if near else 3]
        relations = ["det", "nsubj" if subject else "obl:agent", "root", "case", "det", "nmod" if near else "obl"]
        for number, row in enumerate(zip(words, tags, heads, relations, strict=True), 1):
            yield "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_\n".format(number, *row)
        yield "\n"


def qa_rows(rng, count):
    """The question says which of two nouns is the answer."""
    paragraphs = []
    for number in range(count):
        words, _, _ = sentence(rng)
        context, last = " ".join(words), bool(rng.integers(2))
        start = context.rindex(words[5]) if last else len("the ")
        answer = {"text": words[5] if last else words[1], "answer_start": start}
        asked = "which (some) lunch?" if last else "does it not?"
        paragraphs.append({"context": context, "qas": [{"id": str(number), "question": asked, "answers": [answer]}]})
    yield json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})


# What each task's files hold: a new one adds a line.
WRITERS = {
    "nli": (nli_rows, "tsv"),
    "nli-mean": (nli_rows, "tsv"),
    "pos": (pos_rows, "conllu"),
    "ner": (ner_rows, "tsv"),
    "parsing": (parsing_rows, "conllu"),
    "qa": (qa_rows, "json"),
}


def write_task(folder, name, *, count, seed=0, called=None):
    """A file of a task with so many examples."""
    rows, suffix = WRITERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{called or name}.{suffix}"
    path.write_text("".join(rows(np.random.default_rng(seed), count)), encoding="utf-8")
    return path


def write_sets(folder, name, *, count=12):
    """Keyword arguments of `transfer`: qaa is trained in, qab tested besides."""
    made = {
        part: write_task(folder, name, count=count, seed=number, called=part)
        for number, part in enumerate(("train", "dev-qaa", "dev-qab", "test-qaa", "test-qab"))
    }
    return {
        "task": name,
        "train": {"qaa": made["train"]},
        "dev": {"qaa": made["dev-qaa"], "qab": made["dev-qab"]},
        "test": {"qaa": made["test-qaa"], "qab": made["test-qab"]},
    }


def read_task(name, path):
    """Task, examples, labels."""
    task = TASKS[name]
    examples = task.read(path, "qaa")
    return task, examples, task.labels(examples)


def learn(model, task, examples, labels):
    """Train a folder's model on examples; returns the task's model and the items."""
    stack = load(model, device="cpu")
    items = join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64))
    learner = TaskModel(stack, task, labels, seed=0)
    objective = task_objective(learner, items, batch=len(items), seed=0)
    training = Training(learner, objective, Settings(60, 0, Optimisation(3e-3)), Processes(0, 1, stack.device))
    for _ in train(training):
        pass
    return learner, items


def said(learner, task, examples, items):
    return predict(learner, examples, items)
