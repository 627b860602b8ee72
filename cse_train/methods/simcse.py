"""SimCSE (Gao et al., EMNLP 2021): dropout as augmentation, or NLI triplets.

Shape suffixes: V views, N sequences, B examples of this rank, G examples of all ranks, H width, M masked positions.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from cse_train.distributed import gather_with_grad, mean_over_ranks
from cse_train.fields import ConfigError, Range
from cse_train.losses.info_nce import info_nce
from cse_train.losses.masked_lm import masked_lm
from cse_train.methods.base import Batch, Share, StepOutput
from cse_train.modules.backbone import Backbone
from cse_train.modules.encoder import Encoder
from cse_train.modules.masked_lm_head import MaskedLMHead
from cse_train.modules.packing import Packed, pack, pack_lists
from cse_train.modules.pooling import SentencePooler
from cse_train.observe import view_statistics
from cse_train.text.masking import mask_tokens

VERSION = 1

TRIPLET_COLUMNS = ("sent0", "sent1", "hard_neg")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the paper's for unsupervised BERT."""

    objective: Literal["unsupervised", "pairs", "triplets"] = "unsupervised"
    """Two dropout views of one sentence, or the sent0, sent1 (, hard_neg) columns of an NLI file."""
    pooler: Literal["cls", "cls_train_only", "cls_no_mlp", "mean", "first_last", "first_last_layer1"] = "cls_train_only"
    """[CLS] with MLP, with MLP in training only, without MLP; mean; mean of embedding + last, or layer 1 + last."""
    temperature: Annotated[float, Range(above=0)] = 0.05
    """Divides the cosines."""
    hard_negative_weight: Annotated[float, Range(above=0)] = 1.0
    """The weight a of an example's own hard negative (paper, appendix; the released flag is log a)."""
    fixed_dropout: bool = False
    """Use one dropout mask for both views ("Fixed 0.1" in the dropout table): one pass, z2 = z1."""
    mlm_weight: Annotated[float, Range(above=0)] | None = None
    """Weight of the masked-LM auxiliary loss (released: 0.1); null for off."""
    mlm_probability: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens that the auxiliary loss masks."""


def columns(config: Config) -> tuple[str, ...]:
    """The text columns that this configuration reads."""
    return {"unsupervised": ("text",), "pairs": TRIPLET_COLUMNS[:2], "triplets": TRIPLET_COLUMNS}[config.objective]


@dataclass(frozen=True)
class Collate:
    """Corpus rows -> a packed batch; all columns share one pack, column after column."""

    config: Config
    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        rows = share.rows
        texts = [share.store.column(name) for name in columns(self.config)]
        if len(texts) == 1:
            text = pack(texts[0].flat, texts[0].starts[rows], texts[0].lengths[rows], pad_id=self.pad_id)
        else:
            text = pack_lists([column.row(i) for column in texts for i in rows], pad_id=self.pad_id)
        inputs = {"text": text}
        tensors: dict[str, Tensor] = {}
        if self.config.mlm_weight is not None:
            rngs = [share.rng_of(int(i)) for i in rows]
            views = texts * 2 if len(texts) == 1 else texts
            sentences = [(column.row(i), rng) for column in views for i, rng in zip(rows, rngs, strict=True)]
            inputs["masked"], tensors["at_M"], tensors["target_M"] = self._masked(sentences)
        return Batch(inputs, len(rows), tensors)

    def _masked(self, sentences: list[tuple[np.ndarray, np.random.Generator]]) -> tuple[Packed, Tensor, Tensor]:
        masked, targets = [], []
        for ids, rng in sentences:
            maskable = ~np.isin(ids, self.special_ids)
            ratio = self.config.mlm_probability
            new, chosen = mask_tokens(
                ids, maskable, ratio=ratio, mask_id=self.mask_id, vocab_size=self.vocab_size, rng=rng
            )
            masked.append(new)
            targets.append(np.where(chosen, ids, -1))
        target_T = pack_lists(targets, pad_id=-1).ids_T
        at_M = torch.nonzero(target_T >= 0).squeeze(1)
        return pack_lists(masked, pad_id=self.pad_id), at_M, target_T[at_M]


def make_collate(config: Config, tokenizer, max_seq_length: int) -> Collate:
    """The collate function of a configuration."""
    special = tuple(tokenizer.all_special_ids)
    return Collate(config, tokenizer.mask_token_id, special, len(tokenizer), tokenizer.pad_token_id)


class SimCSE(nn.Module):
    """Encoder, pooler and, when asked for, the masked-LM head."""

    def __init__(self, config: Config, backbone: Backbone) -> None:
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width)
        self.head = _head(config, backbone)

    def forward(self, batch: Batch) -> StepOutput:
        views = [gather_with_grad(view_BH) for view_BH in self._views(batch.inputs["text"], batch.examples)]
        loss = info_nce(
            views[0],
            views[1],
            hard_negatives_BD=views[2] if len(views) == 3 else None,
            hard_negative_weight=self.config.hard_negative_weight,
            temperature=self.config.temperature,
        )
        metrics = {"loss_contrastive": loss.detach(), **view_statistics(views[0], views[1])}
        if self.config.mlm_weight is not None:
            auxiliary = self._masked_lm_loss(batch)
            metrics["loss_mlm"] = auxiliary.detach()
            loss = loss + self.config.mlm_weight * auxiliary
        return StepOutput(loss, {"loss": loss.detach(), **metrics})

    def encode(self, packed: Packed) -> Tensor:
        """Test-time embeddings [N, H]."""
        return self.pooler(self.encoder(packed, tokens=self.pooler.needs_tokens))[0]

    def _views(self, packed: Packed, examples: int) -> list[Tensor]:
        copies = 2 if self.config.objective == "unsupervised" and not self.config.fixed_dropout else 1
        pooled_VNH = self.pooler(self.encoder(packed, views=copies, tokens=self.pooler.needs_tokens))
        rows = [view for pooled in pooled_VNH for view in pooled.split(examples)]
        return rows * 2 if self.config.objective == "unsupervised" and self.config.fixed_dropout else rows

    def _masked_lm_loss(self, batch: Batch) -> Tensor:
        assert self.head is not None and isinstance(self.encoder, Encoder)
        hidden = self.encoder(batch.inputs["masked"], tokens=True)
        assert hidden.last_TH is not None
        logits = self.head(hidden.last_TH[batch.tensors["at_M"]], self.encoder.word.weight)
        return mean_over_ranks(*masked_lm(logits, batch.tensors["target_M"]))


def _head(config: Config, backbone: Backbone) -> MaskedLMHead | None:
    if config.mlm_weight is None:
        return None
    if backbone.head is None:
        line = f"no masked-LM head: method.mlm_weight={config.mlm_weight}, train.encoder={backbone.name}"
        raise ConfigError([f"{line}; choose an encoder that ships its head, or null"])
    return backbone.head


def build(config: Config, backbone: Backbone, training: bool = True) -> SimCSE:
    """A trainable module over a backbone."""
    return SimCSE(config, backbone)
