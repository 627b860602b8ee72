"""A first-in first-out store of past embeddings (MoCo, ESimCSE 3.2)."""

from typing import Any

import torch
from torch import Tensor, nn


class Queue(nn.Module):
    """Queue of the newest embeddings, oldest first; holds at most `multiple` times the rows of one `enqueue`.

    The size follows from the batch (ESimCSE: 2.5 x 64 = 160) and need not divide it.
    """

    rows_MD: Tensor

    def __init__(self, multiple: float) -> None:
        super().__init__()
        self.multiple = multiple
        # Its number of rows changes, and load_state_dict refuses another shape: it is saved as extra state.
        self.register_buffer("rows_MD", torch.empty(0, 0), persistent=False)

    @torch.no_grad()
    def enqueue(self, embeddings_BD: Tensor) -> None:
        """Appends one batch and drops the oldest rows beyond the size."""
        most = round(self.multiple * len(embeddings_BD))
        new = embeddings_BD.detach().float()
        rows = new if self.rows_MD.numel() == 0 else torch.cat([self.rows_MD, new])
        self.rows_MD = rows[max(0, len(rows) - most) :]

    def __len__(self) -> int:
        return len(self.rows_MD)

    def get_extra_state(self) -> Tensor:
        return self.rows_MD

    def set_extra_state(self, state: Any) -> None:
        self.rows_MD = state.to(self.rows_MD.device)
