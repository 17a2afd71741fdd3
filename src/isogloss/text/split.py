"""Which paragraphs are set aside: decided by the paragraph itself, so every run and every machine decides alike.

A paragraph's place is a number in [0, 1) made from a hash of its characters. A share set aside is an interval of
places: the same paragraph is in or out whatever file, order or run it comes in, and copies of it go the same way.
"""

import hashlib
import unicodedata


def place(paragraph: str) -> float:
    """Where a paragraph stands in [0, 1): evenly spread, the same for ever; spacing does not matter.

    >>> round(place("The cat sleeps."), 6) == round(place("  The  cat sleeps. "), 6)
    True
    """
    text = " ".join(unicodedata.normalize("NFC", paragraph).split())
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"isogloss").digest()
    return int.from_bytes(digest, "big") / 2**64


def held_out(paragraph: str, share: float) -> bool:
    """Whether a paragraph belongs to the share that is set aside for evaluation and never trained on."""
    return place(paragraph) < share
