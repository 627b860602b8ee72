"""Options of Contrastive Tension (Carlsson et al., ICLR 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of Contrastive Tension; defaults are the paper's.

    An example is a pair, so `train.batch_size` (paper: 16) counts K + 1 for a positive. The paper trains with RMSProp:
    `train.adam_beta1` 0, `train.adam_beta2` 0.9 and `train.adamw` uncorrected.
    """

    VERSION = 1
    ADDED: ClassVar = {"kept": Added("second")}

    negatives: Annotated[int, Range(low=1)] = 7
    """Negative pairs of each positive one, K; `train.batch_size` is a multiple of K + 1."""
    pairing: Literal["anchor", "independent"] = "anchor"
    """Sentences of a negative pair: the positive's sentence and another (paper), or any two (released code)."""
    pooler: PlainPooler = "mean"
    """Pooling of token vectors: mean over attended positions, [CLS], the last position, or a mean of two layers."""
    kept: Literal["second", "better"] = "second"
    """Encoder that a checkpoint keeps: the second (paper, section 3), or the one whose dev score is higher, the second
    where they are equal (released Training.py:88-99)."""
