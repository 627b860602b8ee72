"""Options of CMLM (Yang et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of CMLM. `masking_ratio` is BERT's; the number of projections was not checked against the paper."""

    VERSION = 1

    vectors: Annotated[int, Range(low=1)] = 15
    """Number N of vectors to which the embedding is projected, all in front of the next sentence's tokens."""
    masking_ratio: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the next sentence's tokens that are masked."""
    pooler: PlainPooler = "mean"
    """Pooling of token vectors: mean over attended positions, [CLS], the last position, or a mean of two layers."""
    source: Literal["next", "same"] = "next"
    """Sentence that is masked and conditioned on the embedding: the next line of the file, or the sentence itself."""
