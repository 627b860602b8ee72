"""Divides a trained method into the parts that embed sentences, for export to another library.

Shape suffixes: I inputs and O outputs of a linear layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from cse_train.backbone.automodel import AutoModelEncoder
from cse_train.backbone.folders import locate
from cse_train.backbone.prompts import Prompts, read_prompts
from cse_train.checkpoint import LoadedRun
from cse_train.config import RunConfig
from cse_train.encoder.encoder import Encoder
from cse_train.fields import ConfigError
from cse_train.modules.pooling import SentencePooler, has_projector
from cse_train.modules.projector import BatchNormProjector, JointBatchNorm, MlpProjector
from cse_train.modules.prompts import PromptedEncoder
from cse_train.modules.whitener import Whitener

FORMAT_ADVICE = "use --format sentence-transformers"
"""Advice of the messages for models that the format `hf` cannot hold."""


@dataclass(frozen=True)
class DenseLayer:
    """One linear layer after the pooling, and its activation."""

    weight_OI: Tensor
    bias_O: Tensor
    activation: Literal["Tanh", "ReLU", "Identity"]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Weight and bias under the names of `nn.Linear`."""
        return {"weight": self.weight_OI, "bias": self.bias_O}


@dataclass(frozen=True)
class Parts:
    """Parts of a checkpoint that are used at test time; `facts` is what its header stores of its selection."""

    run: RunConfig
    facts: Mapping[str, object]
    method: nn.Module
    encoder: Encoder | AutoModelEncoder
    prompted: PromptedEncoder | None
    pooler: SentencePooler
    tokenizer: PreTrainedTokenizerBase
    whitener: Whitener | None = None
    prompts: Prompts = field(default_factory=Prompts)
    """Prompts that come with the encoder's folder."""

    @property
    def prompt(self) -> str:
        """Text of the prompt in front of every sentence; empty for none."""
        return self.prompts.text(self.run.train.prompt, "train.prompt", self.run.train.encoder)

    @property
    def prompt_name(self) -> str | None:
        """Name of the prompt in use; None for none."""
        return (self.run.train.prompt or self.prompts.default) if self.prompt else None

    @property
    def config(self) -> PretrainedConfig:
        """Configuration of the encoder, as a transformers object."""
        return self.encoder.config

    @property
    def dense(self) -> tuple[DenseLayer, ...]:
        """Projector at test time, or the whitening, as linear layers; empty where there is neither."""
        if self.whitener is not None:  # (x - mu) W as W^T x - W^T mu, worked out in fp64
            mean_I, map_IO = self.whitener.transform()
            return (DenseLayer(map_IO.T.float(), -(mean_I @ map_IO).float(), "Identity"),)
        projector = self.pooler.projector if has_projector(self.pooler.pooler, training=False) else None
        return () if projector is None else _layers(projector)

    @property
    def max_length(self) -> int:
        """Tokens kept of a text, special tokens included: the dev evaluation's, as far as the positions go."""
        limit, room = self.run.train.dev_max_length, self.encoder.positions
        shifted = self.prompted is not None and self.prompted.prompts.shift
        prompt_positions = self.prompted.prompts.length if self.prompted is not None and shifted else 0
        return limit if room is None else min(limit, room - prompt_positions)


def parts_of(loaded: LoadedRun, facts: Mapping[str, object]) -> Parts:
    """Divides a loaded run into its parts.

    Raises ConfigError for a method that embeds with more than an encoder, a pooler and a linear map.
    """
    run, method, tokenizer = loaded
    parts = method.embedding_parts()
    prompted, pooler, after = parts.prompted, parts.pooler, parts.after
    encoder = parts.encoder if prompted is None else getattr(prompted, "encoder", None)
    if isinstance(encoder, Encoder | AutoModelEncoder) and isinstance(pooler, SentencePooler):
        assert prompted is None or isinstance(prompted, PromptedEncoder), type(prompted)
        if after is None or isinstance(after, Whitener):
            prompts = read_prompts(locate(run.train.encoder))
            return Parts(run, facts, method, encoder, prompted, pooler, tokenizer, after, prompts)
    line = f"not exportable: method={run.method} is more than an encoder, a pooler and a linear map"
    raise ConfigError([f"{line}; use cse eval or cse embed"])


def require_saved(parts: Parts) -> None:
    """Raises ConfigError for an encoder whose saved folder would embed otherwise, or would not load: one inside a
    larger model, which has no class of its own in transformers, and one to whose texts a batch's padding reaches
    there."""
    if isinstance(parts.encoder, AutoModelEncoder) and parts.encoder.mixes_padding:
        line = f"not exportable: train.encoder={parts.run.train.encoder}, a {parts.config.model_type}"
        raise ConfigError(
            [f"{line}: in transformers the padding of a batch reaches its texts; use cse eval or cse embed"]
        )
    if isinstance(parts.encoder, AutoModelEncoder) and not parts.encoder.loads_by:
        line = (
            f"not exportable: train.encoder={parts.run.train.encoder}, the encoder inside a {parts.config.model_type}"
        )
        raise ConfigError([f"{line}, has no class of its own in transformers; use cse eval or cse embed"])


def require_transformers(parts: Parts) -> None:
    """Raises ConfigError unless a model class of transformers computes all of the model but the pooling."""
    stem = f"not exportable: format=hf, method={parts.run.method}"
    if parts.prompted is not None:
        raise ConfigError([f"{stem}: no model of transformers reads its prompts; {FORMAT_ADVICE}"])
    if isinstance(parts.encoder, AutoModelEncoder) and parts.encoder.loads_by != "AutoModel":
        line = f"{stem}: AutoModel reads a {parts.config.model_type} as an encoder-decoder"
        raise ConfigError([f"{line}; {FORMAT_ADVICE}"])
    if parts.whitener is not None:
        raise ConfigError([f"{stem}: no model of transformers has a linear map behind its pooling; {FORMAT_ADVICE}"])
    if len(parts.dense) > 1:
        raise ConfigError([f"{stem}, method.pooler=cls: no model of transformers has its BatchNorm; {FORMAT_ADVICE}"])
    if parts.dense and isinstance(parts.encoder, AutoModelEncoder):
        line = f"{stem}, method.pooler=cls: a {parts.config.model_type} has no layer above [CLS]"
        raise ConfigError([f"{line}; {FORMAT_ADVICE}"])


def _layers(projector: nn.Module) -> tuple[DenseLayer, ...]:
    if isinstance(projector, MlpProjector):
        return (DenseLayer(projector.dense.weight, projector.dense.bias, "Tanh"),)
    assert isinstance(projector, BatchNormProjector), type(projector)
    inner = _fold(projector.inner, projector.inner_norm, "ReLU")
    return inner, _fold(projector.outer, projector.outer_norm, "Identity")


def _fold(linear: nn.Linear, norm: JointBatchNorm, activation: Literal["ReLU", "Identity"]) -> DenseLayer:
    """Joins a linear layer and a BatchNorm with running statistics into one linear layer, computed in fp64."""
    scale_O = torch.rsqrt(norm.running_var.double() + norm.eps)
    shift_O = -norm.running_mean.double() * scale_O
    if norm.weight is not None and norm.bias is not None:
        scale_O, shift_O = scale_O * norm.weight.double(), shift_O * norm.weight.double() + norm.bias.double()
    weight_OI = linear.weight.double() * scale_O[:, None]
    return DenseLayer(weight_OI.float().detach(), shift_O.float().detach(), activation)
