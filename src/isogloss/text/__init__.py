"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""

from isogloss.text.catalog import data_dir, find_lexicon, resolve
from isogloss.text.corpora import Bitext, Corpus, Lexicon, paraphrases
from isogloss.text.invented import invented, invented_lexicon
from isogloss.text.readers.conll import Tree, read_parses, read_tagged, read_trees
from isogloss.text.readers.dictionaries import read_lexicon, read_word_vectors
from isogloss.text.readers.inference import read_pairs
from isogloss.text.readers.lines import read_lines
from isogloss.text.readers.links import attach_links, embedded, embedded_lexicon, read_linked, read_links
from isogloss.text.readers.parallel import find_pairs, read_bitext, read_bitexts, read_corpus
from isogloss.text.readers.questions import read_questions
from isogloss.text.words import spans, word_of_tokens

__all__ = [
    "Bitext",
    "Corpus",
    "Lexicon",
    "Tree",
    "attach_links",
    "data_dir",
    "embedded",
    "embedded_lexicon",
    "find_lexicon",
    "find_pairs",
    "invented",
    "invented_lexicon",
    "paraphrases",
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
    "read_word_vectors",
    "resolve",
    "spans",
    "word_of_tokens",
]
