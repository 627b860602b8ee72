"""Tokenises the corpus of a run, and assigns its rows to batches: a pure function of seed and step."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from cse_train import distributed, random_streams
from cse_train.config import RunConfig, bucket_edges
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.folders import require_fitting
from cse_train.fields import ConfigError
from cse_train.methods.base import Batch, Collate, Share, load_method
from cse_train.numerics import is_card
from cse_train.text.corpora import add_prompt, lower_cased, open_source, wrong_columns
from cse_train.text.tokens import TokenColumn, TokenStore, open_store

log = logging.getLogger(__name__)

PERMUTATION_CHUNK = 1 << 20
"""Number of tokens that `Batches.ids_in_use` marks at a time."""


@dataclass
class Batches:
    """Batches of a run: for each step, this rank's share of the global batch."""

    run: RunConfig
    store: TokenStore
    collate: Collate
    rows: np.ndarray
    """int64: the corpus rows that may be drawn, in file order."""
    epoch: int = -1
    order: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def open(cls, run: RunConfig, paths: DataPaths, backbone: Backbone) -> "Batches":
        """Tokenises the corpus on first use and lets the method prepare it; ConfigError for data that does not fit."""
        method, max_length = load_method(run.method), run.train.max_seq_length
        require_fitting(f"train.encoder={run.train.encoder}", len(backbone.tokenizer), backbone.config)
        tokens_kept = method.tokens_kept(run.options, max_length)
        source = open_source(run.train.corpus, paths)
        if line := wrong_columns(run.train.corpus, source.columns, run.method, method.columns(run.options)):
            raise ConfigError([line])
        if method.lower_case(run.options):
            source = lower_cased(source)
        _require_room(run, backbone, tokens_kept)
        source = add_prompt(source, backbone.prompt)
        store = open_store(source, backbone.tokenizer, tokens_kept, paths.cache)
        require_positions(run, backbone, store)
        store = method.prepare(run.options, store, backbone, paths.cache)
        rows = method.usable_rows(run.options, store)
        if len(rows) < store.rows and distributed.rank() == 0:
            log.warning("%s: %d of %d rows left out", run.train.corpus, store.rows - len(rows), store.rows)
        return cls(run, store, method.make_collate(run.options, backbone.tokenizer, max_length), rows)

    def __post_init__(self) -> None:
        config = self.run.train
        if config.batch_size % distributed.size():
            line = f"batch does not divide: train.batch_size={config.batch_size} over workers={distributed.size()}"
            raise ConfigError([f"{line}; choose a multiple"])
        self.buckets = [self.rows]
        if config.length_buckets is not None:  # rows grouped by number of words (ESimCSE 4.4)
            edges = bucket_edges(config.length_buckets)
            buckets = np.searchsorted(edges, words_of(next(iter(self.store.arrays.values())))[self.rows])
            self.buckets = [self.rows[buckets == i] for i in range(len(edges) + 1)]
        if self.steps_per_epoch == 0:
            line = f"corpus too small: train.corpus={config.corpus} has {len(self.rows)} rows"
            where = f" in {len(self.buckets)} buckets" if config.length_buckets else ""
            raise ConfigError([f"{line}{where}; give at least train.batch_size={config.batch_size}"])

    @property
    def steps_per_epoch(self) -> int:
        """Number of full batches in one pass over the corpus; the remainder of each bucket is left out of that pass."""
        return sum(len(rows) // self.run.train.batch_size for rows in self.buckets)

    def ids_in_use(self, tokenizer: Any) -> np.ndarray:
        """Returns every token id in the corpus, also in rows that are never drawn, and the special ids, sorted."""
        used = np.zeros(len(tokenizer), dtype=bool)
        used[tokenizer.all_special_ids] = True
        for column in self.store.arrays.values():
            for first in range(0, len(column.flat), PERMUTATION_CHUNK):
                used[column.flat[first : first + PERMUTATION_CHUNK]] = True
        return np.flatnonzero(used)

    def __getitem__(self, step: int) -> Batch:
        size = self.run.train.batch_size
        batch_place = self._place(step)
        batch_rows = batch_place.order[batch_place.first : batch_place.first + size]
        share = size // distributed.size()
        offset = distributed.rank() * share
        rng_of = partial(random_streams.augmentation, batch_place.seed, batch_place.epoch)
        place = replace(batch_place, first=batch_place.first + offset)
        return self.collate(Share(self.store, batch_rows[offset : offset + share], batch_rows, rng_of, place))

    def make_ready(self, step: int) -> None:
        """Lets the store prepare what the batch of a step reads, for all ranks.

        The store may take long, and it must not do so while another rank waits in a collective.
        """
        self.store.make_ready(self._place(step), self.run.train.batch_size)

    def _place(self, step: int) -> random_streams.Place:
        """Returns the position of a step's global batch in the data order."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, self._order(epoch)
        return random_streams.Place(self.run.train.seed, epoch, self.order, index * self.run.train.batch_size)

    def _order(self, epoch: int) -> np.ndarray:
        """Returns the corpus rows of an epoch, batch after batch."""
        seed, size = self.run.train.seed, self.run.train.batch_size
        if len(self.buckets) == 1:
            rows: np.ndarray = self.buckets[0][random_streams.data_order(seed, epoch, len(self.buckets[0]))]
            return rows
        shuffled = [rows[random_streams.bucket_order(seed, epoch, i, len(rows))] for i, rows in enumerate(self.buckets)]
        batches = np.concatenate([bucket[: len(bucket) // size * size].reshape(-1, size) for bucket in shuffled])
        order: np.ndarray = batches[random_streams.data_order(seed, epoch, len(batches))]
        return order.ravel()


ROOM = 4
"""Smallest number of tokens that a prompt must leave for the text itself."""


def _require_room(run: RunConfig, backbone: Backbone, limit: int | None) -> None:
    """Raises ConfigError if a prompt leaves fewer than ROOM of the `limit` tokens of a text, or meets whole documents.

    `limit` is None for a method that cuts spans from whole documents.
    """
    if not backbone.prompt:
        return
    line = f"train.prompt={run.train.prompt or backbone.prompts.default} of train.encoder={backbone.name}"
    if limit is None:
        raise ConfigError([f"prompt of a document: {line}, method={run.method} cuts spans; set train.prompt=none"])
    tokens = len(backbone.tokenizer(backbone.prompt)["input_ids"])
    if tokens + ROOM > limit:
        setting = f"train.max_seq_length={run.train.max_seq_length}, {line} has {tokens} tokens"
        raise ConfigError([f"prompt fills the text: {setting}; raise it to {tokens + ROOM} at least"])


def require_positions(run: RunConfig, backbone: Backbone, store: TokenStore) -> None:
    """Raises ConfigError if a text, cut to the tokens that are kept, is longer than the encoder's positions."""
    room: int | None = getattr(backbone.encoder, "positions", None)
    longest = max(int(column.lengths.max()) for column in store.arrays.values())
    if room is not None and min(longest, run.train.max_seq_length) > room:
        line = f"texts too long: train.max_seq_length={run.train.max_seq_length}, a text has {longest} tokens"
        raise ConfigError([f"{line} and train.encoder={backbone.name} {room} positions; lower it to {room} at most"])


def words_of(column: TokenColumn) -> np.ndarray:
    """Returns int64 [rows]: the number of whitespace words of each text, cut to the tokens that are kept."""
    counts = np.append(0, np.cumsum(column.word_starts, dtype=np.int64))
    words: np.ndarray = counts[column.starts + column.lengths] - counts[column.starts] - 2
    return words


@dataclass
class UpcomingBatches:
    """Batches of a run on its device; on a GPU a thread makes the next one ahead of its step.

    A batch is a pure function of seed and step, so that the order in which a thread makes batches changes nothing.
    torch's global generators belong to the process: a batch that draws from them is made by the caller's thread,
    between two steps. On a CPU no thread helps: its cores belong to the step.
    """

    source: Batches
    device: torch.device
    steps: int
    """Number of steps of the whole run; no batch is made beyond the last one."""
    pending: dict[int, Future[Batch]] = field(default_factory=dict)
    """Step -> the batch that the thread is making for it."""

    def __post_init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "batches", _use, (self.device,)) if is_card(self.device) else None

    def __getitem__(self, step: int) -> Batch:
        """Returns the batch of a step; raises what making it raised."""
        if self.thread is None:
            return self._make(step)
        batch = self.pending.pop(step).result() if step in self.pending else self._make_first(step)
        if self.thread is not None and step + 1 < self.steps:
            self.source.make_ready(step + 1)  # in this thread: it may draw from torch's global generators
            self.pending = {step + 1: self.thread.submit(self._make, step + 1)}
        return batch

    def _make(self, step: int) -> Batch:
        return self.source[step].to(self.device)

    def _make_first(self, step: int) -> Batch:
        """Makes a batch that no thread has prepared, and stops using the thread if a user's method draws from torch."""
        wait(self.pending.values())
        self.source.make_ready(step)
        state = torch.get_rng_state()
        batch = self._make(step)
        if not torch.equal(state, torch.get_rng_state()):
            log.warning("slow batches: make_collate draws from torch's generator; draw from share.rng_of(row)")
            self.thread, self.pending = None, {}
        return batch


def _use(device: torch.device) -> None:
    """Sets a new thread's CUDA device, whose memory it pins: the current device is a thread's own, and begins at 0."""
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.set_device(device)
