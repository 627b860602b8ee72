"""DCPCSE (Jiang and Wang, 2022; code PromCSE): SimCSE where only deep continuous prompts and the MLP train.

Shape suffixes: V views, N sequences, B examples of this rank, G examples of all ranks, H width, M masked positions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cse_train.distributed import gather_with_grad
from cse_train.encoder.backbone import Backbone, auxiliary_head, own_encoder
from cse_train.encoder.encoder import ContinuousPrompts, PromptedEncoder, require_positions
from cse_train.encoder.masked_lm import Masking
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.encoder.pooling import SentencePooler
from cse_train.fields import ConfigError
from cse_train.losses import energy_hinge, view_statistics
from cse_train.methods.base import Batch, Method, Share, StepOutput, contrast, predict_masked
from cse_train.methods.options.dcpcse import Config as Config
from cse_train.text.tokens import TokenStore

WHY = "prompts need attention of our own"
"""Reason, for a message, why DCPCSE needs an encoder of this project."""


@dataclass(frozen=True)
class Collate:
    """Collates corpus rows to a packed batch; all columns share one pack, column after column."""

    config: Config
    masking: Masking

    def __call__(self, share: Share) -> Batch:
        texts = [share.store.column(name) for name in DCPCSE.columns(self.config)]
        sentences = [column.row(i) for column in texts for i in share.rows]
        inputs = {"text": pack_lists(sentences, pad_id=self.masking.pad_id)}
        tensors: dict[str, Tensor] = {}
        if self.config.mlm_weight is not None:
            views = 2 if len(texts) == 1 else len(texts)
            rngs = [share.rng_of(int(i)) for i in share.rows] * views
            sentences = sentences * 2 if len(texts) == 1 else sentences
            inputs["masked"], tensors["at_M"], tensors["target_M"] = self.masking.pack(sentences, rngs)
        return Batch(inputs, len(share.rows), tensors)


class DCPCSE(Method[Config]):
    """DCPCSE: a frozen encoder behind trainable prompts, a pooler and, when asked for, the masked-LM head."""

    steps: Tensor

    TRAINING_ONLY = ("head.", "steps")

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store as it is; ConfigError where its longest sentence does not fit behind the prompts."""
        longest = max(int(store.column(name).lengths.max()) for name in cls.columns(config))
        require_positions(own_encoder(backbone, WHY), config.prompt_length, config.position_shift, longest)
        return store

    @classmethod
    def make_collate(cls, config: Config, tokenizer: Any, max_seq_length: int) -> Collate:
        return Collate(config, Masking.of(tokenizer, config.mlm_probability))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for an energy margin without triplets."""
        if config.energy_margin is not None and config.objective != "triplets":
            line = (
                f"no hard negatives: method.energy_margin={config.energy_margin}, method.objective={config.objective}"
            )
            raise ConfigError([f"{line}; use triplets, or null"])
        super().__init__()
        self.config = config
        encoder = own_encoder(backbone, WHY)
        prompts = ContinuousPrompts(
            encoder.config, config.prompt_length, shift=config.position_shift, dropout=config.prompt_dropout
        )
        self.prompted = PromptedEncoder(encoder, prompts)
        self.pooler = SentencePooler(config.pooler, encoder.width, config.projector)
        self.head = auxiliary_head(backbone, config.mlm_weight, config.mlm_decoder) if training else None
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, batch: Batch) -> StepOutput:
        views = [gather_with_grad(view_BH) for view_BH in self._views(batch.inputs["text"], batch.examples)]
        parts: dict[str, tuple[float | Tensor, Tensor]] = {"contrastive": (1.0, contrast(views, self.config))}
        if self.config.energy_margin is not None:
            hinge = energy_hinge(views[0], views[1], views[2], self.config.energy_margin)
            parts["energy"] = (self.config.energy_weight, hinge)
        if self.config.mlm_weight is not None:
            last_TH = self.prompted(batch.inputs["masked"], tokens=True).tokens_TH
            slots = batch.tensors["at_M"], batch.tensors["target_M"]
            auxiliary, _ = predict_masked(self.head, self.prompted.encoder, last_TH, *slots)
            parts["mlm"] = (self._mlm_weight(), auxiliary)
        loss = torch.stack([weight * part for weight, part in parts.values()]).sum()
        metrics = {f"loss_{name}": part.detach() for name, (_, part) in parts.items()}
        return StepOutput(loss, {"loss": loss.detach(), **metrics, **view_statistics(views[0], views[1])})

    def _views(self, packed: Packed, examples: int) -> list[Tensor]:
        copies = 2 if self.config.objective == "unsupervised" else 1
        pooled_VNH = self.pooler(self.prompted(packed, views=copies, tokens=self.pooler.needs_tokens))
        return [view for pooled in pooled_VNH for view in pooled.split(examples)]

    def _mlm_weight(self) -> Tensor:
        """Returns w * decay^(step / 100); every call counts a step, which the checkpoint stores for resumed runs."""
        assert self.config.mlm_weight is not None
        weight = self.config.mlm_weight * self.config.mlm_decay ** (self.steps / 100)
        self.steps += 1
        return weight
