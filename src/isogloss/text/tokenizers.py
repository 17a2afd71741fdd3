"""Train tokenizers on plain text: WordPiece or unigram, one for all languages or one for each.

How languages share pieces is a variable of pretraining (Wu et al. 2020, section 5). Four vocabularies are supported:

- `joint`: one tokenizer, trained on a mixture of all languages; the usual multilingual model.
- `union`: one tokenizer per language over one table of ids; a piece with the same spelling in two languages has one id.
  Such pieces are the anchors.
- `prefix`: the same, but nothing is shared except the special tokens: no anchors.
- `own`: each language has its own table from 0, for models with separate embeddings.

In `union` and `prefix` every tokenizer covers the whole table, so `len(tokenizer)` and the embedding matrix agree for
all languages. A piece of another language is spelled `nl ##eren` there, which no text matches, since text is split at
spaces before pieces are looked up.

The same text gives the same pieces, which the trainers of `tokenizers` do not guarantee. The WordPiece trainer numbers
continuation characters in the order of a hash table that differs between runs, and breaks ties by these numbers: here
they are numbered before it starts. The unigram trainer sums in that order: here probabilities are re-estimated after
it.
"""

import itertools
import json
import math
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from isogloss.errors import InputError, require
from isogloss.progress import listener, progress
from isogloss.text.sampling import shares
from isogloss.text.streams import chunked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Kind = Literal["wordpiece", "unigram"]
Spaces = Literal["joint", "union", "prefix", "own"]
Lines = Callable[[], Iterable[str]]  # reopens a text at each call
Piece = tuple[str, float]  # spelling and, for unigram, log probability

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_CONTINUES = "##"
_ALPHABET = 6_000
_CODES = 0x110000
_ROUNDS = 4
# A digit or a symbol is a separate piece, a run of anything else is split further; a preceding space belongs to it.
_UNIGRAM_WORDS = r"▁?(?:\p{Nd}|[\p{P}\p{S}&&[^▁]]|[^▁\p{Nd}\p{P}\p{S}]+)|▁"
_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fill [0, 1) evenly and without a period


