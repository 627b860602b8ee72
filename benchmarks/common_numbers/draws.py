"""Random numbers that belong to a place and not to an order, put under the code for as long as a block lasts.

Dropout masks by counter: one number for (seed, step, site, sentence, token, feature), so that a token keeps its masks
when another is inserted before it. Nested repetition: a higher rate repeats a superset. Slow, as a trial may be.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from cse_train import random_streams
from cse_train.encoder import attention, cls_attention, dropout
from cse_train.encoder.encoder import Encoder, Hidden
from cse_train.encoder.packing import Packed
from cse_train.text import augment

MANY = 64
"""More often no piece stands in a sentence."""


def mixed(number: np.ndarray) -> np.ndarray:
    """Uniform uint64 out of counters: the finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        number = number * np.uint64(0x9E3779B97F4A7C15)
        number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(number ^ (number >> np.uint64(31)))


def paired(*parts: np.ndarray) -> np.ndarray:
    """One counter out of several, which broadcast."""
    number = np.zeros(1, np.uint64)
    for part in parts:
        number = mixed(number ^ part.astype(np.uint64))
    return number


class Counters:
    """The masks of one process: `step` sets the key, a forward pass tells which sentence and token each slot holds."""

    def __init__(self) -> None:
        self.key, self.passes, self.site, self.group = 0, 0, 0, 0
        self.packed: Packed | None = None
        self.views = 1
        self.sentence_VT = self.token_VT = np.zeros(0, np.int64)
        """Of the slots of all views, group by group."""

    def step(self, seed: int, step: int, rank: int) -> None:
        """What `random_streams.seed_dropout` is asked for."""
        self.key, self.passes = random_streams.seed_of(seed, "dropout", step, rank), 0

    def begin(self, packed: Packed, views: int) -> None:
        """A forward pass in training."""
        self.packed, self.views = packed, views
        self.passes, self.site, self.group = self.passes + 1, 0, 0
        sentence_T = packed.order_N.numpy()[packed.row_T().numpy()]
        token_T = occurrences(sentence_T, packed.ids_T.numpy())
        self.sentence_VT, self.token_VT = (_views(values, packed, views) for values in (sentence_T, token_T))

    def mask(self, like: Tensor, rate: float) -> Tensor:
        """In place of `dropout.scaled_mask`."""
        counter = self._counter(like)
        kept = (counter >> np.uint64(48)).astype(np.int64) >= round(rate * dropout.LEVELS)
        return torch.from_numpy(kept).to(like.dtype).mul_(1 / (1 - round(rate * dropout.LEVELS) / dropout.LEVELS))

    def _counter(self, like: Tensor) -> np.ndarray:
        assert self.packed is not None
        if like.dim() == 2:  # all slots, or the first slot of every row
            self.site, self.group = self.site + 1, 0
            first = self.packed.first_VN(self.views).numpy()
            at = np.arange(len(self.token_VT)) if len(like) == len(self.token_VT) else first
            assert len(at) == len(like), like.shape
            return paired(self._here(), self.sentence_VT[at, None], self.token_VT[at, None], np.arange(like.shape[1]))
        sentence_RW, token_RW = self._of_group()
        self.group += 1
        if len(like) == len(token_RW):  # [R, A, W]: [CLS] asks
            heads = np.arange(like.shape[1])[None, :, None]
            return paired(self._here(), sentence_RW[:, None], token_RW[:, None], heads)
        heads = np.arange(len(like) // len(token_RW))[None, :, None, None]
        asks, asked = token_RW[:, None, :, None], token_RW[:, None, None, :]
        counter = paired(self._here(), sentence_RW[:, None, :, None], heads, asks, asked)
        return counter.reshape(like.shape)

    def _here(self) -> np.ndarray:
        return paired(*(np.array([part]) for part in (self.key, self.passes, self.site)))

    def _of_group(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.packed is not None
        slots = [self.views * group.slots for group in self.packed.groups]
        ends, width = np.cumsum(slots), self.packed.groups[self.group].width
        at = slice(ends[self.group] - slots[self.group], ends[self.group])
        return self.sentence_VT[at].reshape(-1, width), self.token_VT[at].reshape(-1, width)


def occurrences(sentence_T: np.ndarray, ids_T: np.ndarray) -> np.ndarray:
    """A name for every token that others before it do not change: its id, and how often the sentence had it before."""
    pairs = sentence_T.astype(np.int64) * 2**32 + ids_T
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    new = np.r_[True, ordered[1:] != ordered[:-1]]
    begun = np.maximum.accumulate(np.where(new, np.arange(len(pairs)), 0))
    before = np.empty(len(pairs), np.int64)
    before[order] = np.arange(len(pairs)) - begun
    return ids_T * MANY + np.minimum(before, MANY - 1)


def _views(values_T: np.ndarray, packed: Packed, views: int) -> np.ndarray:
    """[V * T]; a view's slots get names of their own."""
    parts = np.split(values_T, np.cumsum([group.slots for group in packed.groups])[:-1])
    return np.concatenate([part + (view << 40) for part in parts for view in range(views)])


def nested(ids: np.ndarray, rate: float, rng: np.random.Generator, rule: str = "paper") -> np.ndarray:
    """`augment.repeat_subwords` by the paper's rule, in which a higher rate repeats what a lower one does, and more."""
    assert rule == "paper", rule
    subwords = len(ids) - 2
    if rate == 0 or subwords < 1:
        return ids
    share, order = rng.random(), rng.permutation(subwords)
    dup_len = min(int(share * (max(2, int(rate * subwords)) + 1)), subwords)
    times = np.ones(len(ids), dtype=np.int64)
    times[1 + order[:dup_len]] = 2
    return np.repeat(ids, times)


@contextmanager
def by_counter() -> Iterator[Counters]:
    """Every encoder's dropout in this process by counter."""
    counters, plain = Counters(), Encoder.forward

    def forward(self: Encoder, packed: Packed, **given: Any) -> Hidden:
        if self.training:
            counters.begin(packed, given.get("views", 1))
        return plain(self, packed, **given)

    seeded: Callable[..., None] = counters.step
    places = [(module, "scaled_mask", counters.mask) for module in (dropout, attention, cls_attention)]
    with patch.object(random_streams, "seed_dropout", seeded), patch.object(Encoder, "forward", forward):
        first, second, third = (patch.object(*place) for place in places)
        with first, second, third:
            yield counters


def with_nested_edits() -> Any:
    """A block in which repetition is nested."""
    return patch.object(augment, "repeat_subwords", nested)
