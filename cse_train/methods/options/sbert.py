"""Options of SBERT (Reimers and Gurevych, EMNLP 2019)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options
from cse_train.text.file_corpora import LABELLED_COLUMNS, PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of SBERT; defaults are the paper's for NLI, with `train.batch_size` 16 and `train.warmup_ratio` 0.1."""

    VERSION = 1
    ADDED: ClassVar = {"classifier": Added("trained")}

    objective: Literal["classification", "triplets"] = "classification"
    """Objective: the label of a pair (columns sent0, sent1, label), or triplets (columns sent0, sent1, hard_neg)."""
    pooler: PlainPooler = "mean"
    """Pooling of token vectors: mean over attended positions, [CLS], the last position, or a mean of two layers."""
    margin: Annotated[float, Range(low=0)] = 1.0
    """Margin of the triplet loss, as a Euclidean distance by which the positive must be nearer than the negative."""
    classifier: Literal["trained", "fixed"] = "trained"
    """State of the classifier's weights W_t: trained (equation 1), or fixed as drawn, since `fit` of the paper's month
    gives its optimiser the encoder alone (sentence-transformers v0.2.0; v0.2.2 gives it W_t too)."""

    def text_columns(self) -> tuple[str, ...]:
        """Returns the corpus's columns that the objective reads."""
        return PAIR_COLUMNS if self.objective == "triplets" else LABELLED_COLUMNS
