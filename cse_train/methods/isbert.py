"""IS-BERT (Zhang et al., EMNLP 2020): a sentence vector that tells the n-grams of its sentence from all others.

Shape suffixes: N sequences, G sequences of all ranks, T packed slots, M slots of real tokens, R rows of a group, W
slots of a row, H width.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.distributed import all_reduce_sum_with_grad, mean_over_ranks, rank, size
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.packing import Packed, pack
from cse_train.losses import jensen_shannon, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.isbert import Config as Config


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to one pack of their texts."""

    pad_id: int

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows
        return Batch(
            {"text": pack(column.flat, column.starts[rows], column.lengths[rows], pad_id=self.pad_id)}, len(rows)
        )


class NgramHeads(nn.Module):
    """Convolutions over token vectors, their channels side by side, as wide together as the encoder (equation 1).

    A sentence is padded with zeros on both sides, alone as in a batch.
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        kernels = [int(kernel) for kernel in config.kernels.split(",")]
        channels = [width // len(kernels) + (index < width % len(kernels)) for index in range(len(kernels))]
        pairs = zip(channels, kernels, strict=True)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, out, kernel, padding=kernel // 2) for out, kernel in pairs)
        self.rectified = config.activation == "relu"

    def forward(self, tokens_RWH: Tensor) -> Tensor:
        """Returns n-gram vectors [R, W, H] of token vectors [R, W, H], which must be zero behind a sentence's end."""
        columns_RHW = tokens_RWH.transpose(1, 2)
        ngrams_RHW = torch.cat([convolution(columns_RHW) for convolution in self.convolutions], dim=1)
        return (ngrams_RHW.relu() if self.rectified else ngrams_RHW).transpose(1, 2)


class ISBERT(Method[Config]):
    """IS-BERT: an encoder and n-gram heads; an embedding is the mean of a sentence's n-gram vectors."""

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        return True

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.encoder = backbone.encoder
        self.heads = NgramHeads(config, backbone.encoder.width)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes equation 3 over the batch of all ranks, whose other sentences are the negatives."""
        packed = batch.inputs["text"]
        ngrams_TH, sentences_NH = self._embed(packed)
        before = rank() * len(sentences_NH)
        after = (size() - 1) * len(sentences_NH) - before
        sentences_GH = all_reduce_sum_with_grad(F.pad(sentences_NH, (0, 0, before, after)))
        at_M = packed.attended_M()
        own_M = packed.order_N[packed.row_T()[at_M]] + before
        loss = mean_over_ranks(*jensen_shannon(ngrams_TH[at_M], sentences_GH, own_M))
        cls_NH = ngrams_TH[packed.first_VN()]
        return StepOutput(loss, {"loss": loss.detach(), **view_statistics(cls_NH, sentences_NH[packed.order_N])})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time: [N, H] in batch order."""
        return self._embed(packed)[1]

    def _embed(self, packed: Packed) -> tuple[Tensor, Tensor]:
        """Returns n-gram vectors [T, H] of all slots, zero behind a sentence's end, and their means [N, H] in order."""
        last_TH = self.encoder(packed, tokens=True).tokens_TH
        real_T1 = packed.attended_T()[:, None]
        blocks = [self.heads(block) for _, block in packed.split(last_TH * real_T1)]
        ngrams_TH = torch.cat([block.flatten(0, 1) for block in blocks]) * real_T1
        sums = [block.sum(1) for _, block in packed.split(ngrams_TH)]
        means_NH = torch.cat(sums) / packed.lengths_N[:, None]
        rows = [group.rows for group in packed.groups]
        return ngrams_TH, packed.unsort(means_NH.split(rows), 1)[0]
