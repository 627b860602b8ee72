"""Options of BERT-flow (Li et al., EMNLP 2020)."""

from dataclasses import dataclass
from typing import Annotated

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the released config_l3_d3_w32; `train.corpus` says the variant: nli, or target:NAME.

    Every text column of the corpus counts.
    """

    pooler: PlainPooler = "first_last_layer1"
    """What flows. The released avg-last-2 adds `all_encoder_layers[-i]` for i = 0, 1: that is layer 1 + the last."""
    levels: Annotated[int, Range(low=1)] = 3
    """Levels, of which each has half the dimensions of the one before."""
    depth: Annotated[int, Range(low=1)] = 3
    """Flow steps of a level."""
    width: Annotated[int, Range(low=1)] = 32
    """Hidden units of a coupling network."""
