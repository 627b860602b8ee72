"""BERT-flow (Li et al., EMNLP 2020): an invertible map of frozen sentence embeddings to a standard normal.

The map trains by maximum likelihood (eq. 4).

The map is Glow for vectors (Kingma and Dhariwal 2018) as section 3.2 of the paper has it. What that leaves open follows
the released code, bohanli/BERT-flow: flow/config/config_l3_d3_w32.json and flow/glow_ops_1x1.py. Shape suffixes: N
rows, D embedding size, H half of a level's size, W width of the coupling networks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_train.distributed import all_gather_rows
from cse_train.encoder.backbone import Backbone
from cse_train.encoder.frozen_encoder import FrozenEncoder
from cse_train.encoder.packing import Packed, pack_lists
from cse_train.fields import ConfigError
from cse_train.losses import bits_per_dimension
from cse_train.methods.base import Batch, Method, Share, StepOutput
from cse_train.methods.options.flow import Config as Config
from cse_train.text.tokens import TokenStore

LOG_SCALE_FACTOR = 3.0
"""Factor c of scales exp(c s), with which s learns faster (actnorm's logscale_factor)."""
SMALLEST_DEVIATION = 1e-6
"""Addend to standard deviations, against division by zero."""
WEIGHT_DEVIATION = 0.05
"""Standard deviation of new weights in a coupling network (default_initializer)."""


class ActNorm(nn.Module):
    """Activation normalisation y = (x + shift) exp(3 s); the first rows set shift and s to give mean 0 and variance 1.

    The parameters are [1, D]: weight decay, which spares vectors, counts for them as in the released optimiser.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, size))
        self.s = nn.Parameter(torch.zeros(1, size))

    def forward(self, x_ND: Tensor, first: bool = False) -> Tensor:
        """Returns y [N, D]; with `first`, these rows set the parameters before."""
        # Only `initialise` asks for it, under no_grad: parameters that need a gradient are changed in place.
        if first:
            self.shift.copy_(-x_ND.mean(0))
            deviation_D = (x_ND + self.shift).square().mean(0).sqrt()
            self.s.copy_(-(deviation_D + SMALLEST_DEVIATION).log() / LOG_SCALE_FACTOR)
        return (x_ND + self.shift) * (LOG_SCALE_FACTOR * self.s).exp()

    @property
    def log_det(self) -> Tensor:
        """log |dy/dx| of the layer, a scalar that is equal for every row."""
        return LOG_SCALE_FACTOR * self.s.sum()


class CouplingNetwork(nn.Module):
    """Network of an additive coupling: two layers with actnorm and ReLU, then one that begins at 0 (conv_stack)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        linears = [nn.Linear(wide, width, bias=False) for wide in (size, width)]
        for linear in linears:
            nn.init.normal_(linear.weight, std=WEIGHT_DEVIATION)
        self.inner = nn.ModuleList(linears)
        self.norms = nn.ModuleList(ActNorm(width) for _ in linears)
        self.last = nn.Linear(width, size)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)
        self.s = nn.Parameter(torch.zeros(1, size))

    def forward(self, x_NH: Tensor, first: bool = False) -> Tensor:
        hidden_NW = x_NH
        for linear, norm in zip(self.inner, self.norms, strict=True):
            hidden_NW = F.relu(norm(linear(hidden_NW), first))
        shift_NH: Tensor = self.last(hidden_NW)
        return shift_NH * (LOG_SCALE_FACTOR * self.s).exp()


class FlowStep(nn.Module):
    """One step of the flow: actnorm, the dimensions in reverse, and additive coupling of the two halves.

    Reversal and coupling have determinant 1.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.norm = ActNorm(size)
        self.network = CouplingNetwork(size // 2, width)

    def forward(self, x_ND: Tensor, first: bool = False) -> Tensor:
        still_NH, moved_NH = self.norm(x_ND, first).flip(1).chunk(2, 1)
        return torch.cat([still_NH, moved_NH + self.network(still_NH, first)], 1)


class Glow(nn.Module):
    """Invertible map z = f(x) of vectors; after each level but the last, half of the dimensions are final."""

    initialised: Tensor

    def __init__(self, size: int, levels: int, depth: int, width: int) -> None:
        super().__init__()
        if size % 2**levels:
            line = f"size does not halve: method.levels={levels}, the encoder's embeddings have {size} dimensions"
            raise ConfigError([f"{line}; give levels so that 2^levels divides {size}"])
        sizes = (size >> level for level in range(levels))
        self.levels: Any = nn.ModuleList(nn.ModuleList(FlowStep(each, width) for _ in range(depth)) for each in sizes)
        self.register_buffer("initialised", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def initialise(self, x_ND: Tensor) -> None:
        """Sets every actnorm by the first batch, which must hold all ranks' rows."""
        self(x_ND, first=True)
        self.initialised.fill_(True)

    def forward(self, x_ND: Tensor, first: bool = False) -> Tensor:
        """Returns z [N, D]: the dimensions that each level made final, first level first, then the last level's."""
        final: list[Tensor] = []
        for at, level in enumerate(self.levels):
            if at:
                x_ND, left_NH = x_ND.chunk(2, 1)
                final.append(left_NH)
            for step in level:
                x_ND = step(x_ND, first)
        return torch.cat([*final, x_ND], 1)

    @property
    def log_det(self) -> Tensor:
        """log |dz/dx| of the whole flow, a scalar that is equal for every row."""
        return torch.stack([step.norm.log_det for level in self.levels for step in level]).sum()


class Flow(FrozenEncoder, Method[Config]):
    """BERT-flow: a frozen encoder and the flow that trains behind it, in fp32."""

    after: Glow

    @classmethod
    def prepare(cls, config: Config, store: TokenStore, backbone: Backbone, cache: Path | None) -> TokenStore:
        """Returns the store as it is. ConfigError for fewer texts than dimensions, whose density has no maximum."""
        texts = store.rows * len(store.columns)
        if texts < backbone.width:
            line = f"too few sentences: train.corpus has {texts}, the encoder has {backbone.width} dimensions"
            raise ConfigError([f"{line}; give more text"])
        return store

    @classmethod
    def make_collate(cls, config: Config, tokenizer, max_seq_length: int) -> Callable[[Share], Batch]:
        """Returns the collate function, which packs all texts of the rows, column by column."""
        pad_id = tokenizer.pad_token_id or 0
        return lambda share: Batch({"text": pack_lists(share.texts, pad_id=pad_id)}, len(share.rows))

    def __init__(self, config: Config, backbone: Backbone, training: bool = True) -> None:
        """Builds the modules; ConfigError for a width that cannot be halved `levels` times."""
        after = Glow(backbone.width, config.levels, config.depth, config.width)
        super().__init__(backbone.encoder, config.pooler, after, config.encoder_dropout)
        self.config = config

    def forward(self, batch: Batch) -> StepOutput:
        x_ND = self.embed(batch.inputs["text"])
        with torch.autocast(x_ND.device.type, enabled=False):
            if not self.after.initialised:
                first_ND = x_ND if self.config.first_batch == "all" else x_ND[: batch.examples]
                self.after.initialise(all_gather_rows(first_ND))
            loss = bits_per_dimension(self.after(x_ND), self.after.log_det)
            if self.config.loss == "sum":
                loss = loss * (len(x_ND) // batch.examples)
        return StepOutput(loss, {"loss": loss.detach()})

    def encode(self, packed: Packed) -> Tensor:
        """Embeds packed texts at test time: [N, D] in batch order, after the flow."""
        z_ND: Tensor = self.after(self.embed(packed))
        return z_ND
