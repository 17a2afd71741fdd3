"""Readings over the steps of a Trainer's training: each step once, as rows and in Trainer's own log."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelerate.utils import broadcast_object_list

from isogloss.errors import InputError
from isogloss.training.probes import Probe, Reading

Log = Callable[[dict[str, float]], None]
ANSWER = ("value", "low", "high", "floor", "n")  # what a reading says; the rest says of what


class Curve:
    """The readings of a probe while a Trainer trains.

    name: what a reading is called in the log, `eval_` before it. further: more numbers for the log, made of a step's
    readings. every: updates between readings, None for Trainer's own evaluations. log: `trainer.log`; without it
    numbers go to `state.log_history`, which is all that a callback can reach by itself.

    rows: every reading with its `step`, for `isogloss.runs.table.frame`. Trainer's log is kept in its checkpoints, and
    rows from before a resumed one are read there: values without their intervals.
    """

    def __init__(
        self,
        name: Callable[[Reading], str],
        *,
        every: int | None,
        log: Log | None,
        further: Callable[[Sequence[Reading]], Mapping[str, float]] = lambda readings: {},
    ) -> None:
        if every is not None and every < 1:
            raise InputError(f"readings are taken every 1 update or more rarely, not every {every}")
        self.rows: list[dict[str, Any]] = []
        self._name, self._every, self._log, self._further = name, every, log, further
        self._training = self._resumed = False
        self._step, self._values = -1, dict[str, float]()

    def begin(self, probe: Probe, arguments: Any, state: Any) -> None:
        """A training begins: read the model before its first update, unless this one is resumed."""
        if self._every is None and arguments.eval_strategy == "no":
            raise InputError(
                "Trainer makes no evaluations (eval_strategy='no'), at which readings would be taken; say how often "
                "with every=500, or set eval_strategy"
            )
        self.rows.clear()
        self._training, self._resumed, self._step = True, state.global_step > 0, -1
        if not self._resumed:
            self._read(probe, state)

    def after_update(self, probe: Probe, state: Any) -> None:
        """Read the model if it is time, and after the last update in any case."""
        if self._every and (state.global_step % self._every == 0 or state.global_step >= state.max_steps):
            self._read(probe, state)

    def at_evaluation(self, probe: Probe, state: Any, metrics: dict[str, float] | None) -> None:
        """Read the model if evaluations are when that is done; what is known of this step joins Trainer's metrics.

        So `metric_for_best_model` can name a reading. Trainer evaluates each of several sets apart; one reading does.
        """
        if self._every is None or not self._training:
            self._read(probe, state)
        if metrics is not None and (self._step == state.global_step or not self._training):
            metrics.update(self._values)

    def end(self) -> None:
        """The training is over; evaluations after it are of whatever model Trainer then holds, and make no rows."""
        self._training = False

    def _read(self, probe: Probe, state: Any) -> None:
        if self._training and self._step == state.global_step:
            return
        # Every process reads, and all go by the first one's numbers: were one to stop alone, the others would hang.
        readings: list[Reading] = broadcast_object_list([list(probe.take())])[0]
        values = {f"eval_{self._name(one)}": float(one["value"]) for one in readings} | dict(self._further(readings))
        if self._training:
            if self._resumed:
                self.rows[:] = self._logged(readings, state)
                self._resumed = False
            self.rows += [{**one, "step": state.global_step} for one in readings]
        self._step, self._values = state.global_step, values
        if self._log is not None:
            self._log(dict(values))
        else:
            state.log_history.append({**values, "epoch": state.epoch or 0, "step": state.global_step})

    def _logged(self, readings: Sequence[Reading], state: Any) -> list[dict[str, Any]]:
        """Rows of the steps that the log of a resumed training knows."""
        places = {
            f"eval_{self._name(one)}": {name: value for name, value in one.items() if name not in ANSWER}
            for one in readings
        }
        return [
            {**place, "value": entry[name], "step": entry["step"]}
            for entry in state.log_history
            for name, place in places.items()
            if name in entry and entry["step"] < state.global_step
        ]
