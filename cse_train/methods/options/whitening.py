"""Options of whitening (Su et al., Whitening Sentence Representations, 2021)."""

from dataclasses import dataclass
from typing import Annotated

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of whitening; defaults are the paper's.

    `train.corpus` gives the variant: nli, or target:NAME for an evaluation set's texts. Every text column of the corpus
    counts. One pass is enough: the statistics of `train.examples` rows are the model.
    """

    VERSION = 1

    pooler: PlainPooler = "first_last_layer1"
    """Pooling of the embeddings to whiten: [CLS]; mean; last position; mean of the last layer and the embedding or
    layer 1 (as released)."""
    dimensions: Annotated[int, Range(low=1)] | None = None
    """Number of directions of the largest variances that are kept (the paper's k); null keeps all."""
    scale: bool = True
    """True to rotate and scale to unit covariance; false to subtract only the mean, and keep all dimensions."""

    def text_columns(self) -> tuple[str, ...]:
        """Returns (): the method reads every text of a row, whatever the columns."""
        return ()
