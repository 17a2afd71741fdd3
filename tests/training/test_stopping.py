"""Rules that end a training, on curves one can check by eye; killed and resumed they end it at the same step."""

import doctest
import json
import math

import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.measures.perplexity import balance_step
from isogloss.training import checkpoints as kept, stopping
from isogloss.training.loop import train
from isogloss.training.probes import Probe
from isogloss.training.stopping import balance_of, select_by, stop_after
from tiny_processes import together
from tiny_training import Tower, exported, numbers, run, same, training, weights


def perplexities(target, others):
    return [
        {"measure": "perplexity", "value": target, "target": "nl", "unit": "token"},
        {"measure": "perplexity", "value": others, "target": "others", "unit": "token"},
    ]


def at_balance(*, patience, measure="perplexity", **where):
    return stop_after(balance(measure, **where), patience)


def balance(measure="perplexity", **where):
    return balance_of(*(select_by(measure, target=target, **where) for target in ("nl", "others")))


def judged(rule, values):
    """The place of the value at which a rule stops and its sentence; what it remembers passes through JSON."""
    memory = {}
    for place, value in enumerate(values):
        memory, sentence = rule(memory, place, value if isinstance(value, list) else perplexities(value, 1.0))
        memory = json.loads(json.dumps(memory))
        if sentence:
            return place, sentence
    return None


def test_docstring_examples():
    result = doctest.testmod(stopping)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize(
    ("values", "patience", "least", "stops"),
    [
        ([9, 8, 7, 6, 5], 1, 0.0, None),
        ([9, 8, 8, 6, 5], 1, 0.0, 2),  # equal is not better
        ([9, 8, 8.5, 7, 7.5, 7.2, 6], 2, 0.0, 5),
        ([9, 8, 8.5, 7, 7.5, 7.2, 6], 3, 0.0, None),
        ([9, 8, 7.5, 7.2, 6], 2, 1.0, None),  # slow progress adds up against the best that counted
        ([9, 8, 7.5, 7.2, 6], 2, 1.4, None),
        ([9, 8, 7.5, 7.2, 6], 2, 1.5, 2),  # just as much is not more
        ([9, math.nan, 8, math.nan, math.nan], 2, 0.0, 4),
        ([math.nan, math.nan], 2, 0.0, 1),
        ([math.inf, math.inf, 9, 8], 2, 0.0, None),
    ],
)
def test_early_stopping_by_hand(values, patience, least, stops):
    rule = stop_after(select_by("perplexity", target="nl"), patience=patience, least=least)
    found = judged(rule, values)
    assert (found and found[0]) == stops


def test_early_stopping_goes_in_the_measures_own_direction():
    def rising(values):
        return [[{"measure": "p@1_mean", "value": value}] for value in values]

    rule = stop_after(select_by("p@1_mean"), patience=2, least=0.05)
    assert judged(rule, rising([0.1, 0.2, 0.3, 0.4])) is None
    assert judged(rule, rising([0.4, 0.3, 0.2]))[0] == 2
    assert judged(rule, rising([0.4, 0.44, 0.44, 0.9]))[0] == 2


@pytest.mark.parametrize(
    ("target", "others", "stops", "best"),
    [
        ([16, 8, 4, 2, 1], [4, 5, 15, 60, 240], 3, 1),  # products 64 40 60 120: best at 1, two worse ones later
        ([16, 8, 4, 2, 1], [4, 5, 6, 7, 8], None, 4),
        ([16, 12, 11, 10, 9], [4, 8, 16, 32, 64], 2, 0),  # nothing gained
    ],
)
def test_balance_by_hand(target, others, stops, best):
    rule = at_balance(patience=2)
    found = judged(rule, [perplexities(*both) for both in zip(target, others, strict=True)])
    assert (found and found[0]) == stops
    if stops is not None:
        assert found[1] == (
            f"the balance of perplexity (target nl) and perplexity (target others) has not improved since step {best} "
            "(patience 2)"
        )


