"""A corpus as token ids in memory: sentences end to end, special tokens included, with the words they stand for.

Text for one pass over all of it, as fine-tuning and evaluation make it; text of any size is in `isogloss.text.streams`,
and `cut_stream` makes sentences of such a stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.text.batches import chunks, encode
from isogloss.text.corpora import Corpus
from isogloss.text.masking import Masking
from isogloss.text.streams import Frame, Stream, lay_out, read_spans, texts_of
from isogloss.text.words import word_spans

PREPARED_AT_ONCE = 2**16  # sentences that are masked together
SHORTEST = 8  # tokens of a last stream that is worth predicting in
TOKENISED_AT_ONCE = 2_048  # sentences


@dataclass(frozen=True)
class Sentences:
    """The sentences of one corpus as token ids, special tokens included, end to end.

    ids: (tokens,); lengths: (sentences,). words and characters are those the ids stand for: of a sentence that was cut
    to the model's length, the share that was kept. shortened: how many were cut.
    """

    language: str
    name: str
    ids: np.ndarray
    lengths: np.ndarray
    words: int
    characters: int
    shortened: int

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.lengths)

    def parts(self, limit: int | None) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The first `limit` sentences, so many at a time: the number of the first, ids and lengths."""
        start, lengths = 0, self.lengths[:limit]
        for first in range(0, len(lengths), PREPARED_AT_ONCE):
            some = lengths[first : first + PREPARED_AT_ONCE]
            yield first, self.ids[start : start + int(some.sum())], some
            start += int(some.sum())

    def content_tokens(self, masking: Masking, limit: int | None = None) -> int:
        """How many tokens could be masked; refused where the first `limit` sentences have none."""

        def counted(most: int | None) -> int:
            return sum(int(masking.content(ids).sum()) for _, ids, _ in self.parts(most))

        if not counted(limit):
            first = "" if limit is None else f" in its first {limit} sentences"
            title = f"{self.name} ({self.language})" if self.name else f"of {self.language}"
            raise InputError(f"the corpus {title} has no token that could be masked{first}; give text that it knows")
        return counted(None)


def cut_stream(stream: Stream, *, length: int, frame: Frame | None = None) -> Sentences:
    """A stream as sentences of `length` tokens, and a shorter last one that is worth predicting in.

    With `frame`, the special tokens around a text, its `texts_of` at most that length instead, each in its frame.
    """
    ids = stream.ids
    if frame is None:
        lengths = np.full(len(ids) // length, length)
        lengths = np.append(lengths, len(ids) % length) if len(ids) % length >= SHORTEST else lengths
        ids = ids[: int(lengths.sum())]
    else:
        begins, ends = texts_of(ids, frame, length=length)
        lengths = ends - begins + sum(map(len, frame))
        plain = read_spans([ids], np.zeros_like(begins), begins, ends - begins)
        shape = 1, int(lengths.sum())
        ids = lay_out([plain], np.cumsum(lengths) - lengths, shape, frame, padding=0)[0].ravel()
    kept = min(1.0, len(ids) / max(1, stream.tokens))  # of the text; words and characters are those of what is kept
    counts = round(kept * stream.words), round(kept * stream.characters)
    return Sentences(stream.language, "", ids, lengths, *counts, 0)


def tokenise(tokenizer: Any, corpus: Corpus, *, max_length: int) -> Sentences:
    """Token ids of a whole corpus, each sentence at most `max_length` long; without a name it is called its language.

    >>> tokenise(tokenizer, Corpus("en", ["a cat", "a dog"]), max_length=512).lengths  # doctest: +SKIP
    array([4, 4])
    """
    require(len(corpus), f"the corpus {corpus.name or corpus.language} has no sentences; give at least one")
    ids, lengths, words, characters, shortened = [], [], 0.0, 0.0, 0
    borders = tokenizer.num_special_tokens_to_add(pair=False)
    for rows in chunks(range(len(corpus)), TOKENISED_AT_ONCE):
        batch = encode(tokenizer, corpus, rows, max_length=max_length)
        ids.append(batch.ids.numpy().astype(np.int32))
        lengths.append(batch.lengths.numpy())
        for row, length, cut in zip(rows, batch.lengths.tolist(), batch.shortened.tolist(), strict=True):
            text = corpus.sentences[row]
            whole = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if cut else ()
            share = (length - borders) / len(whole) if cut else 1.0
            words += share * len(word_spans(corpus, row))
            characters += share * len(text)
            shortened += cut
        progress(f"tokenising {corpus.language}", rows[-1] + 1, len(corpus))
    flat, counts = np.concatenate(ids), np.concatenate(lengths)
    name = corpus.name or corpus.language
    return Sentences(corpus.language, name, flat, counts, round(words), round(characters), shortened)


def padded_rows(chosen: Sequence[int] | np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where the tokens of some sentences lie, as padded rows: numbers (rows, longest), and bool, what is no padding.

    >>> numbers, text = padded_rows([2, 0], starts=np.array([0, 3, 7]), lengths=np.array([3, 4, 2]))
    >>> numbers.tolist(), text[0].tolist()
    ([[7, 8, 0], [0, 1, 2]], [True, True, False])
    """
    position = np.arange(max(1, lengths[chosen].max()))
    text = position < lengths[chosen][:, None]  # (rows, longest)
    return np.where(text, starts[chosen][:, None] + position, 0), text
