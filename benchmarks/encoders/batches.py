"""Tokenised text of a pretraining run, and masked batches of it: whole sentences, and runs of consecutive text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.encoders.recipe import Recipe
from cse_train.distributed import copy_to
from cse_train.encoder.packing import Packed, pack
from cse_train.text.masking import mask_tokens

SENTENCES_AT_ONCE = 20_000
"""Sentences tokenised at once; the tokenizer's own objects take several kB a sentence."""


@dataclass(frozen=True)
class Rows:
    """Rows of token ids, end to end: ids int64 [T], lengths [N]."""

    ids_T: np.ndarray
    lengths_N: np.ndarray

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.ids_T, np.cumsum(self.lengths_N)[:-1]))


@dataclass
class Corpus:
    """Tokenised sentences in file order, without special tokens, end to end."""

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    cls_id: int
    sep_id: int
    mask_id: int
    vocab_size: int

    @classmethod
    def of(cls, sentences: list[str], tokenizer: Any) -> "Corpus":
        """Tokenises sentences, in their order."""
        flats, counts = [], list[int]()
        for at in range(0, len(sentences), SENTENCES_AT_ONCE):
            rows = tokenizer(sentences[at : at + SENTENCES_AT_ONCE], add_special_tokens=False)["input_ids"]
            flats.append(np.concatenate([np.asarray(ids, dtype=np.int32) for ids in rows]))
            counts += map(len, rows)
        lengths = np.array(counts)
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id)
        return cls(np.concatenate(flats), np.cumsum(lengths) - lengths, lengths, *special, len(tokenizer))

    def sentences(self, rows: np.ndarray, longest: int) -> Rows:
        """Returns single sentences of at most `longest` tokens, special tokens included."""
        return self._lay_out(self.starts[rows], np.minimum(self.lengths[rows], longest - 2))

    def pairs(self, firsts: np.ndarray, seconds: np.ndarray, longest: int) -> Rows:
        """Returns rows of two sentences: `longest` tokens at most, special tokens included, half of them a sentence.

        A second sentence of -1 leaves the first one alone in its row.
        """
        has_second = seconds >= 0
        room = np.where(has_second, (longest - 3) // 2, longest - 2)
        parts = np.stack([firsts, np.where(has_second, seconds, 0)], 1)
        mask, begins = np.stack([np.ones_like(has_second), has_second], 1), np.array([True, False])
        counts = np.minimum(self.lengths[parts], room[:, None])
        return self._lay_out(self.starts[parts][mask], counts[mask], np.broadcast_to(begins, mask.shape)[mask])

    def runs(self, first_tokens: np.ndarray, width: int) -> Rows:
        """Returns consecutive text from each of these tokens on: `width` tokens, special tokens included."""
        return self._lay_out(first_tokens, np.minimum(width - 2, len(self.flat) - first_tokens))

    def _lay_out(self, starts: np.ndarray, counts: np.ndarray, begins: np.ndarray | None = None) -> Rows:
        """Lays parts end to end: `counts` tokens from `starts` on, [SEP] behind each, [CLS] where a row begins."""
        begins = np.ones(len(starts), dtype=bool) if begins is None else begins
        sizes = counts + 1 + begins
        firsts = np.cumsum(sizes) - sizes
        ids_T = np.empty(sizes.sum(), dtype=np.int64)
        text_T = np.ones(len(ids_T), dtype=bool)
        for places, special in ((firsts[begins], self.cls_id), (firsts + sizes - 1, self.sep_id)):
            ids_T[places], text_T[places] = special, False
        offsets = np.cumsum(counts) - counts
        ids_T[text_T] = self.flat[np.arange(counts.sum()) + np.repeat(starts - offsets, counts)]
        return Rows(ids_T, np.add.reduceat(sizes, np.flatnonzero(begins)))


@dataclass(frozen=True)
class MaskedBatch:
    """Masked rows of one pretraining step. Shape suffixes: M masked positions, P rows that are pairs."""

    packed: Packed
    at_M: Tensor
    """Indices of the packed slots that are masked."""
    target_M: Tensor
    """True ids of the masked slots."""
    tokens: int
    """Number of tokens in all rows, special ones included."""
    pairs: tuple[Tensor, Tensor] | None = None
    """Indices [P] of the rows that are pairs, and float [P]: 1 where the second text follows the first, else 0."""

    def to(self, device: torch.device) -> "MaskedBatch":
        pairs = self.pairs and (copy_to(self.pairs[0], device), copy_to(self.pairs[1], device))
        at_M, target_M = copy_to(self.at_M, device), copy_to(self.target_M, device)
        return MaskedBatch(self.packed.to(device), at_M, target_M, self.tokens, pairs)


@dataclass
class PretrainingBatches:
    """Endless stream of training batches; one generator draws data order, kinds of step and masks."""

    corpus: Corpus
    recipe: Recipe
    rng: np.random.Generator
    queue: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __iter__(self) -> Iterator[MaskedBatch]:
        while True:
            rows, pairs = self.rows()
            yield mask_rows(rows, self.corpus, self.recipe.mask_ratio, self.rng, pairs)

    def rows(self) -> tuple[Rows, tuple[Tensor, Tensor] | None]:
        """Returns the next step's rows, and which of them are pairs, with their labels."""
        recipe, trained = self.recipe, len(self.corpus.starts) - self.recipe.held_out
        if self.rng.random() < recipe.long_share:
            last = self.corpus.starts[trained] - recipe.max_positions
            firsts = self.rng.integers(0, last, recipe.batch_documents)
            return self.corpus.runs(firsts, recipe.max_positions), None
        if len(self.queue) < recipe.batch_sentences:
            self.queue = self.rng.permutation(trained)
        taken, self.queue = np.split(self.queue, [recipe.batch_sentences])
        if recipe.cls_task == "none":
            return self.corpus.sentences(taken, recipe.max_sentence), None
        firsts, seconds = taken.copy(), np.full(len(taken), -1)
        pair_rows = np.flatnonzero(self.rng.random(len(taken)) < recipe.pair_share)
        follows = []
        for row in pair_rows:
            pair = taken[row], min(taken[row] + 1, trained - 1)
            follows.append(float(self.rng.random() < 0.5))
            firsts[row], seconds[row] = pair if follows[-1] else pair[::-1]
        labels = (torch.from_numpy(pair_rows), torch.tensor(follows)) if follows else None
        return self.corpus.pairs(firsts, seconds, recipe.max_sentence), labels


def mask_rows(
    rows: Rows, corpus: Corpus, ratio: float, rng: np.random.Generator, pairs: tuple[Tensor, Tensor] | None = None
) -> MaskedBatch:
    """Masks and packs rows; special tokens are never masked."""
    special = (rows.ids_T == corpus.cls_id) | (rows.ids_T == corpus.sep_id)
    ids_T, chosen_T = mask_tokens(
        rows.ids_T, ~special, ratio=ratio, mask_id=corpus.mask_id, vocab_size=corpus.vocab_size, rng=rng
    )
    starts_N = np.cumsum(rows.lengths_N) - rows.lengths_N
    packed = pack(ids_T, starts_N, rows.lengths_N)
    target = pack(np.where(chosen_T, rows.ids_T, -1), starts_N, rows.lengths_N, pad_id=-1).ids_T
    at_M = torch.from_numpy(np.flatnonzero(target.numpy() >= 0))
    return MaskedBatch(packed, at_M, target[at_M], int(rows.lengths_N.sum()), pairs)
