"""Tokenises the text of a pretraining run, and makes masked batches of it."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cse_train.distributed import copy_to
from cse_train.encoder.packing import Packed, pack
from cse_train.fields import ConfigError
from cse_train.pretrain.config import PretrainConfig
from cse_train.text.corpora.lines import open_text
from cse_train.text.masking import mask_tokens

SENTENCES_AT_ONCE = 20_000
"""Number of sentences tokenised at once; the tokenizer's own objects take several kB a sentence."""


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

    def sentences(self, rows: np.ndarray, longest: int) -> "Rows":
        """Returns single sentences of at most `longest` tokens, special tokens included."""
        return self._lay_out(self.starts[rows], np.minimum(self.lengths[rows], longest - 2))

    def pairs(self, firsts: np.ndarray, seconds: np.ndarray, longest: int) -> "Rows":
        """Returns rows of two sentences: `longest` tokens at most, special tokens included, half of them a sentence.

        A second sentence of -1 leaves the first one alone in its row.
        """
        has_second = seconds >= 0
        room = np.where(has_second, (longest - 3) // 2, longest - 2)
        parts = np.stack([firsts, np.where(has_second, seconds, 0)], 1)
        mask, begins = np.stack([np.ones_like(has_second), has_second], 1), np.array([True, False])
        counts = np.minimum(self.lengths[parts], room[:, None])
        return self._lay_out(self.starts[parts][mask], counts[mask], np.broadcast_to(begins, mask.shape)[mask])

    def runs(self, first_tokens: np.ndarray, width: int) -> "Rows":
        """Returns consecutive text from each of these tokens on: `width` tokens, special tokens included."""
        return self._lay_out(first_tokens, np.minimum(width - 2, len(self.flat) - first_tokens))

    def _lay_out(self, starts: np.ndarray, counts: np.ndarray, begins: np.ndarray | None = None) -> "Rows":
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
class Rows:
    """Rows of token ids, end to end: ids int64 [T], lengths [N]."""

    ids_T: np.ndarray
    lengths_N: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.ids_T, np.cumsum(self.lengths_N)[:-1]))

    @property
    def starts_N(self) -> np.ndarray:
        """Index at which each row begins."""
        firsts: np.ndarray = np.cumsum(self.lengths_N) - self.lengths_N
        return firsts


def tokenise(sentences: list[str], tokenizer: PreTrainedTokenizerBase) -> Corpus:
    """Tokenises sentences into a corpus, in their order."""
    flats, counts = [], list[int]()
    for at in range(0, len(sentences), SENTENCES_AT_ONCE):
        rows = tokenizer(
            sentences[at : at + SENTENCES_AT_ONCE],
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        flats.append(np.concatenate([np.asarray(ids, dtype=np.int32) for ids in rows]))
        counts += map(len, rows)
    flat, lengths = np.concatenate(flats), np.array(counts)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    cls_id, sep_id, mask_id = (getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "mask"))
    return Corpus(flat, starts, lengths, cls_id, sep_id, mask_id, len(tokenizer))


def read_lines(path: Path) -> Iterator[str]:
    """Yields the non-empty lines of a plain or gzipped file, stripped; ConfigError if the file does not exist."""
    if not path.is_file():
        raise ConfigError([f"missing data: text={path} does not exist; give a file with one sentence a line"])
    with open_text(path) as lines:
        yield from (stripped for line in lines if (stripped := line.strip()))


def text_hash(path: Path) -> str:
    """Returns the SHA-256 of a file's non-empty lines, the same for a compressed and a plain file."""
    total = hashlib.sha256()
    for line in read_lines(path):
        total.update(line.encode() + b"\n")
    return total.hexdigest()


@dataclass(frozen=True)
class PairLabels:
    """Labels of a step's rows that are pairs of sentences. Shape suffix: P pairs."""

    at_P: Tensor
    """Indices of the rows that are pairs."""
    follows_P: Tensor
    """Float: 1 where a pair's second text follows its first, else 0."""


