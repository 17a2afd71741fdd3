"""Callbacks for your own `transformers.Trainer`: measure how training on one language affects other languages.

Each one is a plain `TrainerCallback` and can be used alone:

    perplexity = PerplexityCallback(tokenizer, {"nl": dutch, "en": english, "de": german}, target="nl")
    stop = BalanceStopCallback(perplexity, patience=5)
    Trainer(model, arguments, ..., callbacks=[perplexity, stop]).train()

`DriftCallback` measures how far each layer moves, and `UnfreezeCallback` freezes and unfreezes layers by a plan. A
reading is one measured value. Readings are taken in evaluation mode and restore the former mode, leave no gradients,
and draw nothing from the global random state: the trained weights are bit-identical to those without the callbacks.
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
from isogloss.runs.table import OTHERS, row
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

RESULTS = ("value", "low", "high", "floor", "n", "parts")  # results in a reading; other entries are coordinates
SHARE = 1 / 16  # sentences of all readings / training sentences; reading one costs at most a third of training on it
FEWEST = 16  # minimum number of sentences of each corpus in a reading
SHORT_NAMES = {"l2_drift": "l2", "cosine_drift": "cosine", "cka": "cka", "procrustes_distance": "procrustes"}


def stack_of(model: Any, tokenizer: Any = None) -> Stack:
    """The stack inside a model with any head; it shares the model's weights, so it follows the training."""
    name = type(model).__name__
    unsupported = f"{name} is an encoder-decoder; the callbacks are for encoders and decoders"
    require(not model.config.is_encoder_decoder, unsupported)
    stack = wrap(model, None, name=name)  # texts are tokenised as they are for training, with no token added
    return replace(stack, tokenizer=tokenizer)


