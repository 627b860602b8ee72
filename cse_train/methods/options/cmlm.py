"""Options of CMLM (Yang et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """The ratio is BERT's. The number of projections was not checked against the paper's text."""

    VERSION = 1

    vectors: Annotated[int, Range(low=1)] = 15
    """Vectors N that the embedding is projected to, all in front of the next sentence's tokens."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the next sentence's tokens that is masked."""
    pooler: PlainPooler = "mean"
    """Mean over the attended positions, special tokens included; [CLS]; the others as SimCSE's."""
    source: Literal["next", "same"] = "next"
    """The sentence that is masked and conditioned on the embedding: the next line of the file, or the same."""
