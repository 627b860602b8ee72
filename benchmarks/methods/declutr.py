"""DeCLUTR's training step as its authors wrote it, rebuilt plainly on transformers, and documents to train on.

Anchors and positives are padded to the longest span of each, every position of an anchor gets vocabulary logits, and
NT-Xent is written out. The batch is the one that our own step reads; the weights are our session's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.methods.peers import TEMPERATURE, padded, unpacked, with_dropout
from cse_train.backbone.transformers_io import masked_lm_to_transformers
from cse_train.methods.base import Batch
from cse_train.training.loop import Session

SPANS = {"method.min_length": 32, "method.max_length": 128, "method.anchors": 2, "method.positives": 2}
"""A quarter of the paper's longest span: with its 512 the authors' logits alone would take 2 GB."""
IGNORED = -100
"""The label of a position that no loss reads."""


def documents(texts: Sequence[str], words: int = 700) -> list[str]:
    """Successive sentences joined into documents of at least so many words."""
    made, current = [], ""
    for text in texts:
        current = f"{current} {text}".strip()
        if len(current.split()) >= words:
            made.append(current)
            current = ""
    return made


class DeCLUTRPeer(nn.Module):
    """Masked-LM and embedding of the anchors in one pass, the positives in another (released model.py:100-178)."""

    def __init__(self, session: Session, dropout: float | None) -> None:
        super().__init__()
        from transformers import BertForMaskedLM

        ours: Any = session.model
        model = BertForMaskedLM(ours.encoder.config)
        model.load_state_dict(masked_lm_to_transformers(ours.encoder, ours.head), strict=False)
        self.bert = with_dropout(model, dropout).train()
        self.positives = ours.config.positives

    def forward(self, batch: Batch) -> Tensor:
        anchors = batch.inputs["anchors"]
        labels_T = torch.full_like(anchors.ids_T, IGNORED)
        labels_T[batch.tensors["at_M"]] = batch.tensors["target_M"]
        ids, mask = padded(unpacked(anchors))
        labels = torch.tensor(np.array([_filled(row, ids.shape[1]) for row in anchors.unpacked(labels_T)]))
        out = self.bert(ids, mask, labels=labels, output_hidden_states=True)
        embedded = _mean(out.hidden_states[-1], mask)
        ids, mask = padded(unpacked(batch.inputs["positives"]))
        beside = _mean(self.bert.bert(ids, mask).last_hidden_state, mask)
        return out.loss + _nt_xent(embedded, beside.view(len(embedded), self.positives, -1).mean(1))


def _filled(row: np.ndarray, width: int) -> np.ndarray:
    return np.pad(row, (0, width - len(row)), constant_values=IGNORED)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def _nt_xent(anchors: Tensor, positives: Tensor) -> Tensor:
    both = F.normalize(torch.cat([anchors, positives]), dim=-1)
    cosines = both @ both.T / TEMPERATURE
    cosines = cosines.masked_fill(torch.eye(len(both), dtype=torch.bool), float("-inf"))
    return F.cross_entropy(cosines, torch.arange(len(both)).roll(len(anchors)))