def test_each_side_of_a_balance_counts_in_its_own_direction():
    balance = balance_of(select_by("perplexity"), select_by("p@1"))

    def value(perplexity, found):
        return balance.value([{"measure": "perplexity", "value": perplexity}, {"measure": "p@1", "value": found}])

    assert value(8, 0.5) == pytest.approx(math.log(16))
    assert balance.better(value(8, 0.6), value(8, 0.5)) and balance.better(value(7, 0.5), value(8, 0.5))
    assert not balance.better(value(8, 0.5), value(8, 0.5))
    assert math.isnan(value(8, 0.0)) and not balance.better(value(8, 0.0), None)
    assert balance.value([{"measure": "perplexity", "value": 8}]) is None


@pytest.mark.parametrize("seed", range(12))
def test_the_rule_remembers_the_balance_step_of_what_it_has_seen(seed):
    """Against the whole curves: it stops `patience` evaluations after their lowest point, and never before."""
    target, others = np.exp(np.random.default_rng(seed).normal(size=(2, 30)).cumsum(axis=1) / 3)
    patience = 1 + seed % 4
    rule = at_balance(patience=patience)
    memory = {}
    for place in range(30):
        memory, sentence = rule(memory, place, perplexities(target[place], others[place]))
        best = balance_step(range(place + 1), target[: place + 1], others[: place + 1])
        assert (memory["step"], memory["waited"]) == (best, place - best)
        assert (sentence is not None) == (place - best >= patience)


