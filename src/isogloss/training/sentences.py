"""Masked-LM training and evaluation sentence by sentence, as fine-tuning studies do it (Hussain & Dudev 2020).

Pretraining cuts streams of one length out of running text. Here a corpus is a set of sentences: an epoch of training
sees each of them once, in a new order, and an evaluation predicts the same tokens of every sentence each time it is
taken. Three defects of the original code can be switched on, to see what each does to a curve: padding that is attended
to (`attend_padding`), an evaluation that stops early (`limit`), and masks redrawn at each evaluation (`redraw`).

Where the hardware allows, an evaluation runs sentences end to end in one row, so that no padding is computed, and asks
the vocabulary head for the masked places only. Ids, masks and batches are made once, when the probe is.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.seeds import seed_of
from isogloss.text.batches import chunks, encode
from isogloss.text.batches import marks as marks_of
from isogloss.text.corpora import Corpus
from isogloss.text.masking import IGNORE, fixed_masks, mask
from isogloss.text.words import word_spans
from isogloss.training.captured import Captured
from isogloss.training.loop import Objective, Part, Rows
from isogloss.training.objectives import masked_loss, packed_loss
from isogloss.training.probes import Probe, Reading, perplexities
from isogloss.training.sentencebatches import Asked, ask, by_sentence, choose_layout, padding_id, surprise, tokens_of

TOKENISED_AT_ONCE = 2_048  # sentences


@dataclass(frozen=True)
class Sentences:
    """The sentences of one corpus as token ids, special tokens included, end to end.

    ids: (tokens,); lengths: (sentences,). words and characters are those the ids stand for: of a sentence that was cut
    to the model's length, the share that was kept. shortened: how many were cut.
    """

    language: str
    name: str
    ids: np.ndarray
    lengths: np.ndarray
    words: int
    characters: int
    shortened: int

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.lengths)


def tokenise(tokenizer: Any, corpus: Corpus, *, max_length: int, progress: Progress = silent) -> Sentences:
    """Token ids of a whole corpus, each sentence at most `max_length` long; without a name it is called its language.

    >>> tokenise(tokenizer, Corpus("en", ["a cat", "a dog"]), max_length=512).lengths  # doctest: +SKIP
    array([4, 4])
    """
    if len(corpus) == 0:
        raise InputError(f"the corpus {corpus.name or corpus.language} has no sentences; give at least one")
    ids, lengths, words, characters, shortened = [], [], 0.0, 0.0, 0
    borders = tokenizer.num_special_tokens_to_add(pair=False)
    for rows in chunks(range(len(corpus)), TOKENISED_AT_ONCE):
        batch = encode(tokenizer, corpus, rows, max_length=max_length)
        ids.append(batch.ids.numpy().astype(np.int32))
        lengths.append(batch.lengths.numpy())
        for row, length, cut in zip(rows, batch.lengths.tolist(), batch.shortened.tolist(), strict=True):
            text = corpus.sentences[row]
            whole = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if cut else ()
            share = (length - borders) / len(whole) if cut else 1.0
            words += share * len(word_spans(corpus, row))
            characters += share * len(text)
            shortened += cut
        progress(f"tokenising {corpus.language}", rows[-1] + 1, len(corpus))
    flat, counts = np.concatenate(ids), np.concatenate(lengths)
    name = corpus.name or corpus.language
    return Sentences(corpus.language, name, flat, counts, round(words), round(characters), shortened)


def masking_of(tokenizer: Any) -> dict[str, Any]:
    """What masking a tokenizer's sentences needs, as keyword arguments of the functions below.

    mask_id: the mask. marks: ids that are never masked. pool (m,): ids that random words are drawn from, all but the
    marks.

    >>> masked_sentences(model, sentences, batch=8, seed=0, **masking_of(tokenizer))  # doctest: +SKIP
    """
    special = sorted({*marks_of(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id} - {None})
    content = torch.ones(len(tokenizer), dtype=torch.bool)
    content[special] = False
    return {"mask_id": tokenizer.mask_token_id, "marks": special, "pool": content.nonzero().squeeze(1)}


def steps_in_epoch(sentences: Sentences, batch: int) -> int:
    """Steps that see every sentence once; the last of them may have fewer than `batch`."""
    return math.ceil(len(sentences) / batch)


def masked_sentences(
    model: Any,
    sentences: Sentences,
    *,
    batch: int,
    seed: int,
    mask_id: int,
    marks: Sequence[int],
    pool: Tensor,
    device: torch.device,
    share: float = 0.15,
    attend_padding: bool = False,
    graphs: Captured | None = None,
) -> Objective:
    """Masked language modelling on `batch` sentences a step, padded to the longest of them.

    model: a `...ForMaskedLM`. The order of an epoch is a permutation drawn from the seed and its number; `share` of the
    content tokens is predicted, masked anew at each step. marks: special ids, never masked; pool: ids (m,) that random
    words are drawn from. attend_padding: no attention mask is given, so that padding is read as text. graphs: of the
    encoder's blocks, through which sentences run end to end instead.
    """
    if batch < 1:
        raise InputError(f"a batch has at least one sentence, not {batch}")
    if len(sentences) < batch:
        raise InputError(
            f"the target corpus has {len(sentences)} sentences, fewer than one batch of {batch} ({sentences.name}); "
            "give more sentences or a smaller batch"
        )
    content = _content(sentences, marks)
    if not content.any():
        raise _no_content(sentences)
    words = pool.to(device)
    starts = np.cumsum(sentences.lengths) - sentences.lengths
    padding, steps = padding_id(model), steps_in_epoch(sentences, batch)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(seed_of(seed, "order", epoch)).permutation(len(sentences))

    def draw(step: int) -> list[Part]:
        epoch, number = divmod(step, steps)
        chosen = order(epoch)[number * batch : (number + 1) * batch]
        tokens, text = tokens_of(chosen, starts, sentences.lengths)  # (rows, longest)
        ids = torch.from_numpy(np.where(text, sentences.ids[tokens], padding).astype(np.int64)).to(device)
        maskable = torch.from_numpy(content[tokens] & text).to(device)
        generator = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
        found = mask(ids, maskable, mask_id=mask_id, pool=words, generator=generator, share=share)
        rows = {"inputs": found.inputs, "places": found.places, "labels": found.labels}
        if not attend_padding:
            rows["attention"] = torch.from_numpy(text.astype(np.int64)).to(device)
        if graphs is not None:
            rows["lengths"] = torch.from_numpy(sentences.lengths[chosen])
        return [Part(rows)]

    def loss(rows: Rows, name: str) -> Tensor:
        found = None if graphs is None else packed_loss(graphs, model, rows)
        return masked_loss(model, rows) if found is None else found

    return Objective(draw, loss, lambda rows: (rows["labels"] != IGNORE).sum())


def sentence_perplexity_probe(
    model: nn.Module | Callable[[], nn.Module],
    corpora: Sequence[Sentences],
    *,
    target: str,
    every: int,
    seed: int,
    mask_id: int,
    marks: Sequence[int],
    pool: Tensor,
    device: torch.device | str,
    dtype: torch.dtype | None = None,
    tokens: int | None = None,
    share: float = 0.15,
    limit: int | None = None,
    attend_padding: bool = False,
    redraw: bool | Callable[[], int] = False,
    pack: bool | None = None,
    rows: int = 16,
) -> Probe:
    """Perplexity of a masked model on sentences, corpus by corpus, per token, word and character.

    model: a `...ForMaskedLM`, or what gives it at each take (asked once here too, for its family). dtype: of autocast,
    none if absent. tokens: of a batch, which bounds memory; the default suits the device. pack: sentences lie end to
    end; by default in half precision on a GPU, where the family allows. None of these changes more than rounding, for
    the masks of a sentence are a function of the seed, its corpus (language and name) and its number there.

    limit: only the first so many sentences of each corpus; `n`, the predicted tokens, tells. attend_padding: no
    attention mask is given, and batches are `rows` neighbours of the corpus, since their padding now matters.
    redraw: new masks at each take; a function gives the number they are drawn from (the step, so that a run that is
    resumed draws what it would have drawn), True counts the takes.

    Readings: `perplexity` of each corpus (`target` its language, `data` its name) in three `unit`s, with a jackknife
    interval over blocks of neighbouring sentences; and of target `others`, all corpora that are not of the language
    `target` pooled, where there are any.
    """
    _refuse_unclear(corpora, limit)
    texts = [_text(one, marks, limit) for one in corpora]
    layout = choose_layout(
        _given(model),
        torch.device(device),
        dtype=dtype,
        tokens=tokens,
        pack=pack,
        rows=rows if attend_padding else None,
    )
    words, takes = pool.cpu().numpy(), itertools.count()

    def prepare(text: _Text, *number: int) -> list[Asked]:
        key = seed_of(seed, "sentence masks", text.language, text.name, *number)
        inputs, chosen = fixed_masks(
            text.ids, text.lengths, content=text.content, mask_id=mask_id, pool=words, seed=key, share=share
        )
        return ask(text.ids, text.lengths, inputs=inputs, chosen=chosen, layout=layout)

    ready = None if redraw else [prepare(text) for text in texts]

    def take() -> Iterator[Reading]:
        number = redraw() if callable(redraw) else next(takes)
        batches = [prepare(text, number) for text in texts] if ready is None else ready
        # All texts are under way before the first is waited for, so that the device never idles between two.
        nats = [surprise(_given(model), some, layout=layout) for some in batches]
        sizes = [len(text.lengths) for text in texts]
        found = [by_sentence(*one[:2], sentences=one[2]) for one in zip(nats, batches, sizes, strict=True)]
        for text, one in zip(texts, found, strict=True):
            yield from ({**reading, "data": text.name} for reading in perplexities(text.language, [text], [one]))
        others = [i for i, text in enumerate(texts) if text.language != target]
        if others:
            pooled = perplexities("others", [texts[i] for i in others], [found[i] for i in others])
            names = "+".join(dict.fromkeys(texts[i].name for i in others))
            yield from ({**one, "data": names} for one in pooled)

    return Probe(every, take)


@dataclass(frozen=True)
class _Text:
    """What of a corpus is evaluated: ids, content (tokens,), lengths (sentences,); the counts are of all of it."""

    language: str
    name: str
    ids: np.ndarray
    content: np.ndarray
    lengths: np.ndarray
    tokens: int
    words: int
    characters: int


def _text(corpus: Sentences, marks: Sequence[int], limit: int | None) -> _Text:
    content = _content(corpus, marks)
    lengths = corpus.lengths[:limit]
    used = int(lengths.sum())
    if not content[:used].any():
        raise _no_content(corpus, limit)
    counts = int(content.sum()), corpus.words, corpus.characters
    return _Text(corpus.language, corpus.name, corpus.ids[:used], content[:used], lengths, *counts)


def _content(corpus: Sentences, marks: Sequence[int]) -> np.ndarray:
    return ~np.isin(corpus.ids, list(marks))


def _no_content(corpus: Sentences, limit: int | None = None) -> InputError:
    first = "" if limit is None else f" in its first {limit} sentences"
    return InputError(
        f"the corpus {corpus.name} ({corpus.language}) has no token that could be masked{first}; give other text"
    )


def _refuse_unclear(corpora: Sequence[Sentences], limit: int | None) -> None:
    if not corpora:
        raise InputError("perplexity needs at least one corpus to evaluate on")
    if limit is not None and limit < 1:
        raise InputError(f"perplexity needs at least one sentence a corpus, not {limit}")
    names = [f"{one.name} ({one.language})" for one in corpora]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"two corpora are called {twice[0]}; their readings could not be told apart: rename one")


def _given(model: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    return model if isinstance(model, nn.Module) else model()
