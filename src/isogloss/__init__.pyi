"""The public names: what editors and type checkers read, and where `__init__.py` loads each name from."""

from isogloss.errors import InputError as InputError
from isogloss.integrations.export import export as export
from isogloss.mappings.mapping import Mapping as Mapping, load_mapping as load_mapping, save as save
from isogloss.mappings.methods import procrustes as procrustes
from isogloss.measures.cka import cka as cka
from isogloss.measures.retrieval import retrieval as retrieval
from isogloss.papers.paper import reproduce as reproduce
from isogloss.progress import bar as bar
from isogloss.recipes.align import align as align
from isogloss.recipes.drift import drift as drift
from isogloss.recipes.lens import lens as lens
from isogloss.recipes.lexicon import lexicon as lexicon
from isogloss.recipes.map import map as map
from isogloss.recipes.pretrain import pretrain as pretrain
from isogloss.recipes.rotate import rotate as rotate
from isogloss.recipes.stitch import stitch as stitch
from isogloss.recipes.sweep import sweep as sweep
from isogloss.recipes.tokens import tokens as tokens
from isogloss.recipes.transfer import transfer as transfer
from isogloss.runs import read_rows as read_rows
from isogloss.stack import (
    Stack as Stack,
    chain as chain,
    freeze as freeze,
    load as load,
    reinitialise as reinitialise,
    wrap as wrap,
)
from isogloss.text.corpora import Bitext as Bitext, Corpus as Corpus, Lexicon as Lexicon
from isogloss.text.readers.dictionaries import embedded as embedded, read_lexicon as read_lexicon
from isogloss.text.readers.parallel import read_bitext as read_bitext, read_corpus as read_corpus
from isogloss.vectors import stream as stream, vectors as vectors

__version__: str