def curve(one, *, target, others=(1.0,) * 100, every=2):
    return Probe(every, lambda: perplexities(target[one.step // every], others[one.step // every]))


def test_a_stopped_training_ends_as_if_this_were_its_last_step():
    """Best at step 2, patience of two: 4, 6, and the end, with the loss and the rare probe read there."""
    values = [9, 5, 6, 7, 1, 1]
    one = training(steps=10, report=4)
    rare = Probe(100, lambda: [{"measure": "rare", "value": 0.0}])
    rule = stop_after(select_by("perplexity", target="nl"), patience=2)
    readings = run(one, probes=[curve(one, target=values), rare], stop=rule)
    found = {}
    for reading in readings:
        if reading.get("target") != "others":
            found.setdefault(reading["measure"], []).append(reading["step"])
    assert found == {"perplexity": [0, 2, 4, 6], "rare": [0, 6], "loss": [4, 6]}
    assert one.stopped == "perplexity (target nl) has not improved since step 2 (patience 2)"
    assert one.step == 6

    shorter = training(steps=10, report=4)
    for _ in range(6):
        shorter.update()
    assert same(weights(one.model), weights(shorter.model)), "a stop changes nothing of the way there"


def test_a_training_that_nothing_stops_goes_to_its_last_step():
    one = training(steps=10)
    asked = []

    def never(memory, step, readings):
        asked.append((step, [reading["measure"] for reading in readings]))
        return {**memory, "asked": step}, None

    run(one, probes=[Probe(4, lambda: [{"measure": "it", "value": 1.0}])], stop=never)
    assert (one.step, one.stopped) == (10, None)
    assert asked == [(0, ["it"]), (4, ["it", "loss"]), (8, ["it", "loss"])], "not at the last, where nothing is left"
    assert one.memory == {"asked": 8}


def test_the_model_kept_is_that_of_the_balance_step_and_not_that_of_the_stop(tmp_path):
    target, others = [16, 8, 4, 2, 1, 1], [4, 5, 15, 60, 240, 9]
    one = training(steps=10)
    rule = at_balance(patience=3, unit="token")
    probes, best = [curve(one, target=target, others=others)], balance(unit="token")
    seen = {}
    for _ in train(one, probes=probes, stop=rule, selection=best, checkpoints=exported(one, tmp_path)):
        seen[one.step] = numbers(one.model)
    assert (one.step, one.best_step) == (8, 2)
    assert one.best_step == balance_step(range(0, 10, 2), target[:5], others[:5])
    assert (tmp_path / "best" / "numbers").read_text() == seen[2]


def test_a_probe_taken_only_for_the_stop_can_still_be_the_best():
    one = training(steps=10)
    often = Probe(1, lambda: [{"measure": "cka", "value": 0.5}])
    rarely = Probe(7, lambda: [{"measure": "perplexity", "value": 9.0 - one.step}])
    run(
        one,
        probes=[often, rarely],
        stop=stop_after(select_by("cka"), patience=3),
        selection=select_by("perplexity"),
    )
    assert (one.step, one.best, one.best_step) == (3, 6.0, 3)


@pytest.mark.parametrize("kill", [2, 6, 8, 10])
@pytest.mark.parametrize("every", [2, 3])
def test_killed_and_resumed_it_stops_at_the_same_step(tmp_path, kill, every):
    """Also where the checkpoint falls on an evaluation, which is then taken a second time and must count once."""
    target, others = [16, 8, 7, 8, 9, 8, 7.5, 1, 1], [4, 5, 5, 6, 7, 8, 9, 1, 1]

    def fresh():
        one = training(Tower(dropout=0.4), steps=16, report=4)
        rule = at_balance(patience=4)
        probes = [curve(one, target=target, others=others)]
        return one, {"probes": probes, "stop": rule, "selection": balance()}

    whole, how = fresh()
    expected = run(whole, checkpoints=exported(whole, tmp_path / "whole", every=every), **how)
    assert (whole.step, whole.best_step) == (12, 4)
    half, how = fresh()
    place = exported(half, tmp_path / "half", every=every)
    seen = []
    for readings in train(half, checkpoints=place, **how):
        if half.step >= kill:
            break
        seen += readings
    again, how = fresh()
    last = kept.latest(place.folder)
    if last is not None:
        again.restore(last)
    assert again.step == max(0, (kill - 1) // every * every)
    seen += run(again, checkpoints=exported(again, place.folder, every=every), **how)
    assert (again.step, again.best_step, again.stopped) == (12, 4, whole.stopped)
    assert again.memory == whole.memory
    assert same(weights(again.model), weights(whole.model))
    unique = {(reading["measure"], reading.get("target"), reading["step"]): reading for reading in seen}
    assert sorted(unique.values(), key=str) == sorted(expected, key=str)
    files = [folder / "best" / "numbers" for folder in (place.folder, tmp_path / "whole")]
    assert files[0].read_text() == files[1].read_text()


def test_a_checkpoint_from_before_rules_were_kept_is_read(tmp_path):
    one = training(steps=4)
    run(one, checkpoints=exported(one, tmp_path))
    path = kept.latest(tmp_path)
    state = json.loads((path / "training.json").read_text())
    assert state.pop("memory") == {}
    (path / "training.json").write_text(json.dumps(state))
    again = training(steps=4)
    again.restore(path)
    assert (again.step, again.memory) == (2, {})


def test_several_processes_stop_together_when_the_first_does():
    """Readings that rounding has parted: the first has waited long enough at step 6, the others earlier or later."""

    def work(processes):
        one = training(processes=processes, steps=12, report=4)
        values = {0: [9, 5, 6, 7, 1, 1, 1], 1: [9, 9, 9, 8, 7, 6, 5], 2: [9, 8, 7, 6, 5, 4, 3]}[processes.rank]
        rule = stop_after(select_by("perplexity", target="nl"), patience=2)
        readings = run(one, probes=[curve(one, target=values)], stop=rule)
        return one.step, one.stopped, [reading["step"] for reading in readings if reading["measure"] == "loss"]

    found = together(3, work)
    assert [step for step, _, _ in found] == [6, 6, 6]
    assert all(losses == [4, 6] for _, _, losses in found)
    assert "since step 2" in found[0][1] and all(why for _, why, _ in found)


def test_a_reading_that_no_probe_takes_is_refused_at_the_first_step():
    one = training(steps=4)
    rule = stop_after(select_by("perplexity", target="xx"), patience=2)
    message = r"cannot stop by perplexity \(target xx\): no probe reads it \(they read perplexity\); mend"
    with pytest.raises(InputError, match=message):
        run(one, probes=[curve(one, target=[1, 1, 1])], stop=rule)
    assert one.step == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stop_after(select_by("perplexity"), patience=0), "patience is 1 evaluation or more, not 0"),
        (lambda: stop_after(select_by("perplexity"), patience=1, least=-1.0), "0 or more, not -1.0"),
        (lambda: stop_after(select_by("perplexity"), patience=1, least=math.nan), "0 or more, not nan"),
        (lambda: at_balance(patience=1, measure="loss"), "'loss' has no declared direction"),
    ],
)
def test_what_is_no_rule_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
