"""Token ids, their lengths, which tokens are content and which word each belongs to: one record.

A `Batch` holds some sentences of a corpus, `Sentences` all of them. They are concatenated in flat arrays, without
padding; whether a batch runs packed (without padding) or padded to its longest sentence is decided where it runs. A
`Layout` places sentences in shared rows with few different shapes, as captured updates require. Special tokens are
marked by a mask, never by position, so a `[CLS]` written into the text is not content either.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.text.corpora import Corpus, Span
from isogloss.text.languages import code, is_code, plain
from isogloss.text.words import word_spans

Unit = Literal["sentence", "first", "word", "token"]
NO_WORD = -1
SPACE = "▁"  # how SentencePiece writes a space
PREPARED_AT_ONCE = 2**16  # sentences that are masked together
TOKENISED_AT_ONCE = 2_048  # sentences


@dataclass(frozen=True)
class Batch:
    """Sentences as concatenated token ids.

    ids, content, words: (tokens,); lengths, rows, shortened: (sentences,). `words` is the index of each token's word in
    its sentence (-1: none), `rows` the indices of the sentences in the corpus, `shortened` whether they were truncated
    to the model's length. `types` (tokens,), if given, is 0 and 1 for the first and second sentence of a pair.
    """

    ids: Tensor
    lengths: Tensor
    content: Tensor
    words: Tensor
    rows: Tensor
    shortened: Tensor
    types: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to another device."""
        return replace(self, **{name: values.to(device) for name, values in vars(self).items() if values is not None})

    def take(self, order: Sequence[int]) -> "Batch":
        """These sentences of a batch on the CPU, in this order."""
        chosen = torch.as_tensor(order, dtype=torch.long)
        starts = torch.cumsum(self.lengths, 0) - self.lengths
        lengths, rows, shortened = (values[chosen] for values in (self.lengths, self.rows, self.shortened))
        tokens = torch.from_numpy(ranges(starts[chosen].numpy(), lengths.numpy()))
        ids, content, words = (values[tokens] for values in (self.ids, self.content, self.words))
        types = None if self.types is None else self.types[tokens]
        return Batch(ids, lengths, content=content, words=words, rows=rows, shortened=shortened, types=types)

    def sentence_of_tokens(self) -> Tensor:
        """The index of each token's sentence within the batch, (tokens,)."""
        numbers = torch.arange(len(self.lengths), device=self.lengths.device)
        return torch.repeat_interleave(numbers, self.lengths)

    def items(self, unit: Unit) -> tuple[Tensor, Tensor]:
        """The items of a unit: the sentence in the batch and the index there of each, (items, 2), sorted.

        Also returns the item of each token, (tokens,), -1 for none.
        """
        sentence = self.sentence_of_tokens()
        begins = (torch.cumsum(self.lengths, 0) - self.lengths)[sentence]  # the first token of each token's sentence
        if unit == "word":
            numbers = self.words
        elif unit == "token":
            before = torch.cumsum(self.content, 0) - self.content.long()
            numbers = torch.where(self.content, before - before[begins], -1)
        else:
            is_first = torch.arange(len(begins), device=begins.device) == begins
            numbers = torch.where(self.content if unit == "sentence" else is_first, 0, -1)
        inside, width = numbers >= 0, max(1, int(numbers.max()) + 1)
        keys, index = torch.unique(sentence[inside] * width + numbers[inside], return_inverse=True)
        owners = torch.full_like(numbers, -1)
        owners[inside] = index
        return torch.stack([keys // width, keys % width], dim=1), owners


def encode(tokenizer: Any, corpus: Corpus, rows: Sequence[int], *, max_length: int, words: bool = False) -> Batch:
    """Tokenise the selected sentences of a corpus, in the given order.

    Args:
        tokenizer: a tokenizer of `transformers`.
        corpus: the corpus.
        rows: indices of the sentences.
        max_length: maximum tokens; a longer sentence is truncated, with its special tokens kept, and marked in
            `shortened`.
        words: whether to assign each token to a word, by character offsets; this needs a fast tokenizer. A bare space
            (the piece `▁` of SentencePiece) belongs to no word that has another piece.
    """
    if words:
        refuse_slow(tokenizer)
    texts = [corpus.sentences[row] for row in rows]
    with source_language(tokenizer, corpus.language):
        encoded = tokenizer(
            texts,
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=words,
        )
        lengths = np.array([len(sentence) for sentence in encoded["input_ids"]], dtype=np.int64)
        shortened = np.zeros(len(texts), dtype=bool)
        full = np.flatnonzero(lengths >= max_length)
        if len(full):  # only sentences at the limit may be truncated: they are tokenised again without one
            whole = tokenizer([texts[i] for i in full], verbose=False)["input_ids"]
            shortened[full] = [len(sentence) > max_length for sentence in whole]
    flat = np.fromiter(chain.from_iterable(encoded["input_ids"]), dtype=np.int64)
    content = ~np.isin(flat, marks(tokenizer))
    numbers = np.full(len(flat), NO_WORD, dtype=np.int64)
    if words:
        spans = (word_spans(corpus, row) for row in rows)
        numbers[:] = list(chain.from_iterable(map(word_of_tokens, encoded["offset_mapping"], spans)))
        numbers[~content] = NO_WORD
        # A bare space has the offsets of the following character. It is kept only for a word without other pieces,
        # and not in a truncated sentence, where the other pieces may have been cut off.
        spaces = flat == tokenizer.backend_tokenizer.token_to_id(SPACE)
        keys = np.repeat(np.arange(len(texts)) * (numbers.max(initial=0) + 1), lengths) + numbers  # one key per word
        others = np.isin(keys, keys[~spaces & (numbers != NO_WORD)])
        numbers[spaces & (others | np.repeat(shortened, lengths))] = NO_WORD
    arrays = (flat, lengths, content, numbers, np.array(rows, dtype=np.int64), shortened)
    return Batch(*map(torch.from_numpy, arrays))


@contextmanager
def source_language(tokenizer: Any, language: str) -> Iterator[None]:
    """Make the tokenizer of a translation model mark texts inside the block with the token of their language.

    Otherwise every text would be marked with the same one, usually English. Other tokenizers are left alone.
    """
    own, before = language_token(tokenizer, language), getattr(tokenizer, "src_lang", None)
    if own is None:
        yield
        return
    tokenizer.src_lang = own
    try:
        yield
    finally:
        tokenizer.src_lang = before


def language_token(tokenizer: Any, language: str) -> str | None:
    """What the tokenizer of a translation model calls a language; None if it does not know it or names none.

    NLLB names Dutch nld_Latn, mBART nl_XX, M2M100 nl. Of a language in several scripts, the first one is taken.
    """
    if getattr(tokenizer, "src_lang", None) is None or not is_code(language):
        return None
    names = (str(token).strip("_") for token in tokenizer.all_special_tokens)
    return next((name for name in names if is_code(name) and code(name) == plain(language)), None)


def word_of_tokens(token_offsets: Iterable[Span], spans: Sequence[Span]) -> list[int]:
    """Assign each subword token to a word by the characters they share.

    A token belongs to the word with which it shares most characters, the first one on a tie, or to -1 if it shares none
    (special tokens have empty offsets, some tokens are only a space). Offsets may include the leading space. Word spans
    must be in order (starts and ends never decrease; if several words share one span, the first gets the tokens). Token
    offsets may start again, as in a pair of sentences.

    >>> word_of_tokens([(0, 0), (0, 2), (2, 5), (5, 8), (0, 0)], [(0, 5), (6, 8)])
    [-1, 0, 0, 1, -1]
    """
    owners: list[int] = []
    count = len(spans)
    word, previous = 0, 0
    for start, end in token_offsets:
        if end <= start:
            owners.append(NO_WORD)
            continue
        if start < previous:
            word = bisect_right(spans, start, key=lambda span: span[1])
        previous = start
        while word < count and spans[word][1] <= start:
            word += 1
        best, most = NO_WORD, 0
        candidate = word
        while candidate < count and (begin := spans[candidate][0]) < end:
            shared = min(end, spans[candidate][1]) - max(start, begin)
            if shared > most:
                best, most = candidate, shared
            candidate += 1
        owners.append(best)
    return owners


def refuse_slow(tokenizer: Any) -> None:
    """Raise for a slow tokenizer, which has no character offsets of tokens."""
    if not tokenizer.is_fast:
        raise InputError(
            "words meet subwords through character offsets, which the slow tokenizer of "
            f"{tokenizer.name_or_path!r} does not give; use a model with a fast tokenizer"
        )


@dataclass(frozen=True)
class Sentences:
    """The sentences of one corpus as concatenated token ids, including special tokens.

    ids: (tokens,); lengths: (sentences,). words, characters: their numbers in the text of the ids, without text that
    the tokenizer does not know (`known_text`); for a truncated sentence, the share that was kept. shortened: number of
    truncated sentences.
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
        """The first `limit` sentences in parts: the index of the first sentence, ids and lengths of each part."""
        start, lengths = 0, self.lengths[:limit]
        for first in range(0, len(lengths), PREPARED_AT_ONCE):
            part = lengths[first : first + PREPARED_AT_ONCE]
            tokens = int(part.sum())
            yield first, self.ids[start : start + tokens], part
            start += tokens


def tokenise(tokenizer: Any, corpus: Corpus, *, max_length: int) -> Sentences:
    """Tokenise a whole corpus, each sentence to at most `max_length` tokens; its default name is its language.

    >>> tokenise(tokenizer, Corpus("en", ["a cat", "a dog"]), max_length=512).lengths  # doctest: +SKIP
    array([4, 4])
    """
    require(len(corpus), f"the corpus {corpus.name or corpus.language} has no sentences; give at least one")
    ids, lengths, words, characters, shortened = [], [], 0.0, 0.0, 0
    borders = tokenizer.num_special_tokens_to_add(pair=False)
    unknown = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
    for rows in chunks(range(len(corpus)), TOKENISED_AT_ONCE):
        batch = encode(tokenizer, corpus, rows, max_length=max_length)
        ids.append(batch.ids.numpy().astype(np.int32))
        lengths.append(batch.lengths.numpy())
        in_part = set(batch.sentence_of_tokens()[batch.ids == unknown].tolist())  # sentences with an unknown token
        for number, (row, length, cut) in enumerate(
            zip(rows, batch.lengths.tolist(), batch.shortened.tolist(), strict=True)
        ):
            text, counted = corpus.sentences[row], float(len(word_spans(corpus, row)))
            whole = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if cut else ()
            share = (length - borders) / len(whole) if cut else 1.0
            if number in in_part:
                text, counted = known_text(tokenizer, corpus, row)
            words += share * counted
            characters += share * len(text)
            shortened += cut
        progress(f"tokenising {corpus.language}", rows[-1] + 1, len(corpus))
    flat, counts = np.concatenate(ids), np.concatenate(lengths)
    name = corpus.name or corpus.language
    return Sentences(
        corpus.language,
        name,
        ids=flat,
        lengths=counts,
        words=round(words),
        characters=round(characters),
        shortened=shortened,
    )


def known_text(tokenizer: Any, corpus: Corpus, row: int) -> tuple[str, float]:
    """A sentence without what its tokenizer does not know, and the number of words in it, with shares of words.

    An unknown token is never predicted: with the text behind it, a loss per word, character or byte would be the lower
    the less of a text is known. Left out are the characters of unknown tokens and the space before them (which some
    vocabularies predict as a piece of its own; its loss stays). A slow
    tokenizer has no character offsets; its sentences are returned whole.

    >>> known_text(tokenizer, Corpus("en", ["a 𒍅 cat"]), 0)  # doctest: +SKIP
    ('a cat', 2.0)
    """
    text, spans = corpus.sentences[row], word_spans(corpus, row)
    if tokenizer.unk_token_id is None or not tokenizer.is_fast:
        return text, float(len(spans))
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    known = np.ones(len(text), dtype=bool)
    for number, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        if number == tokenizer.unk_token_id:
            known[len(text[:start].rstrip()) : end] = False
    return "".join(compress(text, known)), float(sum(known[start:end].mean() for start, end in spans if start < end))


def padded_rows(chosen: Sequence[int] | np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Token indices of the chosen sentences as padded rows (rows, longest), and a mask that is False at padding.

    >>> numbers, text = padded_rows([2, 0], starts=np.array([0, 3, 7]), lengths=np.array([3, 4, 2]))
    >>> numbers.tolist(), text[0].tolist()
    ([[7, 8, 0], [0, 1, 2]], [True, True, False])
    """
    position = np.arange(max(1, lengths[chosen].max()))
    text = position < lengths[chosen][:, None]  # (rows, longest)
    return np.where(text, starts[chosen][:, None] + position, 0), text


@dataclass(frozen=True)
class Layout:
    """Sentences laid out in rows, several complete ones to a row.

    slots (tokens,): the indices of the concatenated tokens in the flattened table. positions, texts (rows, length): the
    position of each token in its sentence, and the index of that sentence; 0 and -1 at padding.
    """

    slots: np.ndarray
    positions: np.ndarray
    texts: np.ndarray

    def spread(self, values: np.ndarray, empty: int = 0) -> np.ndarray:
        """Values of the tokens, (tokens,), as a table, (rows, length) int64; empty: the value at padding."""
        table = np.full(self.texts.shape, empty, dtype=np.int64)
        table.flat[self.slots] = values
        return table


def layout_of(lengths: np.ndarray) -> Layout:
    """Lay out sentences of these lengths in tables with few different shapes over all batches: see `size_of`.

    Rows are as long as the longest sentence, rounded up to a multiple of 64 tokens.

    >>> table = layout_of(np.array([2, 3]))
    >>> table.texts.shape, table.texts[0, :6].tolist(), table.positions[0, :6].tolist(), table.slots.tolist()
    ((2, 64), [1, 1, 1, 0, 0, -1], [0, 1, 2, 0, 1, 0], [3, 4, 0, 1, 2])
    """
    length = -(-int(lengths.max()) // 64) * 64
    rows, places = fit(lengths.tolist(), length)
    slots, shape = ranges(rows * length + places, lengths), (size_of(int(rows.max()) + 1), length)
    empty = Layout(slots, np.zeros(shape, dtype=np.int64), np.full(shape, -1))
    positions = empty.spread(ranges(np.zeros_like(lengths), lengths))
    return replace(empty, positions=positions, texts=empty.spread(np.repeat(np.arange(len(lengths)), lengths), -1))


def fit(lengths: Sequence[int], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Pack texts into few rows of `length` tokens: the row of each, and its position there, (texts,) int64 each.

    Texts are placed longest first, each into the row with the least sufficient room (best fit decreasing).

    >>> rows, places = fit([3, 6, 4, 5], 10)
    >>> rows.tolist(), places.tolist()
    ([1, 0, 0, 1], [5, 0, 6, 0])
    """
    rows, places = np.empty((2, len(lengths)), dtype=np.int64)
    having: list[list[int]] = [[] for _ in range(length + 1)]  # rows by the room left in them
    rooms, count = 0, 0  # bit r: a row with room r exists
    for text in sorted(range(len(lengths)), key=lambda text: -lengths[text]):
        size = lengths[text]
        fitting = rooms >> size
        room = size + (fitting & -fitting).bit_length() - 1 if fitting else length
        if fitting:
            row = having[room].pop()
            rooms ^= 0 if having[room] else 1 << room
        else:
            row, count = count, count + 1
        rows[text], places[text] = row, length - room
        having[room - size].append(row)
        rooms |= 1 << (room - size)
    return rows, places


def size_of(count: int) -> int:
    """Round up a number of rows or places, so that few sizes occur and at most a quarter is unused.

    >>> [size_of(count) for count in (1, 3, 8, 9, 31, 100)]
    [2, 4, 8, 10, 32, 112]
    """
    step = max(2, 1 << max(0, count.bit_length() - 3))
    return -(-count // step) * step


def marks(tokenizer: Any) -> list[int]:
    """Ids that are not content: sentence borders, padding, language codes; a masked or unknown word is content.

    Some decoders have one token for border and unknown, which counts as a border.
    """
    names = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
    borders = {i for name in names if (i := getattr(tokenizer, name, None)) is not None}
    return sorted(borders | (set(tokenizer.all_special_ids) - {tokenizer.unk_token_id, tokenizer.mask_token_id}))


def group(lengths: Sequence[int], *, tokens: int) -> Iterator[list[int]]:
    """Group sentences into batches of similar length, at most `tokens` padded tokens each, longest first.

    Every index from 0 to len(lengths) - 1 is in exactly one batch.

    >>> list(group([3, 9, 3, 8], tokens=18))
    [[1, 3], [0, 2]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    start = 0
    while start < len(order):
        size = max(1, tokens // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def batch_tokens(device: torch.device, *, padded: bool = False) -> int:
    """The default number of tokens of a batch on a device.

    padded: whether sentences are padded to the longest of their batch. On a CPU a larger batch then costs more padding
    than it saves.
    """
    return 65_536 if device.type == "cuda" else 1_024 if padded else 2_048


def chunks(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """Split rows into consecutive pieces of `size`; each row is in exactly one piece."""
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def ranges(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Concatenate the ranges of the given starts and sizes: (k,), (k,) -> (sum of sizes,).

    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.repeat(begins - before, sizes) + np.arange(int(sizes.sum())))
