"""The loop against explicit ones: AdamW in a few lines, gradients of a mean, rates; and several processes as one."""

import copy
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from isogloss.errors import InputError
from isogloss.recipes.pretrain import pretrain
from isogloss.runs import read_facts, read_rows
from isogloss.training import checkpoints as kept, loop
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Decay, Objective, Optimisation, Part, Processes, adamw, rate_at, train
from isogloss.training.probes import Probe
from isogloss.training.stopping import select_by
from tiny_pretraining import SMALL, options, write_texts
from tiny_processes import together
from tiny_training import Tower, data, exported, numbers, run, same, squares, training, weights


def gradients_of_a_step(one):
    """What the optimiser is given in the next update, which is then not made."""
    found = {}

    def look(*_, **__):
        moved = {name: weight.grad for name, weight in one.model.named_parameters() if weight.grad is not None}
        found.update({name: gradient.clone() for name, gradient in moved.items()})

    one.optimiser.step = look
    one.update()
    return found


def test_one_seed_gives_the_same_weights_to_the_bit_and_another_does_not():
    all_three = [training(Tower(dropout=0.4), seed=seed) for seed in (3, 3, 4)]
    before = torch.get_rng_state()
    found = []
    for one in all_three:
        run(one)
        found.append(weights(one.model))
    assert torch.equal(torch.get_rng_state(), before), "the global random state is as it was"
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_the_global_random_state_does_not_matter():
    found = []
    for seed in (0, 1):
        one = training(Tower(dropout=0.4))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            run(one)
        found.append(weights(one.model))
    assert same(*found)


def test_dropout_is_new_at_each_step():
    one = training(Tower(dropout=0.5), rate=1e-12)
    losses = []
    whole = data(0, 7)
    one.objective = Objective(lambda _: [Part(whole)], one.objective.loss, one.objective.count)
    for _ in range(3):
        one.update()
        losses.append(one.losses()[0])
        one._total.zero_()
    assert len({round(loss, 6) for loss in losses}) == 3


@pytest.mark.parametrize("names", [("",), ("a", "b")])
def test_the_gradient_is_that_of_the_mean_over_all_targets(names):
    model = Tower()
    found = gradients_of_a_step(training(model, objective=squares(model, names), clip=0.0))
    model.zero_grad()
    errors = []
    whole = data(0, 7)
    for row in range(7):
        if not whole["y"][row].isnan():
            errors.append((model(whole["x"][row : row + 1], names[row % len(names)])[0] - whole["y"][row]) ** 2)
    assert len(errors) == 5
    torch.stack(errors).mean().backward()
    expected = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
def test_pieces_of_a_batch_give_the_gradient_of_the_whole(piece):
    whole = gradients_of_a_step(training())
    pieces = gradients_of_a_step(training(piece=piece))
    for name, gradient in whole.items():
        torch.testing.assert_close(pieces[name], gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [None, 1, 2, 5])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 6])
def test_each_row_is_in_one_piece_of_one_process(rows, size, count):
    part = Part({"number": torch.arange(rows), "double": 2 * torch.arange(rows)})
    seen = []
    for rank in range(count):
        for piece in part.pieces(Processes(rank, count, torch.device("cpu")), size):
            assert 1 <= len(piece["number"]) <= (size or rows)
            assert torch.equal(piece["double"], 2 * piece["number"])
            seen += piece["number"].tolist()
    assert sorted(seen) == list(range(rows))


