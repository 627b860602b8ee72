"""Options of whitening (Su et al., Whitening Sentence Representations, 2021)."""

from dataclasses import dataclass
from typing import Annotated

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's; `train.corpus` says the variant: nli, or target:NAME for an evaluation set's texts.

    Every text column of the corpus counts. One pass is enough: the statistics of `train.examples` rows are the model.
    """

    VERSION = 1

    pooler: PlainPooler = "first_last_layer1"
    """What is whitened: bare [CLS]; mean; mean of embedding + last, or layer 1 + last (released: first-last-avg)."""
    dimensions: Annotated[int, Range(low=1)] | None = None
    """Directions of the largest variances that are kept (the paper's k); null keeps all."""
    scale: bool = True
    """Rotate and scale to unit covariance; false takes off the mean alone, and keeps all dimensions."""

    def text_columns(self) -> tuple[str, ...]:
        """None in particular: every text of a row counts."""
        return ()
