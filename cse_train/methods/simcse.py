"""SimCSE (Gao et al., EMNLP 2021): dropout as augmentation, or NLI triplets, and every alternative that it tabulates.

Shape suffixes: V views, N sequences, B examples of this rank, G examples of all ranks, H width, M masked positions.
"""

import copy
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone, auxiliary_head
from cse_train.encoder.generator import Generator, fill_views, pack_views
from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import Packed
from cse_train.encoder.pooling import SentencePooler, has_projector
from cse_train.fields import ConfigError
from cse_train.losses import view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput, contrast, predict_masked
from cse_train.methods.options.simcse import Config as Config
from cse_train.text.augment import WORD_EDITS, WORDS_KEPT, Augment, truncate
from cse_train.text.masking import BLANK
from cse_train.text.synonyms import Synonyms, wordnet_folder
from cse_train.text.tokens import TokenStore

NEXT_ROWS = {"next_sentence": 1, "next_3_sentences": 3}
"""Objective -> number of rows behind a row that may be its positive."""
FIXED_NEEDS = ("unsupervised", "shared", "none")
"""Objective, encoders and augmentation with which `fixed_dropout` can embed both views in one pass."""

Sentences = list[np.ndarray]
"""Token ids of each sentence of a view."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to packs of views or columns, one after the other (`pack_views`), and masked sentences."""

    config: Config
    augment: Augment | None
    masking: Masking

    def __call__(self, share: Share) -> Batch:
        share = replace(share, rng_of=cache(share.rng_of))
        views = self._views(share)
        packs, tensors = self._pack(views)
        if self.config.mlm_weight is not None:
            again = views if len(views) > 1 and self.config.augmentation != "mlm" else views[:1] * 2
            rngs = [share.rng_of(int(i)) for i in share.rows]
            sentences = [ids for view in again for ids in view]
            packs["masked"], tensors["at_M"], tensors["target_M"] = self.masking.pack(sentences, rngs * len(again))
        return Batch(packs, len(share.rows), tensors)

    def _views(self, share: Share) -> list[Sentences]:
        texts = [share.store.column(name) for name in SimCSE.columns(self.config)]
        rows = share.rows.tolist()
        views = [[column.row(i) for i in rows] for column in texts]
        if self.config.objective in NEXT_ROWS:
            furthest = NEXT_ROWS[self.config.objective]
            views.append([texts[0].row(i + int(share.rng_of(i).integers(1, furthest + 1))) for i in rows])
        elif self.augment is not None:
            views[0] = [truncate(ids, self.augment.max_length) for ids in views[0]]
            views.append([self.augment(texts[0], i, share.rng_of(i)) for i in rows])
        return views

    def _pack(self, views: list[Sentences]) -> tuple[dict[str, Packed], dict[str, Tensor]]:
        first, others = views[0], [ids for view in views[1:] for ids in view]
        filling, apart = self.config.augmentation == "mlm", self.config.encoders == "two"
        mask_id = self.masking.mask_id if filling else None
        packs, tensors = pack_views(first, others, apart=apart, mask_id=mask_id, pad_id=self.masking.pad_id)
        if filling:
            original_M = np.concatenate(first)[np.concatenate(others) == BLANK]
            tensors["original_M"] = torch.from_numpy(original_M).long()
        return packs, tensors


