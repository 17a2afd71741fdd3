"""Callbacks for a `transformers.Trainer` of one's own: what training on one language does to the others.

Each is a plain `TrainerCallback`, usable alone:

    perplexity = PerplexityCallback(tokenizer, {"nl": dutch, "en": english, "de": german}, target="nl")
    stop = BalanceStopCallback(perplexity, patience=5)
    Trainer(model, arguments, ..., callbacks=[perplexity, stop]).train()

Readings set evaluation mode and restore it, leave no gradient, and draw nothing from the global random state: the
trained weights are those of a training without them, bit for bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from transformers import TrainerCallback

from isogloss.errors import InputError
from isogloss.integrations.curve import Curve, Log
from isogloss.integrations.trainer import refuse_sharded, stack_of, steps_in_epoch
from isogloss.measures.perplexity import UNITS
from isogloss.seeds import seed_of
from isogloss.text.corpora import Corpus
from isogloss.training.probes import Probe, Reading
from isogloss.training.sentences import masking_of, sentence_perplexity_probe, tokenise
from isogloss.training.stopping import Memory, Stopping, at_balance

OTHERS = "others"
SHARE = 1 / 16  # sentences of all readings, of those trained on: each costs a third of a trained one, or less
FEWEST = 16  # sentences of a corpus that are worth reading


class PerplexityCallback(TrainerCallback):  # type: ignore[misc]
    """Perplexity of a masked LM in training, on the language it is trained on and on any others.

    tokenizer: the model's. corpora: held-out sentences by language. target: the language trained on; the others are
    read each apart and pooled. Which tokens are masked is drawn once from the seed, so a curve moves because the model
    moved. every: updates between readings, None for Trainer's own evaluations. limit: sentences of each corpus, drawn
    once; None reads all. "auto" reads a sixteenth as many sentences in all readings together as are trained on, and 16
    of each corpus at least. log: `trainer.log`, where readings shall reach TensorBoard and the like too.

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
        self.corpora = [_corpus(language, given) for language, given in corpora.items()]
        if target not in corpora:
            raise InputError(f"the target {target} is not among the corpora ({', '.join(corpora)}); add its sentences")
        if isinstance(limit, int) and limit < 1:
            raise InputError(f"perplexity needs at least one sentence a corpus, not {limit}")
        self.target, self.others = target, len(corpora) > 1
        self._rule = at_balance({"target": target, "unit": "token"}, {"target": OTHERS, "unit": "token"}, patience=1)
        self._tokenizer, self._every, self._seed, self._limit = tokenizer, every, seed, limit
        self._curve = Curve(_perplexity_name, every=every, log=log, further=self._balance)
        self._probe: Probe | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every reading so far, with its `step`."""
        return self._curve.rows

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, train_dataloader: Any = None, **rest: Any
    ) -> None:
        """Tokenise, mask, and read the model before its first update."""
        refuse_sharded(args, "PerplexityCallback")
        self._refuse_worst(args)
        self._probe = self._make(model, args, self._sample(args, state, train_dataloader))
        self._curve.begin(self._probe, args, state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Read the model every so many updates."""
        assert self._probe is not None
        self._curve.after_update(self._probe, state)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, model: Any = None, metrics: Any = None, **rest: Any
    ) -> None:
        """Read the model with Trainer's own evaluation."""
        self._probe = self._probe or self._make(model, args, None if self._limit == "auto" else self._limit)
        self._curve.at_evaluation(self._probe, state, metrics)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """No more rows."""
        self._curve.end()

    def _make(self, model: Any, args: Any, limit: int | None) -> Probe:
        if not type(model).__name__.endswith("ForMaskedLM"):
            raise InputError(f"perplexity is of masked language models (...ForMaskedLM), not {type(model).__name__}")
        stack = stack_of(model, self._tokenizer)
        texts = [_drawn(corpus, limit, self._seed) for corpus in self.corpora]
        return sentence_perplexity_probe(
            model,
            [tokenise(self._tokenizer, text, max_length=stack.max_length) for text in texts],
            target=self.target,
            every=1,
            seed=self._seed,
            device=stack.device,
            dtype=torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None,
            **masking_of(self._tokenizer),
        )

    def _sample(self, args: Any, state: Any, loader: Any) -> int | None:
        """Sentences of each corpus to read, None for all."""
        if self._limit != "auto":
            return self._limit
        between = self._every or (state.eval_steps if args.eval_strategy == "steps" else steps_in_epoch(loader, args))
        updates = state.max_steps
        readings = 1 + -(-updates // min(between or updates, updates))  # the first before any update
        trained = updates * args.train_batch_size * args.gradient_accumulation_steps
        return max(FEWEST, int(SHARE * trained / readings / len(self.corpora)))

    def _balance(self, readings: Sequence[Reading]) -> dict[str, float]:
        value = self._rule.selection.value(readings)
        return {} if value is None else {"eval_balance": value}

    def _refuse_worst(self, args: Any) -> None:
        """Trainer takes any metric but a loss for one that is better when higher, unless it is told."""
        chosen = f"eval_{(args.metric_for_best_model or '').removeprefix('eval_')}"
        languages = [corpus.language for corpus in self.corpora] + [OTHERS]
        readings = (
            {"measure": "perplexity", "target": language, "unit": unit} for language in languages for unit in UNITS
        )
        if args.greater_is_better and chosen in {
            "eval_balance",
            *(f"eval_{_perplexity_name(one)}" for one in readings),
        }:
            raise InputError(
                f"the best model by {chosen} is the one where it is lowest, and Trainer would keep the worst; set "
                "greater_is_better=False"
            )


class BalanceStopCallback(TrainerCallback):  # type: ignore[misc]
    """Stop when the balance of the target's gain and the others' loss has not improved for `patience` readings.

    perplexity: the callback that takes them; put this one after it. The rule is `isogloss.training.stopping.at_balance`
    per token; least: nats that count as an improvement. It goes by the readings in Trainer's log, which checkpoints
    keep, so a resumed training stops where it would have stopped. `reason` then says why. The model of the best balance
    is kept by Trainer: metric_for_best_model="eval_balance", greater_is_better=False, load_best_model_at_end=True.
    """

    def __init__(self, perplexity: PerplexityCallback, patience: int = 5, *, least: float = 0.0) -> None:
        if not perplexity.others:
            raise InputError(
                f"there is no balance with {perplexity.target} alone; give PerplexityCallback other languages too"
            )
        self.reason: str | None = None
        self._rule: Stopping = at_balance(
            {"target": perplexity.target}, {"target": OTHERS}, patience=patience, least=least
        )
        self._targets = (perplexity.target, OTHERS)
        self._memory: Memory = {}
        self._seen, self._step = 0, -1

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Begin anew, with what the log of a resumed training holds."""
        self.reason, self._memory, self._seen, self._step = None, {}, 0, -1
        self._judge(state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Judge readings taken every so many updates."""
        self._judge(state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Judge readings taken with Trainer's own evaluation."""
        self._judge(state, control)

    def _judge(self, state: Any, control: Any) -> None:
        """Show the rule what the log has that it has not seen."""
        names = {target: f"eval_{target}_perplexity" for target in self._targets}
        for entry in state.log_history[self._seen :]:
            # A step that is evaluated again, as eval_on_start does when training is resumed, is one evaluation.
            if all(name in entry for name in names.values()) and entry["step"] > self._step:
                self._step = entry["step"]
                readings = [
                    {"measure": "perplexity", "target": target, "value": entry[name]} for target, name in names.items()
                ]
                self._memory, reason = self._rule(self._memory, entry["step"], readings)
                self.reason = self.reason or reason
        self._seen = len(state.log_history)
        if self.reason is not None:
            control.should_training_stop = True


def _perplexity_name(reading: Reading) -> str:
    unit = "" if reading["unit"] == "token" else f"_{reading['unit']}"
    return f"{reading['target']}_perplexity{unit}"


def _corpus(language: str, given: Corpus | Sequence[str]) -> Corpus:
    if isinstance(given, str):
        raise InputError(f"the corpus of {language} is one text; give a list of sentences")
    if language == OTHERS:
        raise InputError("a corpus is called 'others', the name of all but the target together; give its language")
    if not isinstance(given, Corpus):
        return Corpus(language, list(given))
    if given.language != language:
        raise InputError(
            f"the corpus of {language} says that its language is {given.language}; name it by its language"
        )
    return given


def _drawn(corpus: Corpus, limit: int | None, seed: int) -> Corpus:
    """At most so many sentences, in the corpus's order, drawn by the seed."""
    if limit is None or limit >= len(corpus):
        return corpus
    generator = np.random.default_rng(seed_of(seed, "sentences to read", corpus.language))
    return corpus.take(sorted(generator.permutation(len(corpus))[:limit].tolist()))
