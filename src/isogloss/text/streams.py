"""Text as token ids on disk: written once, concatenated, then read at any position without loading it.

A `Stream` is the text of one language. Every paragraph is written as `[CLS] ... [SEP]`, directly followed by the next.
Training cuts rows of a fixed length out of it, so that nothing is padded.

A `PairStream` contains pairs of translations. Sides are concatenated without special tokens: source 1, target 1, source
2, ... A second array contains the start of each.

The arrays are `.npy` files (memory-mapped, so that a corpus may be larger than memory), the counts a `.json` file
beside them.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from isogloss.errors import readable
from isogloss.files import whole, write_text
from isogloss.progress import progress
from isogloss.text.batches import Sentences, ranges, refuse_slow
from isogloss.text.words import spans

_AT_ONCE = 2_000  # paragraphs or pairs that are tokenised together
_SEARCHED = 2**24  # tokens that are searched at a time for ends of paragraphs and sentences
_SENTENCE_ENDS = tuple(".!?…。！？؟।")
_SHORTEST = 8  # minimum tokens of a last, shorter stream
_CHARACTERS = 2_000_000  # maximum characters of paragraphs that are tokenised together


@dataclass(frozen=True)
class Stream:
    """One language's text as token ids.

    ids: (tokens,), uint16, or uint32 for a large vocabulary, memory-mapped, including special tokens. words: counted as
    by `isogloss.text.words`, including punctuation marks and single ideographs.
    """

    language: str
    ids: np.ndarray
    tokens: int
    paragraphs: int
    characters: int
    words: int


def chunked(
    texts: Iterable[str], *, size: Callable[[str], int] = len, room: int = _CHARACTERS, most: int = _AT_ONCE
) -> Iterator[list[str]]:
    """Split texts into lists whose sizes add up to about `room`, with at most `most` texts each.

    The defaults, for tokenisation, are two million characters and 2,000 texts.
    """
    chunk: list[str] = []
    total = 0
    for text in texts:
        chunk.append(text)
        total += size(text)
        if total >= room or len(chunk) == most:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def pack(tokenizer: Any, texts: Iterable[str], path: Path, *, language: str, total: int = 0) -> Stream:
    """Write paragraphs as token ids to `path` (`.npy`) and their counts beside it (`.json`), completely or not at all.

    Nothing is truncated, even beyond the model's limit. A `[MASK]` or `[SEP]` in the text is not a special token.

    Args:
        tokenizer: a fast tokenizer of `transformers`.
        texts: the paragraphs.
        path: the file to write.
        language: the language of the text, which determines the segmentation into words.
        total: expected bytes of text, if known, for progress.

    >>> pack(tokenizer, ["a cat", "a dog"], Path("en.npy"), language="en").tokens  # doctest: +SKIP
    8
    """
    encoder, dtype = _plain_encoder(tokenizer)
    counts = dict.fromkeys(("tokens", "paragraphs", "characters", "words"), 0)
    done = 0
    with _array_file(path, dtype) as write:
        for chunk in chunked(texts):
            encoded = encoder.encode_batch_fast(chunk)
            counts["tokens"] += write(itertools.chain.from_iterable(text.ids for text in encoded))
            counts["paragraphs"] += len(chunk)
            counts["characters"] += sum(map(len, chunk))
            counts["words"] += sum(len(spans(text, language)) for text in chunk)
            done += sum(len(text.encode()) + 1 for text in chunk)
            progress(f"packing {language}", done, max(total, done))
        if done < total:
            progress(f"packing {language}", total, total)
        path.with_suffix(".json").unlink(missing_ok=True)  # old counts must never be beside new ids
    write_text(path.with_suffix(".json"), json.dumps({"language": language, **counts}, indent=1))
    return open_stream(path)


def open_stream(path: Path) -> Stream:
    """Open the stream that `pack` wrote to this path; the ids are memory-mapped."""
    with readable(path, *UNREADABLE):
        counts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        tokens = counts["tokens"]
        ids = np.load(path, mmap_mode="r" if tokens else None).view(np.ndarray)
        if ids.shape != (tokens,) or ids.dtype.kind != "u":
            raise ValueError(f"its file of counts says {tokens:,} tokens")
        return Stream(ids=ids, **counts)


UNREADABLE = "does not hold packed text", "pack the text again"

Frame = Sequence[tuple[int, ...]]
"""The special tokens before and after a text, or before, between and after its two sides; see `borders_of`."""

PlainSentences = tuple[np.ndarray, np.ndarray]
"""Concatenated sentences without special tokens: ids (tokens,), and tokens of each, sizes (sentences,)."""


def texts_of(ids: np.ndarray, frame: Frame, *, length: int, ends: Sequence[int] = ()) -> np.ndarray:
    """Split the paragraphs of a stream into texts of at most `length` tokens, including special tokens.

    Returns the start of the content of each text, the start of its second side if it has two, and its end: (2 or 3,
    texts). A longer paragraph is cut into the fewest pieces that fit, of nearly equal size, each a separate text. A
    text with two sides is split after the end of the sentence nearest its middle, or at the middle if there is none; a
    text of a single token is left out then.

    Args:
        ids: (tokens,), concatenated paragraphs, separated by their special tokens.
        frame: the special tokens of a text, including those of a paragraph, which may be on one of its sides only.
        length: maximum tokens of a text.
        ends: ids of tokens that end a sentence.

    >>> texts_of(np.array([2, 7, 8, 9, 3, 2, 7, 3]), [(2,), (3,)], length=4).tolist()
    [[1, 2, 6], [2, 4, 7]]
    """
    after = np.concatenate([[0], _behind(ids, list(itertools.chain(*frame))), [len(ids) + 1]])  # every special token
    filled = np.diff(after) > 1  # False between two adjacent special tokens
    contents, sizes = after[:-1][filled], np.diff(after)[filled] - 1  # (paragraphs,)
    pieces = -(-sizes // (length - sum(map(len, frame))))
    owner, number = np.repeat(np.arange(len(sizes)), pieces), ranges(np.zeros_like(pieces), pieces)
    borders = np.stack([contents[owner] + sizes[owner] * at // pieces[owner] for at in (number, number + 1)])
    if len(frame) == 2:
        return borders
    begins, stops = borders = borders[:, borders[1] > borders[0] + 1]
    cuts = np.concatenate([[-1], _behind(ids, ends), [len(ids) + 2]])
    cuts = cuts[np.append(np.diff(cuts) > 1, True)]  # after "?!", only behind the last mark
    place = np.searchsorted(cuts[1:], (begins + stops) / 2)
    left, right = cuts[place], cuts[place + 1]  # of the middle of the text
    nearest = np.where((left <= begins) | ((right < stops) & (right - stops < begins - left)), right, left)
    inside = (begins < nearest) & (nearest < stops)
    return np.stack([begins, np.where(inside, nearest, (begins + stops) // 2), stops])


def _behind(ids: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    """The positions after each token with one of these ids."""
    places = [at + np.flatnonzero(np.isin(ids[at : at + _SEARCHED], wanted)) for at in range(0, len(ids), _SEARCHED)]
    return np.concatenate([*places, np.zeros(0, dtype=np.int64)]) + 1


def read_spans(
    streams: Sequence[np.ndarray], numbers: np.ndarray, begins: np.ndarray, sizes: np.ndarray
) -> PlainSentences:
    """Concatenate parts of several streams, given by stream, start and size: numbers, begins, sizes, (parts,) each.

    >>> read_spans([np.array([7, 8, 9]), np.array([5, 6])], np.array([1, 0]), np.array([1, 0]), np.array([1, 2]))[0]
    array([6, 7, 8])
    """
    ids, ends = np.empty(int(sizes.sum()), dtype=np.int64), np.cumsum(sizes)
    for number in np.unique(numbers).tolist():
        chosen = numbers == number
        ids[ranges((ends - sizes)[chosen], sizes[chosen])] = streams[number][ranges(begins[chosen], sizes[chosen])]
    return ids, sizes


def lay_out(
    sides: Sequence[PlainSentences], starts: np.ndarray, shape: tuple[int, int], frame: Frame, *, padding: int
) -> np.ndarray:
    """A table of texts with their special tokens: ids, positions, owners, types and content, (5, rows, length) int32.

    Positions count from 0 in each text; owners are the indices of the texts, -1 at padding. The type is 1 on the second
    side of a pair: of the special tokens between the two, the first belongs to the first side, the others to the
    second. Content is 0 at special tokens and padding, otherwise 1.

    Args:
        sides: the texts, or the first and then the second sides of pairs.
        starts: (texts,), the start of each in the flattened table.
        shape: rows and their length.
        frame: the special tokens around a text.
        padding: the id of unused positions.

    >>> text = np.array([7, 8]), np.array([2])
    >>> ids, positions, owners, *_ = lay_out([text], np.array([0]), (1, 5), [(2,), (3,)], padding=0)
    >>> ids.tolist(), positions.tolist(), owners.tolist()
    ([[2, 7, 8, 3, 0]], [[0, 1, 2, 3, 0]], [[0, 0, 0, 0, -1]])
    """
    lengths = sum((sizes for _, sizes in sides), np.array(sum(map(len, frame))))
    slots = ranges(starts, lengths)
    ids, positions, owners, types, content = table = np.zeros((5, shape[0] * shape[1]), dtype=np.int32)
    ids[:], owners[:] = padding, -1
    positions[slots] = ranges(np.zeros_like(lengths), lengths)
    owners[slots] = np.repeat(np.arange(len(lengths)), lengths)
    place = starts  # (texts,), the next free position of each
    for number, marks in enumerate(frame):
        ids[place[:, None] + np.arange(len(marks))] = marks
        place = place + len(marks)
        if number < len(sides):
            tokens, sizes = sides[number]
            inside = ranges(place, sizes)
            ids[inside], content[inside], place = tokens, 1, place + sizes
    if len(sides) == 2:
        first = len(frame[0]) + sides[0][1] + min(1, len(frame[1]))
        types[ranges(starts + first, lengths - first)] = 1
    return table.reshape(5, *shape)


def cut_stream(stream: Stream, *, length: int, frame: Frame | None = None) -> Sentences:
    """Cut a stream into sentences of `length` tokens, and a shorter last one unless it is very short.

    With `frame`, the special tokens around a text, it is cut into its `texts_of` at most that length instead.
    """
    ids = stream.ids
    if frame is None:
        lengths = np.full(len(ids) // length, length)
        lengths = np.append(lengths, len(ids) % length) if len(ids) % length >= _SHORTEST else lengths
        ids = ids[: int(lengths.sum())]
    else:
        begins, ends = texts_of(ids, frame, length=length)
        lengths = ends - begins + sum(map(len, frame))
        plain = read_spans([ids], np.zeros_like(begins), begins, ends - begins)
        shape = 1, int(lengths.sum())
        ids = lay_out([plain], np.cumsum(lengths) - lengths, shape, frame, padding=0)[0].ravel()
    kept = min(1.0, len(ids) / max(1, stream.tokens))  # share of the text, by which words and characters are scaled
    counts = round(kept * stream.words), round(kept * stream.characters)
    return Sentences(stream.language, "", ids, lengths, *counts, 0)


Borders = Mapping[int, Sequence[tuple[int, ...]]]
"""Special tokens by the number of sentences: 1: those before and after one, 2: those before, between and after two."""


def borders_of(tokenizer: Any) -> Borders:
    """The special tokens that a tokenizer puts around sentences: tokens without text, whatever their position.

    BERT: `[CLS]` a `[SEP]`, and `[CLS]` a `[SEP]` b `[SEP]`; RoBERTa has two special tokens between.
    """
    refuse_slow(tokenizer)
    borders: dict[int, list[tuple[int, ...]]] = {}
    for sides in (1, 2):
        encoded, reached = tokenizer(*["a"] * sides), 0
        borders[sides] = [()] * (sides + 1)
        for token, side in zip(encoded["input_ids"], encoded.sequence_ids(0), strict=True):
            if side is None:
                borders[sides][reached] += (token,)
            else:
                reached = side + 1
    return borders


def sentence_ends(tokenizer: Any) -> list[int]:
    """Ids of the pieces that end a sentence."""
    pieces = tokenizer.batch_decode([[number] for number in range(len(tokenizer))])
    return [number for number, piece in enumerate(pieces) if piece.endswith(_SENTENCE_ENDS)]


@dataclass(frozen=True)
class PairStream:
    """The pairs of two languages as token ids.

    ids (tokens,): unsigned; begins (2 * pairs + 1,): the start of each side, and the end. left_out: pairs with an empty
    side. cut: pairs that exceed the model's limit, or have a side that does; such a side is truncated here.
    """

    languages: tuple[str, str]
    ids: np.ndarray
    begins: np.ndarray
    left_out: int
    cut: int

    def __len__(self) -> int:
        return (len(self.begins) - 1) // 2


def pack_pairs(
    tokenizer: Any, pairs: Iterable[tuple[str, str]], path: Path, *, languages: tuple[str, str], longest: int
) -> PairStream:
    """Write pairs as token ids to `path` (`.npy`), with their starts and counts beside it, completely or not at all.

    A `[MASK]` or `[SEP]` in the text is not a special token.

    Args:
        tokenizer: a fast tokenizer of `transformers`.
        pairs: sentences and their translations.
        path: the file to write.
        languages: those of the two sides.
        longest: maximum tokens of the model, including special ones.

    >>> len(pack_pairs(tokenizer, [("a cat", "een kat")], Path("en-nl.npy"), **how))  # doctest: +SKIP
    1
    """
    borders = borders_of(tokenizer)
    encoder, dtype = _plain_encoder(tokenizer)
    room, pair_room = (longest - sum(map(len, borders[sides])) for sides in (1, 2))
    tokens = 0
    counts = {"pairs": 0, "left_out": 0, "cut": 0}
    remaining = iter(pairs)
    begins = path.with_suffix(".begins.npy")
    with _array_file(path, dtype) as write_ids, _array_file(begins, np.dtype("<i8")) as write_begins:
        while chunk := list(itertools.islice(remaining, _AT_ONCE)):
            texts = zip(*chunk, strict=True)
            sides = [encoder.encode_batch_fast(list(side), add_special_tokens=False) for side in texts]
            encoded = [(source.ids, target.ids) for source, target in zip(*sides, strict=True)]
            filled = [pair for pair in encoded if all(pair)]
            lengths = np.array([len(side) for pair in filled for side in pair], dtype=np.int64).reshape(-1, 2)
            too_long = (lengths.sum(1) > pair_room) | (lengths.max(1, initial=0) > room)
            shortened = np.minimum(lengths, room).reshape(-1)
            write_begins(tokens + np.cumsum(shortened) - shortened)
            tokens += write_ids(itertools.chain.from_iterable(side[:room] for pair in filled for side in pair))
            counts["pairs"] += len(filled)
            counts["left_out"] += len(chunk) - len(filled)
            counts["cut"] += int(too_long.sum())
            progress(f"packing {'-'.join(languages)}", counts["pairs"], counts["pairs"])
        write_begins([tokens])
        path.with_suffix(".json").unlink(missing_ok=True)  # old counts must never be beside new ids
    write_text(path.with_suffix(".json"), json.dumps({"languages": languages, **counts}, indent=1))
    return open_pairs(path)


def open_pairs(path: Path) -> PairStream:
    """Open the pairs that `pack_pairs` wrote to this path; ids and starts are memory-mapped."""
    with readable(path, *UNREADABLE):
        counts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        pairs = counts.pop("pairs")
        begins = np.load(path.with_suffix(".begins.npy"), mmap_mode="r").view(np.ndarray)
        ids = np.load(path, mmap_mode="r" if pairs else None).view(np.ndarray)
        if len(begins) != 2 * pairs + 1 or int(begins[-1]) != len(ids):
            raise ValueError(f"its file of counts says {pairs:,} pairs")
        return PairStream(**counts | {"languages": tuple(counts["languages"])}, ids=ids, begins=begins)


def _plain_encoder(tokenizer: Any) -> tuple[Tokenizer, np.dtype[Any]]:
    """A copy without truncation and padding, which transformers leaves in a tokenizer after a call.

    Returned with the dtype in which its ids are written.
    """
    encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    encoder.no_truncation()
    encoder.no_padding()
    encoder.encode_special_tokens = True
    return encoder, np.dtype("<u2" if len(tokenizer) <= 2**16 else "<u4")


@contextmanager
def _array_file(path: Path, dtype: np.dtype[Any]) -> Iterator[Callable[[Iterable[int]], int]]:
    """Yield a function that appends to a one-dimensional `.npy` file, which appears completely or not at all.

    The function returns the number of values appended. The header contains the length of the array, so it is written
    again at the end; numpy leaves room in it for that.
    """
    count = 0

    def write_header() -> None:
        facts = {"descr": dtype.str, "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(file, facts)

    def write(values: Iterable[int]) -> int:
        nonlocal count
        array = np.fromiter(values, dtype=dtype)
        count += len(array)
        file.write(array.tobytes())
        return len(array)

    with whole(path) as beside, beside.open("wb") as file:
        write_header()
        yield write
        file.seek(0)
        write_header()
