"""ESimCSE (Wu et al., COLING 2022): sub-word repetition on the second view, and a queue of momentum embeddings.

Shape suffixes: N sequences, B examples of this rank, G of all ranks, H width.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from cse_train.distributed import all_gather_rows, gather_with_grad
from cse_train.fields import Range
from cse_train.losses.info_nce import info_nce
from cse_train.methods.base import Batch, Share, StepOutput
from cse_train.modules.backbone import Backbone
from cse_train.modules.momentum import MomentumEncoder
from cse_train.modules.packing import Packed, pack, pack_lists
from cse_train.modules.pooling import SentencePooler
from cse_train.modules.queue import Queue
from cse_train.observe import view_statistics
from cse_train.text.augment import repeat_subwords

VERSION = 1

TRAINING_ONLY = ("momentum.", "queue.")
"""State that `encode` does not need: kept in the last checkpoint, left out of the best."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the paper's for BERT-base."""

    pooler: Literal["cls", "cls_train_only", "cls_no_mlp", "mean", "first_last", "first_last_layer1"] = "cls_train_only"
    """As SimCSE's."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    dup_rate: Annotated[float, Range(low=0, below=1)] = 0.32
    """Largest share of the sub-words that is doubled in view 2; 0 for off."""
    dup_rule: Literal["paper", "released"] = "paper"
    """Number of doubled sub-words: paper eq. 3, or the released train.py:498-531, which doubles fewer."""
    queue_multiple: Annotated[float, Range(low=0)] = 2.5
    """Queue size as a multiple of the batch; 0 for no queue and no momentum encoder."""
    momentum: Annotated[float, Range(low=0, high=1)] = 0.995
    """Decay of the momentum encoder."""
    momentum_init: Literal["pretrained", "random"] = "pretrained"
    """Where the momentum encoder starts: the paper means pretrained, the released code starts from random weights."""
    queue_scope: Literal["gathered", "local"] = "gathered"
    """One queue of all ranks' embeddings (any world size gives the same run), or one per rank as released."""


def rank_dependent(config: Config) -> bool:
    """Whether the result depends on the world size."""
    return config.queue_scope == "local" and config.queue_multiple > 0


@dataclass(frozen=True)
class Collate:
    """Corpus rows -> views 1 and 2 in one pack, and view 1 alone for the momentum encoder."""

    config: Config
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        rows = share.rows
        column = share.store.column("text")
        anchors = [column.row(i) for i in rows]
        repeated = [
            repeat_subwords(ids, self.config.dup_rate, share.rng_of(int(i)), self.config.dup_rule)
            for i, ids in zip(rows, anchors, strict=True)
        ]
        inputs = {"views": pack_lists([*anchors, *repeated], pad_id=self.pad_id)}
        if self.config.queue_multiple:
            inputs["anchors"] = pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=self.pad_id)
        return Batch(inputs, len(rows))


def make_collate(config: Config, tokenizer, max_seq_length: int) -> Collate:
    """The collate function of a configuration."""
    return Collate(config, tokenizer.pad_token_id)


class ESimCSE(nn.Module):
    """SimCSE's loss with repeated sub-words in view 2 and momentum embeddings of earlier batches as negatives.

    The order of a step is the released one (trainers.compute_loss, models.py:123-163): momentum update towards the
    pre-step encoder, loss against the queue, then view 1 through the momentum encoder, without dropout and with the
    ONLINE projector, into the queue. So the queue never holds the current batch.
    """

    def __init__(self, config: Config, backbone: Backbone, training: bool) -> None:
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width)
        self.queue = Queue(config.queue_multiple)
        self.momentum: MomentumEncoder | None = None
        if config.queue_multiple and training:
            self.momentum = MomentumEncoder(self.encoder, config.momentum, config.momentum_init)

    def forward(self, batch: Batch) -> StepOutput:
        if self.momentum is not None:
            self.momentum.update(self.encoder)
        pooled_NH = self.pooler(self.encoder(batch.inputs["views"], tokens=self.pooler.needs_tokens))[0]
        anchors_GH, positives_GH = (gather_with_grad(view) for view in pooled_NH.split(batch.examples))
        negatives = self.queue.rows_MD if len(self.queue) else None
        loss = info_nce(anchors_GH, positives_GH, negatives, temperature=self.config.temperature)
        metrics = {"queue_rows": loss.new_tensor(len(self.queue)), **view_statistics(anchors_GH, positives_GH)}
        if self.momentum is not None:
            self._enqueue(batch.inputs["anchors"])
        return StepOutput(loss, {"loss": loss.detach(), **metrics})

    def encode(self, packed: Packed) -> Tensor:
        """Test-time embeddings [N, H]."""
        return self.pooler(self.encoder(packed, tokens=self.pooler.needs_tokens))[0]

    @torch.no_grad()
    def _enqueue(self, anchors: Packed) -> None:
        assert self.momentum is not None
        embedded_BH = self.pooler(self.momentum(anchors, tokens=self.pooler.needs_tokens))[0]
        self.queue.enqueue(all_gather_rows(embedded_BH) if self.config.queue_scope == "gathered" else embedded_BH)


def build(config: Config, backbone: Backbone, training: bool = True) -> ESimCSE:
    """A trainable module over a backbone."""
    return ESimCSE(config, backbone, training)
