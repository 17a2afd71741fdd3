"""How each layer moves while a `transformers.Trainer` trains the model."""

from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback

from isogloss.errors import InputError
from isogloss.integrations.curve import Curve, Log
from isogloss.integrations.trainer import refuse_sharded, stack_of
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus, check_corpus
from isogloss.training.distances import Distance, Sampled, distance_probe, own_start
from isogloss.training.probes import Probe, Reading

SHORT = {"l2_drift": "l2", "cosine_drift": "cosine", "cka": "cka", "procrustes_distance": "procrustes"}


class DriftCallback(TrainerCallback):  # type: ignore[misc]
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
        check_corpus(corpus)
        self._tokenizer, self._corpus, self._reference, self._measures = tokenizer, corpus, reference, tuple(measures)
        self._sampling: dict[str, Any] = {"words": words, "layers": layers, "seed": seed}
        self._curve = Curve(_layer_name, every=every, log=log)
        self._start: Sampled | None = None
        self._probe: Probe | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every reading so far, with its `step`."""
        return self._curve.rows

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Keep the start, before Trainer may load a checkpoint into the model."""
        self._keep(model)

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **rest: Any) -> None:
        """Read the other model, or the start, and the model before its first update."""
        refuse_sharded(args, "DriftCallback")
        if state.global_step == 0:
            self._keep(model)
        self._probe = self._make(model)
        self._curve.begin(self._probe, args, state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Read the model every so many updates."""
        assert self._probe is not None
        self._curve.after_update(self._probe, state)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, model: Any = None, metrics: Any = None, **rest: Any
    ) -> None:
        """Read the model with Trainer's own evaluation."""
        self._probe = self._probe or self._make(model)
        self._curve.at_evaluation(self._probe, state, metrics)

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """No more rows."""
        self._curve.end()

    def _keep(self, model: Any) -> None:
        """What the model is now is the start."""
        if self._reference is None:
            self._start = own_start(stack_of(model, self._tokenizer), self._corpus, **self._sampling)

    def _make(self, model: Any) -> Probe:
        kept = self._reference or self._start
        if kept is None:
            raise InputError(
                "the model this training began with is no longer there; give DriftCallback to Trainer(callbacks=...), "
                "or that model as reference=isogloss.load(...)"
            )
        return distance_probe(
            stack_of(model, self._tokenizer),
            kept,
            self._corpus,
            every=1,
            other=kept.name if isinstance(kept, Stack) else "start",
            measures=self._measures,
            **self._sampling,
        )


def _layer_name(reading: Reading) -> str:
    return f"layer{reading['layer']}_{SHORT[reading['measure']]}"
