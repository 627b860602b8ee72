"""DeCLUTR (Giorgi et al., ACL 2021): spans of one document near each other are positives; masked-LM on the anchors.

Shape suffixes: N documents of this rank, A anchors of a document, P positives of an anchor, B = N * A anchors of this
rank, H width, T packed slots, M masked positions.
"""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_train import distributed
from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone, own_encoder, require_head
from cse_train.encoder.encoder import Hidden
from cse_train.encoder.masked_lm import MaskedLMHead, Masking
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.losses import nt_xent, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput, predict_masked
from cse_train.methods.options.declutr import Config as Config
from cse_train.text.spans import SpanRule, sample_spans
from cse_train.text.tokens import TokenStore

SPECIAL_TOKENS = 2
"""Number of special tokens, [CLS] and [SEP], in every document of the store and every span."""
LONGEST = 510
"""Tokens of a span that are read, special tokens not counted: the rest of 512 is cut (released dataset_reader)."""

log = logging.getLogger(__name__)


def _span_rule(config: Config) -> SpanRule:
    """Returns the number and length of spans that a configuration asks for."""
    return SpanRule(config.anchors, config.positives, config.min_length, config.max_length, config.strategy)


@dataclass(frozen=True)
class Collate:
    """Collates documents to anchors, document after document, and their positives, anchor after anchor."""

    config: Config
    masking: Masking

    def __call__(self, share: Share) -> Batch:
        column = share.store.column("text")
        anchors, positives, rngs = [], [], []
        for row in share.rows:
            rng = share.rng_of(int(row))
            around, beside = self._spans(column.row(row), rng)
            anchors += around
            positives += beside
            rngs += [rng] * len(around)
        inputs, tensors = {}, {}
        if self.config.objective == "contrastive":
            inputs["anchors"] = pack_lists(anchors, pad_id=self.masking.pad_id)
        else:
            inputs["anchors"], tensors["at_M"], tensors["target_M"] = self.masking.pack(anchors, rngs)
        if self.config.objective != "masked_lm":
            inputs["positives"] = pack_lists(positives, pad_id=self.masking.pad_id)
        return Batch(inputs, len(share.rows), tensors)

    def _spans(self, ids: np.ndarray, rng: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Draws the anchors [A] and positives [A * P] of one document, each with special tokens.

        Pieces stay as they are in the document; the released code writes a span as text and tokenises that.
        """
        tokens = len(ids) - SPECIAL_TOKENS
        rule = _span_rule(self.config)
        if self.config.short_documents == "adapt":
            rule = rule.adapted(tokens)
        anchors, positives = sample_spans(tokens, rule, rng)
        return [_cut(ids, span) for span in anchors], [_cut(ids, span) for span in positives.reshape(-1, 2)]


def _cut(ids: np.ndarray, span: np.ndarray) -> np.ndarray:
    start, end = span
    inner = ids[1:-1][start : min(end, start + LONGEST)]
    return np.concatenate([ids[:1], inner, ids[-1:]])


class DeCLUTR(Method[Config]):
    """DeCLUTR: encoder, pooler and the masked-LM head, which reads the pass that embeds the anchors (model.py:100-178).

    The head's decoder is the word embedding, as in the release: its AutoModelForMaskedLM ties them.
    """

    TRAINING_ONLY = ("head.",)

    @classmethod
    def lower_case(cls, config: Config) -> bool:
        """Returns whether documents are lower-cased before they are tokenised."""
        return config.lower_case

    @classmethod
    def tokens_kept(cls, config: Config, max_seq_length: int) -> None:
        """Returns None: the store keeps whole documents."""

    @classmethod
    def usable_rows(cls, config: Config, store: TokenStore) -> np.ndarray:
        """Returns the rows of documents that are long enough. Raises ConfigError when none is."""
        tokens = store.column("text").lengths - SPECIAL_TOKENS
        full = _span_rule(config).tokens_needed
        need = 2 * config.anchors * config.min_length if config.short_documents == "adapt" else full
        rows = np.flatnonzero(tokens >= need)
        if len(rows) == 0:
            bound = "min_length" if config.short_documents == "adapt" else "max_length"
            given = f"method.{bound}={getattr(config, bound)} needs {need} tokens and the longest has {tokens.max()}"
            adapt = "" if bound == "min_length" else ", or method.short_documents=adapt"
            line = f"no document is long enough: {given}; give longer documents, fewer method.anchors or a lower value"
            raise ConfigError([line + adapt])
        shortened = int((tokens[rows] < full).sum())
        if shortened and distributed.rank() == 0:
            counts = shortened, len(rows), full
            log.warning("declutr: %d of %d documents have fewer than %d tokens: shorter spans", *counts)
        return rows

    @classmethod
    def corpus_alone(cls, config: Config) -> bool:
        """Returns whether training reads no ids but the corpus's; the masked-LM loss reads the whole vocabulary."""
        return config.objective == "contrastive"

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        """Returns the collate function of a configuration. ConfigError when the lengths contradict each other."""
        if config.min_length > config.max_length:
            lengths = f"method.min_length={config.min_length}, method.max_length={config.max_length}"
            raise ConfigError([f"span lengths cross: {lengths}; give min_length <= max_length"])
        return Collate(config, Masking.of(tokenizer, config.mlm_probability))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for spans beyond the encoder's positions and for a missing head."""
        if training:
            length = min(config.max_length, LONGEST) + SPECIAL_TOKENS
            room = getattr(backbone.encoder, "positions", None) or length
            if length > room:
                line = f"spans too long: method.max_length={config.max_length}, train.encoder={backbone.name}"
                raise ConfigError([f"{line} has {room} positions; give at most {room - SPECIAL_TOKENS}"])
        super().__init__()
        self.config = config
        self.encoder = backbone.encoder
        self.pooler = SentencePooler(config.pooler, backbone.encoder.width)
        self.head: MaskedLMHead | None = None
        if training and config.objective != "contrastive":
            setting = f"method.objective={config.objective}"
            own_encoder(backbone, f"{setting} reads its masked-LM head")
            self.head = require_head(backbone, setting, "contrastive")

    def forward(self, batch: Batch) -> StepOutput:
        hidden = self._run_encoder(batch.inputs["anchors"])
        anchors_BH = self.pooler(hidden)[0]
        losses: dict[str, Tensor] = {}
        if self.config.objective != "masked_lm":
            # The mean of an anchor's P positives, before any normalisation.
            positives_BPH = self.encode(batch.inputs["positives"]).unflatten(0, (-1, self.config.positives))
            views = gather_with_grad(anchors_BH), gather_with_grad(positives_BPH.mean(1))
            losses["loss_contrastive"] = nt_xent(*views, temperature=self.config.temperature)
        else:  # the log calls positives another anchor of the same document, if it has one
            views = anchors_BH, anchors_BH.unflatten(0, (-1, self.config.anchors)).roll(1, dims=1).flatten(0, 1)
        if self.config.objective != "contrastive":
            slots = batch.tensors["at_M"], batch.tensors["target_M"]
            losses["loss_mlm"], _ = predict_masked(self.head, self.encoder, hidden.tokens_TH, *slots)
        loss = torch.stack(list(losses.values())).sum()
        parts = {name: part.detach() for name, part in losses.items()}
        return StepOutput(loss, {"loss": loss.detach(), **parts, **view_statistics(*views)})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed, unmasked texts: [N, H] in batch order."""
        return self.pooler(self._run_encoder(packed))[0]

    def _run_encoder(self, packed: Packed) -> Hidden:
        masked = self.training and self.head is not None
        hidden: Hidden = self.encoder(packed, tokens=masked or self.pooler.needs_tokens)
        return hidden
