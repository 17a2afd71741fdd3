"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""

from isogloss.text.corpora import Bitext, Corpus, Lexicon
from isogloss.text.readers import (
    Tree,
    WordLinks,
    attach_links,
    embedded,
    embedded_lexicon,
    read_bitext,
    read_bitexts,
    read_corpus,
    read_lexicon,
    read_lines,
    read_linked,
    read_links,
    read_trees,
)
from isogloss.text.words import spans, word_of_tokens

__all__ = [
    "Bitext",
    "Corpus",
    "Lexicon",
    "Tree",
    "WordLinks",
    "attach_links",
    "embedded",
    "embedded_lexicon",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_lines",
    "read_linked",
    "read_links",
    "read_trees",
    "spans",
    "word_of_tokens",
]
