"""A small masked LM in transformers' Trainer, with text in three languages."""

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments

from isogloss.text.batches import marks
from isogloss.text.corpora import Corpus
from tiny_models import TEXT, tiny_config, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
MARKS = sorted({*marks(TOKENIZER), TOKENIZER.mask_token_id, TOKENIZER.unk_token_id})
POOL = torch.tensor([i for i in range(len(TOKENIZER)) if i not in MARKS])


def sentences(size, seed):
    draw = np.random.default_rng(seed)
    words = sorted({word for line in TEXT for word in line.split()})
    return [" ".join(draw.choice(words, draw.integers(3, 10))) for _ in range(size)]


NL, EN, RU = sentences(20, 1), sentences(24, 2), sentences(18, 3)
CORPORA = {"nl": NL, "en": EN, "ru": Corpus("ru", RU, name="held out")}
TRAIN = [{"input_ids": TOKENIZER(one)["input_ids"]} for one in sentences(16, 4)]


def tiny(kind=AutoModelForMaskedLM, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind.from_config(tiny_config("bert", len(TOKENIZER)))


def trainer(folder, model, callbacks=(), data=TRAIN, optimizers=(None, None), **changes):
    options = {
        "per_device_train_batch_size": 4, "max_steps": 8, "learning_rate": 1e-2, "report_to": "none", "seed": 5,
        "weight_decay": 0.01, "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no", "use_cpu": True,
    }  # fmt: skip
    arguments = TrainingArguments(output_dir=str(folder), **options | changes)
    collate = DataCollatorForLanguageModeling(TOKENIZER, mlm_probability=0.3)  # draws from the global state
    return Trainer(
        model, arguments, train_dataset=data, eval_dataset=TRAIN[:4], data_collator=collate,
        callbacks=list(callbacks), optimizers=optimizers,
    )  # fmt: skip


def weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def moved(before, model):
    """Which parts of a model are no longer what they were: 0 for the embeddings, block numbers, "head"."""
    found = set()
    for name, value in model.named_parameters():
        if not torch.equal(before[name], value):
            parts = name.split(".")
            found.add(int(parts[3]) + 1 if "layer" in parts else 0 if "embeddings" in parts else "head")
    return found


def logged(one, name):
    return {entry["step"]: entry[name] for entry in one.state.log_history if name in entry}
