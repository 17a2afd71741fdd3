"""Seeds for every draw, made from the run's one seed and what is drawn, so that nothing is seeded globally."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_of(seed: int, *parts: int | str) -> int:
    """A seed of 63 bits for one draw, a pure function of the run's seed and the draw's coordinates.

    >>> seed_of(0, "masks", 12) == seed_of(0, "masks", 12), seed_of(0, "masks", 12) == seed_of(0, "masks", 13)
    (True, False)
    """
    digest = hashlib.blake2b(repr((seed, *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Inside the block PyTorch draws by this seed, on the CPU and on `device`; then the global state is as it was."""
    gpus = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # torch.manual_seed would also seed every GPU, which this fork does not put back.
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):  # seeding is of the current GPU, which need not be this one
                torch.cuda.manual_seed(seed)
        yield
