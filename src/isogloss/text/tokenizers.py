"""Tokenizers made from plain text: WordPiece or unigram, one for all languages or one each.

How languages share pieces is a variable of its own in pretraining (Wu et al. 2020, section 5). Four spaces:

- `joint`: one tokenizer, trained on a mixture of all languages; the usual multilingual model.
- `union`: one tokenizer per language over one table of ids; a piece spelled alike in two languages has one id. Such
  pieces are the anchors.
- `prefix`: the same, but nothing is shared except the special tokens: no anchors.
- `own`: each language has its own table from 0, for models with separate embeddings.

In `union` and `prefix` every tokenizer covers the whole table, so `len(tokenizer)` and the embedding matrix agree for
all languages. A piece of another language stands there as `nl ##eren`: no text gives it, since text is cut at spaces
before pieces are looked up.

The same text gives the same vocabulary. The WordPiece trainer numbers continuation characters in the order of a
hash table that differs between runs, and breaks ties by these numbers; here they are numbered before it starts.
"""

import json
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.text.sampling import shares

Kind = Literal["wordpiece", "unigram"]
Spaces = Literal["joint", "union", "prefix", "own"]
Lines = Callable[[], Iterable[str]]
Piece = tuple[str, float]  # spelling and, for unigram, log probability

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALLEST = 100
_ALPHABET = 6_000
_CONTINUES = "##"
_GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fill [0, 1) evenly and without a period
_CODES = 0x110000
# A digit or a sign is a piece of its own, a run of anything else is cut further; the space before it belongs to it.
_UNIGRAM_WORDS = r"▁?(?:\p{Nd}|[\p{P}\p{S}&&[^▁]]|[^▁\p{Nd}\p{P}\p{S}]+)|▁"


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
    progress: Progress = silent,
) -> dict[str, PreTrainedTokenizerFast]:
    """Train a tokenizer for every language of `texts`, which maps a language to a function that opens its text.

    size: pieces of each tokenizer, special tokens included. At most `sample` bytes are read for training, spread over
    the whole text; in a joint tokenizer language l has the share bytes_l ** exponent / sum of these (small languages
    are then read more than once). The characters beyond the most frequent 6,000, or a third of `size`, are unknown.

    Special tokens are `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4. WordPiece cuts at spaces, punctuation
    and around ideographs, as BERT does; unigram works on NFKC text with `▁` for a space, digits and signs apart.

    >>> made = train_tokenizers({"en": english, "nl": dutch}, size=8_000)  # doctest: +SKIP
    >>> made["en"] is made["nl"], made["en"].tokenize("sleeping")  # doctest: +SKIP
    (True, ['sleep', '##ing'])
    """
    if size < SMALLEST:
        raise InputError(f"a vocabulary of {size} pieces is too small; ask for at least {SMALLEST}")
    bytes_of = {language: _count_bytes(language, lines) for language, lines in texts.items()}
    tokenizer = _machine(kind, lowercase=lowercase)
    groups = [list(texts)] if spaces == "joint" else [[language] for language in texts]
    pieces: dict[str, list[Piece]] = {}
    for languages in groups:
        rates = _rates({language: bytes_of[language] for language in languages}, exponent, sample // len(groups))

        def cleaned(languages: list[str] = languages, rates: Mapping[str, float] = rates) -> Iterator[str]:
            for language in languages:
                for text in _spread(texts[language](), rates[language]):
                    yield tokenizer.normalizer.normalize_str(text)

        found = _train(tokenizer, cleaned, languages, kind=kind, size=size, progress=progress)
        pieces |= dict.fromkeys(languages, found)
    tables = pieces if spaces in ("joint", "own") else _one_table(pieces, shared=spaces == "union")
    made: dict[int, PreTrainedTokenizerFast] = {}  # languages with one vocabulary have one tokenizer
    for table in tables.values():
        if id(table) not in made:
            made[id(table)] = _assemble(table, kind, lowercase=lowercase, max_length=max_length)
    return {language: made[id(table)] for language, table in tables.items()}


def _count_bytes(language: str, lines: Lines) -> int:
    count = sum(len(text.encode("utf-8", "surrogatepass")) for text in lines())
    if not count:
        raise InputError(f"the text of {language} is empty; give a file with text in {language}, or leave it out")
    return count


def _rates(bytes_of: Mapping[str, int], exponent: float, sample: int) -> dict[str, float]:
    """How often each paragraph of a language is read: 0.25 one in four, 2.5 two or three times."""
    budget = min(sample, sum(bytes_of.values()))
    wanted = shares(bytes_of, exponent=exponent)
    return {language: wanted[language] * budget / count for language, count in bytes_of.items()}


def _spread(texts: Iterable[str], rate: float) -> Iterator[str]:
    """Paragraphs at this rate, evenly over the whole text, whatever period its files have."""
    always, sometimes = divmod(rate, 1)
    for number, text in enumerate(texts):
        for _ in range(int(always) + ((number * _GOLDEN) % 1 < sometimes)):
            yield text


def _machine(kind: Kind, *, lowercase: bool) -> Tokenizer:
    """A tokenizer that cleans and cuts text, still without pieces."""
    if kind == "wordpiece":
        machine = Tokenizer(models.WordPiece(vocab={}, unk_token=MARKS[1]))
        machine.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=False)
        machine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        machine.decoder = decoders.WordPiece(prefix=_CONTINUES)
        return machine
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    machine = Tokenizer(models.Unigram())
    machine.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    spaces = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    words = pre_tokenizers.Split(Regex(_UNIGRAM_WORDS), "isolated")
    machine.pre_tokenizer = pre_tokenizers.Sequence([spaces, words])
    machine.decoder = decoders.Metaspace(prepend_scheme="always")
    return machine


