"""`isogloss tokens`: what a tokenizer costs each language, measured on parallel text.

Languages with a small share of the vocabulary need more tokens for the same sentence: less text fits into a context,
and it costs more money and time (Petrov et al. 2023, Ahia et al. 2023). On parallel text this cost is a ratio, the
*premium*: tokens of a language over tokens of English for the same sentences. Weights are not needed. Optionally, the
bits per byte of the language model are measured, too, which can be compared between vocabularies.

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
from torch.nn.functional import cross_entropy

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import bits_of_perplexity, bits_per_byte
from isogloss.measures.statistics import PARTS, Interval, ratio_interval
from isogloss.progress import progress
from isogloss.recipes import recipe as options
from isogloss.recipes.recipe import Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.head import head_of, in_blocks, next_tokens
from isogloss.stack.load import fingerprint, load_language_model, load_tokenizer
from isogloss.stack.stack import Chain, Stack, hash_tokenizer, measuring
from isogloss.text.batches import Batch, batch_tokens, chunks, encode, group, marks, tokenise
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
        hashes["model"] = fingerprint(stack.language_model, stack)

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
                method, measured = ("causal", causal_bits) if stack.causal else ("masked", masked_bits)
                where = {**base, "source": corpus.language, "unit": "byte", "method": method}
                if not run.has(row("bits_per_byte", 0, **where)):
                    yield [row("bits_per_byte", measured(stack, corpus.take(order), seed), **where)]

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


def causal_bits(stack: Stack, corpus: Corpus, seed: int = 0) -> Interval:
    """Bits per byte of a decoder: the negative log2-likelihood of all tokens of the sentences, over their bytes.

    Sentences are scored separately, each after the tokenizer's first special token, or else BOS, EOS or [CLS], so that
    its first token is predicted, too. Sentences longer than the model's maximum length are left out. The likelihood is
    that of one tokenisation, which is a lower bound of the likelihood of the text.
    """
    tokenizer, head = stack.tokenizer, head_of(stack)
    borders = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.cls_token_id)
    known = [border for border in borders if border is not None]
    require(known, f"the tokenizer of {stack.name} has no token that a text begins after")
    sums = torch.zeros(2, min(PARTS, len(corpus)), dtype=torch.float64)  # nats, bytes
    read = 0
    for rows in chunks(range(len(corpus)), AT_ONCE):
        whole = _started(encode(tokenizer, corpus, rows, max_length=stack.max_length - 1), known[0])
        kept = torch.nonzero(~whole.shortened).squeeze(1).tolist()
        lengths = whole.lengths[kept].tolist()
        for members in group(lengths, tokens=batch_tokens(stack.device)):
            batch = whole.take([kept[member] for member in members])
            parts = batch.rows % sums.shape[1]
            nats = sentence_nats(stack, head, batch)
            sizes = [_bytes(corpus.sentences[number]) for number in batch.rows.tolist()]
            sums.index_add_(1, parts, torch.stack([nats, torch.tensor(sizes, dtype=torch.float64)]))
            read += len(members)
            progress(f"reading {corpus.language}", read, len(corpus))
    require(read, f"every sentence of {corpus.language} is longer than {stack.name} reads")
    return bits_per_byte(*sums, n=read)


def sentence_nats(stack: Stack, head: Any, batch: Batch) -> Tensor:
    """The negative log-likelihood of each sentence's content tokens except the first, (sentences,), float64."""
    batch = batch.to(stack.device)
    before, labels, owners = next_tokens(batch)
    with measuring(stack.language_model):
        states = stack.read(batch, [stack.last])[stack.last][before]
        blocks = in_blocks(head, states, len(stack.language_model.get_output_embeddings().weight))
        nats = torch.cat([cross_entropy(scores, labels[places], reduction="none") for places, scores in blocks])
    totals = torch.zeros(len(batch), dtype=torch.float64)
    return totals.index_add_(0, owners.cpu(), nats.cpu().double())


def _started(batch: Batch, start: int) -> Batch:
    """Insert the token `start` before sentences that begin with content, so that the first token has a context."""
    begins = torch.cumsum(batch.lengths, 0) - batch.lengths
    without = batch.content[begins]
    spread = torch.arange(len(batch.ids)) + torch.cumsum(without.long(), 0)[batch.sentence_of_tokens()]
    added = {}
    for name, filling in (("ids", start), ("content", False), ("words", -1)):
        values = getattr(batch, name)
        added[name] = torch.full((len(batch.ids) + int(without.sum()),), filling, dtype=values.dtype)
        added[name][spread] = values
    return replace(batch, lengths=batch.lengths + without.long(), **added)


def masked_bits(stack: Stack, corpus: Corpus, seed: int = 0) -> Interval:
    """Bits per byte of a masked LM from the cross-entropy of masked tokens: a pseudo-likelihood, not a likelihood.

    It uses the perplexity of `drift` and `pretrain`: masked tokens, each predicted from both sides, represent the whole
    text. Compare it between masked models only, never with that of a decoder.
    """
    sentences = tokenise(stack.tokenizer, corpus, max_length=stack.max_length)
    how: dict[str, Any] = {"masking": masking_of(stack.tokenizer), "device": stack.device}
    probe = perplexity_probe(stack.language_model, [sentences], every=1, seed=seed, **how)
    reading = next(reading for reading in probe.take() if reading["unit"] == "character")
    text = {"characters": sum(map(len, corpus)), "size": sum(map(_bytes, corpus))}
    value, low, high = (bits_of_perplexity(reading[end], **text) for end in ("value", "low", "high"))
    parts = tuple(bits_of_perplexity(part, **text) for part in reading.get("parts", ()))
    return Interval(value, low, high, reading["n"], parts=parts)


def _bytes(sentence: str) -> int:
    return len(sentence.encode("utf-8", "surrogatepass"))
