"""Options of IS-BERT (Zhang et al., EMNLP 2020)."""

from dataclasses import dataclass
from typing import Literal

from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of IS-BERT; defaults are the paper's, whose batch has 32 sentences."""

    VERSION = 1

    kernels: Literal["1", "3", "1,3", "1,3,5", "1,3,5,7"] = "1,3,5"
    """Widths of the convolutions over tokens, which share the encoder's width equally (paper: 256 channels each)."""
    activation: Literal["relu", "none"] = "relu"
    """Activation after a convolution: ReLU (paper), none (released code)."""
