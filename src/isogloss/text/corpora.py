"""Corpora, bitexts and lexicons as frozen records.

A word is a span of characters in its sentence. So the words of whitespace text, of Chinese and of a treebank can be
matched with the subwords of any tokenizer: both are intervals over the same characters.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from isogloss.errors import InputError, require
from isogloss.text.languages import code

Span = tuple[int, int]
Link = tuple[int, int]
Links = Mapping[tuple[str, str], Sequence[Sequence[Link]]]


@dataclass(frozen=True)
class Corpus:
    """Sentences of one language.

    `words` holds, per sentence, the character span `(start, end)` of each word; None means the language's default
    segmentation (`isogloss.text.words.spans`). `name` is the origin of the text, for tables and messages.
    """

    language: str
    sentences: Sequence[str]
    words: Sequence[Sequence[Span]] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.sentences, str):
            raise InputError(f"the corpus of {self.language} is one text; give a list of sentences")
        if strange := [item for item in self.sentences if not isinstance(item, str)]:
            raise InputError(f"{self.title} holds {shortened(strange[0])} where a sentence was expected")
        if self.language:
            code(self.language)  # raises for an unknown code

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.name or (f"the corpus of {self.language}" if self.language else "the list of sentences")

    @property
    def fingerprint(self) -> str:
        """A hash of the language, the sentences and their words."""
        digest = hashlib.sha256(self.language.encode())
        for sentence in self.sentences:
            digest.update(sentence.encode("utf-8", "surrogatepass") + b"\n")
        digest.update(b"" if self.words is None else repr([list(map(tuple, row)) for row in self.words]).encode())
        return digest.hexdigest()

    def take(self, rows: Sequence[int]) -> "Corpus":
        """The sentences at these rows, in this order."""
        words = None if self.words is None else [self.words[row] for row in rows]
        return Corpus(self.language, [self.sentences[row] for row in rows], words, self.name)


@dataclass(frozen=True)
class Bitext:
    """Corpora of two or more languages whose rows are translations of each other.

    Unpacks into its corpora: `en, nl = bitext`. `links` maps a pair of languages to each row's word links, pairs of
    indices (source word, target word) under the two corpora's segmentation. `dropped` counts the rows that a reader
    left out because a side was empty or missing.
    """

    corpora: tuple[Corpus, ...]
    links: Links = field(default_factory=dict)
    name: str = ""
    dropped: int = 0

    def __post_init__(self) -> None:
        lengths = {corpus.language: len(corpus) for corpus in self.corpora}
        twice = f"{self.name or 'bitext'}: a language is listed twice in {self.languages}"
        require(len(lengths) == len(self.corpora), twice)
        counts = ", ".join(f"{corpus.name or corpus.language} has {len(corpus):,} lines" for corpus in self.corpora)
        require(len({*lengths.values()}) <= 1, f"the sides of a bitext must have equally many lines: {counts}")

    def __iter__(self) -> Iterator[Corpus]:
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
        """The rows that do not repeat an earlier row in every language."""
        seen: dict[tuple[str, ...], int] = {}
        for number, sentences in enumerate(zip(*(corpus.sentences for corpus in self.corpora), strict=True)):
            seen.setdefault(sentences, number)
        return list(seen.values())

    @property
    def fingerprint(self) -> str:
        """A hash of all sides and links."""
        digest = hashlib.sha256("".join(corpus.fingerprint for corpus in self.corpora).encode())
        digest.update(repr(sorted((pair, [list(row) for row in rows]) for pair, rows in self.links.items())).encode())
        return digest.hexdigest()

    def __getitem__(self, language: str) -> Corpus:
        for corpus in self.corpora:
            if corpus.language == language:
                return corpus
        raise InputError(f"{self.name or 'bitext'} has no language {language!r}; it has {', '.join(self.languages)}")

    def take(self, rows: Sequence[int]) -> "Bitext":
        """The rows at these indices, in this order, with their links."""
        links = {pair: [each[row] for row in rows] for pair, each in self.links.items()}
        return Bitext(tuple(corpus.take(rows) for corpus in self.corpora), links, self.name, self.dropped)

    def keep(self, rows: Sequence[int]) -> "Bitext":
        """Like `take`, but the other rows count as unusable and are added to `dropped`."""
        unused = self.rows - len(rows)
        return replace(self.take(rows), dropped=self.dropped + unused) if unused else self


@dataclass(frozen=True)
class Lexicon:
    """Word pairs of two languages; a source word may have several translations."""

    source: str
    target: str
    pairs: Sequence[tuple[str, str]]
    name: str = ""

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    @property
    def fingerprint(self) -> str:
        """A hash of the languages and the pairs."""
        return hashlib.sha256(repr((self.source, self.target, list(self.pairs))).encode()).hexdigest()


def bitexts_of(given: Sequence[Any]) -> list[Bitext]:
    """Convert the parallel text given to a recipe: bitexts are kept, and single corpora are joined into one more."""
    for item in given:
        if not isinstance(item, Bitext | Corpus):
            raise InputError(
                "parallel text is a Bitext, as read_bitext reads it, or Corpus(language, sentences) for each "
                f"language, not {shortened(item)}"
            )
    corpora = tuple(item for item in given if isinstance(item, Corpus))
    return [*([Bitext(corpora)] if corpora else []), *(item for item in given if isinstance(item, Bitext))]


def shortened(value: Any) -> str:
    """The repr of a value for an error message, at most 60 characters."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:56]} ..."


def complete_rows(bitext: Bitext) -> Bitext:
    """The rows of a bitext that have text on every side; the others are counted in `dropped`.

    Many data sets mark a missing translation by an empty cell. Such a row is left out on every side, together with its
    word links.
    """
    name, languages = bitext.name, ", ".join(bitext.languages)
    require(len(bitext.corpora) >= 2, f"{name}: a bitext needs two languages or more, here {languages}")
    cells = enumerate(zip(*bitext, strict=True))
    rows = [row for row, texts in cells if all(text and not text.isspace() for text in texts)]
    require(rows, f"{name}: no row has text in every one of {languages}")
    return bitext.keep(rows)


def letters(sentence: str) -> str:
    """The letters and digits of a sentence, in lower case, by which duplicates are recognised.

    >>> letters("Ja, natürlich!") == letters("ja natürlich")
    True
    """
    return "".join(letter for letter in sentence.casefold() if letter.isalnum())
