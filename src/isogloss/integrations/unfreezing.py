"""Gradual unfreezing, and every other plan, in a running `transformers.Trainer`.

The trap: Trainer makes its optimiser of the weights that require gradients at that moment. A callback that sets
`requires_grad` later changes what has a gradient, and nothing else: the optimiser does not hold the weight, so it never
moves. Trainer makes the optimiser after `on_init_end` and before `on_train_begin`. So in `Trainer(callbacks=...)` this
callback freezes nothing at `on_init_end`, and the optimiser takes every weight; from `on_train_begin` the plan holds.
A weight without a gradient is left alone: no update, no decay, no moments in memory. The groups never change, so
checkpoints can be resumed, and several processes know from the start which gradients they share.

Any other way (`trainer.add_callback`, an optimiser of one's own, a model frozen before), a weight that is unfrozen and
that the optimiser does not hold is added to it then: in parameter groups of their own, with decay and without, at the
schedule's current rate, and the schedule goes on with them.
"""

import copy
from collections.abc import Mapping
from typing import Any

from torch import nn
from transformers import Trainer, TrainerCallback

from isogloss.errors import InputError
from isogloss.integrations.trainer import refuse_sharded, stack_of, steps_in_epoch
from isogloss.stack.change import freeze, redraw
from isogloss.stack.stack import Stack
from isogloss.training.plans import Plan, frozen_at, parse_plan

PER_GROUP = ("base_lrs", "lr_lambdas", "_last_lr", "min_lrs")  # lists of a schedule with an entry for each group


class UnfreezeCallback(TrainerCallback):  # type: ignore[misc]
    """Train by a plan: which layers are frozen, re-initialised, and unfrozen when.

    plan: as `isogloss.training.plans` reads it, such as `unfreeze:4/epoch`, `last:6` or `reinit:1-2+freeze:0`. It
    alone decides which weights of the encoder train; heads above it always do. seed: of re-initialised blocks. Put it
    into `Trainer(callbacks=...)`, before callbacks that read the start.

    >>> Trainer(model, arguments, callbacks=[UnfreezeCallback("unfreeze:4/epoch")]).train()  # doctest: +SKIP
    """

    def __init__(self, plan: str | Plan = "unfreeze:4/epoch", *, seed: int = 0) -> None:
        self.plan = parse_plan(plan) if isinstance(plan, str) else plan
        self._seed = seed
        self._stack: Stack | None = None
        self._epoch = 1
        self._frozen: int | None = None

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Re-initialise, and have the optimiser take every weight."""
        refuse_sharded(args, "UnfreezeCallback")
        freeze(self._begin(model), -1)

    def on_train_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        lr_scheduler: Any = None,
        train_dataloader: Any = None,
        **rest: Any,
    ) -> None:
        """Freeze what the plan freezes at the step that training begins with."""
        refuse_sharded(args, "UnfreezeCallback")
        _refuse_waiting(args)
        if self._stack is None or self._stack.model is not model.base_model:
            self._begin(model, fresh=state.global_step == 0)
        epoch = steps_in_epoch(train_dataloader, args)
        if epoch is None and self.plan.unfreeze is not None and self.plan.every is None:
            raise InputError(
                f"the plan {self.plan} counts epochs, but the training data has no length; write unfreeze:4/500 instead"
            )
        self._epoch, self._frozen = epoch or 1, None
        self._change(args, state, model, optimizer, lr_scheduler)

    def on_step_begin(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: Any = None,
        optimizer: Any = None,
        lr_scheduler: Any = None,
        **rest: Any,
    ) -> None:
        """Unfreeze what the plan trains from this update on."""
        self._change(args, state, model, optimizer, lr_scheduler)

    def _begin(self, model: Any, *, fresh: bool = True) -> Stack:
        self._stack = stack_of(model)
        frozen_at(self.plan, 0, depth=self._stack.last, epoch=1)  # refuses a plan for layers that are not there
        if self.plan.reinit and fresh:
            redraw(self._stack, self.plan.reinit, seed=self._seed, initialiser=self.plan.initialiser)
        return self._stack

    def _change(self, args: Any, state: Any, model: nn.Module, optimizer: Any, schedule: Any) -> None:
        assert self._stack is not None
        now = frozen_at(self.plan, state.global_step, depth=self._stack.last, epoch=self._epoch)
        if now == self._frozen:
            return
        freeze(self._stack, now, until=self.plan.until)
        self._frozen = now
        late = _not_held(model, optimizer)
        if late and args.world_size > 1:
            raise InputError(
                "several processes share only gradients known when Trainer began; give UnfreezeCallback to "
                "Trainer(callbacks=...) and let Trainer make the optimiser"
            )
        add_weights(model, late, optimizer=optimizer, schedule=schedule)


def add_weights(model: nn.Module, weights: Mapping[str, nn.Parameter], *, optimizer: Any, schedule: Any) -> None:
    """Add weights of a model, by name, to an optimiser that runs under a schedule.

    Those that decay and those that do not, by Trainer's own rule, are a group each. A group has the options of the
    first group with its weight decay (the largest there is, the smallest there is), its current rate among them, and
    the schedule treats it as that one.
    """
    inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
    groups = inner.param_groups
    rates = [group.get("weight_decay", 0.0) for group in groups]
    decaying = set(Trainer.get_decay_parameter_names(None, model))
    for decays, rate in ((True, max(rates)), (False, min(rates))):
        chosen = [(name, weight) for name, weight in weights.items() if (name in decaying) is decays]
        if not chosen:
            continue
        like = rates.index(rate)
        options = {name: value for name, value in groups[like].items() if name not in ("params", "param_names")}
        named = "param_names" in groups[like]
        inner.add_param_group({"params": chosen if named else [one for _, one in chosen], **copy.deepcopy(options)})
        _extend(schedule, like)


def _extend(schedule: Any, like: int) -> None:
    """One more group for a schedule, treated as group `like`; a schedule of schedules passes it on."""
    for inner in getattr(schedule, "_schedulers", ()):
        _extend(inner, like)
    for name in PER_GROUP:
        values = getattr(schedule, name, None)
        if isinstance(values, list):
            setattr(schedule, name, [*values, values[like]])  # a new list: schedules of schedules share theirs


def _not_held(model: nn.Module, optimizer: Any) -> dict[str, nn.Parameter]:
    """Weights that require gradients and are in no group of the optimiser."""
    held = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    return {
        name: weight for name, weight in model.named_parameters() if weight.requires_grad and id(weight) not in held
    }


def _refuse_waiting(args: Any) -> None:
    """Several processes wait for a gradient of each weight, unless they look which have none."""
    found = args.ddp_find_unused_parameters
    if args.world_size > 1 and not (not args.gradient_checkpointing if found is None else found):
        raise InputError(
            "several processes would wait for the gradients of frozen layers; set ddp_find_unused_parameters=True, "
            "without gradient checkpointing"
        )
