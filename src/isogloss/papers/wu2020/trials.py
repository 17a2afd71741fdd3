"""The jobs that read the models: rotate (Figures 7 and 6), stitch (5), lexicon (4) and transfer (Table 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.papers.paper import Request
from isogloss.papers.wu2020.models import Model, Models, needed
from isogloss.papers.wu2020.published import BILINGUAL, MONOLINGUAL, RANDOM, TASKS
from isogloss.papers.wu2020.scales import Scale
from isogloss.papers.wu2020.texts import Texts, task_files
from isogloss.recipes.jobs import Job

WAYS = "raw,centred,procrustes,procrustes+iterative"
STITCHED = ("ner", "parsing")


@dataclass(frozen=True)
class Trials:
    """Everything that is asked of the models. seeds: how many the head of every task has."""

    request: Request
    scale: Scale
    texts: Texts
    models: Models
    seeds: int

    def jobs(self) -> list[Job]:
        """All of them, in the order of what the paper's argument needs most."""
        return [*self._rotate(), *self._stitch(), *self._lexicon(), *self._transfer()]

    def _rotate(self) -> Iterator[Job]:
        """CKA of two languages in one model, in two, and with fresh weights on the other side; sentences looked up."""
        scale, models = self.scale, self.models
        for target in scale.pair_targets:
            for kind in (BILINGUAL, MONOLINGUAL, RANDOM):
                several = target == scale.again and kind != BILINGUAL
                for seed in range(models.seeds) if several else models.seeds_of(target):
                    first, second = self._sides(kind, target, seed)
                    paths = models.path(first, scale.source), models.path(second, self._read_as(second, target))
                    options = self._bitexts(target, looked_up=kind != RANDOM)
                    options |= {"other": paths[1]} if paths[1] != paths[0] else {}
                    options |= {"random": True} if kind == RANDOM else {}
                    place = {"part": "rotate", "target": target, "kind": kind, "seed": seed}
                    yield self._job("rotate", paths[0], {**options, "seed": seed}, place, [first, second])

    def _sides(self, kind: str, target: str, seed: int) -> tuple[Model, Model]:
        """The models that read source and target."""
        models, scale = self.models, self.scale
        if kind == BILINGUAL:
            one = models.both(target, seed=seed)
            return one, one
        first = models.alone(scale.source, seed)
        if target == scale.again:  # English once more is English of another seed
            return first, models.alone(scale.source, (seed + 1) % max(2, models.seeds))
        return first, models.alone(target, seed)

    def _read_as(self, model: Model, target: str) -> str:
        return target if target in model.languages else model.languages[0]

    def _bitexts(self, target: str, *, looked_up: bool) -> dict[str, Any]:
        """Sentences to learn from and to look up; without a test set, or with fresh weights, CKA alone."""
        pair = f"{self.scale.source}-{target}"
        parallel = self.texts.path(f"parallel.{pair}.tsv")
        if target == self.scale.again or not looked_up:
            return {"bitext": [parallel], "ways": "none", "pool": self.scale.pairs}
        return {
            "bitext": [self.texts.path(f"tatoeba.{pair}.tsv")],
            "train": [parallel],
            "ways": WAYS,
            "pairs": self.scale.pairs,
        }

    def _stitch(self) -> Iterator[Job]:
        """A task on one model's lower layers, read from another's; the same of the bilingual model."""
        for target in self.scale.targets:
            for task in STITCHED:
                for kind in (MONOLINGUAL, BILINGUAL):
                    first, second = self._sides(kind, target, 0)
                    paths = [self.models.path(one, read) for one, read in
                             ((first, self.scale.source), (second, target))]  # fmt: skip
                    options = {
                        "bitext": [self.texts.path(f"parallel.{self.scale.source}-{target}.tsv")],
                        **({"other": paths[1]} if paths[1] != paths[0] else {}),
                        **self._task(task, target), **self.scale.stitched, "seeds": self.seeds,
                    }  # fmt: skip
                    place = {"part": "stitch", "target": target, "kind": kind, "task": task}
                    yield self._job("stitch", paths[0], options, place, [first, second])

    def _lexicon(self) -> Iterator[Job]:
        """Words looked up with two models that never saw each other's language."""
        for target in self.scale.targets:
            first, second = self._sides(MONOLINGUAL, target, 0)
            pair = f"{self.scale.source}-{target}"
            options = {
                "text": {one: self.texts.words(one) for one in (self.scale.source, target)},
                "train": [self.texts.path(f"lexicon.{pair}.train.txt")],
                "test": [self.texts.path(f"lexicon.{pair}.test.txt")],
                "other": self.models.path(second, target), "static": ["train"], **self.scale.looked_up,
            }  # fmt: skip
            place = {"part": "lexicon", "target": target}
            yield self._job("lexicon", self.models.path(first, self.scale.source), options, place, [first, second])

    def _transfer(self) -> Iterator[Job]:
        """Every bilingual model tuned on the source and tested on the target; what is a language's own is frozen."""
        for target in self.scale.compared:
            for model in self.models.variants(target):
                for task in TASKS:
                    own = self.models.path(model, target)
                    options = {
                        **self._task(task, target), "plans": f"freeze:{model.frozen}",
                        **({"own": [f"{target}={own}"]} if model.apart else {}),
                        **self.scale.tuned, "seeds": self.seeds,
                    }  # fmt: skip
                    place = {"part": "transfer", "target": target, "variant": model.variant, "task": task}
                    yield self._job("transfer", self.models.path(model, self.scale.source), options, place, [model])

    def _task(self, task: str, target: str) -> dict[str, Any]:
        train, dev, tests = task_files(self.scale, task, target)
        source = self.scale.source
        return {
            "task": task,
            "train": {source: self.texts.path(train)},
            "dev": {source: self.texts.path(dev)},
            "test": [f"{one}={self.texts.path(file)}" for one, file in tests.items()],
            "skip_bad": True,
        }

    def _job(
        self, recipe: str, first: str, options: dict[str, Any], place: dict[str, Any], read: Sequence[Model]
    ) -> Job:
        told = [str(value).lower().replace(" + ", "+").replace(" ", "-") for name, value in place.items()
                if name != "seed"]  # fmt: skip
        name = "-".join((*told, *([f"seed-{place['seed']}"] if "seed" in place else [])))
        shared = {"device": self.request.device, "dtype": self.request.dtype}
        folder = self.request.out / "jobs" / name
        return Job(name, recipe, first, {**options, **shared}, folder, place, needed(self.models, read))
