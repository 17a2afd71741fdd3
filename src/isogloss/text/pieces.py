"""Pieces learned from text: what a tokenizer knows, in the order of its ids.

The same text gives the same pieces, which the trainers of `tokenizers` alone do not promise. The one of WordPiece
numbers continuation characters in the order of a hash table that differs between runs, and breaks ties by these
numbers: here they are numbered before it starts. The one of unigram sums in that order: here probabilities are
estimated again after it.
"""

import itertools
import json
import math
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Literal

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from isogloss.errors import InputError
from isogloss.progress import Progress, silent

Kind = Literal["wordpiece", "unigram"]
Lines = Callable[[], Iterable[str]]  # opens a text again each time it is called
Piece = tuple[str, float]  # spelling and, for unigram, log probability

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
_ALPHABET = 6_000
_CODES = 0x110000
_ROUNDS = 4
# A digit or a sign is a piece of its own, a run of anything else is cut further; the space before it belongs to it.
_UNIGRAM_WORDS = r"▁?(?:\p{Nd}|[\p{P}\p{S}&&[^▁]]|[^▁\p{Nd}\p{P}\p{S}]+)|▁"


def machine(kind: Kind, *, lowercase: bool = False) -> Tokenizer:
    """A tokenizer that cleans and cuts text, still without pieces."""
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(vocab={}, unk_token=MARKS[1]))
        made.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece(prefix=CONTINUES)
        return made
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    spaces = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    words = pre_tokenizers.Split(Regex(_UNIGRAM_WORDS), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([spaces, words])
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    return made


def train_pieces(
    cleaned: Lines, languages: Sequence[str], *, kind: Kind, size: int, progress: Progress = silent
) -> list[Piece]:
    """The pieces of a vocabulary in the order of their ids, special tokens first.

    cleaned: opens the text, each paragraph as the normalizer of `machine` leaves it. Languages are named in messages.
    """
    stage = f"tokenizer of {', '.join(languages)}"
    characters, continuing, total = _characters(cleaned())
    alphabet = _most_frequent(characters, min(_ALPHABET, size // 3))
    rare = dict.fromkeys(np.setdiff1d(np.flatnonzero(characters), alphabet).tolist(), " ")

    def fed() -> Iterator[str]:
        done = 0
        for number, text in enumerate(cleaned()):
            done += len(text)
            if number % 1_000 == 0:
                progress(stage, done, total)
            yield text.translate(rare)

    learner = machine(kind)
    if kind == "wordpiece":
        first = [CONTINUES + chr(code) for code in alphabet.tolist() if continuing[code]]
        learner.train_from_iterator(
            fed(),
            trainers.WordPieceTrainer(
                vocab_size=size, min_frequency=2, special_tokens=[*MARKS, *first], show_progress=False
            ),
        )
        pieces = _wordpieces(learner)
    else:
        learner.train_from_iterator(
            fed(),
            trainers.UnigramTrainer(
                vocab_size=size, special_tokens=list(MARKS), unk_token=MARKS[1], show_progress=False
            ),
        )
        pieces = _unigram_pieces(learner, fed)
    progress(stage, total, total)
    if len(pieces) < size:
        raise InputError(
            f"the text of {', '.join(languages)} supports {len(pieces):,} pieces, not {size:,}; "
            "lower --vocabulary or give more text"
        )
    return pieces


def _most_frequent(characters: np.ndarray, limit: int) -> np.ndarray:
    """Codes of at most `limit` characters, ascending; among equally frequent ones those of low code are kept."""
    order = np.lexsort((np.arange(len(characters)), -characters))[:limit]
    return np.sort(order[characters[order] > 0])


def _characters(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray, int]:
    """How often each character occurs, how often inside a word after its first character, and characters in all.

    Both counts are (0x110000,), numbered by code point.
    """
    everywhere, inside = np.zeros(_CODES, dtype=np.int64), np.zeros(_CODES, dtype=np.int64)
    total = 0
    for chunk in _chunks(texts):
        total += sum(map(len, chunk))
        codes = np.frombuffer("\n".join(chunk).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        everywhere += np.bincount(codes, minlength=_CODES)
        joins = ~_borders()[codes]
        inside += np.bincount(codes[1:][joins[1:] & joins[:-1]], minlength=_CODES)
    everywhere[[ord(" "), ord("\n")]] = 0
    return everywhere, inside, total


def _chunks(texts: Iterable[str], size: int = 1_000_000) -> Iterator[list[str]]:
    """Texts in lists of about `size` characters."""
    chunk: list[str] = []
    length = 0
    for text in texts:
        chunk.append(text)
        length += len(text)
        if length >= size:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


@cache
def _borders() -> np.ndarray:
    """Which characters end a word before and after them: spaces and punctuation, (0x110000,) of bool."""
    table = np.zeros(_CODES, dtype=bool)
    for code in range(_CODES):
        table[code] = chr(code).isspace() or unicodedata.category(chr(code))[0] == "P"
    table[[ord(sign) for sign in string.punctuation]] = True  # BERT counts $ + < = > ^ ` | ~ too
    return table


def _wordpieces(learner: Tokenizer) -> list[Piece]:
    vocabulary = learner.get_vocab()
    return [(piece, 0.0) for piece in sorted(vocabulary, key=vocabulary.__getitem__)]


def _unigram_pieces(learner: Tokenizer, texts: Lines) -> list[Piece]:
    """The trainer's pieces, most probable first, with probabilities of our own.

    The trainer sums in no fixed order, and the noise grows: the same Chinese text gave log probabilities 0.04 apart.
    So they are estimated again by Viterbi training, from equal ones: the best cut of the text, how often each piece
    is in it, and again. The text takes 0.2% more nats than with the trainer's own.
    """
    found = [str(piece) for piece, _ in json.loads(learner.to_str())["model"]["vocab"]]
    marks: list[Piece] = [(piece, 0.0) for piece in found[: len(MARKS)]]
    spellings = sorted(found[len(MARKS) :])
    scores = np.full(len(spellings), -math.log(len(spellings)))
    for _ in range(_ROUNDS):
        learner.model = models.Unigram([*marks, *zip(spellings, scores.tolist(), strict=True)], unk_id=1)
        counts = np.full(len(found), 0.5)  # a piece that is never best keeps a chance
        for chunk in _chunks(texts()):
            ids = itertools.chain.from_iterable(one.ids for one in learner.encode_batch_fast(chunk))
            counts += np.bincount(np.fromiter(ids, dtype=np.int64), minlength=len(found))
        scores = np.log(counts[len(MARKS) :] / counts.sum()).round(6)
    pieces = zip(spellings, scores.tolist(), strict=True)
    return [*marks, *sorted(pieces, key=lambda piece: (-piece[1], piece[0]))]