def updates_in_epoch(loader: Any, arguments: Any) -> int | None:
    """Number of updates in an epoch as Trainer counts them: the last may have fewer batches. None without a length."""
    if not has_length(loader):
        return None
    return max(1, -(-len(loader) // int(arguments.gradient_accumulation_steps)))


def refuse_sharded(arguments: Any, name: str) -> None:
    """Raise InputError for FSDP and DeepSpeed: the callbacks need all weights in every process."""
    require(
        not (arguments.fsdp or arguments.deepspeed),
        f"{name} needs the whole model in every process, and FSDP and DeepSpeed split it; train with plain data "
        "parallelism (torchrun) or leave the callback out",
    )


def log_name(reading: Reading) -> str:
    """The name of a reading in Trainer's log: `eval_nl_perplexity`, `eval_nl_perplexity_word`, `eval_layer8_l2`."""
    if reading["measure"] in SHORT_NAMES:
        return f"eval_layer{reading['layer']}_{SHORT_NAMES[reading['measure']]}"
    unit = "" if reading["unit"] == "token" else f"_{reading['unit']}"
    return f"eval_{reading['target']}_perplexity{unit}"


Log = Callable[[dict[str, float]], None]


class ReadingsCallback(TrainerCallback):  # type: ignore[misc]
    """Base class: takes the readings of a probe while a Trainer trains, once per step, as rows and in Trainer's log.

    A subclass creates the probe (`_make_probe`) and may derive more values for the log from the readings (`_derived`).

    every: updates between readings; None takes them at Trainer's own evaluations. log: `trainer.log`; without it values
    are appended to `state.log_history`, the only log that a callback has access to.

    rows: all readings so far with their `step`, for `isogloss.runs.table.frame`. In a resumed training run, the rows
    from before the checkpoint are restored from Trainer's log, which is saved in checkpoints; they have no intervals.
    """

    def __init__(self, *, every: int | None, log: Log | None) -> None:
        require(every is None or every >= 1, f"every is the number of updates between readings, 1 or more, not {every}")
        self.rows: list[dict[str, Any]] = []
        self._every, self._log = every, log
        self._probe: Any = None  # created when the model is available
        self._training, self._step, self._values = False, -1, dict[str, float]()

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Take the readings before the first update, unless the training run is resumed."""
        refuse_sharded(args, type(self).__name__)
        self._probe = self._make_probe(given["model"], args, state, given["train_dataloader"])
        require(
            self._every is not None or args.eval_strategy != "no",
            "readings are taken at Trainer's evaluations, but eval_strategy='no' turns them off; set eval_strategy, or "
            "give the number of updates between readings, as in every=500",
        )
        self.rows.clear()
        self._training, self._step = True, -1
        if state.global_step == 0:
            self._read(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """If `every` is set, take the readings every `every` updates and after the last one."""
        if self._every and (state.global_step % self._every == 0 or state.global_step >= state.max_steps):
            self._read(state)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
        """Add the readings to Trainer's metrics; take them if `every` is not set, or outside of training.

        So `metric_for_best_model` can be the name of a reading. If Trainer evaluates several data sets one after the
        other, the readings are taken once.
        """
        self._probe = self._probe or self._make_probe(given["model"], args, None, None)
        if self._every is None or not self._training:
            self._read(state)
        if metrics is not None and self._step == state.global_step:
            metrics.update(self._values)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Add no more rows: an evaluation after training may be of another model, such as the best one.

        Evaluations before and after training use a separate probe, which reads all sentences if the limit is "auto".
        """
        self._training, self._probe = False, None

    def _make_probe(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        """Create the probe of a model; Trainer's state and data loader are None outside of training."""
        raise NotImplementedError

    def _derived(self, readings: Sequence[Reading]) -> dict[str, float]:
        return {}

    def _read(self, state: Any) -> None:
        if self._training and self._step == state.global_step:
            return
        # All processes use the readings of the first one: if a single process stopped early, the others would hang.
        readings: list[Reading] = broadcast_object_list([list(self._probe.take())])[0]
        self._values = {log_name(reading): float(reading["value"]) for reading in readings} | self._derived(readings)
        self._step = state.global_step
        if self._training and not self.rows:  # after a resume, restore the rows of earlier steps from the log
            places = [{key: item for key, item in reading.items() if key not in RESULTS} for reading in readings]
            self.rows += [
                row(**coordinates, value=entry[log_name(coordinates)], step=entry["step"])
                for entry in state.log_history
                for coordinates in places
                if log_name(coordinates) in entry and entry["step"] < state.global_step
            ]
        if self._training:
            self.rows += [row(**reading, step=state.global_step) for reading in readings]
        if self._log is not None:
            self._log(dict(self._values))
        else:
            state.log_history.append({**self._values, "epoch": state.epoch or 0, "step": state.global_step})


class PerplexityCallback(ReadingsCallback):
    """Perplexity of a masked LM or a decoder during training, on the training language and on other languages.

    tokenizer: the model's tokenizer. corpora: held-out sentences by language. target: the training language; the other
    languages are evaluated one by one and pooled. every: updates between readings; None takes them at Trainer's own
    evaluations. seed: the masked tokens are drawn once from it, so a curve changes only because the model changes.
    limit: sentences of each corpus, drawn once; None for all. With "auto", all readings together use a sixteenth of the
    number of training sentences, each at least 16 sentences of each corpus, and evaluations outside of training use all
    sentences. log: `trainer.log`, if TensorBoard and similar tools should receive the readings too.

    Names in the log, in `trainer.evaluate()` and for `metric_for_best_model` (with greater_is_better=False):
    `eval_nl_perplexity` for each language and `eval_others_perplexity` for the others pooled, per token; the same with
    the ending `_word` or `_character`; `eval_balance`, the sum of the logarithms of `eval_nl_perplexity` (the target's)
    and `eval_others_perplexity`, lowest where gain and loss balance best. `rows` has all readings with intervals.

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
        reserved = "no corpus can be called 'others', the name of all languages but the target; name it by its language"
        require(OTHERS not in corpora, reserved)
        languages = ", ".join(corpora)
        require(target in corpora, f"the target {target} is not among the corpora ({languages}); add its sentences")
        few = f"perplexity needs at least one sentence of each corpus, not {limit}"
        require(not isinstance(limit, int) or limit >= 1, few)
        self.corpora = [
            given if isinstance(given, Corpus) else Corpus(language, given) for language, given in corpora.items()
        ]
        for language, corpus in zip(corpora, self.corpora, strict=True):
            wrong = f"the corpus given as {language} has the language {corpus.language}; name it by its own language"
            require(corpus.language == language, wrong)
        self.target = target
        sides = (select_by("perplexity", target=side, unit="token") for side in (target, OTHERS))
        self.balance = balance_of(*sides)
        self._tokenizer, self._seed, self._limit = tokenizer, seed, limit

    def _make_probe(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        # Trainer assumes that every metric except a loss is better when higher, unless greater_is_better is set.
        metric = f"eval_{(args.metric_for_best_model or '').removeprefix('eval_')}"
        lower_is_better = metric == "eval_balance" or "_perplexity" in metric
        require(
            state is None or not (args.greater_is_better and lower_is_better),
            f"the best model has the lowest {metric}, and Trainer would keep the model with the highest; set "
            "greater_is_better=False",
        )
        stack, limit = stack_of(model, self._tokenizer), self._sample(args, state, loader)
        headless = f"perplexity needs a model with a language modelling head (...LM), not {type(model).__name__}"
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
        """The number of sentences of each corpus in a reading, None for all."""
        if self._limit != "auto" or state is None:
            return None if self._limit == "auto" else self._limit
        between = self._every or (state.eval_steps if args.eval_strategy == "steps" else updates_in_epoch(loader, args))
        updates = state.max_steps
        readings = 1 + -(-updates // min(between or updates, updates))  # with the one before the first update
        trained = updates * args.train_batch_size * args.gradient_accumulation_steps
        return max(FEWEST, int(SHARE * trained / readings / len(self.corpora)))

    def _derived(self, readings: Sequence[Reading]) -> dict[str, float]:
        value = self.balance.value(readings)
        return {} if value is None else {"eval_balance": value}


class BalanceStopCallback(TrainerCallback):  # type: ignore[misc]
    """Stop when the balance of the target's gain and the others' loss has not improved for `patience` readings.

    perplexity: the callback that takes the readings; put this one after it. least: the balance, that of
    `isogloss.training.stopping.balance_of` per token, must improve by more than this many nats. It is read from
    Trainer's log, which checkpoints contain, so a resumed training run stops at the same step. `reason` then says why.
    To keep the best model: metric_for_best_model="eval_balance", greater_is_better=False, load_best_model_at_end=True.
    """

    def __init__(self, perplexity: PerplexityCallback, patience: int = 5, *, least: float = 0.0) -> None:
        alone = f"the balance needs languages other than {perplexity.target}; give PerplexityCallback their corpora too"
        require(len(perplexity.corpora) > 1, alone)
        logged = replace(perplexity.balance, value=lambda entries: entries[0]["eval_balance"])
        self._rule = stop_after(logged, patience, least)
        self.reason: str | None = None
        self._memory: Memory = {}
        self._seen, self._step = 0, -1

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start again, from the readings in the log if the training run is resumed."""
        self.reason, self._memory, self._seen, self._step = None, {}, 0, -1
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Apply the stopping rule to the new entries of the log."""
        for entry in state.log_history[self._seen :]:
            # A step may be evaluated twice, as by eval_on_start in a resumed training run; it counts once.
            if "eval_balance" in entry and entry["step"] > self._step:
                self._step = entry["step"]
                self._memory, reason = self._rule(self._memory, self._step, [entry])
                self.reason = self.reason or reason
        self._seen = len(state.log_history)
        if self.reason is not None:
            control.should_training_stop = True

    on_evaluate = on_step_end  # readings are taken after an update or at Trainer's own evaluations


def _drawn(corpus: Corpus, limit: int | None, seed: int) -> Corpus:
    """At most `limit` sentences drawn by the seed, in the order of the corpus; None takes all."""
    if limit is None or limit >= len(corpus):
        return corpus
    generator = np.random.default_rng(seed_of(seed, "sentences to read", corpus.language))
    return corpus.take(sorted(generator.permutation(len(corpus))[:limit].tolist()))


class DriftCallback(ReadingsCallback):
    """Distance of each layer of the trained model to another model, or to itself before training, on the same words.

    tokenizer: the model's tokenizer. corpus: sentences are drawn from it once, until they contain `words` words.
    reference: another model of the same depth, with any tokenizer, loaded by `isogloss.load`; None compares with the
    model before training. every: updates between readings; None takes them at Trainer's own evaluations. measures: any
    of "l2", "cosine", "cka" and "procrustes". layers: default all; 0 is the embeddings. log: see `PerplexityCallback`.

    Names in the log: `eval_layer8_l2` and so on for each layer and measure. `rows` has all readings with intervals.
    Give it to `Trainer(callbacks=...)`: if it is added later to a resumed run, the initial model is no longer there.

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
        """Store the vectors of the initial model, before Trainer loads a checkpoint into it."""
        if self._reference is None:
            self._start = self._vectors(stack_of(model, self._tokenizer))

    def _make_probe(self, model: Any, args: Any, state: Any, loader: Any) -> Probe:
        if state is not None and state.global_step == 0:
            self.on_init_end(args, state, None, model)
        require(
            self._start is not None,
            "the initial model of this training run is no longer available; give DriftCallback to "
            "Trainer(callbacks=...), or the initial model as reference=isogloss.load(...)",
        )
        other = "start" if self._reference is None else self._reference.name
        stack = stack_of(model, self._tokenizer)
        return distance_probe(stack, self._start, every=1, other=other, measures=self._measures)


class UnfreezeCallback(TrainerCallback):  # type: ignore[misc]
    """Train by a plan: which layers are frozen, which are reinitialised, and when layers are unfrozen.

    Trainer creates its optimiser from the weights that require gradients at that moment, after `on_init_end` and before
    `on_train_begin`. If a callback sets `requires_grad` of a weight later, the weight gets gradients, but it is not in
    the optimiser and never changes. So this callback, given to `Trainer(callbacks=...)`, makes all weights of the
    encoder trainable in `on_init_end`, and applies the plan from `on_train_begin` on. The optimiser skips weights
    without a gradient: no update, no weight decay, no moments in memory. Its parameter groups never change, so
    checkpoints can be resumed, and several processes know from the start which gradients they share. If the optimiser
    lacks a weight that the plan trains at some step, InputError is raised.

    plan: a plan of `isogloss.training.plans`, such as `unfreeze:4/epoch`, `last:6` or `reinit:1-2+freeze:0`, but not
    `lora`. It alone decides which weights of the encoder are trained; heads are never frozen. seed: for the
    reinitialised blocks. Give it to `Trainer(callbacks=...)`, before callbacks that read the initial model.

    >>> Trainer(model, arguments, callbacks=[UnfreezeCallback("unfreeze:4/epoch")]).train()  # doctest: +SKIP
    """

    def __init__(self, plan: str | Plan = "unfreeze:4/epoch", *, seed: int = 0) -> None:
        self.plan = parse_plan(plan) if isinstance(plan, str) else plan
        adapters = "UnfreezeCallback adds no adapters; for lora give Trainer a model of peft (peft.get_peft_model)"
        require(self.plan.lora is None, adapters)
        self._seed = seed
        self._stack: Any = None  # the stack of the model that is trained
        self._apply: Any = None  # freezes the weights that the plan does not train at a step; set in `on_train_begin`

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Reinitialise the plan's blocks, and make all of the encoder's weights trainable for the optimiser."""
        self._begin(model, self.plan)
        freeze(self._stack, -1)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Check the optimiser, and freeze the weights that the plan does not train at the first step."""
        refuse_sharded(args, "UnfreezeCallback")
        # Several processes wait for the gradient of every weight, unless they search for weights without one.
        searches = args.ddp_find_unused_parameters
        require(
            args.world_size == 1 or (not args.gradient_checkpointing if searches is None else searches),
            "several processes would wait for the gradients of frozen layers; set ddp_find_unused_parameters=True, "
            "and do not use gradient checkpointing",
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
        contained = {id(weight) for group in given["optimizer"].param_groups for weight in group["params"]}
        require(
            all(id(weight) in contained for weight in given["model"].parameters() if weight.requires_grad),
            "the optimiser lacks weights that the plan trains, so they would never change; give UnfreezeCallback to "
            "Trainer(callbacks=...), and create an optimiser of your own from all weights",
        )
        without_reinit = replace(self.plan, reinit=())  # the blocks were reinitialised in `_begin`
        self._apply = apply_plan(self._stack, without_reinit, epoch=epoch or 1, seed=self._seed)
        self.on_step_begin(args, state, control)

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Unfreeze the layers that the plan trains from this update on."""
        self._apply(state.global_step)

    def _begin(self, model: Any, plan: Plan) -> None:
        """Reinitialise the plan's blocks of a model; raises InputError for layers that the model does not have."""
        self._stack = stack_of(model)
        apply_plan(self._stack, plan, epoch=1, seed=self._seed)