def _train(
    tokenizer: Tokenizer, cleaned: Lines, languages: Sequence[str], *, kind: Kind, size: int, progress: Progress
) -> list[Piece]:
    """The pieces of a vocabulary in the order of their ids, special tokens first."""
    stage = f"tokenizer of {', '.join(languages)}"
    characters, continuing, total = _characters(cleaned())
    limit = min(_ALPHABET, size // 3)
    # Most frequent first; equally frequent ones by code, so that the cut is the same every time.
    order = np.lexsort((np.arange(_CODES), -characters))
    kept = order[:limit]
    rare = dict.fromkeys(np.flatnonzero(characters).tolist(), " ")
    for code in kept.tolist():
        rare.pop(code, None)

    def fed() -> Iterator[str]:
        done = 0
        for number, text in enumerate(cleaned()):
            done += len(text)
            if number % 1_000 == 0:
                progress(stage, done, total)
            yield text.translate(rare)

    # The trainer gets cleaned text: rare characters are known only after cleaning.
    learner = Tokenizer(models.WordPiece(vocab={}, unk_token=MARKS[1]) if kind == "wordpiece" else models.Unigram())
    learner.pre_tokenizer = tokenizer.pre_tokenizer
    if kind == "wordpiece":
        first = [_CONTINUES + chr(code) for code in np.sort(kept).tolist() if continuing[code]]
        trainer: trainers.Trainer = trainers.WordPieceTrainer(
            vocab_size=size, min_frequency=2, special_tokens=[*MARKS, *first], show_progress=False
        )
    else:
        trainer = trainers.UnigramTrainer(
            vocab_size=size, special_tokens=list(MARKS), unk_token=MARKS[1], show_progress=False
        )
    learner.train_from_iterator(fed(), trainer)
    progress(stage, total, total)
    pieces = _wordpieces(learner) if kind == "wordpiece" else _unigram_pieces(learner)
    if len(pieces) < size:
        raise InputError(
            f"the text of {', '.join(languages)} supports {len(pieces):,} pieces, not {size:,}; "
            "lower --vocabulary or give more text"
        )
    return pieces


def _characters(texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray, int]:
    """How often each character occurs, how often inside a word after its first character, and characters in all.

    Both counts are (0x110000,), numbered by code point.
    """
    everywhere, inside = np.zeros(_CODES, dtype=np.int64), np.zeros(_CODES, dtype=np.int64)
    total = 0
    for chunk in _joined(texts, 1_000_000):
        total += len(chunk)
        codes = np.frombuffer(chunk.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        everywhere += np.bincount(codes, minlength=_CODES)
        joins = ~_borders()[codes]
        inside += np.bincount(codes[1:][joins[1:] & joins[:-1]], minlength=_CODES)
    everywhere[[ord(" "), ord("\n")]] = 0
    return everywhere, inside, total


def _joined(texts: Iterable[str], size: int) -> Iterator[str]:
    """Texts joined by line feeds into strings of about `size` characters."""
    waiting: list[str] = []
    length = 0
    for text in texts:
        waiting.append(text)
        length += len(text) + 1
        if length >= size:
            yield "\n".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield "\n".join(waiting)


@cache
def _borders() -> np.ndarray:
    """Which characters end a word before and after them: spaces and punctuation, (0x110000,) of bool."""
    table = np.zeros(_CODES, dtype=bool)
    for code in range(_CODES):
        table[code] = chr(code).isspace() or unicodedata.category(chr(code))[0] == "P"
    table[[ord(sign) for sign in string.punctuation]] = True  # BERT counts $ + < = > ^ ` | ~ too
    return table


def _wordpieces(learner: Tokenizer) -> list[Piece]:
    vocabulary = learner.get_vocab()
    return [(piece, 0.0) for piece in sorted(vocabulary, key=vocabulary.__getitem__)]


def _unigram_pieces(learner: Tokenizer) -> list[Piece]:
    """Most probable first. Probabilities are summed in no fixed order, so their last digits are noise: rounded."""
    found = [(str(piece), round(float(score), 5)) for piece, score in json.loads(learner.to_str())["model"]["vocab"]]
    marks, pieces = found[: len(MARKS)], found[len(MARKS) :]
    return [*marks, *sorted(pieces, key=lambda piece: (-piece[1], piece[0]))]


def _one_table(pieces: Mapping[str, Sequence[Piece]], *, shared: bool) -> dict[str, list[Piece]]:
    """One table of ids for all languages, spelled for each: what is not its own is written so that no text gives it."""
    owners: dict[tuple[str, str], dict[str, float]] = {}  # (owner, spelling): score in each language that has it
    for language, own in pieces.items():
        for spelling, score in own[len(MARKS) :]:
            owners.setdefault(("" if shared else language, spelling), {})[language] = score
    marks = next(iter(pieces.values()))[: len(MARKS)]
    return {
        language: [
            *marks,
            *(
                (spelling, scores[language]) if language in scores else (f"{next(iter(scores))} {spelling}", 0.0)
                for (_, spelling), scores in owners.items()
            ),
        ]
        for language in pieces
    }


def _assemble(pieces: Sequence[Piece], kind: Kind, *, lowercase: bool, max_length: int) -> PreTrainedTokenizerFast:
    """A tokenizer with these pieces, ids in their order."""
    machine = _machine(kind, lowercase=lowercase)
    if kind == "wordpiece":
        numbers = {spelling: number for number, (spelling, _) in enumerate(pieces)}
        machine.model = models.WordPiece(vocab=numbers, unk_token=MARKS[1], continuing_subword_prefix=_CONTINUES)
    else:
        machine.model = models.Unigram(list(pieces), unk_id=1)
    machine.add_special_tokens(list(MARKS))
    machine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    pad, unknown, first, last, mask = MARKS
    return PreTrainedTokenizerFast(
        tokenizer_object=machine,
        model_max_length=max_length,
        # Sentences of a pair are not told apart by a type: ModernBERT takes none, and streams have one.
        model_input_names=["input_ids", "attention_mask"],
        pad_token=pad,
        unk_token=unknown,
        cls_token=first,
        sep_token=last,
        mask_token=mask,
    )
