"""Callbacks for a `transformers.Trainer` of one's own: what training on one language does to the others.

Each is a plain `TrainerCallback`, usable alone:

    perplexity = PerplexityCallback(tokenizer, {"nl": dutch, "en": english, "de": german}, target="nl")
    stop = BalanceStopCallback(perplexity, patience=5)
    Trainer(model, arguments, ..., callbacks=[perplexity, stop]).train()

`DriftCallback` reads how each layer moves, `UnfreezeCallback` trains by a plan. Readings set evaluation mode and
restore it, leave no gradient, and draw nothing from the global random state: the trained weights are those of a
training without them, bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback
from transformers.trainer_utils import has_length

from isogloss.errors import require
from isogloss.seeds import seed_of
from isogloss.stack.edit import freeze
from isogloss.stack.load import wrap
from isogloss.stack.stack import Stack
from isogloss.text.batches import tokenise
from isogloss.text.corpora import Corpus
from isogloss.text.masking import masking_of
from isogloss.training.distances import Distance, distance_probe, sample_vectors
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.plans import Plan, apply_plan, frozen_at, parse_plan
from isogloss.training.probes import Probe, Reading
from isogloss.training.stopping import Memory, balance_of, select_by, stop_after
from isogloss.vectors.extract import check_corpus

ANSWER = ("value", "low", "high", "floor", "n")  # what a reading says; the rest says of what
OTHERS = "others"
SHARE = 1 / 16  # sentences of all readings, of those trained on: each costs a third of a trained one, or less
FEWEST = 16  # sentences of a corpus that are worth reading
SHORT = {"l2_drift": "l2", "cosine_drift": "cosine", "cka": "cka", "procrustes_distance": "procrustes"}


def stack_of(model: Any, tokenizer: Any = None) -> Stack:
    """The stack inside a model with any head; the weights are the model's own, so it reads what training leaves."""
    name = type(model).__name__
    kinds = f"{name} is an encoder-decoder; the callbacks are for encoders and decoders"
    require(not model.config.is_encoder_decoder, kinds)
    return wrap(model, tokenizer, name=name)


