"""What `isogloss map` computes besides the model's own passes: measures, intervals, floors and words, in seconds.

    python -m benchmarks.map [--sentences 3000] [--languages 6] [--threads 1]

The states of a token are looked up in the model's embeddings instead of being computed, which takes next to no time and
is not counted. The text is made up: 20 words a sentence, drawn from 8,000 by Zipf's law, each with a word of its own in
every language. Seconds are of processor time.
"""

import argparse
import random
import resource
import time
from dataclasses import fields

import torch

import isogloss as ig
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus

SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
KNOWN, WORDS = 8_000, 20
SPENT = {"lookup": 0.0}


class Lookup(Stack):
    """A stack whose state of a token after block k is the embedding of the token k places before."""

    def _run(self, batch, wanted, reduce, hidden, part):
        begin = time.process_time()
        states = self.model.get_input_embeddings().weight[batch.ids]
        found = {cut: reduce(cut, states.roll(cut, dims=0)) for cut in sorted(wanted)}
        SPENT["lookup"] += time.process_time() - begin
        return found


def text(sentences, languages):
    """Parallel sentences in so many invented languages."""
    chance = random.Random(0)
    weights = [1 / (place + 10) for place in range(KNOWN)]
    rows = [chance.choices(range(KNOWN), weights, k=WORDS) for _ in range(sentences)]
    for number in range(languages):
        words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(KNOWN)]
        yield Corpus(f"qa{chr(ord('a') + number)}", [" ".join(words[one] for one in row) for row in rows])


def measure(given):
    """Print one line of the table."""
    torch.set_num_threads(given.threads)
    stack = ig.load(given.model, device="cpu")
    stack = Lookup(**{one.name: getattr(stack, one.name) for one in fields(stack) if one.init})
    corpora = list(text(given.sentences, given.languages))
    SPENT["lookup"] = 0.0
    begin = time.process_time()
    rows = ig.map(stack, *corpora, pairs="first")
    seconds = time.process_time() - begin - SPENT["lookup"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {given.sentences:,} | {given.languages} | {len(rows):,} | {seconds:.1f} | {peak:,.0f} |", flush=True)


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=3_000)
    parser.add_argument("--languages", type=int, default=6)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    print("| sentences | languages | rows | seconds | peak memory, MB |\n|---:|---:|---:|---:|---:|", flush=True)
    measure(given)


if __name__ == "__main__":
    main()