@dataclass(frozen=True)
class MaskedBatch:
    """Masked rows of one pretraining step. Shape suffixes: M masked positions, N rows."""

    packed: Packed
    at_M: Tensor
    """Indices of the packed slots that are masked."""
    target_M: Tensor
    """True ids of the masked slots."""
    tokens: int
    """Number of tokens in all rows, special ones included."""
    pairs: PairLabels | None = None

    def to(self, device: torch.device) -> "MaskedBatch":
        """Returns the batch on `device`; nothing waits for a GPU."""
        at_M, target_M = copy_to(self.at_M, device), copy_to(self.target_M, device)
        pairs = self.pairs and PairLabels(copy_to(self.pairs.at_P, device), copy_to(self.pairs.follows_P, device))
        return MaskedBatch(self.packed.to(device), at_M, target_M, self.tokens, pairs)


@dataclass
class PretrainingBatches:
    """Endless stream of training batches; one generator draws data order, kinds of step and masks."""

    corpus: Corpus
    config: PretrainConfig
    rng: np.random.Generator
    queue: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __iter__(self) -> Iterator[MaskedBatch]:
        while True:
            rows, pairs = self._rows()
            yield mask_rows(rows, self.corpus, self.config.mask_ratio, self.rng, pairs)

    def _rows(self) -> tuple[Rows, PairLabels | None]:
        trained = len(self.corpus.starts) - self.config.held_out
        if self.rng.random() < self.config.long_share:
            last = self.corpus.starts[trained] - self.config.max_positions
            firsts = self.rng.integers(0, last, self.config.batch_documents)
            return self.corpus.runs(firsts, self.config.max_positions), None
        if len(self.queue) < self.config.batch_sentences:
            self.queue = self.rng.permutation(trained)
        rows, self.queue = np.split(self.queue, [self.config.batch_sentences])
        if self.config.cls_task == "none":
            return self.corpus.sentences(rows, self.config.max_sentence), None
        return self._make_pairs(rows, trained)

    def _make_pairs(self, rows_taken: np.ndarray, trained: int) -> tuple[Rows, PairLabels | None]:
        """Makes a share of the rows pairs: of a sentence and the next one, or another one, or in reverse order."""
        firsts, seconds = rows_taken.copy(), np.full(len(rows_taken), -1)
        pair_rows = np.flatnonzero(self.rng.random(len(rows_taken)) < self.config.pair_share)
        follows = []
        for row in pair_rows:
            first, second = rows_taken[row], min(rows_taken[row] + 1, trained - 1)
            follows.append(float(self.rng.random() < 0.5))
            if not follows[-1]:
                if self.config.cls_task == "next_sentence":
                    second = int(self.rng.integers(trained))
                else:
                    first, second = second, first
            firsts[row], seconds[row] = first, second
        labels = PairLabels(torch.from_numpy(pair_rows), torch.tensor(follows)) if follows else None
        return self.corpus.pairs(firsts, seconds, self.config.max_sentence), labels


def mask_rows(
    rows: Rows, corpus: Corpus, ratio: float, rng: np.random.Generator, pairs: PairLabels | None = None
) -> MaskedBatch:
    """Masks and packs rows; special tokens are never masked."""
    special = (rows.ids_T == corpus.cls_id) | (rows.ids_T == corpus.sep_id)
    ids_T, chosen_T = mask_tokens(
        rows.ids_T, ~special, ratio=ratio, mask_id=corpus.mask_id, vocab_size=corpus.vocab_size, rng=rng
    )
    packed = pack(ids_T, rows.starts_N, rows.lengths_N)
    target = pack(np.where(chosen_T, rows.ids_T, -1), rows.starts_N, rows.lengths_N, pad_id=-1).ids_T
    at_M = torch.from_numpy(np.flatnonzero(target.numpy() >= 0))
    return MaskedBatch(packed, at_M, target[at_M], int(rows.lengths_N.sum()), pairs)
