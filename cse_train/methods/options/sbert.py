"""Options of SBERT (Reimers and Gurevych, EMNLP 2019)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options
from cse_train.text.corpora.files import LABELLED_COLUMNS, PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's for NLI; `train.batch_size` there is 16, `train.warmup_ratio` 0.1."""

    VERSION = 1

    objective: Literal["classification", "triplets"] = "classification"
    """The label of a premise and hypothesis (columns sent0, sent1, label), or sent0, sent1, hard_neg as triplets."""
    pooler: PlainPooler = "mean"
    """Mean over the attended positions, special tokens included; [CLS]; the others as SimCSE's."""
    margin: Annotated[float, Range(low=0)] = 1.0
    """How much nearer than the negative a triplet's positive must be, as a Euclidean distance."""

    def text_columns(self) -> tuple[str, ...]:
        """The text columns that these settings read."""
        return PAIR_COLUMNS if self.objective == "triplets" else LABELLED_COLUMNS