def train_tokenizers(
    texts: Mapping[str, Lines],
    *,
    kind: Kind = "wordpiece",
    size: int = 32_000,
    spaces: Spaces = "joint",
    exponent: float = 0.7,
    sample: int = 100_000_000,
    lowercase: bool = False,
    max_length: int = 512,
) -> "dict[str, PreTrainedTokenizerFast]":
    """Train a tokenizer for every language.

    Characters beyond the most frequent 6,000, or a third of `size`, are unknown. Special tokens are `[PAD]` 0, `[UNK]`
    1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4. WordPiece splits at spaces, punctuation and around ideographs, as in BERT;
    unigram uses NFKC text with `▁` for a space, and splits off digits and symbols.

    Args:
        texts: language -> a function that opens its text, one paragraph at a time.
        kind: wordpiece or unigram.
        size: pieces of each tokenizer, including special tokens.
        spaces: how languages share pieces, see above.
        exponent: in a joint tokenizer, the share of language l in the training text is proportional to bytes_l **
            exponent (small languages may then be read more than once).
        sample: maximum bytes read for training, spread over the whole text.
        lowercase: whether to lower-case text.
        max_length: maximum tokens of a sentence.

    >>> made = train_tokenizers({"en": english, "nl": dutch}, size=8_000)  # doctest: +SKIP
    >>> made["en"] is made["nl"], made["en"].tokenize("sleeping")  # doctest: +SKIP
    (True, ['sleep', '##ing'])
    """
    refuse_small(size)
    bytes_of: dict[str, int] = {}
    for language, lines in texts.items():
        bytes_of[language] = sum(len(text.encode("utf-8", "surrogatepass")) for text in lines())
        if not bytes_of[language]:
            raise InputError(f"the text of {language} is empty; give a file with text in {language}, or leave it out")
    cleaner = untrained_tokenizer(kind, lowercase=lowercase)
    groups = [list(texts)] if spaces == "joint" else [[language] for language in texts]
    pieces: dict[str, list[Piece]] = {}
    for languages in groups:
        rates = _rates({language: bytes_of[language] for language in languages}, exponent, sample // len(groups))

        def cleaned(languages: list[str] = languages, rates: Mapping[str, float] = rates) -> Iterator[str]:
            for language in languages:
                for text in _spread(texts[language](), rates[language]):
                    yield cleaner.normalizer.normalize_str(text)

        learned = train_pieces(cleaned, languages, kind=kind, size=size)
        pieces |= dict.fromkeys(languages, learned)
    tables = pieces if spaces in ("joint", "own") else _one_table(pieces, shared=spaces == "union")
    distinct = {id(table): table for table in tables.values()}  # languages with one vocabulary have one tokenizer
    how: dict[str, Any] = {"lowercase": lowercase, "max_length": max_length}
    made = {number: _assemble(table, kind, **how) for number, table in distinct.items()}
    return {language: made[id(table)] for language, table in tables.items()}


def refuse_small(size: int) -> None:
    """Raise for a vocabulary that could contain little more than single letters."""
    require(size >= 100, f"a vocabulary of {size} pieces is too small; ask for at least 100")


def _rates(bytes_of: Mapping[str, int], exponent: float, sample: int) -> dict[str, float]:
    """How often a paragraph of each language is read: 0.25 is one in four, 2.5 two or three times."""
    budget = min(sample, sum(bytes_of.values()))
    wanted = shares(bytes_of, exponent=exponent)
    return {language: wanted[language] * budget / count for language, count in bytes_of.items()}


def _spread(texts: Iterable[str], rate: float) -> Iterator[str]:
    """Sample paragraphs at this rate, evenly over the whole text and without a period."""
    always, sometimes = divmod(rate, 1)
    for number, text in enumerate(texts):
        for _ in range(int(always) + ((number * _GOLDEN) % 1 < sometimes)):
            yield text


def _one_table(pieces: Mapping[str, Sequence[Piece]], *, shared: bool) -> dict[str, list[Piece]]:
    """One table of ids for all languages, spelled for each so that pieces of other languages match no text."""
    owners: dict[tuple[str, str], dict[str, float]] = {}  # (owner, spelling): score in each language that has it
    for language, own in pieces.items():
        for spelling, score in own[len(SPECIAL) :]:
            owners.setdefault(("" if shared else language, spelling), {})[language] = score
    special = next(iter(pieces.values()))[: len(SPECIAL)]
    return {
        language: [
            *special,
            *(
                (spelling, scores[language]) if language in scores else (f"{next(iter(scores))} {spelling}", 0.0)
                for (_, spelling), scores in owners.items()
            ),
        ]
        for language in pieces
    }


def _assemble(pieces: Sequence[Piece], kind: Kind, *, lowercase: bool, max_length: int) -> "PreTrainedTokenizerFast":
    """Create a tokenizer from these pieces, with ids in their order."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = untrained_tokenizer(kind, lowercase=lowercase)
    if kind == "wordpiece":
        numbers = {spelling: number for number, (spelling, _) in enumerate(pieces)}
        tokenizer.model = models.WordPiece(vocab=numbers, unk_token=SPECIAL[1], continuing_subword_prefix=_CONTINUES)
    else:
        tokenizer.model = models.Unigram(list(pieces), unk_id=1)
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # No token types for the sentences of a pair: ModernBERT takes none, and streams have one.
    inputs = ["input_ids", "attention_mask"]
    special = {f"{piece[1:-1].lower()}_token": piece for piece in SPECIAL}  # pad_token="[PAD]"
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=max_length, model_input_names=inputs, **special
    )


def untrained_tokenizer(kind: Kind, *, lowercase: bool = False) -> Tokenizer:
    """A tokenizer that normalises and splits text, without a vocabulary."""
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(vocab={}, unk_token=SPECIAL[1]))
        made.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece(prefix=_CONTINUES)
        return made
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    spaces = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    words = pre_tokenizers.Split(Regex(_UNIGRAM_WORDS), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([spaces, words])
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    return made


def train_pieces(cleaned: Lines, languages: Sequence[str], *, kind: Kind, size: int) -> list[Piece]:
    """Train the pieces of a vocabulary, in the order of their ids, special tokens first.

    Args:
        cleaned: opens the text, each paragraph normalised by the normalizer of `untrained_tokenizer`.
        languages: those of the text, for messages.
        kind: wordpiece or unigram.
        size: pieces of the vocabulary, including special tokens.
    """
    stage = f"tokenizer of {', '.join(languages)}"
    # Counts of each character, and its counts inside a word after the first character: (0x110000,), by code point.
    characters, continuing = np.zeros(_CODES, dtype=np.int64), np.zeros(_CODES, dtype=np.int64)
    total = 0
    for chunk in chunked(cleaned()):
        total += sum(map(len, chunk))
        codes = np.frombuffer("\n".join(chunk).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        characters += np.bincount(codes, minlength=_CODES)
        joins = ~_borders()[codes]
        continuing += np.bincount(codes[1:][joins[1:] & joins[:-1]], minlength=_CODES)
    characters[[ord(" "), ord("\n")]] = 0
    # Codes of the most frequent characters, ascending; ties are broken by lower code.
    order = np.lexsort((np.arange(len(characters)), -characters))[: min(_ALPHABET, size // 3)]
    alphabet = np.sort(order[characters[order] > 0])
    rare = dict.fromkeys(np.setdiff1d(np.flatnonzero(characters), alphabet).tolist(), " ")

    report = listener.get()  # the trainer reads the text in its own threads, which do not inherit the listener

    def training_text() -> Iterator[str]:
        done = 0
        for number, text in enumerate(cleaned()):
            done += len(text)
            if number % 1_000 == 0:
                report(stage, done, total)
            yield text.translate(rare)

    learner = untrained_tokenizer(kind)
    options: dict[str, Any] = {"vocab_size": size, "show_progress": False}
    if kind == "wordpiece":
        first = [_CONTINUES + chr(code) for code in alphabet.tolist() if continuing[code]]
        options |= {"min_frequency": 2, "special_tokens": [*SPECIAL, *first]}
        learner.train_from_iterator(training_text(), trainers.WordPieceTrainer(**options))
        numbers = learner.get_vocab()
        pieces = [(piece, 0.0) for piece in sorted(numbers, key=numbers.__getitem__)]
    else:
        options |= {"special_tokens": list(SPECIAL), "unk_token": SPECIAL[1]}
        learner.train_from_iterator(training_text(), trainers.UnigramTrainer(**options))
        pieces = _unigram_pieces(learner, training_text)
    progress(stage, total, total)
    few = f"the text of {', '.join(languages)} supports {len(pieces):,} pieces, not {size:,}"
    require(len(pieces) >= size, f"{few}; lower --vocabulary or give more text")
    return pieces


@cache
def _borders() -> np.ndarray:
    """Which characters separate words: spaces and punctuation, (0x110000,) bool."""
    characters = map(chr, range(_CODES))
    table = np.array([each.isspace() or unicodedata.category(each)[0] == "P" for each in characters])
    table[[ord(sign) for sign in string.punctuation]] = True  # BERT counts $ + < = > ^ ` | ~ too
    return table


def _unigram_pieces(learner: Tokenizer, texts: Lines) -> list[Piece]:
    """The trainer's pieces, most probable first, with re-estimated probabilities.

    The trainer sums in no fixed order, and the noise grows: the same Chinese text gave log probabilities 0.04 apart. So
    they are re-estimated by Viterbi training, starting from equal ones: find the best segmentation of the text, count
    its pieces, and repeat. The text takes 0.2% more nats than with the trainer's own probabilities.
    """
    vocabulary = [str(piece) for piece, _ in json.loads(learner.to_str())["model"]["vocab"]]
    special: list[Piece] = [(piece, 0.0) for piece in vocabulary[: len(SPECIAL)]]
    spellings = sorted(vocabulary[len(SPECIAL) :])
    scores = np.full(len(spellings), -math.log(len(spellings)))
    for _ in range(_ROUNDS):
        learner.model = models.Unigram([*special, *zip(spellings, scores.tolist(), strict=True)], unk_id=1)
        counts = np.full(len(vocabulary), 0.5)  # so that an unused piece keeps a probability above 0
        for chunk in chunked(texts()):
            ids = itertools.chain.from_iterable(text.ids for text in learner.encode_batch_fast(chunk))
            counts += np.bincount(np.fromiter(ids, dtype=np.int64), minlength=len(vocabulary))
        scores = np.log(counts[len(SPECIAL) :] / counts.sum()).round(6)
    pieces = zip(spellings, scores.tolist(), strict=True)
    return [*special, *sorted(pieces, key=lambda piece: (-piece[1], piece[0]))]
