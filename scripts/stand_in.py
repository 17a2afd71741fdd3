"""Train the small model that stands in as `mini` until the pretraining capability ships its own.

`prepare` (CPU): train a WordPiece tokenizer on plain text and pack the text into streams of token ids.
`train` (GPU): masked-LM training of a small ModernBERT with global attention, then save it in half precision.

    python scripts/stand_in.py prepare --text MONO_FOLDER --out work/
    python scripts/stand_in.py train --work work/ --out src/isogloss/models/mini --minutes 6
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch

LANGUAGES = ("en", "nl", "de", "fr", "es", "ru", "zh")
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
STREAM, BATCH, MASKED = 128, 512, 0.15


def sample(folder: Path, language: str, size: int) -> list[str]:
    """Paragraphs of one language, from all its files in turn, about `size` bytes of them."""
    generator = random.Random(0)
    lines = [line for file in sorted(folder.glob(f"*.{language}.txt")) for line in file.open(encoding="utf-8")]
    generator.shuffle(lines)
    total, kept = 0, []
    for line in lines:
        kept.append(line.strip())
        total += len(line.encode())
        if total > size:
            break
    return kept


def prepare(text: Path, out: Path, vocabulary: int, size: int) -> None:
    """Train the tokenizer and write `tokenizer.json` and `streams.npz`, one flat uint16 array a language."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    out.mkdir(parents=True, exist_ok=True)
    texts = {language: sample(text, language, size) for language in LANGUAGES}
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    few = [line for lines in texts.values() for line in lines[: len(lines) // 5]]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=MARKS, limit_alphabet=5000)
    tokenizer.train_from_iterator(few, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(out / "tokenizer.json"))
    streams = {}
    for language, lines in texts.items():
        ids = [one.ids for one in tokenizer.encode_batch_fast(lines)]
        streams[language] = np.array([token for one in ids for token in one], dtype=np.uint16)
        print(language, len(streams[language]), flush=True)
    np.savez_compressed(out / "streams.npz", **streams)


def mask(ids: torch.Tensor, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask a fixed number of places of each stream, 80/10/10; returns the input and the places (rows, k)."""
    count = int(MASKED * ids.shape[1])
    noise = torch.rand(ids.shape, device=ids.device).masked_fill(ids < len(MARKS), -1)
    places = noise.topk(count, dim=1).indices
    draw = torch.rand(places.shape, device=ids.device)
    other = torch.randint(len(MARKS), vocabulary, places.shape, device=ids.device)
    old = ids.gather(1, places)
    new = torch.where(draw < 0.8, MARKS.index("[MASK]"), torch.where(draw < 0.9, other, old))
    return ids.scatter(1, places, new), places


def train(work: Path, out: Path, minutes: float, width: int, depth: int, batch: int, rate: float) -> None:
    """Train for about so many minutes and save; the learning rate follows the clock down to zero."""
    from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(work / "tokenizer.json"), model_max_length=512, unk_token="[UNK]", pad_token="[PAD]",
        cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    config = ModernBertConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=depth,
        num_attention_heads=max(1, width // 64), max_position_embeddings=512, global_attn_every_n_layers=1,
        pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3,
    )  # fmt: skip
    model = ModernBertForMaskedLM(config).to(device)
    packed = np.load(work / "streams.npz")
    rows = [packed[name][: len(packed[name]) // STREAM * STREAM].reshape(-1, STREAM) for name in LANGUAGES]
    data = torch.from_numpy(np.concatenate(rows).astype(np.int32)).to(device)
    decay = [weight for weight in model.parameters() if weight.dim() > 1]
    plain = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=device == "cuda")

    def loss_of(ids: torch.Tensor, places: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            states = model.model(input_ids=ids)[0]
            chosen = states.gather(1, places.unsqueeze(-1).expand(-1, -1, width))
            scores = model.decoder(model.head(chosen))
        return torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), labels.flatten())

    compiled = torch.compile(loss_of) if device == "cuda" else loss_of
    step, seen, running, begin = 0, 0, 0.0, None
    while begin is None or time.time() - begin < 60 * minutes:
        ids = data[torch.randint(len(data), (batch,), device=device)].long()
        inputs, places = mask(ids, len(tokenizer))
        loss = compiled(inputs, places, ids.gather(1, places))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        begin = begin or time.time()  # compiling is not training time
        spent = (time.time() - begin) / (60 * minutes)
        for one in optimiser.param_groups:
            one["lr"] = rate * min(1.0, (step + 1) / 500) * max(0.0, 1 - spent)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + ids.numel()
        if step % 200 == 0 or minutes < 0.1:
            running = loss.item()
            print(f"step {step} tokens {seen / 1e6:.0f}M loss {running:.3f} at {time.time() - begin:.0f} s", flush=True)
    print(f"done: {step} steps, {seen} tokens, last loss {running:.3f}", flush=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("--text", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--vocabulary", type=int, default=16_000)
    one.add_argument("--size", type=int, default=24_000_000, help="bytes of text a language")
    two = commands.add_parser("train")
    two.add_argument("--work", type=Path, required=True)
    two.add_argument("--out", type=Path, required=True)
    two.add_argument("--minutes", type=float, default=6)
    two.add_argument("--width", type=int, default=256)
    two.add_argument("--depth", type=int, default=12)
    two.add_argument("--batch", type=int, default=BATCH)
    two.add_argument("--rate", type=float, default=1.5e-3)
    arguments = vars(parser.parse_args())
    {"prepare": prepare, "train": train}[arguments.pop("command")](**arguments)
