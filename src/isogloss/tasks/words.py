"""Words in front of a model: their forms with a space between, and the first subword of each.

Tagging and parsing ask about words that somebody else cut. What the model is given is their forms with a space between
(as XTREME and Muller et al. 2021 do), not the sentence as written: the two words of French `aux`, `à` and `les`, then
have tokens of their own. A word meets its subwords through characters, so any fast tokenizer will do.
"""

from collections.abc import Sequence
from typing import Any

from isogloss.errors import InputError
from isogloss.text.words import word_of_tokens


def encode_words(
    sentences: Sequence[Sequence[str]], tokenizer: Any, *, length: int
) -> list[tuple[list[int], list[int]]]:
    """Token ids of each sentence, with special tokens, and for each of its words the place of its first subword.

    The place is -1 where a word has no token: behind the cut at `length` tokens, or of characters the tokenizer drops.

    >>> encode_words([["The", "cats"]], tokenizer, length=128)  # doctest: +SKIP
    [([2, 187, 4211, 88, 3], [1, 2])]
    """
    if not tokenizer.is_fast:
        raise InputError(
            f"words meet subwords through character offsets, which the slow tokenizer of "
            f"{tokenizer.name_or_path!r} does not give; use a model with a fast tokenizer"
        )
    encoded = tokenizer(
        [" ".join(words) for words in sentences],
        truncation=True,
        max_length=length,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=True,
    )
    found = []
    for words, ids, offsets in zip(sentences, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        spans, start = [], 0
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        places = [-1] * len(words)
        for token, owner in enumerate(word_of_tokens(offsets, spans)):
            if owner >= 0 and places[owner] < 0:
                places[owner] = token
        found.append((list(ids), places))
    return found
