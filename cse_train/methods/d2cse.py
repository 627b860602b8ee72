"""D2CSE (Lee, 2023): prompts on one frozen encoder that also detects replaced tokens, given the embedding.

No code is released. What the paper leaves open follows DiffCSE: the embedding is the projector's output and takes the
[CLS] slot of the detector, whose head is Linear(H, 2); the corruption is greedy and made once. Shape suffixes: V views,
N sequences, B examples of this rank, G examples of all ranks, H width, T packed slots.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from cse_train.backbone.backbone import Backbone, own_encoder
from cse_train.distributed import gather_with_grad, mean_over_ranks
from cse_train.encoder.encoder import Encoder
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.generator.corruption import CorruptionRule, add_corrupted, name_corrupted
from cse_train.losses import info_nce, replaced_token, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.d2cse import Config as Config
from cse_train.modules.pooling import SentencePooler
from cse_train.modules.prompts import ContinuousPrompts, PromptedEncoder, require_positions
from cse_train.text.tokens import TokenStore

WHY = "prompts need attention of our own"
"""Reason, for a message, why D2CSE needs an encoder of this project."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to "text", column after column, and "corrupted", one per embedding, with "replaced_T"."""

    config: Config
    pad_id: int

    def __call__(self, share: Share) -> Batch:
        names = D2CSE.columns(self.config)
        originals, corruptions = (
            [share.store.column(name).row(i) for name in wanted for i in share.rows]
            for wanted in (names, tuple(map(name_corrupted, names)))
        )
        copies = 2 if len(names) == 1 else 1
        replaced = [new != old for new, old in zip(corruptions, originals, strict=True)]
        packs = {
            "text": pack_lists(originals, pad_id=self.pad_id),
            "corrupted": pack_lists(corruptions * copies, pad_id=self.pad_id, **self._padding(share)),
        }
        replaced_T = pack_lists(replaced * copies, **self._padding(share)).ids_T.bool()
        return Batch(packs, len(share.rows), {"replaced_T": replaced_T})

    def _padding(self, share: Share) -> dict[str, int]:
        """Returns the width of packs where a mean counts padding: the longest sentence of all ranks; else nothing."""
        if self.config.reduction != "mean_all":
            return {}
        lengths = [share.store.column(name).lengths[share.batch_rows] for name in D2CSE.columns(self.config)]
        return {"groups": 1, "width": int(np.max(lengths))}


class D2CSE(Method[Config]):
    """D2CSE: a frozen encoder behind trainable prompts, a pooler and, in training, the detector of replaced tokens."""

    TRAINING_ONLY = ("head.", "discriminator.")
    """Prefixes of the state that only training needs: the detector's head and copy of the encoder."""

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store with its corrupted columns. ConfigError where prompts or generator do not fit."""
        longest = max(int(store.column(name).lengths.max()) for name in cls.columns(config))
        require_positions(own_encoder(backbone, WHY), config.prompt_length, config.position_shift, longest)
        rule = CorruptionRule(
            config.generator, config.masking_ratio, config.corruption_seed, config.corrupted_positions
        )
        return add_corrupted(store, cls.columns(config), rule, backbone, cache)

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration."""
        return Collate(config, tokenizer.pad_token_id)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        super().__init__()
        self.config = config
        encoder = own_encoder(backbone, WHY)
        prompts = ContinuousPrompts(
            encoder.config, config.prompt_length, shift=config.position_shift, dropout=config.prompt_dropout
        )
        cls_id = backbone.tokenizer.cls_token_id if config.cls_prompt else None
        self.prompted = PromptedEncoder(encoder, prompts, cls_id)
        self.pooler = SentencePooler(config.pooler, encoder.width, config.projector)
        self.head = nn.Linear(encoder.width, 2) if training else None
        self.discriminator: Encoder | None = None
        if training and config.framework == "b":
            self.discriminator = copy.deepcopy(encoder).requires_grad_(True)

    def forward(self, batch: Batch) -> StepOutput:
        embeddings_NH = self._embeddings(batch.inputs["text"])
        views = [gather_with_grad(view_BH) for view_BH in embeddings_NH.split(batch.examples)]
        contrastive = info_nce(
            views[0],
            views[1],
            hard_negatives_BD=views[2] if len(views) == 3 else None,
            hard_negative_weight=self.config.hard_negative_weight,
            temperature=self.config.temperature,
        )
        detection, metrics = self._detection(batch, embeddings_NH)
        loss = contrastive + self.config.lambda_weight * detection
        parts = {"loss": loss.detach(), "loss_contrastive": contrastive.detach(), "loss_rtd": detection.detach()}
        return StepOutput(loss, {**parts, **metrics, **view_statistics(views[0], views[1])})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time, with prompts: [N, H] in batch order."""
        return self.pooler(self.prompted(packed, tokens=self.pooler.needs_tokens))[0]

    def _embeddings(self, packed: Packed) -> Tensor:
        """Returns both views, or all columns, one after the other: [2 * B, H] or [3 * B, H]."""
        copies = 2 if self.config.objective == "unsupervised" else 1
        return self.pooler(self.prompted(packed, views=copies, tokens=self.pooler.needs_tokens)).flatten(0, 1)

    def _detection(self, batch: Batch, embeddings_NH: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the replaced-token loss over the sentences of all embeddings, and metrics of the detection."""
        packed, replaced_T = batch.inputs["corrupted"], batch.tensors["replaced_T"]
        assert self.head is not None
        logits_T2 = self.head(self._detector_hidden(packed, embeddings_NH))
        attended_T = packed.attended_T()
        loss = mean_over_ranks(*replaced_token(logits_T2, replaced_T, attended_T, self.config.reduction))
        right = (logits_T2.argmax(1) == replaced_T) & attended_T
        tokens = attended_T.sum()
        return loss, {"replaced_fraction": replaced_T.sum() / tokens, "rtd_accuracy": right.sum() / tokens}

    def _detector_hidden(self, packed: Packed, embeddings_NH: Tensor) -> Tensor:
        """Returns the last layer [T, H] of figure 3's discriminator."""
        if self.config.framework == "c":
            hidden = self.prompted(packed, tokens=True)
        elif self.config.framework == "d":
            hidden = self.prompted(packed, tokens=True, cls_output_NH=embeddings_NH)
        else:
            bare = self.discriminator or self.prompted.encoder
            hidden = bare(packed, tokens=True, cls_output_NH=embeddings_NH)
        assert hidden.last_TH is not None
        return hidden.last_TH
