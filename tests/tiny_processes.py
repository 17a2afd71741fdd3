"""Processes that are copies of this one, and several as threads of one, for tests of what they do together."""

import multiprocessing
import threading

import torch

from isogloss.stack.packing import SWITCH, swapped


def fork(function, *arguments):
    """A process that runs a function, and begins as a copy of this one: with everything imported."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def kill(process):
    process.kill()
    process.join()


def exit_code(process):
    process.join(timeout=60)
    return process.exitcode


class Threads:
    """Processes that are threads of this one: sums meet at a barrier."""

    def __init__(self, count):
        self.barrier, self.boards, self.count = threading.Barrier(count, timeout=20), [None] * count, count

    def member(self, rank):
        return Member(self, rank)


def together(count, work):
    """What `work(processes)` gives in each of several processes."""
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()  # switches of the process, which the threads turn and turn back
    products = [] if SWITCH is None else [(SWITCH, "fp32_precision", SWITCH.fp32_precision)]
    threads, found = Threads(count), {}
    workers = [
        threading.Thread(target=lambda rank=rank: found.update({rank: work(threads.member(rank))}))
        for rank in range(count)
    ]
    with swapped(products):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
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
