"""Sentences in, masked batches out."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cse_train.encoder.packing import Packed, pack
from cse_train.fields import ConfigError
from cse_train.pretrain.config import PretrainConfig
from cse_train.text.corpora.lines import open_text
from cse_train.text.masking import mask_tokens

SENTENCES_AT_ONCE = 20_000
"""Sentences tokenised at once; the tokenizer's own objects take several kB a sentence."""


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

    def sentences(self, rows: np.ndarray, longest: int) -> list[np.ndarray]:
        """Single sentences of at most `longest` tokens, special tokens included."""
        keep = np.minimum(self.lengths[rows], longest - 2)
        return [self._wrap(self.flat[s : s + n]) for s, n in zip(self.starts[rows], keep, strict=True)]

    def pair(self, first: int, second: int, longest: int) -> np.ndarray:
        """Two sentences in one row of at most `longest` tokens, of which each may fill half."""
        a, b = (
            self.flat[self.starts[at] : self.starts[at] + min(self.lengths[at], (longest - 3) // 2)]
            for at in (first, second)
        )
        return self._wrap(np.concatenate([a, [self.sep_id], b]))

    def run_of_sentences(self, first_token: int, width: int) -> np.ndarray:
        """Consecutive text from `first_token` on: `width` tokens, special tokens included."""
        return self._wrap(self.flat[first_token : first_token + width - 2])

    def _wrap(self, ids: np.ndarray) -> np.ndarray:
        return np.concatenate([[self.cls_id], ids, [self.sep_id]]).astype(np.int64)


def tokenise(sentences: list[str], tokenizer: PreTrainedTokenizerBase) -> Corpus:
    """A corpus of the given sentences, in their order."""
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
    """The non-empty lines of a plain or gzipped file, stripped."""
    if not path.is_file():
        raise ConfigError([f"missing data: text={path} does not exist; give a file with one sentence a line"])
    with open_text(path) as lines:
        yield from (stripped for line in lines if (stripped := line.strip()))


def text_hash(path: Path) -> str:
    """SHA-256 of the sentences, whether the file is compressed or not."""
    total = hashlib.sha256()
    for line in read_lines(path):
        total.update(line.encode() + b"\n")
    return total.hexdigest()


@dataclass(frozen=True)
class MaskedBatch:
    """Rows of one step. Shape suffixes: M masked positions, N rows."""

    packed: Packed
    at_M: Tensor
    """Slots that are masked."""
    target_M: Tensor
    """Their true ids."""
    tokens: int
    """Tokens of all rows, special ones included."""
    follows_N: Tensor | None = None
    """Of a pair 1 where its second text follows its first, else 0; -1 for a row that is no pair."""


@dataclass
class PretrainingBatches:
    """The endless stream of training batches: one generator for the data order, one for the masks."""

    corpus: Corpus
    config: PretrainConfig
    rng: np.random.Generator
    queue: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[MaskedBatch]:
        while True:
            rows, follows_N = self._rows()
            yield mask_rows(rows, self.corpus, self.config.mask_ratio, self.rng, follows_N)

    def _rows(self) -> tuple[list[np.ndarray], Tensor | None]:
        trained = len(self.corpus.starts) - self.config.held_out
        if self.rng.random() < self.config.long_share:
            last = self.corpus.starts[trained] - self.config.max_positions
            firsts = self.rng.integers(0, last, self.config.batch_documents)
            return [self.corpus.run_of_sentences(at, self.config.max_positions) for at in firsts], None
        if len(self.queue) < self.config.batch_sentences:
            self.queue = self.rng.permutation(trained).tolist()
        taken, self.queue = self.queue[: self.config.batch_sentences], self.queue[self.config.batch_sentences :]
        rows = self.corpus.sentences(np.array(taken), self.config.max_sentence)
        return (rows, None) if self.config.cls_task == "none" else self._make_pairs(taken, rows, trained)

    def _make_pairs(self, taken: list[int], rows: list[np.ndarray], trained: int) -> tuple[list[np.ndarray], Tensor]:
        """Rows of which a share are pairs: a sentence and the next one, that one or another, in order or not."""
        follows_N = torch.full((len(rows),), -1)
        for row in np.flatnonzero(self.rng.random(len(rows)) < self.config.pair_share):
            first, second = taken[row], min(taken[row] + 1, trained - 1)
            if follows := int(self.rng.random() < 0.5):
                pass
            elif self.config.cls_task == "next_sentence":
                second = int(self.rng.integers(trained))
            else:
                first, second = second, first
            rows[row], follows_N[row] = self.corpus.pair(first, second, self.config.max_sentence), follows
        return rows, follows_N


def mask_rows(
    rows: list[np.ndarray], corpus: Corpus, ratio: float, rng: np.random.Generator, follows_N: Tensor | None = None
) -> MaskedBatch:
    """Mask and pack rows."""
    original = np.concatenate(rows)
    special = (original == corpus.cls_id) | (original == corpus.sep_id)
    ids, chosen = mask_tokens(
        original, ~special, ratio=ratio, mask_id=corpus.mask_id, vocab_size=corpus.vocab_size, rng=rng
    )
    lengths = np.array([len(r) for r in rows])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    packed = pack(ids, starts, lengths)
    target = pack(np.where(chosen, original, -1), starts, lengths, pad_id=-1).ids_T
    at_M = torch.nonzero(target >= 0).squeeze(1)
    return MaskedBatch(packed, at_M, target[at_M], int(lengths.sum()), follows_N)
