"""Named random streams: pure functions of the run's seed and a position, so that resuming needs no saved state."""

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Place:
    """Position of a share of a batch in a run's data order."""

    seed: int
    epoch: int
    order: np.ndarray
    """int64: the corpus rows of the epoch, batch after batch."""
    first: int
    """Index in `order` of the share's first row; the others follow it."""


def seed_of(seed: int, *name: str | int) -> int:
    """Returns a 63-bit seed for the stream `name` of a run."""
    text = "/".join(str(part) for part in (seed, *name))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def data_order(seed: int, epoch: int, rows: int) -> np.ndarray:
    """Returns the permutation of the corpus rows in one epoch."""
    return np.random.default_rng(seed_of(seed, "data", epoch)).permutation(rows)


def bucket_order(seed: int, epoch: int, bucket: int, rows: int) -> np.ndarray:
    """Returns the permutation of one length bucket's rows in one epoch."""
    return np.random.default_rng(seed_of(seed, "bucket", epoch, bucket)).permutation(rows)


def augmentation(seed: int, epoch: int, row: int) -> np.random.Generator:
    """Returns the generator that augments one corpus row in one epoch, independent of the world size."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, "augment", epoch, row)))


def seed_new_weights(seed: int) -> None:
    """Seeds torch before a method draws the weights that no checkpoint brings."""
    import torch  # two seconds to load, which commands that only plan or read tables must not spend

    torch.manual_seed(seed_of(seed, "weights"))


def seed_dropout(seed: int, step: int, rank: int) -> None:
    """Seeds torch's dropout for one step of one rank.

    `torch.manual_seed` would do the same, but takes its time looking for other devices.
    """
    import torch

    number = seed_of(seed, "dropout", step, rank)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
