"""Plans: which layers are trained, frozen or re-initialised, as a function of the step.

    freeze:8           embeddings and blocks 1 to 8 stay as they are; freeze:0 the embeddings only, freeze:-1 nothing
    last:6             only the last 6 blocks and what is above them train
    train:3-6          only blocks 3 to 6 and the head train
    reinit:1-2         blocks 1 and 2 begin with fresh weights, drawn by the model's own initialiser
    reinit:1-2/torch   the same, drawn by PyTorch's default initialiser
    unfreeze:4/epoch   the last 4 blocks train in the first epoch, 4 more in each that follows, the embeddings after
    unfreeze:4/500     the same, every 500 steps
    lora:8             of the blocks that train, only low-rank adapters do, of rank 8, beside every matrix (Hu et al.
                       2022); nothing else of the model, only the head of a task

Joined with `+` in any order: a layer is frozen as long as any part of the plan says so, and re-initialised blocks may
be frozen too. `freeze:n` counts as in Jexus (2020) and Wu & Dredze (2019), `last:n` as in Hussain & Dudev (2020),
`reinit:a-b` is the RANDOM-INIT of Muller et al. (2021).

Gradual unfreezing takes the embeddings as a group of their own, after the blocks. Hussain & Dudev never train them, and
in their three epochs over twelve blocks neither does `unfreeze:4/epoch`; ULMFiT (Howard & Ruder 2018) ends with them,
as a fourth epoch does here. `unfreeze:4/epoch+freeze:0` keeps them frozen for good. There is one schedule of rates over
all steps, as Hussain & Dudev have it, so what is unfrozen late trains at a low rate under `decay="linear"`.

An output layer tied to the word embeddings is the same weight and frozen with them; its bias, the head's transform, the
last norm and the pooler lie above the blocks and always train.
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
    """What happens to which layers; as it stands, everything trains.

    reinit: blocks, numbered from 1, that begin with fresh weights. freeze: the embeddings and this many of the lowest
    blocks never train, -1 for nothing. last: at most this many of the highest blocks train. train: the first and last
    of the only blocks that train. unfreeze: this many more blocks train every `every` steps, or every epoch where that
    is None; it counts from the top of the model, whatever else is frozen. initialiser: what draws the fresh weights,
    the model's `own` or `torch`. lora: the rank of adapters, which alone train then, None for none.
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
        """The last block that may train, None where all above the frozen ones may."""
        return self.train[1] if self.train else None

    def __str__(self) -> str:
        """The plan as `parse_plan` reads it, one text for each plan."""
        end = "" if self.initialiser == OWN else f"/{self.initialiser}"
        firsts = [number for number in self.reinit if number - 1 not in self.reinit]  # of stretches of blocks
        lasts = [number for number in self.reinit if number + 1 not in self.reinit]
        parts = [f"reinit:{first}-{last}{end}" for first, last in zip(firsts, lasts, strict=True)]
        parts += [f"freeze:{self.freeze}"] if self.freeze >= 0 else []
        parts += [f"last:{self.last}"] if self.last is not None else []
        parts += [f"train:{self.train[0]}-{self.train[1]}"] if self.train is not None else []
        parts += [f"unfreeze:{self.unfreeze}/{self.every or 'epoch'}"] if self.unfreeze is not None else []
        parts += [f"lora:{self.lora}"] if self.lora is not None else []
        return "+".join(parts) or "freeze:-1"


def parse_plan(text: str) -> Plan:
    """Read a plan; each form once, `reinit` as often as there are stretches of blocks.

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

    depth: blocks of the model; epoch: steps in an epoch. Of the parts' numbers the largest holds:

        freeze:n     n
        last:n       depth - n
        train:a-b    a - 1, and the blocks above b besides (`Plan.until`)
        unfreeze:n   max(0, depth - n * (period + 1)), and -1 from the period after the one that reaches block 1
        lora:r       0

    It never rises from one step to the next, so no weight is frozen again with momentum from before. A plan for layers
    that are not there is refused.

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
    """Re-initialise the plan's blocks and add its adapters, in the stack's own model; returns `plan` of `train`.

    To be called before the optimiser is made, which must know the adapters.
    epoch: steps in an epoch; seed: of the fresh weights, which are those of `reinitialise(stack, blocks, seed=seed)`;
    hold: told which layers are frozen, `hold(n, until=last)`, whenever that changes.
    The function returned is called with the number of each update before it is made, and says by `requires_grad` what
    it trains; it touches the model only where that changes. It knows no other past, so a training that goes on from
    a checkpoint continues the plan: apply the plan first, then restore, and trained weights replace the fresh ones.

    >>> train(training, plan=apply_plan(stack, parse_plan("last:6"), epoch=500, seed=0))  # doctest: +SKIP
    """
    depth = stack.last
    frozen_at(plan, 0, depth=depth, epoch=epoch)  # refuses a plan for layers that are not there
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