class SimCSE(Method[Config]):
    """SimCSE: encoder and pooler; as asked for, also a second pair of them, a masked-LM head and a frozen generator."""

    TRAINING_ONLY = ("second_", "generator.", "head.")

    @classmethod
    def tokens_kept(cls, config: Config, max_seq_length: int) -> int:
        """Returns the tokens kept of a text, more where words are edited before truncation."""
        return max_seq_length * (WORDS_KEPT if config.augmentation in WORD_EDITS else 1)

    @classmethod
    def usable_rows(cls, config: Config, store: TokenStore) -> np.ndarray:
        """Returns all rows, but the file's last one or three where an objective reads the next rows.

        A corpus has no mark between articles, so the next row is the next line that is not blank, in whatever article.
        """
        return np.arange(max(0, store.rows - NEXT_ROWS.get(config.objective, 0)))

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        """Returns whether training reads no ids but the corpus's; synonyms, a generator and masked LM read others."""
        return config.mlm_weight is None and config.augmentation not in ("synonym", "mlm")

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration. ConfigError for options that exclude each other."""
        _check(config)
        masking = Masking.of(tokenizer, config.mlm_probability)
        kind, rate = config.augmentation, config.augmentation_rate
        if kind == "none":
            return Collate(config, None, masking)
        synonyms = Synonyms(wordnet_folder(config.synonyms), tokenizer) if kind == "synonym" else None
        augment = Augment(kind, rate, max_seq_length, masking.special_ids, synonyms)
        return Collate(config, augment, masking)

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for options that exclude each other."""
        _check(config)
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width, config.projector)
        self.head = auxiliary_head(backbone, config.mlm_weight, config.mlm_decoder) if training else None
        two = training and config.encoders == "two"
        self.second_encoder = copy.deepcopy(self.encoder) if two else None
        self.second_pooler = copy.deepcopy(self.pooler) if two else None
        filling = training and config.augmentation == "mlm"
        self.generator = Generator(config.generator, backbone, dropout=False) if filling else None

    def forward(self, batch: Batch) -> StepOutput:
        packs, filled_M = fill_views(self.generator, batch.inputs, batch.tensors)
        views = [gather_with_grad(view_BH) for view_BH in self._views(packs, batch.examples)]
        loss = contrast(views, self.config)
        metrics = {"loss_contrastive": loss.detach(), **view_statistics(views[0], views[1])}
        if self.config.mlm_weight is not None:
            last_TH = self.encoder(batch.inputs["masked"], tokens=True).tokens_TH
            slots = batch.tensors["at_M"], batch.tensors["target_M"]
            auxiliary, _ = predict_masked(self.head, self.encoder, last_TH, *slots)
            metrics["loss_mlm"] = auxiliary.detach()
            loss = loss + self.config.mlm_weight * auxiliary
        if filled_M is not None:
            changed = (filled_M != batch.tensors["original_M"]).sum()
            metrics["replaced_fraction"] = changed / batch.inputs["blanks"].lengths_N.sum()
        return StepOutput(loss, {"loss": loss.detach(), **metrics})

    def _views(self, packs: dict[str, Packed], examples: int) -> list[Tensor]:
        """Returns anchors, positives and, for triplets, hard negatives, each [B, H]."""
        text = packs["text"]
        if self.second_encoder is not None and self.second_pooler is not None:
            hidden = self.second_encoder(packs.get("second", text), tokens=self.pooler.needs_tokens)
            return [self.encode(text), *self.second_pooler(hidden)[0].split(examples)]
        copies = 2 if text.rows == examples and not self.config.fixed_dropout else 1
        pooled_VNH = self.pooler(self.encoder(text, views=copies, tokens=self.pooler.needs_tokens))
        rows = [view for pooled in pooled_VNH for view in pooled.split(examples)]
        return rows if len(rows) > 1 else rows * 2


def _check(config: Config) -> None:
    """Raises ConfigError for options of which one would silently win."""
    problems = []
    if config.augmentation != "none" and config.objective != "unsupervised":
        line = f"augmentation of pairs: method.augmentation={config.augmentation}, method.objective={config.objective}"
        problems.append(f"{line}; use unsupervised, or none")
    if config.fixed_dropout and (config.objective, config.encoders, config.augmentation) != FIXED_NEEDS:
        line = f"fixed dropout of two passes: method.fixed_dropout=True, method.objective={config.objective}"
        line = f"{line}, method.encoders={config.encoders}, method.augmentation={config.augmentation}"
        problems.append(f"{line}; use {', '.join(FIXED_NEEDS)}")
    if config.projector == "batchnorm" and not has_projector(config.pooler, training=True):
        line = f"no projector: method.projector=batchnorm, method.pooler={config.pooler}"
        problems.append(f"{line}; use the pooler cls or cls_train_only")
    if problems:
        raise ConfigError(problems)
