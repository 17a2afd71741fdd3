"""The files of a reproduction in invented languages, by name, for a scale that needs no data."""

from collections.abc import Iterable, Iterator, Sequence

from isogloss.papers.muller2021.treebanks import SEED, as_conllu, as_tags, invented_sets
from isogloss.papers.wu2020.scales import Scale
from isogloss.text.corpora import Bitext
from isogloss.text.invented import invented, invented_lexicon
from isogloss.text.readers.inference import NLI

KNOWN, ASKED = 400, 40  # sentences to pretrain on, and to look up


def invented_texts(scale: Scale) -> Iterator[tuple[str, str]]:
    """All files. A sentence of the source and the same with its first two words turned stand for paraphrases."""
    assert scale.text is not None and scale.words is not None
    assert scale.examples is not None and scale.tested is not None
    source, targets = scale.source, scale.targets
    told = scale.examples + 2 * scale.tested  # sentences of the treebanks, which come first
    whole = invented([source, *targets], told + 2 * KNOWN + scale.pairs + ASKED, seed=SEED)
    bitext = whole.take(range(told, whole.rows))
    for corpus in bitext:
        first, other = corpus.sentences[:KNOWN], corpus.sentences[KNOWN : 2 * KNOWN]
        for kind in ("pretrain", "words"):
            yield f"{kind}.{corpus.language}.txt.gz", _lines(first)
        if corpus.language == source:
            yield f"pretrain.{scale.again}.txt.gz", _lines(other)
    learned = bitext.take(range(2 * KNOWN, 2 * KNOWN + scale.pairs))
    asked = bitext.take(range(2 * KNOWN + scale.pairs, bitext.rows))
    pairs = [(one, _turned(one)) for one in learned[source].sentences]
    yield f"parallel.{source}-{scale.again}.tsv", _table((source, scale.again), pairs)
    for target in targets:
        for name, text in (("parallel", learned), ("tatoeba", asked)):
            yield f"{name}.{source}-{target}.tsv", _table((source, target), _rows(text, source, target))
        words = [f"{one} {other}" for one, other in invented_lexicon(source, target, seed=SEED)]
        for split, some in (("train", words[::2]), ("test", words[1::2])):
            yield f"lexicon.{source}-{target}.{split}.txt", _lines(some)
    yield "nli.train.tsv", _inference(bitext[source].sentences[: scale.inferred])
    for name, language in (("dev", source), *((one, one) for one in (source, *targets))):
        start = KNOWN if name == "dev" else scale.inferred
        yield f"nli.{name}.tsv", _inference(bitext[language].sentences[start : start + scale.tested])
    yield from _tasks(scale)


def _tasks(scale: Scale) -> Iterator[tuple[str, str]]:
    assert scale.examples is not None and scale.tested is not None
    sets = invented_sets((scale.source, *scale.targets), {"train": scale.examples, "dev": scale.tested,
                                                          "test": scale.tested})  # fmt: skip
    for part, languages in sets.items():
        for language, words in languages.items():
            if part == "test" or language == scale.source:
                end = "" if part == "test" else f".{part}"
                tree = f"{language}_{scale.treebanks[language]}{end}.conllu"
                yield tree, as_conllu(words, language, name=part)
                yield f"{language}_wikiann{end}.tsv", as_tags(words)


def _inference(sentences: Sequence[str]) -> str:
    """A sentence entails itself, is neutral to the one before it, and contradicts its words read backwards."""
    rows = []
    for number, one in enumerate(sentences):
        label = NLI[number % len(NLI)]
        other = {"entailment": one, "neutral": sentences[number - 1], "contradiction": " ".join(one.split()[::-1])}
        rows.append(f"{one}\t{other[label]}\t{label}")
    return _lines(rows)


def _turned(sentence: str) -> str:
    first, second, *rest = sentence.split()
    return " ".join((second, first, *rest))


def _rows(text: Bitext, source: str, target: str) -> list[tuple[str, str]]:
    return list(zip(text[source].sentences, text[target].sentences, strict=True))


def _table(languages: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    return _lines("\t".join(row) for row in (languages, *rows))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
