"""Options of IS-BERT (Zhang et al., EMNLP 2020)."""

from dataclasses import dataclass
from typing import Literal

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the paper's; its batch has 32 sentences."""

    kernels: Literal["1", "3", "1,3", "1,3,5", "1,3,5,7"] = "1,3,5"
    """Widths of the convolutions over tokens, which share the encoder's width equally (paper: 256 channels each)."""
    activation: Literal["relu", "none"] = "relu"
    """What follows a convolution: ReLU (paper), nothing (released code)."""
