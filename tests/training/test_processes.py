"""Several processes train as one: as threads that meet at a barrier, and as a launcher starts them."""

import json
import threading

import pytest
import torch

from isogloss.training import checkpoints as kept
from isogloss.training.loop import Objective
from tiny_training import Tower, exported, run, same, squares, training, weights


class Threads:
    """Processes that are threads of this one: sums meet at a barrier."""

    def __init__(self, count):
        self.barrier, self.boards, self.count = threading.Barrier(count, timeout=20), [None] * count, count

    def member(self, rank):
        return Member(self, rank)


def together(count, work):
    """What `work(processes)` gives in each of several processes."""
    threads, found = Threads(count), {}
    workers = [
        threading.Thread(target=lambda rank=rank: found.update({rank: work(threads.member(rank))}))
        for rank in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert sorted(found) == list(range(count))
    return [found[rank] for rank in range(count)]


class Member:
    def __init__(self, threads, rank):
        self.threads, self.rank, self.count, self.device = threads, rank, threads.count, torch.device("cpu")
        self.first = rank == 0

    def add(self, tensors):
        mine = list(tensors)
        self.threads.boards[self.rank] = [one.clone() for one in mine]
        self.threads.barrier.wait()
        for place, one in enumerate(mine):
            one.copy_(torch.stack([board[place] for board in self.threads.boards]).sum(0))
        assert len({len(board) for board in self.threads.boards}) == 1
        self.threads.barrier.wait()

    def wait(self):
        self.threads.barrier.wait()


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
