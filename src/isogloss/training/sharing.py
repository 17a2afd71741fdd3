"""One model for each language, any part of which may be the same object in all of them.

Wu et al. (2020), section 4, ask which shared parts align languages in one encoder, by giving each language some alone:

    separate           each language's own                                         shared by all
    nothing            -                                                           one model
    embeddings         embeddings (word, position, type, norm) and output layer    all blocks, head's transform
    1-3                blocks 1 to 3                                               the rest
    embeddings+1-3     both                                                        blocks from 4, head's transform

A shared part is the same module object in every language's model, so a step on one language updates it for all, an
optimiser over `Languages.parameters()` contains it once, and each language's model is still a plain `...ForMaskedLM`
that runs, saves and loads by itself. The output layer is tied to the word embeddings and shared with them.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isogloss.errors import InputError
from isogloss.seeds import seed_of, seeded
from isogloss.stack.families import language_model_class, trainable_family
from isogloss.stack.load import quietly
from isogloss.stack.stack import Stack, whole_stack
from isogloss.training.loop import Processes
from isogloss.training.probes import Reading

ALL = "all"


@dataclass(frozen=True)
class Sharing:
    """Whether the embeddings are shared, and the number of lowest blocks that are not."""

    embeddings: bool = True
    blocks: int = 0

    @property
    def everything(self) -> bool:
        """Whether one model serves every language."""
        return self.embeddings and self.blocks == 0

    def __str__(self) -> str:
        """The separate parts, as `parse` reads them."""
        parts = ([] if self.embeddings else ["embeddings"]) + ([f"1-{self.blocks}"] if self.blocks else [])
        return "+".join(parts) or "nothing"


def parse(text: str) -> Sharing:
    """Parse the separate parts: `nothing`, `embeddings`, `1-3` (blocks 1 to 3, any last number) or `embeddings+1-3`.

    >>> parse("embeddings+1-3")
    Sharing(embeddings=False, blocks=3)
    """
    match = re.fullmatch(r"nothing|(embeddings)|(embeddings\+)?1-([1-9][0-9]*)", text)
    if match is None:
        raise InputError(
            f"{text!r} does not say what is separate; write nothing, embeddings, 1-3 (the blocks from 1 to any number) "
            "or embeddings+1-3"
        )
    return Sharing(embeddings=not (match[1] or match[2]), blocks=int(match[3] or 0))


class NextSentence(nn.Sequential):
    """The head for next sentence prediction: logits (..., 2) of the second side being from the same or another text.

    As in BERT, it reads the state at the first token of a pair: a pooler (a dense layer and tanh), then two logits.
    sums: nats and pairs of this process since the last call of `losses`, part of a checkpoint.
    """

    sums: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
        self.register_buffer("sums", torch.zeros(2))

    def losses(self, processes: Processes) -> list[Reading]:
        """The mean loss per pair over all processes since the last call."""
        processes.add([self.sums])
        nats, pairs = self.sums.tolist()
        self.sums.zero_()
        about = {"measure": "next_sentence_loss", "n": int(pairs), "unit": "pair"}
        return [{**about, "value": nats / pairs}] if pairs else []


class Languages(nn.Module):
    """A `...ForMaskedLM` for each language; `of(language)` gives it.

    `models` holds one model under `all` if everything is shared, otherwise one for each language. `parameters()` yields
    every weight once, while `state_dict()` names a shared one once for each language. `next_sentence` is the head of
    that objective, one for all languages, or None; it is not saved with a model.
    """

    def __init__(self, models: Mapping[str, nn.Module], languages: Sequence[str], *, sharing: Sharing) -> None:
        """Hold models by language, or one under `all`."""
        super().__init__()
        self.next_sentence: NextSentence | None = None
        self.models = nn.ModuleDict({_key(language): model for language, model in models.items()})
        self.languages = tuple(languages)
        self.sharing = sharing

    def of(self, language: str) -> Any:
        """The language model of a language."""
        return self.models[ALL if self.sharing.everything else _key(language)]


def build(
    config: Any, languages: Sequence[str], *, sharing: Sharing, seed: int, next_sentence: bool = False
) -> Languages:
    """Create new models that share parts according to `sharing`.

    config: a `transformers` configuration of a family in the table, or one for each language by its code; they may
    differ only in vocabulary, and only with separate embeddings. Every language's weights are drawn by the model's own
    initialiser from (seed, language); shared parts are the first language's. next_sentence: add a head for that
    objective. The global random state is left unchanged.

    >>> both = build(config, ["en", "nl"], sharing=parse("embeddings"), seed=0)  # doctest: +SKIP
    >>> both.of("nl").bert.encoder.layer[0] is both.of("en").bert.encoder.layer[0]  # doctest: +SKIP
    True
    """
    given = config if isinstance(config, Mapping) else dict.fromkeys(languages, config)
    configs = {language: given[language] for language in languages}
    first = configs[languages[0]]
    for language, each in configs.items():
        if sharing.embeddings and each.vocab_size != first.vocab_size:
            raise InputError(
                f"shared embeddings need one vocabulary, but {languages[0]} has {first.vocab_size} pieces and "
                f"{language} {each.vocab_size}; use a joint tokenizer or separate embeddings"
            )
    copies: list[Any] = []  # one per distinct configuration, so that one compiled step fits all models that have it
    for each in configs.values():
        copies += [] if each in copies else [copy.deepcopy(each)]
    configs = {language: copies[copies.index(each)] for language, each in configs.items()}
    models: dict[str, Any] = {}
    for language in languages[:1] if sharing.everything else languages:
        with seeded(seed_of(seed, "weights", language)):
            model = language_model_class(first).from_config(configs[language], dtype=torch.float32)
        models[ALL if sharing.everything else language] = model
        if language != languages[0]:
            _share(models[languages[0]], model, sharing)
    built = Languages(models, languages, sharing=sharing)
    with seeded(seed_of(seed, "next sentence")):
        built.next_sentence = NextSentence(first.hidden_size) if next_sentence else None
    return built


def save(languages: Languages, tokenizers: Mapping[str, Any], folder: Path, *, half: bool = False) -> None:
    """Write the models in `from_pretrained` format, each with its tokenizer.

    tokenizers: by language; if everything is shared, with one tokenizer object for all, `folder` itself is the model,
    otherwise there is `folder/nl` for `nl`. half: store weights in float16. To write all or nothing, use the folder
    that `files.whole_folder` yields.
    """
    different = {id(tokenizers[language]) for language in languages.languages}
    together = languages.sharing.everything and len(different) == 1
    for language in languages.languages[:1] if together else languages.languages:
        # Saving writes the precision into the configuration, and half precision would change the weights: save a copy.
        copied = copy.deepcopy(languages.of(language)).cpu()
        if half:
            most = torch.finfo(torch.float16).max
            for name, weight in copied.named_parameters():
                if float(weight.detach().abs().max()) > most:
                    raise InputError(
                        f"{name} has a weight beyond {most:,.0f}, which float16 cannot hold; store float32"
                    )
            copied = copied.half()
        tokenizer, own_folder = tokenizers[language], folder if together else folder / language
        with quietly():
            copied.save_pretrained(own_folder)
            tokenizer.backend_tokenizer.no_truncation()  # otherwise the truncation length of its last call is saved
            tokenizer.save_pretrained(own_folder)


def stack_of(languages: Languages, language: str, tokenizer: Any, name: str) -> Stack:
    """The body of a language's model as a Stack, for measuring during training: it shares the weights.

    The model keeps its training mode; `vectors` and `measuring` set evaluation mode and restore it.
    """
    model = languages.of(language)
    stack = whole_stack(model.base_model, trainable_family(model.config), tokenizer, name)
    return replace(stack, language_model=model)


def _share(giver: Any, taker: Any, sharing: Sharing) -> None:
    """Replace the shared modules of the taker by those of the giver."""
    family, base = trainable_family(taker.config), taker.base_model_prefix
    blocks = [f"{base}.{family.blocks}.{k}" for k in range(taker.config.num_hidden_layers)]
    above = [*family.transform, *([f"{base}.{family.norm}"] if family.norm else [])]
    taken = blocks[sharing.blocks :] + above
    if sharing.embeddings:
        # All other modules with weights belong to embeddings or output: position biases, the owner of the tied bias.
        inside = tuple(f"{path}." for path in (*blocks, *above))
        taken += [
            path
            for path, module in taker.named_modules()
            if any(True for _ in module.parameters(recurse=False)) and not f"{path}.".startswith(inside)
        ]
    for path in taken:
        owner, _, name = path.rpartition(".")
        setattr(taker.get_submodule(owner), name, giver.get_submodule(path))


def _key(language: str) -> str:
    """A key that `nn.ModuleDict` accepts: no dot, and no method's name (`to` is Tongan)."""
    key = language.replace(".", "_")
    return f"{key}_" if hasattr(nn.ModuleDict, key) else key
