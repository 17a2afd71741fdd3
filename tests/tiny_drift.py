"""A random language model of invented languages with text to tune it on, and options for a drift run of a second."""

import torch
from benchmarks.invented import invented
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from tiny_commands import flags
from tiny_models import ENCODERS, MARKS, framed, tiny_config
from tiny_pretraining import write_texts

SMALL = {
    "epochs": 1,
    "batch": 8,
    "rate": 1e-2,
    "probe": 2,
    "distance": 4,
    "words": 60,
    "checkpoint": 2,
    "device": "cpu",
}
SENTENCES = 60


def word_pieces(texts):
    """A tokenizer of letters and every third word of these texts: not trained, so that it is always the same."""
    words = sorted({word for text in texts for word in text.replace(".", " .").split()})
    letters = sorted(set("".join(words)))
    pieces = dict.fromkeys([*MARKS, *letters, *(f"##{one}" for one in letters), *words[::3]])
    tokenizer = Tokenizer(models.WordPiece({one: place for place, one in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return framed(tokenizer)


def write_model(folder, *, family="bert", depth=2, languages=("qaa", "qab", "qac"), seed=0, **changes):
    """The folder of a small random language model, its tokenizer of these languages; changes: of its configuration."""
    texts = [one for corpus in invented(languages, sentences=SENTENCES, seed=1) for one in corpus]
    tokenizer = word_pieces(texts)
    config = tiny_config(family, len(tokenizer))
    config.num_hidden_layers, config.hidden_size, config.intermediate_size = depth, 16, 32
    for name, value in changes.items():
        setattr(config, name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = (AutoModelForMaskedLM if family in ENCODERS else AutoModelForCausalLM).from_config(config)
        for weight in model.parameters():
            if weight.dim() > 1:  # the default draw is so small that nothing hangs on the other tokens
                torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_tuning(folder):
    """A model, a native model and a text for each of three languages: (model, native, files by language)."""
    files = write_texts(folder / "texts", ("qaa", "qab", "qac"), sentences=SENTENCES)
    return write_model(folder / "multi"), write_model(folder / "own", languages=("qaa", "qab"), seed=1), files


def given(files, **changes):
    """Keyword arguments of `drift`: qaa is tuned on, the others are watched."""
    others = {one: files[one] for one in ("qab", "qac")}
    return {"target": {"qaa": files["qaa"]}, "others": others, **SMALL, **changes}


def words(model, files, **changes):
    """The same as words of a command."""
    options = {**given(files), "target": f"qaa={files['qaa']}", **changes}
    others = options.pop("others")
    if others:
        options["others"] = others if isinstance(others, list) else [f"{one}={path}" for one, path in others.items()]
    return [str(model), *flags(options)]
