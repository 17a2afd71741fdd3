"""Sentences, sentences that translate each other, and words that translate each other: frozen records.

A word is a span of characters in its sentence. That is what lets whitespace text, Chinese, and the tokens of
a treebank meet the subwords of any tokenizer: both sides are intervals over the same characters.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isogloss.errors import InputError

Span = tuple[int, int]
Link = tuple[int, int]


@dataclass(frozen=True)
class Corpus:
    """Sentences of one language.

    `words` holds, per sentence, the character span `(start, end)` of each word; None means the language's
    default segmentation (`isogloss.text.words.spans`). `name` is where the text came from, for tables and
    messages.
    """

    language: str
    sentences: Sequence[str]
    words: Sequence[Sequence[Span]] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.sentences, str):
            raise InputError(f"the corpus of {self.language} is one text; give a list of sentences")

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.sentences)

    def __iter__(self) -> Iterator[str]:
        """The sentences in order."""
        return iter(self.sentences)

    @property
    def fingerprint(self) -> str:
        """A hash of the language, the sentences and their words."""
        digest = hashlib.sha256(self.language.encode())
        for sentence in self.sentences:
            digest.update(sentence.encode("utf-8", "surrogatepass") + b"\n")
        digest.update(b"" if self.words is None else repr([list(map(tuple, one)) for one in self.words]).encode())
        return digest.hexdigest()

    def take(self, rows: Sequence[int]) -> "Corpus":
        """The sentences at these rows, in this order."""
        words = None if self.words is None else [self.words[row] for row in rows]
        return Corpus(self.language, [self.sentences[row] for row in rows], words, self.name)


@dataclass(frozen=True)
class Bitext:
    """Corpora whose rows translate each other: two languages or many.

    Unpacks into its corpora: `en, nl = bitext`. `links` maps a pair of languages to each row's word links,
    pairs of word numbers (source word, target word) under the two corpora's segmentation. `dropped` counts
    the rows a reader left out because a side was empty or missing.
    """

    corpora: tuple[Corpus, ...]
    links: Mapping[tuple[str, str], Sequence[Sequence[Link]]] = field(default_factory=dict)
    name: str = ""
    dropped: int = 0

    def __post_init__(self) -> None:
        lengths = {corpus.language: len(corpus) for corpus in self.corpora}
        if len(lengths) < len(self.corpora):
            raise InputError(f"{self.name or 'bitext'}: a language is listed twice in {self.languages}")
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{corpus.name or corpus.language} has {len(corpus):,} lines" for corpus in self.corpora)
            raise InputError(f"the sides of a bitext must have equally many lines: {counts}")

    def __iter__(self) -> Iterator[Corpus]:
        """The corpora, so that a bitext unpacks into its languages."""
        return iter(self.corpora)

    @property
    def languages(self) -> tuple[str, ...]:
        """Language codes in order."""
        return tuple(corpus.language for corpus in self.corpora)

    @property
    def rows(self) -> int:
        """Number of parallel rows."""
        return len(self.corpora[0])

    @property
    def distinct_rows(self) -> list[int]:
        """The rows that repeat no earlier one in every language: a repeat is perfectly similar to itself."""
        seen: dict[tuple[str, ...], int] = {}
        for number, sentences in enumerate(zip(*(corpus.sentences for corpus in self.corpora), strict=True)):
            seen.setdefault(sentences, number)
        return list(seen.values())

    @property
    def fingerprint(self) -> str:
        """A hash of all sides and links."""
        digest = hashlib.sha256("".join(corpus.fingerprint for corpus in self.corpora).encode())
        digest.update(repr(sorted((pair, [list(one) for one in rows]) for pair, rows in self.links.items())).encode())
        return digest.hexdigest()

    def __getitem__(self, language: str) -> Corpus:
        """The corpus of one language."""
        for corpus in self.corpora:
            if corpus.language == language:
                return corpus
        raise InputError(f"{self.name or 'bitext'} has no language {language!r}; it has {', '.join(self.languages)}")

    def take(self, rows: Sequence[int]) -> "Bitext":
        """The rows at these numbers, in this order, with their links."""
        links = {pair: [each[row] for row in rows] for pair, each in self.links.items()}
        return Bitext(tuple(corpus.take(rows) for corpus in self.corpora), links, self.name, self.dropped)


def bitexts_of(given: Sequence[Any]) -> list[Bitext]:
    """Parallel text as recipes are given it: bitexts, and before them corpora one by one, the sides of one more."""
    for one in given:
        if not isinstance(one, Bitext | Corpus):
            raise InputError(f"parallel text is a Bitext or a Corpus, as read_bitext reads them, not {_shortened(one)}")
    corpora = tuple(one for one in given if isinstance(one, Corpus))
    return [*([Bitext(corpora)] if corpora else []), *(one for one in given if isinstance(one, Bitext))]


def check_corpus(given: Any) -> None:
    """Sentences alone do not tell their language, and with it their words."""
    if not isinstance(given, Corpus):
        raise InputError(f"sentences are given as a Corpus, as in Corpus('en', sentences), not {_shortened(given)}")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:56]} ..."


@dataclass(frozen=True)
class Lexicon:
    """Word pairs of two languages; a source word may have several translations."""

    source: str
    target: str
    pairs: Sequence[tuple[str, str]]
    name: str = ""

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The pairs in order."""
        return iter(self.pairs)
