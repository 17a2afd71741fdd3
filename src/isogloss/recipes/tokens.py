"""`isogloss tokens`: what a tokenizer costs each language, measured on parallel text.

Languages with a small share of the vocabulary need more tokens for the same sentence: less text fits into a context,
and it costs more money and time (Petrov et al. 2023, Ahia et al. 2023). On parallel text this cost is a ratio, the
*premium*: tokens of a language over tokens of English for the same sentences. Weights are not needed. Optionally, the
bits per byte of the language model are measured, too, which can be compared between vocabularies. Bytes of text that
the tokenizer does not know are left out: they are not predicted, and otherwise unknown text would lower the score.

Sums over each of twenty parts of the sentences are kept, and ratios are formed last, with a jackknife over the parts.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import bits_per_byte
from isogloss.measures.statistics import PARTS, Interval, ratio_interval
from isogloss.progress import progress
from isogloss.recipes import recipe as options
from isogloss.recipes.recipe import Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.head import head_of
from isogloss.stack.load import fingerprint, load_language_model, load_tokenizer
from isogloss.stack.stack import Chain, Stack, hash_tokenizer
from isogloss.text.batches import Sentences, chunks, known_text, marks, tokenise
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.languages import code
from isogloss.text.masking import masking_of
from isogloss.text.pieces import byte_ids, unknown_id
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.words import word_spans
from isogloss.training.perplexities import perplexity_probe

AT_ONCE = 512  # sentences tokenised together
COUNTED = {  # measure: numerator and denominator
    "tokens_per_word": ("tokens", "words"),
    "tokens_per_character": ("tokens", "characters"),
    "unknown_tokens": ("unknown", "tokens"),
    "byte_tokens": ("single_bytes", "tokens"),
}


@recipe
def tokens(
    model: options.Model = "mini",
    *bitext: Bitext | Corpus,
    reference: Annotated[
        str | None, "reference language of the premium; default English, or the first if there is none"
    ] = None,
    bits: Annotated[bool, "also load the weights and measure bits per byte of the language model"] = False,
    sample: Annotated[options.PositiveInt, "sentences per text, at most, drawn by seed"] = 2000,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.ReadingDevice = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Measure what a tokenizer costs each language on parallel text: tokens per word and character, premium, unknowns.

    The model may be a folder with a tokenizer only, or a tokenizer.json: weights are read for --bits only. Without a
    bitext, the embedded sentences in seven languages are used.

    Example: isogloss tokens ./my-model --bitext en.txt --bitext nl.txt --languages en,nl --out runs/tokens

    >>> table = tokens("mini", en, nl)  # doctest: +SKIP
    """
    texts = options.named_texts(bitexts_of(bitext) or [embedded()])
    first = None if reference is None else code(reference)
    for text in texts.values():
        languages = ", ".join(text.languages)
        require(first in (None, *text.languages), f"--reference {reference}: {text.name or 'the text'} has {languages}")
    stack: Stack | None = None
    if isinstance(model, Chain):
        raise InputError("a chain has the tokenizer of its first part; give that")
    if isinstance(model, Stack):
        stack = model
    elif bits:
        stack = load_language_model(model, revision, dtype=dtype, device=device)
    name = options.model_name(model.name if isinstance(model, Stack) else model)
    tokenizer = load_tokenizer(cast(Any, model), revision) if stack is None else stack.tokenizer
    digest = hashlib.sha256()
    hash_tokenizer(digest, tokenizer)
    hashes: dict[str, Any] = {"data": {title: text.fingerprint for title, text in texts.items()}}
    hashes["tokenizer"] = digest.hexdigest()
    if bits and stack is not None:
        head_of(stack)  # raises if the model has none
        hashes["model"] = fingerprint(stack)

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        for data, text in texts.items():
            centre = first or ("en" if "en" in text.languages else text.languages[0])
            order = np.random.default_rng(seed).permutation(text.rows).tolist()[:sample]
            base = {"model": name, "data": data, "unit": "token", "seed": seed}
            counts = {corpus.language: count(tokenizer, corpus.take(order)) for corpus in text}
            yield [cost for language in counts for cost in _cost_rows(counts, language, centre, base)]
            if stack is None or not bits:
                continue
            for corpus in text:
                method = "causal" if stack.causal else "masked"
                where = {**base, "source": corpus.language, "unit": "byte", "method": method}
                if not run.has(row("bits_per_byte", 0, **where)):
                    yield [row("bits_per_byte", language_model_bits(stack, corpus.take(order), seed), **where)]

    notes = [] if stack is None else [*stack.notes]
    return Work(name, rows, hashes, notes, None if stack is None else stack.last)


