"""The pieces of a vocabulary: the bytes they represent, their script, and the words that they begin.

A tokenizer without a piece for a character falls back on its bytes, and there are three ways to write a byte as a
piece: `<0xE4>` (SentencePiece), a letter of the alphabet of byte-level BPE (GPT-2 and most later decoders), or the
character with that code (ByT5). The one in use is detected by tokenizing characters of several bytes, so that no list
of tokenizers is needed.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from isogloss.text.batches import SPACE, marks
from isogloss.text.words import script_of

PROBES = "𒍅中я"  # of four, three and two bytes
CONTINUES = "##"  # how WordPiece writes the start of a continuation
Spelling = Callable[[int], str]  # how a byte is written


@cache
def byte_alphabet() -> tuple[str, ...]:
    """The letter that byte-level BPE uses for each of the 256 bytes: itself if visible, otherwise a later one.

    >>> byte_alphabet()[ord("a")], byte_alphabet()[ord(" ")]
    ('a', 'Ġ')
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return tuple(chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256))


SPELLINGS: tuple[Spelling, ...] = (lambda byte: f"<0x{byte:02X}>", lambda byte: byte_alphabet()[byte], chr)


def byte_spelling(tokenizer: Any) -> Spelling | None:
    """How a tokenizer writes the bytes of a character without a piece; None if it has no byte pieces."""
    for probe in PROBES:
        written = "".join(tokenizer.tokenize(probe))
        for spelling in SPELLINGS:
            if "".join(map(spelling, probe.encode())) in written:
                return spelling
    return None


def byte_ids(tokenizer: Any) -> list[int]:
    """Ids of the pieces for single bytes of multi-byte characters; ASCII bytes are characters themselves."""
    spelling, vocabulary = byte_spelling(tokenizer), tokenizer.get_vocab()
    written = [] if spelling is None else [spelling(byte) for byte in range(0x80, 0x100)]
    return sorted(vocabulary[piece] for piece in written if piece in vocabulary)


def unknown_id(tokenizer: Any) -> int | None:
    """The id of the unknown token, for a bare `tokenizer.json` that of its model; None if there is none."""
    if tokenizer.unk_token_id is not None or not tokenizer.is_fast:
        return None if tokenizer.unk_token_id is None else int(tokenizer.unk_token_id)
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    number = model.get("unk_id")
    return number if number is not None else tokenizer.get_vocab().get(model.get("unk_token"))


def piece_bytes(tokenizer: Any) -> list[bytes]:
    """The bytes that each id adds to a text, including a leading space; empty for special tokens.

    A WordPiece that continues a word keeps its "##".

    >>> piece_bytes(tokenizer)[tokenizer.convert_tokens_to_ids("▁cat")]  # doctest: +SKIP
    b' cat'
    """
    spelling = byte_spelling(tokenizer)
    single = {} if spelling is None else {spelling(byte): bytes([byte]) for byte in range(256)}
    letters = spelling is not None and spelling is not SPELLINGS[0]  # every letter of a piece is a byte
    left_out = {*marks(tokenizer), *tokenizer.all_special_ids, unknown_id(tokenizer)}
    texts = [b""] * len(tokenizer)
    for piece, number in tokenizer.get_vocab().items():
        if number in left_out or number >= len(texts):
            continue
        if piece in single:
            texts[number] = single[piece]
        elif letters and all(letter in single for letter in piece):
            texts[number] = b"".join(single[letter] for letter in piece)
        else:
            texts[number] = piece.replace(SPACE, " ").encode("utf-8", "surrogatepass")
    return texts


def beginnings(texts: Sequence[bytes]) -> dict[bytes, list[int]]:
    """The ids of the pieces that can begin a word, by their bytes without a leading space."""
    known: dict[bytes, list[int]] = {}
    for number, text in enumerate(texts):
        if (stripped := text.removeprefix(b" ")) and not text.startswith(CONTINUES.encode()):
            known.setdefault(stripped, []).append(number)
    return known


def first_pieces(words: Iterable[str], known: Mapping[bytes, Sequence[int]]) -> list[int]:
    """Ids of every piece that begins one of the words, with or without a leading space; known: from `beginnings`.

    >>> first_pieces(["cat"], {b"c": [4], b"cat": [7, 9], b"at": [2]})
    [4, 7, 9]
    """
    texts = [word.encode("utf-8", "surrogatepass") for word in words]
    return sorted({n for text in texts for end in range(1, len(text) + 1) for n in known.get(text[:end], ())})


def scripts_of(texts: Sequence[bytes]) -> list[str]:
    """The script of each piece: that of its first letter, "" if it has no complete letter."""
    letters = (text.decode("utf-8", "ignore") for text in texts)
    return [next(filter(None, map(script_of, text)), "") for text in letters]
