"""Sentence vectors at all layers: `isogloss.vectors` beside the loop people write, in one run.

The plain loop takes sentences in file order, 32 at a time, pads to the longest, asks for `output_hidden_states` and
takes a masked mean. Same model (12 layers, 384 wide, random weights: speed does not depend on them), same text, same
threads; the best round of each counts. `padding` is the plain loop's tokens, padding included, over the real ones: what
the ratio would be on a CPU if everything else took the same time. Needs the data sets `xnli`, `nli_en` and `tatoeba`
(`ISOGLOSS_DATA`).

    python benchmarks/extraction.py [--sentences 512] [--rounds 3] [--device cpu]
"""

import argparse
import tempfile
import time

import torch
from transformers import AutoTokenizer, BertConfig, BertModel

import isogloss as ig
from isogloss.stack.load import locate
from isogloss.text.catalog import data_dir, resolve
from isogloss.text.readers.parallel import read_bitexts


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


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype")
    parser.add_argument("--data")
    given = parser.parse_args()
    folder = data_dir(given.data)
    tokenizer = AutoTokenizer.from_pretrained(locate("mini"))
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536,
        pad_token_id=0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        BertModel(config).save_pretrained(place)
        tokenizer.save_pretrained(place)
        stack = ig.load(place, device=given.device, dtype=given.dtype)
    texts = {
        "XNLI 15-way": ig.read_bitext(resolve("xnli", folder), languages=("en", "de"))["en"],
        "XNLI test pairs": pairs(folder / "xnli" / "test-en.tsv"),
        "MultiNLI pairs": pairs(folder / "nli_en" / "mnli_train.tsv"),
        "Tatoeba": read_bitexts(resolve("tatoeba", folder), languages=("en", "de"))[0]["en"],
    }
    print(f"{given.sentences} sentences, {stack.device}, {stack.dtype}, {torch.get_num_threads()} threads\n")
    print("| text | tokens | plain, sentences/s | isogloss, sentences/s | ratio | padding | largest difference |")
    print("|---|---|---|---|---|---|---|")
    for name, corpus in texts.items():
        corpus = corpus.take(range(min(given.sentences, len(corpus))))
        sentences = list(corpus.sentences)
        lengths = [min(512, len(ids)) for ids in tokenizer(sentences)["input_ids"]]
        padded = sum(max(lengths[i : i + 32]) * len(lengths[i : i + 32]) for i in range(0, len(lengths), 32))
        plain(stack, sentences[:64])
        ig.vectors(stack, corpus.take(range(64)))
        slow, theirs = best(lambda s=sentences: plain(stack, s), given.rounds, stack.device)
        fast, ours = best(lambda c=corpus: ig.vectors(stack, c), given.rounds, stack.device)
        apart = float((ours - theirs).abs().max())
        print(
            f"| {name} | {sum(lengths) / len(lengths):.1f} | {len(corpus) / slow:.0f} | {len(corpus) / fast:.0f} "
            f"| {slow / fast:.2f} | {padded / sum(lengths):.2f} | {apart:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