def updates_in_epoch(loader: Any, arguments: Any) -> int | None:
    """Updates of an epoch, as Trainer counts them: the last may have fewer batches. None for data without a length."""
    if not has_length(loader):
        return None
    return max(1, -(-len(loader) // int(arguments.gradient_accumulation_steps)))


def refuse_sharded(arguments: Any, name: str) -> None:
    """Refuse FSDP and DeepSpeed: callbacks need the whole weights in every process."""
    require(
        not (arguments.fsdp or arguments.deepspeed),
        f"{name} needs the whole model in every process, and FSDP and DeepSpeed split it; train with plain data "
        "parallelism (torchrun) or leave the callback out",
    )


def log_name(reading: Reading) -> str:
    """What a reading is called in Trainer's log: `eval_nl_perplexity`, `eval_nl_perplexity_word`, `eval_layer8_l2`."""
    if reading["measure"] in SHORT:
        return f"eval_layer{reading['layer']}_{SHORT[reading['measure']]}"
    unit = "" if reading["unit"] == "token" else f"_{reading['unit']}"
    return f"eval_{reading['target']}_perplexity{unit}"


Log = Callable[[dict[str, float]], None]


class ReadingsCallback(TrainerCallback):  # type: ignore[misc]
    """Takes the readings of a probe while a Trainer trains: each step once, as rows and in Trainer's own log.

    A subclass says what is read (`_make`), and may make more numbers for the log of a step's readings (`_further`).

    every: updates between readings, None for Trainer's own evaluations. log: `trainer.log`; without it numbers go to
    `state.log_history`, which is all that a callback can reach by itself.

    rows: every reading so far with its `step`, for `isogloss.runs.table.frame`. Trainer's log is kept in its
    checkpoints, and rows from before a resumed one are read there: values without their intervals.
    """

    def __init__(self, *, every: int | None, log: Log | None) -> None:
        require(every is None or every >= 1, f"readings are taken every 1 update or more rarely, not every {every}")
        self.rows: list[dict[str, Any]] = []
        self._every, self._log = every, log
        self._probe: Any = None  # made when a model is there to be read
        self._training, self._step, self._values = False, -1, dict[str, float]()

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Read the model before its first update, unless the training is resumed."""
        refuse_sharded(args, type(self).__name__)
        self._probe = self._make(given["model"], args, state, given["train_dataloader"])
        require(
            self._every is not None or args.eval_strategy != "no",
            "Trainer makes no evaluations (eval_strategy='no'), at which readings would be taken; say how often with "
            "every=500, or set eval_strategy",
        )
        self.rows.clear()
        self._training, self._step = True, -1
        if state.global_step == 0:
            self._read(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Where `every` is set, read the model every so many updates and after the last one."""
        if self._every and (state.global_step % self._every == 0 or state.global_step >= state.max_steps):
            self._read(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
        """Read the model where no `every` is set, or outside training, and add the readings to Trainer's metrics.

        So `metric_for_best_model` can name a reading. Where Trainer evaluates several data sets in turn, the model is
        read once.
        """
        self._probe = self._probe or self._make(given["model"], args, None, None)
        if self._every is None or not self._training:
            self._read(state)
        if metrics is not None and self._step == state.global_step:
            metrics.update(self._values)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Add no rows from here on: evaluations after training may be of another model, such as the best one.

        They make a probe of their own, as evaluations before training do, which reads all sentences.
        """
        self._training, self._probe = False, None

    def _make(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        """The probe of this model; state and loader are those of a training, None at an evaluation without one."""
        raise NotImplementedError

    def _further(self, readings: Sequence[Reading]) -> dict[str, float]:
        return {}

    def _read(self, state: Any) -> None:
        if self._training and self._step == state.global_step:
            return
        # Every process reads, and all go by the first one's numbers: were one to stop alone, the others would hang.
        readings: list[Reading] = broadcast_object_list([list(self._probe.take())])[0]
        self._values = {log_name(reading): float(reading["value"]) for reading in readings} | self._further(readings)
        self._step = state.global_step
        if self._training and not self.rows:  # rows of the earlier steps that the log of a resumed training knows
            without = [{key: item for key, item in reading.items() if key not in ANSWER} for reading in readings]
            self.rows += [
                {**coordinates, "value": entry[log_name(coordinates)], "step": entry["step"]}
                for entry in state.log_history
                for coordinates in without
                if log_name(coordinates) in entry and entry["step"] < state.global_step
            ]
        if self._training:
            self.rows += [{**reading, "step": state.global_step} for reading in readings]
        if self._log is not None:
            self._log(dict(self._values))
        else:
            state.log_history.append({**self._values, "epoch": state.epoch or 0, "step": state.global_step})


class PerplexityCallback(ReadingsCallback):
    """Perplexity of a masked LM or decoder in training, on the language it is trained on and on any others.

    tokenizer: the model's. corpora: held-out sentences by language. target: the language trained on; the others are
    read each apart and pooled. Which tokens are masked is drawn once from the seed, so a curve moves because the model
    moved. every: updates between readings, None for Trainer's own evaluations. limit: sentences of each corpus, drawn
    once; None reads all. "auto" takes so many that all readings together read a sixteenth of the sentences that
    training does, at least 16 of each corpus; evaluations outside training read all. log: `trainer.log`, where readings
    shall reach TensorBoard and the like too.

    In the log, in `trainer.evaluate()` and for `metric_for_best_model` (with greater_is_better=False):
    `eval_nl_perplexity` of each language, `eval_others_perplexity` of the others pooled, both per token, and with
    `_word` or `_character` at the end; `eval_balance`, the sum of the logarithms of `eval_nl_perplexity` and
    `eval_others_perplexity`, lowest where gain and loss balance best. `rows` holds every reading with its interval.

    >>> perplexity = PerplexityCallback(tokenizer, {"nl": dutch, "en": english}, target="nl")  # doctest: +SKIP
    >>> Trainer(model, arguments, callbacks=[perplexity]).train()  # doctest: +SKIP
    >>> isogloss.runs.table.frame(perplexity.rows)  # doctest: +SKIP
    """

    def __init__(
        self,
        tokenizer: Any,
        corpora: Mapping[str, Corpus | Sequence[str]],
        *,
        target: str,
        every: int | None = None,
        seed: int = 0,
        limit: int | Literal["auto"] | None = "auto",
        log: Log | None = None,
    ) -> None:
        super().__init__(every=every, log=log)
        everyone = "a corpus is called 'others', the name of all but the target together; give its language"
        require(OTHERS not in corpora, everyone)
        languages = ", ".join(corpora)
        require(target in corpora, f"the target {target} is not among the corpora ({languages}); add its sentences")
        few = f"perplexity needs at least one sentence a corpus, not {limit}"
        require(not isinstance(limit, int) or limit >= 1, few)
        self.corpora = [
            given if isinstance(given, Corpus) else Corpus(language, given) for language, given in corpora.items()
        ]
        for language, corpus in zip(corpora, self.corpora, strict=True):
            other = f"the corpus of {language} says that its language is {corpus.language}; name it by its language"
            require(corpus.language == language, other)
        self.target = target
        sides = (select_by("perplexity", target=side, unit="token") for side in (target, OTHERS))
        self.balance = balance_of(*sides)
        self._tokenizer, self._seed, self._limit = tokenizer, seed, limit

    def _make(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        # Trainer takes any metric but a loss for one that is better when higher, unless it is told.
        chosen = f"eval_{(args.metric_for_best_model or '').removeprefix('eval_')}"
        lower = chosen == "eval_balance" or "_perplexity" in chosen
        require(
            state is None or not (args.greater_is_better and lower),
            f"the best model by {chosen} is the one where it is lowest, and Trainer would keep the worst; set "
            "greater_is_better=False",
        )
        stack, limit = stack_of(model, self._tokenizer), self._sample(args, state, loader)
        headless = f"perplexity is of models with a head that predicts words (...LM), not of {type(model).__name__}"
        require(stack.language_model is not None, headless)
        texts = [_drawn(corpus, limit, self._seed) for corpus in self.corpora]
        return perplexity_probe(
            model,
            [tokenise(stack.tokenizer, text, max_length=stack.max_length) for text in texts],
            target=self.target,
            every=1,
            seed=self._seed,
            device=stack.device,
            dtype=torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None,
            masking=masking_of(stack.tokenizer, causal=stack.causal),
        )

    def _sample(self, args: Any, state: Any, loader: Any) -> int | None:
        """Sentences of each corpus to read, None for all."""
        if self._limit != "auto" or state is None:
            return None if self._limit == "auto" else self._limit
        between = self._every or (state.eval_steps if args.eval_strategy == "steps" else updates_in_epoch(loader, args))
        updates = state.max_steps
        readings = 1 + -(-updates // min(between or updates, updates))  # the first before any update
        trained = updates * args.train_batch_size * args.gradient_accumulation_steps
        return max(FEWEST, int(SHARE * trained / readings / len(self.corpora)))

    def _further(self, readings: Sequence[Reading]) -> dict[str, float]:
        value = self.balance.value(readings)
        return {} if value is None else {"eval_balance": value}


class BalanceStopCallback(TrainerCallback):  # type: ignore[misc]
    """Stop when the balance of the target's gain and the others' loss has not improved for `patience` readings.

    perplexity: the callback that takes them; put this one after it. The rule is `isogloss.training.stopping.balance_of`
    per token; least: nats that count as an improvement. It goes by the readings in Trainer's log, which checkpoints
    keep, so a resumed training stops where it would have stopped. `reason` then says why. The model of the best balance
    is kept by Trainer: metric_for_best_model="eval_balance", greater_is_better=False, load_best_model_at_end=True.
    """

    def __init__(self, perplexity: PerplexityCallback, patience: int = 5, *, least: float = 0.0) -> None:
        alone = f"there is no balance with {perplexity.target} alone; give PerplexityCallback other languages too"
        require(len(perplexity.corpora) > 1, alone)
        logged = replace(perplexity.balance, value=lambda entries: entries[0]["eval_balance"])
        self._rule = stop_after(logged, patience, least)
        self.reason: str | None = None
        self._memory: Memory = {}
        self._seen, self._step = 0, -1

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Begin anew, with what the log of a resumed training holds."""
        self.reason, self._memory, self._seen, self._step = None, {}, 0, -1
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Show the rule what the log has that it has not seen."""
        for entry in state.log_history[self._seen :]:
            # A step that is evaluated again, as eval_on_start does when training is resumed, is one evaluation.
            if "eval_balance" in entry and entry["step"] > self._step:
                self._step = entry["step"]
                self._memory, reason = self._rule(self._memory, self._step, [entry])
                self.reason = self.reason or reason
        self._seen = len(state.log_history)
        if self.reason is not None:
            control.should_training_stop = True

    on_evaluate = on_step_end  # readings are taken every so many updates, or with Trainer's own evaluation


def _drawn(corpus: Corpus, limit: int | None, seed: int) -> Corpus:
    """At most so many sentences, in the corpus's order, drawn by the seed."""
    if limit is None or limit >= len(corpus):
        return corpus
    generator = np.random.default_rng(seed_of(seed, "sentences to read", corpus.language))
    return corpus.take(sorted(generator.permutation(len(corpus))[:limit].tolist()))


class DriftCallback(ReadingsCallback):
    """How far each layer of the model in training is from another model, or from its own start, on the same words.

    tokenizer: the model's. corpus: sentences, of which so many are drawn, once, that they hold `words` words.
    reference: a model of the same depth, with any tokenizer, as `isogloss.load` gives it; None for the model's own
    start. every: updates between readings, None for Trainer's own evaluations. measures: of "l2", "cosine", "cka" and
    "procrustes". layers: default all; 0 is the embeddings. log: as for `PerplexityCallback`.

    In the log: `eval_layer8_l2` of each layer and measure. `rows` holds every reading with its interval. Put it into
    `Trainer(callbacks=...)`: added later to a training that is resumed, it could not know the start.

    >>> Trainer(model, arguments, callbacks=[DriftCallback(tokenizer, Corpus("nl", dutch))]).train()  # doctest: +SKIP
    """

    def __init__(
        self,
        tokenizer: Any,
        corpus: Corpus,
        *,
        reference: Stack | None = None,
        every: int | None = 500,
        words: int | None = 1000,
        measures: Sequence[Distance] = ("l2", "cosine"),
        layers: Sequence[int] | None = None,
        seed: int = 0,
        log: Log | None = None,
    ) -> None:
        super().__init__(every=every, log=log)
        check_corpus(corpus)
        self._tokenizer, self._reference, self._measures = tokenizer, reference, tuple(measures)
        self._vectors = partial(sample_vectors, corpus=corpus, words=words, layers=layers, seed=seed)
        self._start: Any = None if reference is None else self._vectors(reference)

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Keep what the model is now as the start, before Trainer may load a checkpoint into it."""
        if self._reference is None:
            self._start = self._vectors(stack_of(model, self._tokenizer))

    def _make(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        if state is not None and state.global_step == 0:
            self.on_init_end(args, state, None, model)
        require(
            self._start is not None,
            "the model this training began with is no longer there; give DriftCallback to Trainer(callbacks=...), or "
            "that model as reference=isogloss.load(...)",
        )
        other = "start" if self._reference is None else self._reference.name
        stack = stack_of(model, self._tokenizer)
        return distance_probe(stack, self._start, every=1, other=other, measures=self._measures)


class UnfreezeCallback(TrainerCallback):  # type: ignore[misc]
    """Train by a plan: which layers are frozen, re-initialised, and unfrozen when.

    The trap: Trainer makes its optimiser of the weights that require gradients at that moment. A callback that sets
    `requires_grad` later changes what has a gradient, and nothing else: the optimiser does not hold the weight, so it
    never moves. Trainer makes the optimiser after `on_init_end` and before `on_train_begin`. So in
    `Trainer(callbacks=...)` this callback freezes nothing at `on_init_end`, and the optimiser takes every weight; from
    `on_train_begin` the plan holds. A weight without a gradient is left alone: no update, no decay, no moments in
    memory. The groups never change, so checkpoints can be resumed, and several processes know from the start which
    gradients they share. An optimiser that lacks a weight the plan trains at some step is refused.

    plan: as `isogloss.training.plans` reads it, such as `unfreeze:4/epoch`, `last:6` or `reinit:1-2+freeze:0`, but not
    `lora`. It alone decides which weights of the encoder train; heads above it always do. seed: of re-initialised
    blocks. Put it into `Trainer(callbacks=...)`, before callbacks that read the start.

    >>> Trainer(model, arguments, callbacks=[UnfreezeCallback("unfreeze:4/epoch")]).train()  # doctest: +SKIP
    """

    def __init__(self, plan: str | Plan = "unfreeze:4/epoch", *, seed: int = 0) -> None:
        self.plan = parse_plan(plan) if isinstance(plan, str) else plan
        adapters = "UnfreezeCallback adds no adapters; for lora give Trainer a model of peft (peft.get_peft_model)"
        require(self.plan.lora is None, adapters)
        self._seed = seed
        self._stack: Any = None  # the stack of the model that is trained
        self._before: Any = None  # freezes what the plan does not train in an update, from `on_train_begin` on

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Re-initialise, and have the optimiser take every weight."""
        self._begin(model, self.plan)
        freeze(self._stack, -1)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Freeze what the plan freezes at the step that training begins with."""
        refuse_sharded(args, "UnfreezeCallback")
        # Several processes wait for a gradient of each weight, unless they look which have none.
        looks = args.ddp_find_unused_parameters
        require(
            args.world_size == 1 or (not args.gradient_checkpointing if looks is None else looks),
            "several processes would wait for the gradients of frozen layers; set ddp_find_unused_parameters=True, "
            "without gradient checkpointing",
        )
        if self._stack is None or self._stack.model is not given["model"].base_model:
            self._begin(given["model"], self.plan if state.global_step == 0 else replace(self.plan, reinit=()))
        epoch = updates_in_epoch(given["train_dataloader"], args)
        require(
            epoch or self.plan.unfreeze is None or self.plan.every is not None,
            f"the plan {self.plan} counts epochs, but the training data has no length; write unfreeze:4/500 instead",
        )
        end = frozen_at(self.plan, max(0, state.max_steps - 1), depth=self._stack.last, epoch=epoch or 1)
        freeze(self._stack, end, until=self.plan.until)
        held = {id(weight) for group in given["optimizer"].param_groups for weight in group["params"]}
        require(
            all(id(weight) in held for weight in given["model"].parameters() if weight.requires_grad),
            "the optimiser was made without weights that the plan trains, so they would never move; give "
            "UnfreezeCallback to Trainer(callbacks=...), and an optimiser of your own every weight",
        )
        drawn = replace(self.plan, reinit=())  # fresh weights are there already
        self._before = apply_plan(self._stack, drawn, epoch=epoch or 1, seed=self._seed)
        self.on_step_begin(args, state, control)

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Unfreeze what the plan trains from this update on."""
        self._before(state.global_step)

    def _begin(self, model: Any, plan: Plan) -> None:
        """Take a model and re-initialise what the plan says; a plan of layers that the model lacks is refused."""
        self._stack = stack_of(model)
        apply_plan(self._stack, plan, epoch=1, seed=self._seed)
