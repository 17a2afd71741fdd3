"""Seeds for every random draw, derived from the run's seed and the name of the draw, so nothing is seeded globally."""

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
    """Seed PyTorch inside the block, on the CPU and on `device`; the global state is restored afterwards."""
    gpus = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # torch.manual_seed would also seed every GPU, whose states fork_rng does not restore here.
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):  # seeding affects the current GPU, which may be another one
                torch.cuda.manual_seed(seed)
        yield
