"""DiffCSE's and ESimCSE's training steps as their authors wrote them, rebuilt plainly on transformers.

Both read the batch that our own step reads, so that augmentation and masking cost neither side anything; they pad to
the batch's longest and run every encoder whole. Weights come from our session, so that first losses can be compared.
"""

import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.backbone.folders import locate
from cse_train.backbone.transformers_io import encoder_to_transformers
from cse_train.encoder.packing import Packed
from cse_train.losses.info_nce import info_nce
from cse_train.methods.base import Batch
from cse_train.training.loop import Session

TEMPERATURE = 0.05


def unpacked(packed: Packed) -> list[np.ndarray]:
    """The ids of a pack, in batch order."""
    return packed.unpacked(packed.ids_T)


def padded(rows: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Ids and attention mask [N, L]."""
    width = max(map(len, rows))
    ids = torch.tensor(np.array([np.pad(row, (0, width - len(row))) for row in rows]), dtype=torch.long)
    return ids, (torch.arange(width)[None] < torch.tensor([len(row) for row in rows])[:, None]).long()


def bert_of(session: Session, dropout: float | None) -> Any:
    """transformers' BERT with the weights of our encoder."""
    from transformers import BertModel

    ours: Any = session.model
    model = BertModel(ours.encoder.config, add_pooling_layer=False)
    model.load_state_dict(encoder_to_transformers(ours.encoder), strict=False)
    return with_dropout(model, dropout).train()


def with_dropout(model: nn.Module, rate: float | None) -> nn.Module:
    """The model with another dropout rate; None keeps its own."""
    for module in model.modules():
        if isinstance(module, nn.Dropout) and rate is not None:
            module.p = rate
    return model


class ESimCSEPeer(nn.Module):
    """Both views in one padded pass, a queue of so many batches, and a momentum encoder moved weight by weight."""

    def __init__(self, session: Session, dropout: float | None) -> None:
        super().__init__()
        ours: Any = session.model
        self.bert = bert_of(session, dropout)
        self.projector = copy.deepcopy(ours.pooler.projector)
        self.average = copy.deepcopy(self.bert).requires_grad_(False).eval()
        self.momentum = ours.config.momentum
        self.batches = ours.config.queue_multiple
        self.queue = torch.empty(0, self.bert.config.hidden_size)

    def forward(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            for slow, fast in zip(self.average.parameters(), self.bert.parameters(), strict=True):
                slow.data = slow.data * self.momentum + fast.data * (1 - self.momentum)
        ids, mask = padded(unpacked(batch.inputs["text"]))
        embedded = self.projector(self.bert(ids, mask).last_hidden_state[:, 0])
        loss = info_nce(*embedded.split(batch.examples), self.queue, temperature=TEMPERATURE)
        if not self.batches:
            return loss
        ids, mask = padded(unpacked(batch.inputs["anchors"]))
        with torch.no_grad():
            new = self.projector(self.average(ids, mask).last_hidden_state[:, 0])
        self.queue = torch.cat([self.queue, new])[-round(self.batches * batch.examples) :]
        return loss


class DiffCSEPeer(nn.Module):
    """Both views padded, the generator's logits at every position, and the whole discriminator."""

    def __init__(self, session: Session, dropout: float | None) -> None:
        super().__init__()
        from transformers import BertForMaskedLM

        ours: Any = session.model
        self.bert = bert_of(session, dropout)
        self.projector = copy.deepcopy(ours.pooler.projector)
        self.discriminator = copy.deepcopy(self.bert)
        self.head = copy.deepcopy(ours.discriminator.head)
        self.generator = BertForMaskedLM.from_pretrained(locate(ours.config.generator)).requires_grad_(False).eval()
        self.weight = ours.config.lambda_weight

    def forward(self, batch: Batch) -> Tensor:
        ids, mask = padded(unpacked(batch.inputs["text"]))
        masked, _ = padded(unpacked(batch.inputs["edited"]))
        return self.loss(ids.repeat(2, 1), mask.repeat(2, 1), masked)

    def loss(self, ids: Tensor, mask: Tensor, masked: Tensor) -> Tensor:
        """Of ids, attention mask and masked ids [2B, L], first views in front."""
        pooled = self.bert(ids, mask).last_hidden_state[:, 0]
        embedded = self.projector(pooled.view(2, len(ids) // 2, -1))
        contrastive = info_nce(embedded[0], embedded[1], temperature=TEMPERATURE)
        with torch.no_grad():
            filled = self.generator(masked, mask).logits.argmax(-1)
        filled = torch.where(mask.bool(), filled, 0)
        filled[:, 0] = ids[:, 0]
        replaced = (filled != ids) & mask.bool()
        hidden = self.discriminator.embeddings(input_ids=filled)
        hidden = torch.cat([embedded.flatten(0, 1)[:, None], hidden[:, 1:]], 1)
        bias = (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min
        hidden = self.discriminator.encoder(hidden, attention_mask=bias)[0]
        replaced_loss = F.cross_entropy(self.head(hidden).flatten(0, 1), replaced.flatten().long())
        return contrastive + self.weight * replaced_loss
