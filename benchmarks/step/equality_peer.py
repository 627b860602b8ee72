"""SimCSE's released step on the batches of one of our sessions, from the same weights."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.step.peers import SimCSEModel
from cse_train.training.loop import Session
from cse_train.training.optimiser import learning_rate

RATE = 1e-4


class Peer:
    """The released step: transformers' model, both views padded to the batch's longest, and torch's AdamW."""

    def __init__(self, session: Session, folder: Path, dropout: float) -> None:
        self.session = session
        self.model = SimCSEModel(folder).train()
        for module in self.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
            if hasattr(module, "dropout_prob"):
                module.dropout_prob = dropout
        ours: Any = session.model
        self.model.mlp.load_state_dict(ours.pooler.projector.dense.state_dict())
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=RATE, weight_decay=0.0)

    def loss(self, step: int) -> Tensor:
        """Of the sentences that our session draws in this step."""
        batch = self.session.run.train.batch_size
        column = self.session.batches.store.column("text")
        rows = self.session.batches.order[step * batch : (step + 1) * batch]
        loss: Tensor = self.model(**padded([column.row(row) for row in rows]))["loss"]
        return loss

    def update(self, step: int) -> float:
        """One optimiser step at our session's rate, which falls by a share of 6e-6 a step; gives its loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.session.run.train, step)
        loss = self.loss(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss.item()


def padded(rows: list[np.ndarray]) -> dict[str, Tensor]:
    """Both views [B, 2, L] of token rows, as the released collator lays them out."""
    width = max(map(len, rows))
    ids = torch.tensor(np.array([np.pad(row, (0, width - len(row))) for row in rows]), dtype=torch.long)
    real = torch.arange(width)[None] < torch.tensor([len(row) for row in rows])[:, None]
    batch = {"input_ids": ids, "attention_mask": real.long(), "token_type_ids": torch.zeros_like(ids)}
    return {name: tensor.unsqueeze(1).repeat(1, 2, 1) for name, tensor in batch.items()}
