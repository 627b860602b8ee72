"""K runs of SimCSE as one model: each has its own weights, seed, rate, temperature, dropout rates and batches.

The idea is that of HFTA (Wang et al., MLSys 2021). Losses and gradients are those of the single runs, to rounding; so
are batches and new weights, which are functions of a run's seed. Dropout's masks are drawn for all runs together, from
one stream that all seeds decide: independent from run to run, but not those that a run draws alone.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.fused.encoder import FusedEncoder, linear
from benchmarks.fused.optimiser import FusedAdamW, clip_each
from benchmarks.fused.packing import FusedPacked, pack_runs
from benchmarks.fused.weights import FusedWeights
from cse_train import distributed, random_streams
from cse_train.backbone.backbone import load_backbone, own_encoder
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder import compact_vocabulary
from cse_train.encoder.compact_vocabulary import CompactEmbedding
from cse_train.fields import ConfigError
from cse_train.losses.info_nce import info_nce
from cse_train.methods.base import Share
from cse_train.methods.loading import load_method
from cse_train.modules.pooling import has_projector
from cse_train.numerics import autocast
from cse_train.training.batches import Batches

METHOD = "simcse"
FREE = ("seed", "learning_rate", "warmup_ratio", "weight_decay", "adamw", "max_grad_norm", "dropout", "evaluations")
"""Settings of `train` in which fused runs may differ."""
FIXED: dict[str, object] = {
    "objective": "unsupervised",
    "encoders": "shared",
    "augmentation": "none",
    "projector": "mlp",
    "mlm_weight": None,
    "fixed_dropout": False,
}
"""Options that fused runs must have; of the poolers those that read [CLS]."""
VIEWS = 2


def problems(runs: Sequence[RunConfig]) -> list[str]:
    """Why these runs cannot be fused, one line each; none where they can."""
    lines = [f"not fused: method={run.method}; use {METHOD}" for run in runs if run.method != METHOD]
    if lines:
        return list(dict.fromkeys(lines))
    for run in runs:
        for name, value in FIXED.items():
            if getattr(run.options, name) != value:
                lines.append(f"not fused: method.{name}={getattr(run.options, name)}; use {value}")
        if not run.options.pooler.startswith("cls"):
            lines.append(f"not fused: method.pooler={run.options.pooler}; use one of [CLS]")
        if run.train.optimiser != "adamw" or run.train.schedule == "plateau":
            lines.append("not fused: train.optimiser is not adamw, or train.schedule=plateau; use adamw and linear")
    for field in dataclasses.fields(runs[0].train):
        values = dict.fromkeys(getattr(run.train, field.name) for run in runs)
        if field.name not in FREE and len(values) > 1:
            shown = ", ".join(map(str, values))
            lines.append(f"not fused: train.{field.name} differs ({shown}); use one value, or fuse the runs apart")
    if len({run.options.pooler for run in runs}) > 1:
        lines.append("not fused: method.pooler differs; use one value, or fuse the runs apart")
    return list(dict.fromkeys(lines))


class FusedRuns:
    """Runs that train together, step by step."""

    def __init__(self, runs: Sequence[RunConfig], paths: DataPaths, groups: int = 8) -> None:
        """Load data and weights. Raises ConfigError for runs that cannot be fused."""
        if lines := problems(runs):
            raise ConfigError(lines)
        self.runs, self.groups, self.step, self.device = runs, groups, 0, distributed.device()
        backbone = load_backbone(runs[0].train.encoder)
        config = own_encoder(backbone, "fused runs compute ours alone").config
        self.pad_id = backbone.tokenizer.pad_token_id
        batches = Batches.open(runs[0], paths, backbone)
        self.column = batches.store.column("text")
        self.shares = [replace(batches, run=run, collate=as_it_is) for run in runs]
        decays = any(run.train.weight_decay for run in runs)
        models = [self._single(run, None if decays else batches.ids_in_use(backbone.tokenizer)) for run in runs]
        self.weights = FusedWeights([dict(model.named_parameters()) for model in models], self.device)
        self.model = models[0].to(self.device)
        configs = [model.encoder.config for model in models]
        self.encoder = FusedEncoder(
            config,
            [config.hidden_dropout_prob for config in configs],
            [config.attention_probs_dropout_prob for config in configs],
        )
        self.optimiser = FusedAdamW(self.weights.leaves, [run.train for run in runs])

    @staticmethod
    def _single(run: RunConfig, ids: np.ndarray | None) -> Any:
        """The module that a run of its own would train, at its start."""
        backbone = load_backbone(run.train.encoder, run.train.dropout)
        random_streams.seed_new_weights(run.train.seed)
        model = load_method(METHOD).build(run.options, backbone)
        if ids is not None:
            compact_vocabulary.compact(model, ids)
        return model

    def update(self) -> Tensor:
        """One optimiser step of every run on its own batch; the losses [K], still on the device."""
        packed = self._batch()
        seed = random_streams.seed_of(0, *(run.train.seed for run in self.runs))
        random_streams.seed_dropout(seed, self.step, 0)
        with autocast(self.device, self.runs[0].train.precision):
            losses_K = self.losses(packed)
        losses_K.sum().backward()
        clip_each(self.weights.leaves, [run.train.max_grad_norm for run in self.runs])
        self.optimiser.step(self.step)
        self.step += 1
        return losses_K.detach()

    def losses(self, packed: FusedPacked) -> Tensor:
        """InfoNCE of each run [K], with its temperature."""
        weights = self.weights.views()
        views_KVNH = self.encoder(packed, weights, VIEWS)
        if has_projector(self.runs[0].options.pooler, training=True):
            name = "pooler.projector.dense"
            flat = linear(views_KVNH.flatten(1, 2), weights[f"{name}.weight"], weights[f"{name}.bias"])
            views_KVNH = torch.tanh(flat).view_as(views_KVNH)
        by_temperature: dict[float, list[int]] = {}
        for number, run in enumerate(self.runs):
            by_temperature.setdefault(run.options.temperature, []).append(number)
        if len(by_temperature) == 1:
            return _info_nce(views_KVNH, *by_temperature)
        order = [number for numbers in by_temperature.values() for number in numbers]
        parts = [_info_nce(views_KVNH[numbers], temperature) for temperature, numbers in by_temperature.items()]
        return torch.cat(parts)[np.argsort(order).tolist()]

    def single(self, number: int) -> nn.Module:
        """The module of a run with its weights of now, to evaluate or to keep; the next call fills the same module."""
        self.weights.load_into(self.model, number)
        return self.model

    def _batch(self) -> FusedPacked:
        rows_KN = np.stack([share[self.step].rows for share in self.shares])  # type: ignore[attr-defined]
        packed = pack_runs(self.column, rows_KN, pad_id=self.pad_id, groups=self.groups).to(self.device)
        table = self.model.encoder.word
        return replace(packed, ids_KU=table.row_V[packed.ids_KU]) if isinstance(table, CompactEmbedding) else packed


def as_it_is(share: Share) -> Any:
    """In place of a method's collate function: the rows of a batch, which `pack_runs` collates for all runs."""
    return share


def _info_nce(views_KVNH: Tensor, temperature: float) -> Tensor:
    return torch.vmap(partial(info_nce, temperature=temperature))(views_KVNH[:, 0], views_KVNH[:, 1])
