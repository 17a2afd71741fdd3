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
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from tokenizers import models, processors

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.text.pieces import CONTINUES, MARKS, Kind, Lines, Piece, machine, train_pieces
from isogloss.text.sampling import shares

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Spaces = Literal["joint", "union", "prefix", "own"]

SMALLEST = 100
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
    progress: Progress = silent,
) -> "dict[str, PreTrainedTokenizerFast]":
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
    refuse_small(size)
    for chosen, known in ((kind, get_args(Kind)), (spaces, get_args(Spaces))):
        if chosen not in known:
            raise InputError(f"{chosen!r} is not known; choose {', '.join(known)}")
    bytes_of = {language: _count_bytes(language, lines) for language, lines in texts.items()}
    cleaner = machine(kind, lowercase=lowercase)
    groups = [list(texts)] if spaces == "joint" else [[language] for language in texts]
    pieces: dict[str, list[Piece]] = {}
    for languages in groups:
        rates = _rates({language: bytes_of[language] for language in languages}, exponent, sample // len(groups))

        def cleaned(languages: list[str] = languages, rates: Mapping[str, float] = rates) -> Iterator[str]:
            for language in languages:
                for text in _spread(texts[language](), rates[language]):
                    yield cleaner.normalizer.normalize_str(text)

        found = train_pieces(cleaned, languages, kind=kind, size=size, progress=progress)
        pieces |= dict.fromkeys(languages, found)
    tables = pieces if spaces in ("joint", "own") else _one_table(pieces, shared=spaces == "union")
    made: dict[int, PreTrainedTokenizerFast] = {}  # languages with one vocabulary have one tokenizer
    for table in tables.values():
        if id(table) not in made:
            made[id(table)] = _assemble(table, kind, lowercase=lowercase, max_length=max_length)
    return {language: made[id(table)] for language, table in tables.items()}


def refuse_small(size: int) -> None:
    """Refuse a vocabulary that would hold little more than single letters."""
    if size < SMALLEST:
        raise InputError(f"a vocabulary of {size} pieces is too small; ask for at least {SMALLEST}")


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


def _assemble(pieces: Sequence[Piece], kind: Kind, *, lowercase: bool, max_length: int) -> "PreTrainedTokenizerFast":
    """A tokenizer with these pieces, ids in their order."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = machine(kind, lowercase=lowercase)
    if kind == "wordpiece":
        numbers = {spelling: number for number, (spelling, _) in enumerate(pieces)}
        tokenizer.model = models.WordPiece(vocab=numbers, unk_token=MARKS[1], continuing_subword_prefix=CONTINUES)
    else:
        tokenizer.model = models.Unigram(list(pieces), unk_id=1)
    tokenizer.add_special_tokens(list(MARKS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    pad, unknown, first, last, mask = MARKS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        # Sentences of a pair are not told apart by a type: ModernBERT takes none, and streams have one.
        model_input_names=["input_ids", "attention_mask"],
        pad_token=pad,
        unk_token=unknown,
        cls_token=first,
        sep_token=last,
        mask_token=mask,
    )
