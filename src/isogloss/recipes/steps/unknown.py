"""Text that a model cannot spell: where its vocabulary has no pieces for a word, any such word is the same token."""

from collections.abc import Iterable
from typing import Any

from isogloss.text.corpora import Corpus

READ = 1_000  # sentences of a text that are looked at
MANY = 0.05


def unknown_notes(tokenizer: Any, texts: Iterable[Corpus]) -> list[str]:
    """A note on each text of whose tokens, in its first sentences, at least a twentieth are unknown.

    Sentences of such tokens look alike to the model. They are never masked, so perplexity is of the other tokens only.
    """
    if tokenizer.unk_token_id is None:
        return []
    told = []
    for text in texts:
        sentences = list(text.sentences[:READ])
        found = tokenizer(sentences, add_special_tokens=False, verbose=False)["input_ids"] if sentences else []
        tokens = [token for one in found for token in one]
        share = tokens.count(tokenizer.unk_token_id) / len(tokens) if tokens else 0.0
        if share >= MANY:
            named = f"{text.name} ({text.language})" if text.name else text.language
            told.append(
                f"{share:.0%} of the tokens of {named} are unknown to the model's tokenizer: to the model such words "
                "are all one, and what is measured on them says little"
            )
    return told
