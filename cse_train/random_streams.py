"""Named random streams: pure functions of the run's seed and a position, so resuming needs no saved state."""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Place:
    """Where in a run a share lies."""

    seed: int
    epoch: int
    order: np.ndarray
    """int64: the corpus rows of this epoch, batch after batch."""
    first: int
    """Where in the order the share's first row is; the others follow it."""


def seed_of(seed: int, *name: str | int) -> int:
    """A 63-bit seed for the stream `name` of a run."""
    text = "/".join(str(part) for part in (seed, *name))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def data_order(seed: int, epoch: int, rows: int) -> np.ndarray:
    """The permutation of the corpus rows in one epoch."""
    return np.random.default_rng(seed_of(seed, "data", epoch)).permutation(rows)


def bucket_order(seed: int, epoch: int, bucket: int, rows: int) -> np.ndarray:
    """The permutation of one length bucket's rows in one epoch."""
    return np.random.default_rng(seed_of(seed, "bucket", epoch, bucket)).permutation(rows)


def augmentation(seed: int, epoch: int, row: int) -> np.random.Generator:
    """The generator that augments one corpus row in one epoch, whatever the world size."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, "augment", epoch, row)))


def seed_new_weights(seed: int) -> None:
    """Seed torch before a method draws the weights that no checkpoint brings."""
    import torch  # two seconds, and whoever plans or reads tables takes streams and places from here without it

    torch.manual_seed(seed_of(seed, "weights"))


def seed_dropout(seed: int, step: int, rank: int) -> None:
    """Seed torch's dropout for one step of one rank; `torch.manual_seed` takes its time looking for other devices."""
    import torch

    number = seed_of(seed, "dropout", step, rank)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
