"""Plans: which layers are trained, frozen or reinitialised, as a function of the step.

    freeze:8           the embeddings and blocks 1 to 8 are frozen; freeze:0 the embeddings only, freeze:-1 nothing
    last:6             only the last 6 blocks and the modules above them are trained
    train:3-6          only blocks 3 to 6 and the head are trained
    reinit:1-2         blocks 1 and 2 are reinitialised with the model's own initialiser
    reinit:1-2/torch   the same with PyTorch's default initialiser
    unfreeze:4/epoch   the last 4 blocks are trained in the first epoch, 4 more in each later one, then the embeddings
    unfreeze:4/500     the same, every 500 steps
    lora:8             low-rank adapters of rank 8 (Hu et al. 2022) replace the training of the blocks: one beside every
                       matrix of the trained blocks; apart from them only a task's head is trained

Parts are joined with `+` in any order: a layer is frozen as long as any part freezes it, and reinitialised blocks may
be frozen too. `freeze:n` counts as in Jexus (2020) and Wu & Dredze (2019), `last:n` as in Hussain & Dudev (2020),
`reinit:a-b` is the RANDOM-INIT of Muller et al. (2021).

Gradual unfreezing treats the embeddings as a group of their own, after the blocks. Hussain & Dudev never train them,
and in their three epochs over twelve blocks neither does `unfreeze:4/epoch`; ULMFiT (Howard & Ruder 2018) unfreezes
them last, as a fourth epoch does here. `unfreeze:4/epoch+freeze:0` keeps them frozen throughout. One learning rate
schedule covers all steps, as in Hussain & Dudev, so late layers are trained at a low rate under `decay="linear"`.

An output layer tied to the word embeddings is the same weight and is frozen with them; its bias, the head's transform,
the final norm and the pooler are above the blocks and always trained.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from isogloss.errors import InputError, require
from isogloss.stack.edit import OWN, TORCH, add_adapters, freeze, reinitialise, train_adapters_only
from isogloss.stack.stack import Stack

FORMS = (
    "freeze:8 (embeddings and blocks 1 to 8; freeze:0 embeddings only, freeze:-1 nothing), "
    "last:6 (only the last 6 blocks train), train:3-6 (only blocks 3 to 6 train), "
    "reinit:1-2 (fresh weights in blocks 1 to 2; reinit:1-2/torch as PyTorch draws them by default), "
    "unfreeze:4/epoch or unfreeze:4/500 (4 more blocks from the top every epoch or 500 steps), "
    "lora:8 (only adapters of rank 8)"
)
_BLOCKS = "([0-9]{1,4})(?:-([0-9]{1,4}))?"
SHAPES = {  # the numbers of each form; the steps of `unfreeze:4/epoch` are read as 0
    "freeze": "(-1|[0-9]{1,4})",
    "last": "([0-9]{1,4})",
    "train": _BLOCKS,
    "reinit": f"{_BLOCKS}(?:/{TORCH})?",
    "unfreeze": "([0-9]{1,4})/(epoch|0*[1-9][0-9]{0,9})",
    "lora": "([1-9][0-9]{0,3})",
}


@dataclass(frozen=True)
class Plan:
    """Which layers are trained, frozen or reinitialised; by default, everything is trained.

    reinit: blocks to reinitialise, numbered from 1. freeze: the embeddings and this many of the lowest blocks are never
    trained, -1 for nothing. last: at most this many of the highest blocks are trained. train: the first and last of the
    only blocks that are trained. unfreeze: this many more blocks are trained every `every` steps, or every epoch if
    that is None, counted from the top of the model whatever else is frozen. initialiser: that of reinitialised blocks,
    the model's `own` or `torch`. lora: the rank of adapters, which alone are trained then; None for none.
    """

    reinit: tuple[int, ...] = ()
    freeze: int = -1
    last: int | None = None
    unfreeze: int | None = None
    every: int | None = None
    train: tuple[int, int] | None = None
    initialiser: str = OWN
    lora: int | None = None

    @property
    def until(self) -> int | None:
        """The last block that may be trained, None if all blocks above the frozen ones may."""
        return self.train[1] if self.train else None

    def __str__(self) -> str:
        """The canonical text of the plan, as `parse_plan` reads it."""
        end = "" if self.initialiser == OWN else f"/{self.initialiser}"
        firsts = [number for number in self.reinit if number - 1 not in self.reinit]  # of runs of blocks
        lasts = [number for number in self.reinit if number + 1 not in self.reinit]
        parts = [f"reinit:{first}-{last}{end}" for first, last in zip(firsts, lasts, strict=True)]
        parts += [f"freeze:{self.freeze}"] if self.freeze >= 0 else []
        parts += [f"last:{self.last}"] if self.last is not None else []
        parts += [f"train:{self.train[0]}-{self.train[1]}"] if self.train is not None else []
        parts += [f"unfreeze:{self.unfreeze}/{self.every or 'epoch'}"] if self.unfreeze is not None else []
        parts += [f"lora:{self.lora}"] if self.lora is not None else []
        return "+".join(parts) or "freeze:-1"


def parse_plan(text: str) -> Plan:
    """Parse a plan; each form may occur once, `reinit` once for each run of blocks.

    >>> parse_plan("reinit:1-2+freeze:0")
    Plan(reinit=(1, 2), freeze=0, last=None, unfreeze=None, every=None, train=None, initialiser='own', lora=None)
    >>> str(parse_plan("unfreeze:4/epoch+reinit:3-4+reinit:1-2"))
    'reinit:1-4+unfreeze:4/epoch'
    """
    forms: dict[str, list[int]] = {}
    blocks, drawn = set[int](), set[str]()
    for part in map(str.strip, text.split("+")):
        name, _, rest = part.partition(":")
        match = re.fullmatch(SHAPES[name], rest) if name in SHAPES else None
        numbers = [0 if group == "epoch" else int(group) for group in match.groups() if group] if match else []
        if not numbers or (name == "unfreeze" and numbers[0] == 0):
            where = f"{part!r} in {text!r}" if part != text else repr(text)
            raise InputError(f"{where} is no plan; write {FORMS}, joined with +")
        if name in ("reinit", "train") and not 1 <= numbers[0] <= numbers[-1]:
            raise InputError(
                f"{part!r} names no blocks; they are numbered from 1, the lower one is written first, as in {name}:1-2"
            )
        require(name not in forms, f"the plan {text!r} says {name} twice; say it once")
        if name == "reinit":
            drawn.add(TORCH if part.endswith(TORCH) else OWN)
            blocks |= set(range(numbers[0], numbers[-1] + 1))
        else:
            forms[name] = numbers
    if len(drawn) > 1:
        raise InputError(f"the plan {text!r} draws some blocks with /torch and some without; draw all of them one way")
    unfreeze, every = forms.get("unfreeze", (None, None))
    return Plan(
        reinit=tuple(sorted(blocks)),
        freeze=forms.get("freeze", [-1])[0],
        last=forms["last"][0] if "last" in forms else None,
        unfreeze=unfreeze,
        every=every or None,
        train=(forms["train"][0], forms["train"][-1]) if "train" in forms else None,
        initialiser=next(iter(drawn), OWN),
        lora=forms["lora"][0] if "lora" in forms else None,
    )


def frozen_at(plan: Plan, step: int, *, depth: int, epoch: int) -> int:
    """The n of `freeze:n` at the update `step` (0 is the first): embeddings and blocks 1..n are frozen, -1 nothing.

    depth: blocks of the model; epoch: steps in an epoch. It is the largest of the numbers of the parts:

        freeze:n     n
        last:n       depth - n
        train:a-b    a - 1, and the blocks above b besides (`Plan.until`)
        unfreeze:n   max(0, depth - n * (period + 1)), and -1 from the period after the one that reaches block 1
        lora:r       0

    It never rises from one step to the next, so no weight is frozen again with momentum from before. A plan that names
    layers the model does not have raises an `InputError`.

    >>> [frozen_at(parse_plan("unfreeze:4/epoch"), step, depth=12, epoch=10) for step in (0, 9, 10, 20, 30)]
    [8, 8, 4, 0, -1]
    """
    asked = {
        "freeze": plan.freeze,
        "last": plan.last or 0,
        "train": plan.until or 0,
        "reinit": max(plan.reinit, default=0),
        "unfreeze": plan.unfreeze or 0,
    }
    for form, number in asked.items():
        if number > depth:
            raise InputError(
                f"the plan {plan} asks for {number} blocks in {form}, but the model has {depth}; name at most {depth}"
            )
    numbers = [plan.freeze if plan.lora is None else max(0, plan.freeze)]
    if plan.last is not None:
        numbers.append(depth - plan.last)
    if plan.train is not None:
        numbers.append(plan.train[0] - 1)
    if plan.unfreeze is not None:
        left = depth - plan.unfreeze * (step // (plan.every or epoch))  # blocks frozen in the period before
        numbers.append(max(0, left - plan.unfreeze) if left > 0 else -1)
    return max(numbers)


def apply_plan(
    stack: Stack, plan: Plan, *, epoch: int, seed: int, hold: Callable[..., None] | None = None
) -> Callable[[int], None]:
    """Reinitialise the plan's blocks and add its adapters, in place; returns the argument `plan` of `train`.

    Call it before the optimiser is created, which must contain the adapters. epoch: steps in an epoch; seed: of the
    fresh weights, which are those of `reinitialise(stack, blocks, seed=seed)`; hold: called as `hold(n, until=last)`
    whenever the frozen layers change. The returned function is called with the number of each update before it is made,
    and sets `requires_grad` where that changes. It depends on nothing else, so a resumed training continues the plan:
    apply the plan first, then restore the checkpoint, whose weights replace the fresh ones.

    >>> train(training, plan=apply_plan(stack, parse_plan("last:6"), epoch=500, seed=0))  # doctest: +SKIP
    """
    depth = stack.last
    frozen_at(plan, 0, depth=depth, epoch=epoch)  # raises if the model lacks a layer of the plan
    if plan.reinit:
        reinitialise(stack, plan.reinit, seed=seed, initialiser=plan.initialiser, in_place=True)
    if plan.lora is not None:
        add_adapters(stack, plan.lora, seed=seed)
    frozen: int | None = None

    def before(step: int) -> None:
        nonlocal frozen
        now = frozen_at(plan, step, depth=depth, epoch=epoch)
        if now != frozen:
            freeze(stack, now, until=plan.until)
            if plan.lora is not None:
                train_adapters_only(stack.language_model or stack.model)
            if hold is not None:
                hold(now, until=plan.until)
            frozen = now

    return before
