"""Which models the paper needs, and the jobs that pack their text and pretrain them.

Models of the same text and the same pieces share packed text: all seeds of a model, and the variants that differ in
layers alone. Packing is a job of its own (`part=pack`), so that it can be done on a machine without a GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isogloss.papers.paper import Request
from isogloss.papers.wu2020.published import CRAWL, DEFAULT
from isogloss.papers.wu2020.scales import FREEZING, VARIANTS, Scale
from isogloss.papers.wu2020.texts import Texts
from isogloss.recipes.jobs import Job

PACKING = {"steps": 0, "depth": 1, "width": 16, "heads": 1, "probe": 1, "report": 1}


@dataclass(frozen=True)
class Model:
    """A model to pretrain: its languages, its variant, and which of several seeds it is."""

    languages: tuple[str, ...]
    variant: str = DEFAULT
    seed: int = 0

    @property
    def options(self) -> Mapping[str, str]:
        """The options of pretrain that make the variant."""
        return VARIANTS[self.variant]

    @property
    def packed(self) -> str:
        """The name of its packed text."""
        pieces = [value for name, value in self.options.items() if name in ("anchors", "vocabularies")]
        apart = ["own"] * self.options.get("separate", "").startswith("embeddings") + ["crawl"] * (
            self.variant == CRAWL
        )
        return ".".join(("-".join(self.languages), *pieces, *apart))

    @property
    def name(self) -> str:
        """The name of its folder."""
        told = "" if self.variant == DEFAULT else f".{self.variant.lower().replace(' + ', '+').replace(' ', '-')}"
        return f"{'-'.join(self.languages)}{told}.seed-{self.seed}"

    @property
    def apart(self) -> bool:
        """Whether there is a model folder for each language."""
        return bool(set(self.options) - {"anchors"} or self.options.get("anchors") == "none")

    @property
    def frozen(self) -> int:
        """How many blocks are frozen in fine-tuning, 0 for the embeddings alone, -1 for nothing."""
        return FREEZING.get(self.options.get("separate", ""), -1)


@dataclass(frozen=True)
class Models:
    """All models of a reproduction. seeds: how many the repeated ones have. crawl: folder of other text, or None."""

    request: Request
    scale: Scale
    texts: Texts
    seeds: int
    crawl: str | None = None
    known: dict[Model, None] = field(default_factory=dict)

    def alone(self, language: str, seed: int = 0) -> Model:
        """The model of one language."""
        return self._noted(Model((language,), seed=seed))

    def both(self, target: str, variant: str = DEFAULT, seed: int = 0) -> Model:
        """A model of the source and a target; with the source itself, their embeddings are apart."""
        variant = "Sep Emb" if target == self.scale.again else variant
        return self._noted(Model((self.scale.source, target), variant, seed))

    def seeds_of(self, target: str) -> range:
        """The seeds that models of a target and the source have."""
        return range(self.seeds if target == self.scale.repeated else 1)

    def variants(self, target: str) -> Iterator[Model]:
        """The models of Table 1."""
        for variant in self.scale.variants:
            if variant != CRAWL or self.crawl is not None:
                yield self.both(target, variant)

    def _noted(self, model: Model) -> Model:
        self.known[model] = None
        return model

    def folder(self, model: Model) -> Path:
        """The run folder of a pretraining."""
        return self.request.out / "models" / model.name

    def path(self, model: Model, language: str) -> str:
        """What is loaded to read a language."""
        folder = self.folder(model) / "model"
        return str(folder / language if model.apart else folder)

    def jobs(self) -> list[Job]:
        """Packing and pretraining of every model that was asked for, each once."""
        packs: dict[str, Job] = {}
        for model in self.known:
            packs.setdefault(model.packed, self._packing(model))
        return [*packs.values(), *(self._pretraining(model, packs[model.packed]) for model in self.known)]

    def _streams(self, model: Model) -> str:
        return str(self.request.out / "streams" / model.packed)

    def _packing(self, model: Model) -> Job:
        pieces = _pieces(model)
        joint = (
            len(model.languages) > 1
            and pieces.get("anchors") != "none"
            and not {"vocabularies", "separate"} & set(pieces)
        )
        options: dict[str, Any] = {
            **PACKING, "architecture": self.scale.shape["architecture"], "length": self.scale.shape["length"],
            "vocabulary": self.scale.vocabulary if joint else self.scale.vocabulary // 2,
            "streams": self._streams(model), **pieces, "device": "cpu",
        }  # fmt: skip
        if "held_out" in self.scale.training:
            options["held_out"] = self.scale.training["held_out"]
        if model.options.get("anchors") == "extra":
            pair = "-".join(model.languages)
            options["lexicon"] = [f"{pair}={self.texts.path(f'lexicon.{pair}.train.txt')}"]
        text = {language: self._text(model, language) for language in model.languages}
        place = {"part": "pack", "model": "-".join(model.languages), "variant": model.variant}
        name = f"pack-{model.packed}"
        return Job(name, "pretrain", text, options, self.request.out / "packs" / model.packed, place)

    def _text(self, model: Model, language: str) -> str:
        if model.variant == CRAWL and language != self.scale.source:
            assert self.crawl is not None
            return str(Path(self.crawl) / f"{language}.txt")
        return self.texts.known(language)

    def _pretraining(self, model: Model, pack: Job) -> Job:
        training = {name: value for name, value in self.scale.training.items() if name != "held_out"}
        options = {
            "streams": self._streams(model), **self.scale.shape, **training, **model.options,
            "seed": model.seed, "device": self.request.device, "dtype": self.request.dtype,
        }  # fmt: skip
        place = {"part": "pretrain", "model": "-".join(model.languages), "variant": model.variant, "seed": model.seed}
        return Job(model.name, "pretrain", None, options, self.folder(model), place, [pack.folder])


def _pieces(model: Model) -> dict[str, str]:
    """The options that packed text must have been made with: layers have no part in it."""
    found = {name: value for name, value in model.options.items() if name != "separate"}
    return found | ({"separate": "embeddings"} if model.options.get("separate", "").startswith("embeddings") else {})


def needed(models: Models, some: Sequence[Model]) -> list[Path]:
    """The folders of these models."""
    return list(dict.fromkeys(models.folder(one) for one in some))
