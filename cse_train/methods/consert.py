"""ConSERT (Yan et al., ACL 2021): two views of a text whose token embeddings are shuffled or partly cut off.

Shape suffixes: N sequences of both views, B examples of this rank, G of all ranks, T packed slots, H width.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone, own_encoder
from cse_train.encoder.encoder import Hidden
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import nt_xent, view_statistics
from cse_train.methods.base import Batch, Encode, Method, Share, StepOutput
from cse_train.methods.options.consert import Config as Config


def kinds(config: Config) -> tuple[str, str]:
    """Returns the augmentations of view 1 and view 2."""
    return config.augmentation_1, config.augmentation_2


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to one pack, view 1 of all, then view 2, with the positions and kept tokens of each view.

    Augmentations of tokens are drawn from the row's own generator; those of features are dropout's, on the device.
    """

    config: Config
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        column, rows = share.store.column("text"), share.rows.tolist()
        texts, rngs = [column.row(i) for i in rows], [share.rng_of(i) for i in rows]
        positions, kept = [], []
        for kind in kinds(self.config):
            for ids, rng in zip(texts, rngs, strict=True):
                positions.append(rng.permutation(len(ids)) if kind == "shuffle" else np.arange(len(ids)))
                kept.append(self._cut(len(ids), rng) if kind == "token_cutoff" else np.ones(len(ids), dtype=np.int64))
        packed = pack_lists(texts * 2, pad_id=self.pad_id)
        positions_T = torch.where(packed.attended_T(), pack_lists(positions).ids_T, packed.positions_T)
        tensors = {"kept_T": pack_lists(kept).ids_T.bool()}
        return Batch({"text": replace(packed, positions_T=positions_T)}, len(rows), tensors)

    def _cut(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """Returns 1 for tokens that stay: int(rate * length) are cut off (released modeling_bert.py, as features)."""
        return (rng.permutation(length) >= int(self.config.token_cutoff_rate * length)).astype(np.int64)


class ConSERT(Method[Config]):
    """ConSERT: an encoder whose last layers' token vectors are averaged, over other layers in training than at test."""

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        """Returns True: training reads no ids but the corpus's, since no augmentation brings a new one."""
        return True

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(config, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the method; ConfigError for an encoder whose embeddings cannot be changed, and for too many layers."""
        if training and set(kinds(config)) != {"none"}:
            own_encoder(backbone, "method=consert changes what leaves its embedding layer")
        for name, layers in (("layers", config.layers), ("train_layers", config.train_layers or config.layers)):
            states = getattr(backbone.config, "num_hidden_layers", layers) + 1
            if layers > states:
                line = f"too many layers: method.{name}={layers}, train.encoder={backbone.name}"
                raise ConfigError([f"{line} has {states}, its embeddings included; give at most that"])
        super().__init__()
        self.config = config
        self.train_layers = config.train_layers or config.layers
        self.encoder = backbone.encoder

    def forward(self, batch: Batch) -> StepOutput:
        """Computes equation 1: NT-Xent in both directions."""
        packed, changed = batch.inputs["text"], set(kinds(self.config)) != {"none"}
        given = {"kept_TH": self._choose_kept(packed, batch.tensors["kept_T"], batch.examples)} if changed else {}
        pooled_NH = self._pool(self.encoder(packed, layers=True, **given), self.train_layers)
        one_GH, two_GH = (gather_with_grad(view_BH) for view_BH in pooled_NH.split(batch.examples))
        loss = nt_xent(one_GH, two_GH, self.config.temperature)
        scaled = self.config.loss_factor * loss
        return StepOutput(scaled, {"loss": loss.detach(), **view_statistics(one_GH, two_GH)})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time: [N, H] in batch order."""
        return self._pool(self.encoder(packed, layers=True), self.config.layers)

    def dev_encodes(self) -> list[Encode]:
        """Returns the function that embeds for the dev score, by the layers that are averaged in training."""
        return [lambda packed: self._pool(self.encoder(packed, layers=True), self.train_layers)]

    def _pool(self, hidden: Hidden, layers: int) -> Tensor:
        last = hidden.states_TH[-layers:]
        return hidden.mean_VNH(torch.stack(last).mean(0))[0]

    @torch.no_grad()
    def _choose_kept(self, packed: Packed, kept_T: Tensor, examples: int) -> Tensor:
        """Returns bool [T, 1] or [T, H]: the numbers of the embedding output that stay."""
        row_T, kept_TH = packed.row_T(), kept_T[:, None]
        view_T1 = (packed.order_N // examples)[row_T][:, None]
        for view, kind in enumerate(kinds(self.config)):
            if kind == "feature_cutoff":  # all but int(rate * H) features of each row
                order_NH = torch.rand(packed.rows, self.encoder.width, device=kept_T.device).argsort(-1).argsort(-1)
                noise_TH = (order_NH >= int(self.config.feature_cutoff_rate * self.encoder.width))[row_T]
            elif kind == "dropout":
                random_TH = torch.rand(len(row_T), self.encoder.width, device=kept_T.device)
                noise_TH = random_TH >= self.config.dropout_rate
            else:
                continue
            kept_TH = kept_TH & (noise_TH | (view_T1 != view))
        return kept_TH
