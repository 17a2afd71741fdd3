"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""

from isogloss.text.catalog import data_dir, find_lexicon, resolve
from isogloss.text.corpora import Bitext, Corpus, Lexicon
from isogloss.text.invented import invented, invented_lexicon
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
    "data_dir",
    "embedded",
    "embedded_lexicon",
    "find_lexicon",
    "invented",
    "invented_lexicon",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_lines",
    "read_linked",
    "read_links",
    "read_trees",
    "resolve",
    "spans",
    "word_of_tokens",
]
