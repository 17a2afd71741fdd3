"""The logit lens: a language model's head applied at every layer, on running text and on prompts.

At chosen tokens of a batch the states of every cut go through the head, a few tokens at a time, and are immediately
reduced to a few numbers: the probability of sets of pieces, the rank of a piece, entropy, shares of scripts. No tensor
of the size of the vocabulary is kept.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from isogloss.progress import progress
from isogloss.seeds import seed_of
from isogloss.stack.head import head_of, in_blocks, next_tokens
from isogloss.stack.stack import Stack, measuring
from isogloss.text.batches import Batch, batch_tokens, chunks, encode, group
from isogloss.text.corpora import Corpus
from isogloss.text.masking import fixed_masks, masking_of
from isogloss.text.pieces import beginnings, first_pieces, piece_bytes, scripts_of
from isogloss.text.prompts import PromptSet, Words

AT_ONCE = 256  # sentences that are tokenised together
PROMPTS_AT_ONCE = 32
MOST_TOKENS = 16_384  # maximum tokens of a batch on a GPU: each has logits over the whole vocabulary


@dataclass(frozen=True)
class Asked:
    """Places (token positions) of a batch at which the head is read, and sets of pieces to measure there.

    count: sets at each place. owners (k,): the sentence or prompt of each place. states (k,): indices of the tokens.
    labels (k, columns): pieces whose rank is measured; there may be none. places, ids, sets (m,): the place, the piece
    and the set of every member of a set.
    """

    batch: Batch
    count: int
    owners: Tensor
    states: Tensor
    labels: Tensor
    places: Tensor
    ids: Tensor
    sets: Tensor


@dataclass(frozen=True)
class Reading:
    """The head's predictions at some places of one layer, on the CPU in float64, (k, ...) each.

    mass: probability of each set. rank: of the labels. entropy: in bits. scripts: probability of each script, and of
    all other pieces. top: the most probable piece.
    """

    mass: Tensor
    rank: Tensor
    entropy: Tensor
    scripts: Tensor
    top: Tensor


class Lens:
    """A language model and the scripts and word beginnings of its vocabulary.

    stack: the model. layers: cuts to read. scripts: those whose share of the probability is measured. by_chance: the
    share of the vocabulary of each, and then of all other pieces. causal: whether it is a decoder; a masked model is
    read at masks.
    """

    def __init__(self, stack: Stack, layers: Sequence[int], scripts: Sequence[str]) -> None:
        # Not packed, but with the model's own attention, so that the top cut gives the model's logits exactly.
        self.stack, self.layers, self.scripts = replace(stack, pack=False), sorted(layers), scripts
        self.head, self.causal = head_of(stack), stack.causal
        self.size = len(stack.language_model.get_output_embeddings().weight)
        texts = (piece_bytes(stack.tokenizer) + [b""] * self.size)[: self.size]
        self.known = beginnings(texts)
        numbers = {script: number for number, script in enumerate(scripts)}
        groups = [numbers.get(script, len(scripts)) for script in scripts_of(texts)]
        self.members = one_hot(torch.tensor(groups, device=stack.device), len(scripts) + 1).float()
        self.by_chance = self.members.double().mean(dim=0).tolist()

    def askable(self, words: Words) -> bool:
        """Whether every language has a piece that begins its words, and no piece begins words of two languages."""
        sets = [set(first_pieces(own, self.known)) for own in words.values()]
        return all(sets) and len(set.union(*sets)) == sum(map(len, sets))

    def read(self, asked: Asked) -> list[Reading]:
        """The readings of one batch, layer by layer."""

        def reduce(_: int, states: Tensor) -> Reading:
            parts: list[tuple[Tensor, ...]] = []
            for places, scores in in_blocks(self.head, states[asked.states], self.size):
                chances = scores.softmax(dim=1)
                inside = (asked.places >= places.start) & (asked.places < places.start + len(scores))
                own = (asked.places[inside] - places.start, asked.ids[inside], asked.sets[inside])
                rank = torch.zeros_like(asked.labels[places])
                for column, labels in enumerate(asked.labels[places].T):
                    rank[:, column] = ranks(scores, labels)
                shares = group_shares(chances, self.members)
                mass = masses(chances, *own, asked.count)
                parts.append((mass, rank, entropy_bits(chances), shares, scores.argmax(dim=1)))
            return Reading(*(torch.cat(each).cpu().double() for each in zip(*parts, strict=True)))

        with measuring(self.stack.language_model):
            readings = self.stack.read(asked.batch, self.layers, reduce=reduce)
        return [readings[layer] for layer in self.layers]

    def asked_of_text(self, corpus: Corpus, seed: int) -> Iterator[Asked]:
        """Batches of sentences: the next token at every place of a decoder, or masked tokens of a masked model.

        There are two sets and two labels for each place: the token, and as a chance floor that of another place of the
        batch, drawn by seed.
        """
        room = min(MOST_TOKENS, batch_tokens(self.stack.device, padded=True))
        done = 0
        for rows in chunks(range(len(corpus)), AT_ONCE):
            text = encode(self.stack.tokenizer, corpus, rows, max_length=self.stack.max_length)
            masked = text if self.causal else self._masked(text, seed_of(seed, "masks", corpus.language))
            for members in group(text.lengths.tolist(), tokens=room):
                batch, original = (each.take(members).to(self.stack.device) for each in (masked, text))
                states = torch.nonzero(batch.content).squeeze(1)
                labels, owners = original.ids[states], batch.sentence_of_tokens()[states]
                if self.causal:
                    states, labels, owners = next_tokens(batch)
                chance = np.random.default_rng(seed_of(seed, corpus.language, int(batch.rows[0])))
                other = labels[torch.from_numpy(chance.permutation(len(labels))).to(labels.device)]
                places = torch.arange(len(labels), device=labels.device).repeat(2)
                sets = (torch.arange(len(places), device=labels.device) >= len(labels)).long()
                both = torch.stack([labels, other], dim=1)  # (k, 2)
                if len(states):
                    yield Asked(
                        batch,
                        2,
                        owners=batch.rows[owners].cpu(),
                        states=states,
                        labels=both,
                        places=places,
                        ids=both.T.flatten(),
                        sets=sets,
                    )
                done += len(members)
                progress(f"reading {corpus.language}", done, len(corpus))

    def _masked(self, text: Batch, seed: int) -> Batch:
        """Mask some tokens of the sentences; `content` marks these tokens.

        They are chosen as in training, but all are masked: none is left unchanged or replaced by a random word.
        """
        masking, ids = masking_of(self.stack.tokenizer), text.ids.numpy()
        how: dict[str, Any] = {
            "mask_id": masking.mask_id,
            "pool": masking.pool.numpy(),
            "content": masking.content(ids),
        }
        _, chosen = fixed_masks(ids, text.lengths.numpy(), seed=seed, first=int(text.rows[0]), **how)
        asked = torch.from_numpy(chosen)
        return replace(text, ids=text.ids.masked_fill(asked, int(how["mask_id"])), content=asked)

    def asked_of_prompts(self, asked: PromptSet) -> Iterator[Asked]:
        """Batches of prompts, read where the word would begin; prompts longer than the model's limit are left out.

        Sets: for each language the pieces that begin the word, and as a chance floor those of the next prompt's word.
        """
        tokenizer, languages = self.stack.tokenizer, list(asked.prompts[0].words)
        ending = "" if self.causal else f'{tokenizer.mask_token}"'
        corpus = Corpus(asked.target, [prompt.text + ending for prompt in asked.prompts])
        for rows in chunks(range(len(corpus)), PROMPTS_AT_ONCE):
            batch = encode(tokenizer, corpus, rows, max_length=self.stack.max_length)
            batch = batch.take(torch.nonzero(~batch.shortened).squeeze(1).tolist())
            is_place = batch.content if self.causal else batch.ids == tokenizer.mask_token_id
            last = torch.where(is_place, torch.arange(len(batch.ids)), -1)
            ends = torch.cumsum(batch.lengths, 0).tolist()
            members: list[tuple[int, int, int]] = []
            for place, number in enumerate(batch.rows.tolist()):
                for chance in (0, 1):
                    words = asked.prompts[(number + chance) % len(corpus)].words
                    for index, language in enumerate(languages):
                        own = first_pieces(words[language], self.known)
                        members += [(place, piece, 2 * index + chance) for piece in own]
            if members:
                states = torch.stack([own.max() for own in torch.tensor_split(last, ends[:-1])])
                places, ids, sets = torch.tensor(members).T
                labels = torch.zeros(len(states), 0, dtype=torch.long)
                moved = [each.to(self.stack.device) for each in (states, labels, places, ids, sets)]
                yield Asked(batch.to(self.stack.device), 2 * len(languages), batch.rows, *moved)


# Statistics of a distribution over a vocabulary: functions of probabilities or of logits


def masses(probabilities: Tensor, places: Tensor, ids: Tensor, sets: Tensor, count: int) -> Tensor:
    """The probability of each of several sets of pieces at every place, (places, count).

    Args:
        probabilities: (places, vocabulary).
        places: (k,), the place of each member of a set.
        ids: (k,), its piece.
        sets: (k,), the index of its set.
        count: sets at each place.

    >>> masses(torch.tensor([[0.5, 0.3, 0.2]]), *torch.tensor([[0, 0, 0], [0, 2, 1], [0, 0, 1]]), 2)
    tensor([[0.7000, 0.3000]])
    """
    sums = torch.zeros(len(probabilities) * count, dtype=probabilities.dtype, device=probabilities.device)
    sums.index_add_(0, places * count + sets, probabilities[places, ids])
    return sums.reshape(len(probabilities), count)


def ranks(scores: Tensor, ids: Tensor) -> Tensor:
    """The rank of a piece, the number of pieces with at least its score: (places, vocabulary), (places,) -> (places,).

    Ties count against it, so that a head with equal scores for all pieces ranks every piece last.
    """
    own = scores.gather(1, ids[:, None])
    return (scores >= own).sum(dim=1)


def entropy_bits(probabilities: Tensor) -> Tensor:
    """The entropy of each place's distribution in bits: (places, vocabulary) -> (places,).

    >>> entropy_bits(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([1.5000])
    """
    return torch.special.entr(probabilities).sum(dim=1) / math.log(2)


def group_shares(probabilities: Tensor, members: Tensor) -> Tensor:
    """The probability of each group of pieces, such as scripts, (places, groups).

    members: (vocabulary, groups), 1 where a piece belongs to a group. A scatter-add is far slower on a CPU.

    >>> group_shares(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.3000, 0.7000]])
    """
    return probabilities @ members
