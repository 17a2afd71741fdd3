"""Text: corpora, the readers that fill them, words as spans of characters, language codes."""

from isogloss.text.catalog import resolve as resolve
from isogloss.text.corpora import Bitext as Bitext, Corpus as Corpus, Lexicon as Lexicon
from isogloss.text.readers.conll import read_parses as read_parses, read_tagged as read_tagged, read_trees as read_trees
from isogloss.text.readers.dictionaries import (
    embedded as embedded,
    read_lexicon as read_lexicon,
    read_linked as read_linked,
    read_links as read_links,
)
from isogloss.text.readers.examples import read_pairs as read_pairs, read_questions as read_questions
from isogloss.text.readers.lines import read_lines as read_lines
from isogloss.text.readers.parallel import (
    read_bitext as read_bitext,
    read_bitexts as read_bitexts,
    read_corpus as read_corpus,
)
from isogloss.text.words import spans as spans