# --- counting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """Sums over each of at most `PARTS` parts of the sentences, (parts,) each: sentence i belongs to part i modulo 20.

    n: number of sentences. unknown, single_bytes: numbers of such tokens. Special tokens such as [CLS] do not count.
    """

    n: int
    tokens: Tensor
    words: Tensor
    characters: Tensor
    unknown: Tensor
    single_bytes: Tensor


def count(tokenizer: Any, corpus: Corpus) -> Counts:
    """Count tokens, words and characters of a corpus with a tokenizer of `transformers`, without truncation.

    >>> count(tokenizer, Corpus("en", ["a cat", "a dog"])).tokens.sum()  # doctest: +SKIP
    tensor(4.)
    """
    sums = torch.zeros(5, min(PARTS, max(1, len(corpus))), dtype=torch.float64)
    left_out, unknown, single = marks(tokenizer), unknown_id(tokenizer), byte_ids(tokenizer)
    for rows in chunks(range(len(corpus)), AT_ONCE):
        sentences = [corpus.sentences[number] for number in rows]
        ids = tokenizer(sentences, add_special_tokens=False, verbose=False)["input_ids"]
        flat = np.fromiter(chain.from_iterable(ids), dtype=np.int64)
        owner = np.repeat(rows, [len(sentence) for sentence in ids])
        content = ~np.isin(flat, left_out)
        masks = (content, content & (flat == (-1 if unknown is None else unknown)), content & np.isin(flat, single))
        per_row = [np.bincount(owner[mask] - rows[0], minlength=len(rows)) for mask in masks]
        words = [len(word_spans(corpus, number)) for number in rows]
        values = np.array(
            [per_row[0], words, [len(sentence) for sentence in sentences], *per_row[1:]], dtype=np.float64
        )
        sums.index_add_(1, torch.tensor(rows) % sums.shape[1], torch.from_numpy(values))
        progress(f"counting {corpus.language}", rows[-1] + 1, len(corpus))
    return Counts(len(corpus), *sums)


def _cost_rows(counts: Mapping[str, Counts], language: str, centre: str, base: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of one language; `centre` is the reference of the premium and has no premium itself."""
    sums, where = counts[language], {**base, "source": language}
    require(float(sums.tokens.sum()) > 0, f"{base['data']}: nothing is left of {language} after tokenisation")
    for measure, (above, below) in COUNTED.items():
        ratio = ratio_interval(getattr(sums, above), getattr(sums, below), n=sums.n)
        if below == "tokens":  # no interval for a share of 0 or 1, which says little about other sentences
            ratio = ratio.clipped(0, 1) if 0 < ratio.value < 1 else Interval(ratio.value, n=sums.n)
        yield row(measure, ratio.clipped(0, np.inf), **where)
    if language != centre:
        premium = ratio_interval(sums.tokens, counts[centre].tokens, n=sums.n).clipped(0, np.inf)
        yield row("premium", premium, **where, target=centre)


# --- bits per byte ---------------------------------------------------------------------------------------------------


def language_model_bits(stack: Stack, corpus: Corpus, seed: int = 0) -> Interval:
    """Bits per byte of a language model: the loss of its tokens over the bytes of the text that its tokenizer knows.

    A decoder predicts every token of a sentence from those before it, after the tokenizer's first special token, or
    else BOS, EOS or [CLS]. The likelihood is that of one tokenisation, which is a lower bound of the likelihood of the
    text. In a masked LM, masked tokens, each predicted from both sides, represent the whole text: this is no
    likelihood. Compare it between masked models only, never with that of a decoder. Of a sentence longer than the
    model's maximum length, the beginning represents the rest.
    """
    tokenizer = stack.tokenizer
    sentences = tokenise(tokenizer, corpus, max_length=stack.max_length - stack.causal)
    sentences = started(sentences, tokenizer) if stack.causal else sentences
    how: dict[str, Any] = {"masking": masking_of(tokenizer, causal=stack.causal), "device": stack.device}
    probe = perplexity_probe(stack.language_model, [sentences], every=1, seed=seed, **how)
    reading = next(reading for reading in probe.take() if reading["unit"] == "character")
    known = [known_text(tokenizer, corpus, number)[0] for number in range(len(corpus))]
    text = {"characters": sum(map(len, known)), "size": sum(map(_bytes, known))}
    value, low, high = (bits_per_byte(reading[end], **text) for end in ("value", "low", "high"))
    parts = tuple(bits_per_byte(part, **text) for part in reading.get("parts", ()))
    return Interval(value, low, high, reading["n"], parts=parts)


def started(sentences: Sentences, tokenizer: Any) -> Sentences:
    """Put a token before sentences that begin with content, so that their first token has a context, too."""
    borders = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.cls_token_id)
    known = [border for border in borders if border is not None]
    require(known, f"the tokenizer {tokenizer.name_or_path} has no token that a text begins after")
    begins = np.cumsum(sentences.lengths) - sentences.lengths
    without = ~np.isin(sentences.ids[begins], marks(tokenizer))
    ids = np.insert(sentences.ids, begins[without], known[0])
    return replace(sentences, ids=ids, lengths=sentences.lengths + without)


def _bytes(sentence: str) -> int:
    return len(sentence.encode("utf-8", "surrogatepass"))
