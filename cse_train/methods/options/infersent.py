"""Options of InferSent (Conneau et al., EMNLP 2017)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import LABELLED_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of InferSent; defaults are those of the paper and of the released train_nli.py.

    `train.optimiser` there is sgd with a rate of 0.1, `train.schedule` plateau, `train.max_grad_norm` 5.
    """

    VERSION = 1
    WORDS = True

    units: Annotated[int, Range(low=1)] = 2048
    """Units of the LSTM in each direction; an embedding has twice as many numbers."""
    pooling: Literal["max", "mean"] = "max"
    """Pooling over the states of a sentence's words: the largest value of each unit, or their mean."""
    hidden: Annotated[int, Range(low=1)] = 512
    """Units of each of the classifier's two inner layers."""
    activation: Literal["none", "tanh"] = "none"
    """Activation after an inner layer of the classifier: none (released default), tanh (released --nonlinear_fc)."""

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's columns that the method reads: premise, hypothesis and label."""
        return LABELLED_COLUMNS
