"""Sentence vectors at all layers: `isogloss.vectors` beside the loop people write, in one run.

The plain loop takes sentences in file order, 32 at a time, pads to the longest, asks for `output_hidden_states` and
takes a masked mean. Same model (12 layers, 384 wide, random weights: speed does not depend on them), same text, same
threads; the best round of each counts. `padding` is the plain loop's tokens, padding included, over the real ones: what
the ratio would be on a CPU if everything else took the same time. Needs the data sets `xnli`, `nli_en` and `tatoeba`
(`ISOGLOSS_DATA`).

With `--shape` the model is a decoder of a known size (random weights, too) and the text is made up, 27 tokens a
sentence. `bare` is then a forward pass over the very batches that isogloss reads, tokenised and on the device before
the clock runs, of which nothing is kept: what reading all layers costs beyond the model itself.

    python -m benchmarks.extraction [--sentences 512] [--rounds 3] [--device cpu] [--shape llama-8b]
"""

import argparse
import time

import torch
from benchmarks.evaluation import make_text
from benchmarks.pretraining import make_tokenizer
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, AutoModel, AutoTokenizer

import isogloss as ig
from isogloss.stack.load import choose_device, choose_dtype, locate
from isogloss.stack.stack import measuring
from isogloss.text.batches import batch_tokens, encode, group
from isogloss.text.catalog import data_dir, resolve
from isogloss.text.readers.parallel import read_bitexts

SHAPES = {  # family, width, layers, heads, heads of keys and values, width of a head, width inside layers, pieces
    "mini": ("bert", 384, 12, 6, 6, 64, 1_536, 32_000),
    "gemma-270m": ("gemma3_text", 640, 18, 4, 1, 256, 2_048, 262_144),
    "llama-8b": ("llama", 4_096, 32, 32, 8, 128, 14_336, 128_256),
    "tiny": ("llama", 64, 2, 4, 2, 16, 128, 2_000),
}
FIELDS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
          "intermediate_size", "vocab_size")  # fmt: skip


def plain(stack, sentences, batch=32):
    """What people write today."""
    tokenizer, model = stack.tokenizer, stack.model.eval()
    found = []
    for start in range(0, len(sentences), batch):
        encoded = tokenizer(
            sentences[start : start + batch], padding=True, truncation=True, max_length=512, return_tensors="pt",
            return_special_tokens_mask=True,
        )  # fmt: skip
        special = encoded.pop("special_tokens_mask")
        encoded = encoded.to(model.device)
        with torch.no_grad():
            out = model(**encoded, output_hidden_states=True)
        keep = (encoded["attention_mask"] * (1 - special.to(model.device))).unsqueeze(-1)
        found.append(torch.stack([(one * keep).sum(1) / keep.sum(1) for one in out.hidden_states]).float().cpu())
    return torch.cat(found, dim=1)


def pairs(path):
    """Premise, hypothesis, premise, hypothesis ... of a table of sentence pairs, in file order."""
    lines = path.read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line and not line.startswith("sentence1")]
    return ig.Corpus("en", [sentence for line in lines for sentence in line.split("\t")[:2]])


def best(function, rounds, device):
    """Shortest time of several, and the last answer."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        answer = function()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times), answer


def bare(stack, batches):
    """A forward pass over batches, of which nothing is kept."""
    with measuring(stack.model):
        for batch in batches:
            stack.read(batch, [stack.last], reduce=lambda cut, states: None)


def make_stack(shape, device, dtype):
    """A model of a known shape with random weights; `mini` has the tokenizer of the embedded model."""
    family, *sizes = SHAPES[shape]
    tokenizer = AutoTokenizer.from_pretrained(locate("mini")) if shape == "mini" else make_tokenizer(sizes[-1])
    if shape != "mini":
        tokenizer.backend_tokenizer.pre_tokenizer = WhitespaceSplit()
    config = AutoConfig.for_model(family, **dict(zip(FIELDS, sizes, strict=True)), pad_token_id=0)
    hardware = choose_device(device)
    with hardware:
        model = AutoModel.from_config(config, dtype=choose_dtype(dtype, hardware))
    return ig.wrap(model.eval(), tokenizer, name=shape)


def read_texts(folder):
    """The texts of the data sets, by name."""
    return {
        "XNLI 15-way": ig.read_bitext(resolve("xnli", folder), languages=("en", "de"))["en"],
        "XNLI test pairs": pairs(folder / "xnli" / "test-en.tsv"),
        "MultiNLI pairs": pairs(folder / "nli_en" / "mnli_train.tsv"),
        "Tatoeba": read_bitexts(resolve("tatoeba", folder), languages=("en", "de"))[0]["en"],
    }


def made_up(sentences, pieces):
    """Made-up sentences in words of a made-up tokenizer, without special tokens."""
    text = make_text("en", sentences, pieces, 0)
    ids = torch.split(torch.from_numpy(text.ids), text.lengths.tolist())
    return ig.Corpus("en", [" ".join(f"word{number}" for number in own[1:-1].tolist()) for own in ids])


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype")
    parser.add_argument("--data")
    parser.add_argument("--shape", choices=SHAPES, default="mini")
    given = parser.parse_args()
    stack = make_stack(given.shape, given.device, given.dtype)
    decoder = given.shape != "mini"
    pieces = len(stack.tokenizer)
    texts = {"made up": made_up(given.sentences, pieces)} if decoder else read_texts(data_dir(given.data))
    print(f"{given.shape}, {stack.device}, {stack.dtype}, {torch.get_num_threads()} threads; packed: {stack.packs}\n")
    heads = ("text", "sentences", "tokens", "plain, sentences/s", "isogloss, sentences/s", "ratio", "padding")
    heads = (*heads, "largest difference", *(["bare, sentences/s", "isogloss, share of bare"] if decoder else []))
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, corpus in texts.items():
        corpus = corpus.take(range(min(given.sentences, len(corpus))))
        sentences = list(corpus.sentences)
        whole = encode(stack.tokenizer, corpus, range(len(corpus)), max_length=stack.max_length)
        lengths = whole.lengths.tolist()
        padded = sum(max(lengths[i : i + 32]) * len(lengths[i : i + 32]) for i in range(0, len(lengths), 32))
        plain(stack, sentences[:64])
        ig.vectors(stack, corpus.take(range(min(64, len(corpus)))))
        slow, theirs = best(lambda s=sentences: plain(stack, s), given.rounds, stack.device)
        fast, ours = best(lambda c=corpus: ig.vectors(stack, c), given.rounds, stack.device)
        apart = float((ours[:-1] - theirs[:-1]).abs().max())  # transformers' top is after the last norm, if any
        cells = [name, f"{len(corpus):,}", f"{sum(lengths) / len(lengths):.1f}", f"{len(corpus) / slow:.0f}"]
        cells += [f"{len(corpus) / fast:.0f}", f"{slow / fast:.2f}", f"{padded / sum(lengths):.2f}", f"{apart:.1e}"]
        if decoder:
            members = group(lengths, tokens=batch_tokens(stack.device, padded=not stack.packs))
            batches = [whole.take(each).to(stack.device) for each in members]
            alone, _ = best(lambda b=batches: bare(stack, b), given.rounds, stack.device)
            cells += [f"{len(corpus) / alone:.0f}", f"{alone / fast:.0%}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