def test_a_batch_without_a_target_moves_nothing_to_no_number():
    model = Tower()
    nothing = squares(model)
    empty = Part({**data(0, 2), "y": torch.full((2,), math.nan)})
    objective = Objective(lambda _: [empty], nothing.loss, nothing.count)
    one = training(model, objective=objective, steps=2)
    readings = run(one)
    assert [(one["value"], one["n"]) for one in readings] == [(0.0, 0)]
    assert all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_updates_are_those_of_an_explicit_loop(decay):
    """Mean loss, clipped gradient, the step's own rate, AdamW with decay on matrices only."""
    one = training(decay=decay)
    model = copy.deepcopy(one.model)
    used = [weight for name, weight in model.named_parameters() if not name.startswith("own")]
    groups = [
        {"params": [weight for weight in used if weight.dim() == 2], "weight_decay": 0.1},
        {"params": [weight for weight in used if weight.dim() == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6, foreach=False)
    for step in range(9):
        whole = data(step, 7)
        target = ~whole["y"].isnan()
        optimiser.zero_grad()
        ((model(whole["x"]) - whole["y"])[target] ** 2).mean().backward()
        norm = math.sqrt(sum(float((weight.grad**2).sum()) for weight in used))
        for weight in used:
            weight.grad *= min(1.0, 0.5 / norm)
        for group in optimiser.param_groups:
            group["lr"] = rate_at(step, steps=9, optimisation=one.settings.optimisation)
        optimiser.step()
    run(one)
    for name, weight in one.model.named_parameters():
        torch.testing.assert_close(weight, dict(model.named_parameters())[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("clip", "clipped"), [(0.25, True), (1e6, False), (0.0, False)])
def test_the_gradient_of_all_weights_together_is_clipped(clip, clipped):
    raw = gradients_of_a_step(training(clip=0.0))
    found = gradients_of_a_step(training(clip=clip))
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in raw.values()))
    assert norm > 0.3
    for name, gradient in raw.items():
        torch.testing.assert_close(found[name], gradient * (clip / norm if clipped else 1.0), rtol=1e-4, atol=1e-7)


def test_a_callback_that_unfreezes_layers_later_trains_nothing_new():
    """Named after an error of the papers' code: here a weight unfrozen late moves, and one frozen stays to the bit."""
    model = Tower()
    model.lower.requires_grad_(False)  # as the papers' code has it when the optimiser is made
    one = training(model, rate=0.1)
    seen = []

    def plan(step):
        one.model.lower.requires_grad_(step in (3, 4, 5))
        seen.append(one.model.lower.weight.detach().clone())

    run(one, plan=plan)
    seen.append(one.model.lower.weight.detach())
    assert [bool((after != before).any()) for before, after in zip(seen, seen[1:], strict=False)] == [
        step in (3, 4, 5) for step in range(9)
    ]
    start = Tower()
    assert torch.equal(one.model.own["a"].weight, start.own["a"].weight), "no gradient, so no decay either"
    assert not torch.equal(one.model.upper.weight, start.upper.weight)


def test_readings_are_numbered_by_the_updates_before_them():
    one, taken = training(steps=10, report=4), []

    def take(name):
        taken.append((name, one.step, one.model.training))
        yield {"measure": name, "value": float(one.step)}

    probes = [Probe(3, lambda: take("often")), Probe(100, lambda: take("rarely"))]
    one.model.eval()
    readings = run(one, probes=probes)
    assert not one.model.training, "the mode is as it was"
    found = {}
    for reading in readings:
        found.setdefault(reading["measure"], []).append(reading["step"])
    assert found == {"often": [0, 3, 6, 9, 10], "rarely": [0, 10], "loss": [4, 8, 10]}
    assert all(reading["value"] == reading["step"] for reading in readings if reading["measure"] != "loss")
    assert all(mode for _, _, mode in taken), "a probe finds the model training, and sets what it needs itself"


def test_the_loss_is_the_mean_of_a_target_since_it_was_last_read():
    one = training(steps=6, report=4)
    found, update = [], one.update

    def watched():
        whole = data(one.step, 7)
        with torch.no_grad():
            target = ~whole["y"].isnan()
            found.append((((one.model(whole["x"]) - whole["y"])[target] ** 2).sum().item(), int(target.sum())))
        update()

    one.update = watched
    readings = run(one)
    for reading, steps in zip(readings, (found[:4], found[4:]), strict=True):
        assert reading["n"] == sum(count for _, count in steps)
        assert reading["value"] == pytest.approx(sum(total for total, _ in steps) / reading["n"], rel=1e-6)


def test_no_step_is_one_reading_of_the_model_as_it_is():
    one = training(steps=0)
    before = weights(one.model)
    readings = run(one, probes=[Probe(5, lambda: [{"measure": "it", "value": 1.0}])])
    assert readings == [{"measure": "it", "value": 1.0, "step": 0}]
    assert same(weights(one.model), before)


@pytest.mark.parametrize("stop", [3, 5, 7])
def test_a_stopped_training_goes_on_to_the_same_weights_and_readings(tmp_path, stop):
    def fresh():
        one = training(Tower(dropout=0.4), report=4)
        return one, {
            "probes": [Probe(3, lambda: [{"measure": "perplexity", "value": abs(one.step - 4.0)}])],
            "selection": select_by("perplexity"),
            "plan": lambda step: one.model.lower.requires_grad_(step > 2),
        }

    whole, how = fresh()
    expected, seen_at = [], {}
    for readings in train(whole, checkpoints=exported(whole, tmp_path / "whole"), **how):
        expected += readings
        seen_at[whole.step] = numbers(whole.model)
    half, how = fresh()
    seen = []
    for readings in train(half, checkpoints=exported(half, tmp_path / "half"), **how):
        seen += readings
        if half.step >= stop:
            break
    again, how = fresh()
    with torch.no_grad():
        for weight in again.model.parameters():
            weight.zero_()
    again.restore(kept.latest(tmp_path / "half"))
    assert 0 < again.step < half.step + 1
    seen += run(again, checkpoints=exported(again, tmp_path / "half"), **how)
    assert same(weights(whole.model), weights(again.model))
    unique = {(reading["measure"], reading["step"]): reading for reading in seen}
    assert sorted(unique.values(), key=str) == sorted(expected, key=str)
    assert all(unique[reading["measure"], reading["step"]] == reading for reading in seen), "read again, read the same"
    assert (again.best, again.best_step) == (whole.best, whole.best_step)
    for folder in ("whole", "half"):
        assert (tmp_path / folder / "best" / "numbers").read_text() == seen_at[whole.best_step]


@pytest.mark.parametrize(
    ("measure", "values", "best"),
    [
        ("perplexity", [9, 5, 7, math.nan, 6], 1),
        ("p@1_mean", [0.1, 0.3, math.nan, 0.5, 0.5], 3),
        ("cka", [1, 0, 0, 0, 0], 0),
    ],
)
def test_the_best_checkpoint_is_the_one_with_the_highest_perplexity(tmp_path, measure, values, best):
    """Named after an error of the papers' code: the direction is the measure's own."""
    one = training(steps=4)
    others = [{"measure": measure, "value": 0.0, "target": "nl"}, {"measure": measure, "value": 99.0, "target": "de"}]
    probe = Probe(1, lambda: [*others, {"measure": measure, "value": values[one.step], "target": "en", "unit": "x"}])
    kept_weights = {}

    def export(folder):
        kept_weights[folder.name.split(".")[1]] = weights(one.model)
        (folder / "at").write_text(str(one.step))

    place = Checkpoints(tmp_path, export, every=1)
    seen = {}
    for _ in train(one, probes=[probe], checkpoints=place, selection=select_by(measure, target="en")):
        seen[one.step] = weights(one.model)
    assert (one.best, one.best_step) == (values[best], best)
    assert same(kept_weights["best"], seen[best])


def test_a_selection_without_a_direction_is_refused():
    with pytest.raises(InputError, match="'loss' has no declared direction; choose .*perplexity"):
        select_by("loss")


@pytest.mark.parametrize("every", [1, 3])
def test_a_loss_that_is_no_number_ends_training_before_it_is_kept(tmp_path, every):
    one = training(objective=None, report=100, steps=20)
    one.objective = squares(one.model, spoil=7)
    one._loss = one.objective.loss
    with pytest.raises(InputError, match=r"no number any more at step \d+; lower --rate"):
        run(one, checkpoints=exported(one, tmp_path, every=every))
    last = kept.latest(tmp_path)
    assert last.name == f"step-{7 // every * every:07d}"
    again = training(report=100, steps=20)
    again.restore(last)
    assert all(weight.isfinite().all() for weight in again.model.parameters())
    run(again)


def test_a_model_that_is_no_number_is_refused_before_a_probe_looks_at_it():
    one = training(steps=6, report=100)
    update, seen = one.update, []

    def spoiling():
        update()
        if one.step == 3:
            with torch.no_grad():
                one.model.upper.bias.fill_(math.nan)

    one.update = spoiling
    with pytest.raises(InputError, match="no number any more at step 4; lower --rate"):
        run(one, probes=[Probe(2, lambda: seen.append(one.step) or [])])
    assert seen == [0, 2]


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_dropout_on_a_gpu_that_is_not_the_first_is_new_at_each_step():
    from isogloss.seeds import seeded

    def drawn(seed):
        with seeded(seed, torch.device("cuda:1")):
            return torch.rand(8, device="cuda:1")

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("sound", [False, True])
def test_cudnn_attention_runs_only_where_its_gradients_are_sound(sound):
    enabled = torch.backends.cuda.cudnn_sdp_enabled
    one, seen = training(), []
    plain = one.objective

    def loss(rows, name):
        seen.append(enabled())
        return plain.loss(rows, name)

    one.objective = replace(plain, loss=loss, cudnn=sound)
    before = enabled()
    one.update()
    assert before and seen == [sound] and enabled() == before


@pytest.mark.gpu
def test_gradients_of_masked_attention_over_64_tokens_are_numbers_on_a_gpu():
    """cuDNN's kernel divided by nothing where all scores of a query were below -88 (pytorch issue 196678)."""
    query, key, value = (torch.randn(2, 1, 64, 64, device="cuda") for _ in range(3))
    query, key = 0.1 * query, 0.1 * key
    query[..., 0], key[..., 0] = 1, -120 * math.sqrt(64)
    model = torch.nn.ParameterList([query, key, value])
    mask = torch.ones(2, 1, 64, 64, dtype=torch.bool, device="cuda")

    def loss(rows, name):
        halves = [weight.bfloat16() for weight in model]
        return torch.nn.functional.scaled_dot_product_attention(*halves, mask, 0.1).square().sum()

    one = training(Tower(), objective=Objective(lambda _: [Part({"x": torch.zeros(1)})], loss, lambda _: 1))
    one.model, one.processes = model, Processes(0, 1, torch.device("cuda:0"))
    one._total, one._count = one._total.cuda(), one._count.cuda()
    assert all(gradient.isfinite().all() for gradient in gradients_of_a_step(one).values())


def test_weights_spoiled_after_a_last_good_loss_are_not_kept(tmp_path):
    one = training(steps=6, report=2)
    update = one.update

    def spoiling():
        update()
        if one.step == 3:
            with torch.no_grad():
                one.model.upper.bias.fill_(math.inf)

    one.update = spoiling
    with pytest.raises(InputError, match="at step 3"):
        run(one, checkpoints=exported(one, tmp_path, every=1))
    assert kept.latest(tmp_path).name == "step-0000002"


def test_after_is_called_once_a_step_when_the_weights_have_moved():
    model = Tower()
    plain, seen = squares(model), []
    before = model.lower.weight.detach().clone()

    def after():
        seen.append((not torch.equal(model.lower.weight, before), model.lower.weight.grad))

    one = training(model, objective=replace(plain, after=after), piece=3)
    one.update(), one.update()
    assert seen == [(True, None)] * 2


def test_a_probe_without_a_rhythm_is_taken_before_the_first_and_after_the_last_update():
    one = training()
    readings = run(one, probes=[Probe(None, lambda: [{"measure": "cka", "value": one.step}])])
    assert [reading["step"] for reading in readings if reading["measure"] == "cka"] == [0, 9]


STEPS, WARM, RATE = 100, 10, 0.3


def rates(decay, steps=STEPS, warm_up=WARM):
    way = Optimisation(rate=RATE, warm_up=warm_up / steps, decay=decay)
    return [rate_at(step, steps=steps, optimisation=way) for step in range(steps)]


def by_formula(decay, step):
    """The rate of update `step`, 0 the first, after warming up."""
    done = (step - WARM) / (STEPS - WARM)
    if decay == "linear":
        return RATE * (1 - done)
    if decay == "cosine":
        return RATE * (1 + math.cos(math.pi * done)) / 2
    if decay == "inverse-sqrt":
        return RATE * math.sqrt(WARM) / math.sqrt(step + 1)
    if decay == "trapezoid":
        return RATE if step <= 80 else RATE * (STEPS - step) / 20
    return RATE


@pytest.mark.parametrize("decay", get_args(Decay))
def test_rates_are_those_of_the_formula(decay):
    found = rates(decay)
    for step in range(WARM):
        assert found[step] == pytest.approx(RATE * (step + 1) / WARM)
    for step in range(WARM, STEPS):
        assert found[step] == pytest.approx(by_formula(decay, step))
    assert max(found) == pytest.approx(RATE)
    assert all(later <= earlier + 1e-12 for earlier, later in zip(found[WARM:], found[WARM + 1 :], strict=False))
    if decay in ("linear", "cosine", "trapezoid"):
        assert 0 < found[-1] < RATE / 15, "the last update still moves, a little"


@pytest.mark.parametrize("decay", get_args(Decay))
@pytest.mark.parametrize(("steps", "warm_up"), [(1, 0), (1, 1), (3, 3), (4, 0), (7, 6)])
def test_short_trainings_have_rates_too(decay, steps, warm_up):
    found = rates(decay, steps, warm_up)
    assert all(0 < rate <= RATE + 1e-12 for rate in found)
    if warm_up:
        assert found[:warm_up] == pytest.approx([RATE * (step + 1) / warm_up for step in range(warm_up)])


def test_matrices_decay_and_vectors_do_not():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].requires_grad_(False)
    optimiser = adamw(model, Optimisation(rate=0.5, weight_decay=0.1))
    held = [weight for group in optimiser.param_groups for weight in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, model.parameters())), "every weight once, frozen ones too"
    before = [weight.detach().clone() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    optimiser.step()
    for weight, old in zip(model.parameters(), before, strict=True):
        kept = 1 - 0.5 * 0.1 if weight.dim() > 1 and weight.requires_grad else 1.0
        torch.testing.assert_close(weight.detach(), old * kept)


@pytest.mark.parametrize(
    ("names", "rows", "piece"),
    [(("",), 7, None), (("",), 8, 2), (("a", "b"), 7, None), (("a", "b"), 3, None), (("a",), 1, None)],
)
def test_several_processes_follow_the_curve_of_one(names, rows, piece):
    """Also where a process has no rows of a part, and where nobody has any of it for some steps."""

    def objective(model):
        found = squares(model, names, rows)
        # At odd steps only the first name is drawn: what belongs to the other must neither decay nor go on moving.
        return Objective(lambda step: found.draw(step)[: 1 if step % 2 else None], found.loss, found.count)

    model = Tower()
    alone = training(model, objective=objective(model), piece=piece)
    expected = run(alone)

    def work(processes):
        mine = Tower()
        one = training(mine, objective=objective(mine), piece=piece, processes=processes)
        return run(one), weights(mine)

    found = together(3, work)
    for readings, moved in found:
        assert same(moved, found[0][1]), "every process holds the same weights"
        assert [reading["n"] for reading in readings] == [reading["n"] for reading in expected]
        assert [reading["value"] for reading in readings] == pytest.approx([reading["value"] for reading in expected])
        for name, weight in model.named_parameters():
            torch.testing.assert_close(moved[name], weight, rtol=1e-4, atol=1e-5)


def test_only_the_first_process_writes_and_all_go_on_from_it(tmp_path):
    def work(processes):
        one = training(processes=processes, steps=7, report=4)
        place = exported(one, tmp_path / str(processes.rank), every=3)
        readings = run(one, checkpoints=place)
        again = training(processes=processes, steps=7, report=4)
        again.restore(kept.latest(tmp_path / "0"))
        return readings, again.step, again.losses(), weights(one.model), run(again), weights(again.model)

    found = together(2, work)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    state = json.loads((kept.latest(tmp_path / "0") / "training.json").read_text())
    assert state["count"] == 10 and state["total"] > 0, "two steps of five targets since the last reading"
    for readings, step, losses, whole, later, resumed in found:
        assert step == state["step"] == 6
        assert losses == (state["total"], state["count"])
        assert later == [reading for reading in readings if reading["step"] > 6]
        assert same(whole, resumed)


@pytest.mark.parametrize("mistaken", [True, False])
def test_what_the_first_process_cannot_make_no_process_waits_for(mistaken):
    made = []

    def work(processes):
        def make():
            made.append(processes.rank)
            if mistaken:
                raise InputError("no such text")
            return processes.rank

        try:
            return loop.together(processes, make)
        except InputError as error:
            return str(error)

    told = ["no such text", "the first process could not go on, and says why"]
    assert together(2, work) == (told if mistaken else [0, 1])
    assert made == ([0] if mistaken else [0, 1]), "the others read what the first has made"


def test_two_processes_of_a_launcher_make_one_run_with_the_curve_of_one(tmp_path):
    """Three languages with embeddings of their own and three streams a step: mostly one process has none of some."""
    files = write_texts(tmp_path / "text", languages=("qaa", "qab", "qac"))
    rhythm = {"steps": 12, "report": 1, "probe": 6, "checkpoint": 5}
    changes = {"separate": "embeddings", "batch": 3, "rate": 0.01, **rhythm}
    command = ["pretrain", *options(files, **changes), "--quiet"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "isogloss"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *launch, *command, "--out", str(tmp_path / "two")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows.csv") == 1, "one process tells"
    one = pretrain(files, out=tmp_path / "one", **SMALL | changes)
    two = read_rows(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "text", "two"]
    assert not list((tmp_path / "two").rglob(".*.part"))
    coordinates = [name for name in two.columns if name not in ("value", "low", "high")]
    pd.testing.assert_frame_equal(two[coordinates], one[coordinates])
    assert set(one[one.measure == "loss"].step) == set(range(1, 13))
    loss = one.measure == "loss"
    assert two[loss].value.tolist() == pytest.approx(one[loss].value.tolist(), abs=1e-4)
    assert two.value.tolist() == pytest.approx(one.value.tolist(), rel=1e-3)
    for language in files:
        left, right = (load_file(tmp_path / name / "model" / language / "model.safetensors") for name in ("one", "two"))
        for name, weight in left.items():
            torch.testing.assert_close(right[name], weight, atol=1e-4, rtol=1e-4)
    facts = read_facts(tmp_path / "two")
    assert facts["status"] == "finished" and facts["hashes"] == read_facts(tmp_path / "one")["hashes"]
    assert [path.name for path in (tmp_path / "two" / "checkpoints").iterdir()] == ["step-0000010"]
