"""Table of fixed word vectors, which InferSent reads in place of a transformer.

Shape suffixes: V rows of the table, D numbers of a vector, N sequences, K words with a vector.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cse_train.encoder.packing import Packed
from cse_train.fields import ConfigError


class WordVectors(nn.Module):
    """Table of word vectors, which is not trained; a state dict holds only the hash of the file it comes from."""

    vectors_VD: Tensor
    digest: Tensor
    config = None
    """Configuration of transformers: None, because word vectors have no positions and no dropout."""

    def __init__(self, name: str, vectors_VD: Tensor, digest: str) -> None:
        super().__init__()
        self.name = name
        self.register_buffer("vectors_VD", vectors_VD, persistent=False)
        self.register_buffer("digest", torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8))

    @property
    def width(self) -> int:
        """Number of numbers in a vector, D."""
        return self.vectors_VD.shape[1]

    def forward(self, packed: Packed) -> tuple[Tensor, Tensor]:
        """Returns vectors [K, D] of the words that have one, sequence after sequence, and their counts int64 [N].

        Both are in the order of the pack, not of the batch. Words without a vector are left out (InferSent models.py,
        prepare_samples). The marks of begin and end always have a vector, so that every sequence has two at least.
        """
        has_vector_T = packed.attended_T() & (packed.ids_T < len(self.vectors_VD))
        counts_N = torch.bincount(packed.row_T()[has_vector_T], minlength=packed.rows)
        return self.vectors_VD[packed.ids_T[has_vector_T]], counts_N

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}digest")
        if stored is not None and not torch.equal(stored.to(self.digest.device), self.digest):
            line = f"other word vectors: train.encoder={self.name} is not the file that the run was trained with"
            raise ConfigError([f"{line}; put that file there again"])
        super()._load_from_state_dict(state_dict, prefix, *args)
