"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""

from isogloss.text.catalog import resolve
from isogloss.text.corpora import Bitext, Corpus, Lexicon
from isogloss.text.readers.conll import read_parses, read_tagged, read_trees
from isogloss.text.readers.dictionaries import embedded, read_lexicon, read_linked, read_links
from isogloss.text.readers.examples import read_pairs, read_questions
from isogloss.text.readers.lines import read_lines
from isogloss.text.readers.parallel import read_bitext, read_bitexts, read_corpus
from isogloss.text.words import spans

__all__ = [
    "Bitext",
    "Corpus",
    "Lexicon",
    "embedded",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_lines",
    "read_linked",
    "read_links",
    "read_pairs",
    "read_parses",
    "read_questions",
    "read_tagged",
    "read_trees",
    "resolve",
    "spans",
]
