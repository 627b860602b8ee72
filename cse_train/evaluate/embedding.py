"""Encoding of texts for evaluation: each distinct text once, in batches of similar length, shared among the ranks.

Shape suffixes: N texts, U distinct texts, D embedding size.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cse_train import distributed
from cse_train.encoder.packing import Packed, pack
from cse_train.evaluate.pairs import Pairs
from cse_train.evaluate.vectors import EmbeddedPairs, unit
from cse_train.fields import ConfigError
from cse_train.text.tokens import tokenise

EMBEDDED_ROWS = 128
"""Most texts in a batch of the evaluation."""
EMBEDDED_SLOTS = 8192
"""Most tokens in a batch of the evaluation, so that 512-token texts do not need 40 times the memory."""

Encode = Callable[[Packed], Tensor]
"""Function from a packed batch to its embeddings [texts, D]."""


class NotFinite(ValueError):
    """Raised when embeddings hold NaN or infinity: the run diverged, or its weights are damaged."""


class Embedder:
    """Tokenises texts once, each behind the prompt, and encodes every distinct text once per call.

    The batches depend on the texts alone and are dealt to the ranks in turn, so that every world size computes the same
    numbers. The caller sets eval mode (`evaluating`). An empty text is encoded as its special tokens; ConfigError where
    the tokenizer adds none.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Any, max_length: int, prompt: str = "") -> None:
        distinct = list(dict.fromkeys(texts))
        row_of = {text: row for row, text in enumerate(distinct)}
        self.rows_N = np.array([row_of[text] for text in texts])
        """Row of each given text among the U distinct texts."""
        self.pad_id = tokenizer.pad_token_id or 0
        flat, self.lengths, _ = tokenise([prompt + text for text in distinct], tokenizer, max_length)
        if self.lengths.min() < 1:
            text = distinct[int(self.lengths.argmin())]
            raise ConfigError([f"empty sentence: text={text!r} has no token, not even a special one; leave it out"])
        self.flat = flat.astype(np.int64)
        self.batches = batches_of(self.lengths)
        self.packed: dict[int, Packed] = {}

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> np.ndarray:
        """Returns the embeddings float64 [U, D] of the distinct texts in order of appearance, equal on every rank."""
        size = distributed.size()
        with torch.inference_mode():
            mine = [encode(self._pack(at).to(device)).float() for at in self._share(distributed.rank(), size)]
            joined = distributed.all_gather_rows(torch.cat(mine)).cpu().double().numpy()
        # A batch that a rank repeats is written twice, with equal numbers.
        rows = np.concatenate([self.batches[at] for rank in range(size) for at in self._share(rank, size)])
        embeddings_UD = np.empty((len(self.lengths), joined.shape[1]))
        embeddings_UD[rows] = joined
        return embeddings_UD

    def _share(self, rank: int, size: int) -> list[int]:
        """Returns a rank's batches; a rank without any repeats the first, so that it takes part in the gather."""
        return list(range(rank, len(self.batches), size)) or [0]

    def _pack(self, at: int) -> Packed:
        if at not in self.packed:
            rows = self.batches[at]
            starts = np.cumsum(self.lengths) - self.lengths
            self.packed[at] = pack(self.flat, starts[rows], self.lengths[rows], pad_id=self.pad_id, groups=2)
        return self.packed[at]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Sets eval mode inside the block; afterwards every module's mode and torch's random state are as before.

    Eval mode leaves BatchNorm's running statistics alone, so that training goes on as if nothing had been scored.
    """
    modes = [(module, module.training) for module in model.modules()]
    # Without a list, fork_rng saves the state of every card of the machine.
    cards = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(cards):
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


def batches_of(lengths: np.ndarray) -> list[np.ndarray]:
    """Divides texts into batches by length: each batch is the rows of its texts, at most EMBEDDED_ROWS of them."""
    order = np.argsort(lengths, kind="stable")
    batches, first = [], 0
    while first < len(order):
        count = min(EMBEDDED_ROWS, len(order) - first)
        while count > 1 and count * lengths[order[first + count - 1]] > EMBEDDED_SLOTS:
            count -= 1
        batches.append(order[first : first + count])
        first += count
    return batches


def require_finite(embeddings_UD: np.ndarray, name: str, advice: str = "lower train.learning_rate") -> None:
    """Raises NotFinite, with `advice` at its end, when an embedding of the set or model `name` is not finite."""
    bad = int((~np.isfinite(embeddings_UD).all(axis=1)).sum())
    if bad:
        rule = f"not finite: {bad} of {len(embeddings_UD)} embeddings of {name} are NaN or infinite"
        raise NotFinite(f"{rule}; {advice}")


class StsEvaluator:
    """Evaluates an encoder on one graded set, any number of times; the texts are tokenised once.

    The caller sets eval mode and keeps the training's random state (`evaluating`).
    """

    def __init__(self, pairs: Pairs, tokenizer: Any, max_length: int = 512, prompt: str = "") -> None:
        self.pairs, self.content_hash = pairs, pairs.content_hash
        texts = (*pairs.left, *pairs.right)
        self.texts = tuple(dict.fromkeys(texts))
        """The U distinct texts of the set, in the order of their embeddings."""
        self.embedder = Embedder(texts, tokenizer, max_length, prompt)

    def __call__(self, encode: Encode, device: str | torch.device = "cpu") -> EmbeddedPairs:
        """Encodes this rank's share of the texts, joins all shares, and scores. Raises NotFinite."""
        return self.score(self.embedder(encode, device))

    def score(self, embeddings_UD: np.ndarray) -> EmbeddedPairs:
        """Scores embeddings of the distinct texts, in the order of `texts`. Raises NotFinite for NaN or infinity."""
        require_finite(embeddings_UD, self.pairs.name)
        left_rows, right_rows = np.split(self.embedder.rows_N, 2)
        return EmbeddedPairs(self.pairs, self.texts, unit(embeddings_UD), left_rows, right_rows)
