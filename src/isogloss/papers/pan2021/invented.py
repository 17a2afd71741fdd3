"""The texts of the smoke scale, of invented languages: something a tiny model can learn, and that means nothing."""

import json
from collections.abc import Sequence

from isogloss.papers.jexus2020.texts import invented_texts
from isogloss.text.corpora import Corpus
from isogloss.text.invented import invented

SEED = 3
Files = dict[str, str]


def invented_files(
    source: str,
    targets: Sequence[str],
    *,
    known: int,
    pairs: int,
    examples: int,
    compared: int,
    evaluated: int,
    shares: Sequence[float],
) -> Files:
    """Every file by its name: text to pretrain on, pairs in parts, what is compared, and both tasks.

    shares: where the parts of the pairs end, as shares of them.
    """
    languages = (source, *targets)
    bitext = invented(languages, known + pairs + 2 * compared + evaluated + 3 * examples, seed=SEED)
    ends, parts = 0, {}
    for name, count in (("known", known), ("pairs", pairs), ("xnli", compared), ("tatoeba", compared),
                        ("evaluate", evaluated), ("qa", 3 * examples)):  # fmt: skip
        parts[name] = bitext.take(range(ends, ends + count))
        ends += count
    found = {f"known/{one.language}.txt": _lines(one.sentences) for one in parts["known"]}
    found |= {f"evaluate/{one.language}.txt": _lines(one.sentences) for one in parts["evaluate"]}
    first, *others = parts["pairs"].corpora
    borders = [0, *(round(share * pairs) for share in shares)]
    for other in others:
        for part, (start, end) in enumerate(zip(borders, borders[1:], strict=False)):
            found[f"pairs/{part}/{source}-{other.language}.tsv"] = _columns(first, other, start=start, end=end)
    found[f"compared/xnli.{'-'.join(languages)}.tsv"] = _columns(*parts["xnli"])
    head, *rest = parts["tatoeba"].corpora
    for other in rest:
        found[f"compared/tatoeba.{source}-{other.language}.tsv"] = _columns(head, other)
    found |= _inference(source, targets, examples)
    for corpus in parts["qa"]:
        sets = [corpus.sentences[part * examples : (part + 1) * examples] for part in range(3)]
        if corpus.language == source:
            found["qa/squad-train.json"] = _questions(sets[0])
            found["qa/squad-dev.json"] = _questions(sets[1][: 3 * 12])
        found[f"qa/xquad-{corpus.language}.json"] = _questions(sets[2])
        found[f"qa/mlqa-{corpus.language}.json"] = _questions(sets[1])
    return found


def _inference(source: str, targets: Sequence[str], examples: int) -> Files:
    """Pairs of jexus2020's invented languages; their development sets are what is translated."""
    tables = invented_texts(source, targets, pairs=examples, known=0)
    named = {"mnli-train": "mnli-train", "mnli-dev": "mnli-dev", f"xnli-train-{source}": "mnli-dev"}
    named |= {f"xnli-train-{one}": f"xnli-dev-{one}" for one in targets}
    named |= {f"xnli-test-{one}": f"xnli-test-{one}" for one in (source, *targets)}
    return {f"nli/{name}.tsv": _lines(["\t".join(row) for row in tables[key]]) for name, key in named.items()}


def _questions(sentences: Sequence[str]) -> str:
    """Three sentences are a text; asked by the first two words of the second, its last word is the answer."""
    paragraphs = []
    for number in range(0, len(sentences) - 2, 3):
        before, asked, after = sentences[number : number + 3]
        words = asked.rstrip(".").split()
        start = len(before) + 1 + asked.rindex(words[-1])
        answer = {"text": words[-1], "answer_start": start}
        entry = {"id": str(number), "question": " ".join(words[:2]), "answers": [answer]}
        paragraphs.append({"context": f"{before} {asked} {after}", "qas": [entry]})
    return json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})


def _columns(*corpora: Corpus, start: int = 0, end: int | None = None) -> str:
    rows = zip(*(corpus.sentences[start:end] for corpus in corpora), strict=True)
    return _lines(["\t".join(corpus.language for corpus in corpora), *map("\t".join, rows)])


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{one}\n" for one in lines)
