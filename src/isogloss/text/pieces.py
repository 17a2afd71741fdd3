"""What the pieces of a vocabulary stand for: bytes of the text, and which of them are single bytes or unknown.

A tokenizer that has no piece for a character falls back on its bytes, and there are three ways to write a byte as a
piece: `<0xE4>` (SentencePiece), a letter of the alphabet of byte-level BPE (GPT-2 and most decoders since), or the
character of that number (ByT5). Which one a tokenizer has shows in how it cuts characters of several bytes, so no list
of tokenizers is needed.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

PROBES = "𒍅中я"  # of four, three and two bytes
SPACE, CONTINUES = "▁", "##"  # how SentencePiece writes a space, and WordPiece a piece that continues a word
Spelling = Callable[[int], str]  # how a byte is written


@cache
def byte_alphabet() -> tuple[str, ...]:
    """The letter that byte-level BPE writes each of the 256 bytes with: itself where it is visible, else a later one.

    >>> byte_alphabet()[ord("a")], byte_alphabet()[ord(" ")]
    ('a', 'Ġ')
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return tuple(chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256))


SPELLINGS: tuple[Spelling, ...] = (lambda byte: f"<0x{byte:02X}>", lambda byte: byte_alphabet()[byte], chr)


def byte_spelling(tokenizer: Any) -> Spelling | None:
    """How a tokenizer writes the bytes of a character that it has no piece for; None where it has no such pieces."""
    for probe in PROBES:
        written = "".join(tokenizer.tokenize(probe))
        for spelling in SPELLINGS:
            if "".join(map(spelling, probe.encode())) in written:
                return spelling
    return None


def byte_ids(tokenizer: Any) -> list[int]:
    """Ids of the pieces that stand for one byte of a longer character; ASCII bytes are characters of their own."""
    spelling, vocabulary = byte_spelling(tokenizer), tokenizer.get_vocab()
    written = [] if spelling is None else [spelling(byte) for byte in range(0x80, 0x100)]
    return sorted(vocabulary[piece] for piece in written if piece in vocabulary)


def unknown_id(tokenizer: Any) -> int | None:
    """The id of the piece for what is unknown: of a bare `tokenizer.json` that of its model; None where it has none."""
    if tokenizer.unk_token_id is not None or not tokenizer.is_fast:
        return None if tokenizer.unk_token_id is None else int(tokenizer.unk_token_id)
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    number = model.get("unk_id")
    return number if number is not None else tokenizer.get_vocab().get(model.get("unk_token"))
