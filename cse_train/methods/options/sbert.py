"""Options of SBERT (Reimers and Gurevych, EMNLP 2019)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options
from cse_train.text.corpora.files import LABELLED_COLUMNS, PAIR_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's for NLI; `train.batch_size` there is 16, `train.warmup_ratio` 0.1."""

    VERSION = 1
    ADDED: ClassVar = {"classifier": Added("trained")}

    objective: Literal["classification", "triplets"] = "classification"
    """The label of a premise and hypothesis (columns sent0, sent1, label), or sent0, sent1, hard_neg as triplets."""
    pooler: PlainPooler = "mean"
    """Mean over the attended positions, special tokens included; [CLS]; the others as SimCSE's."""
    margin: Annotated[float, Range(low=0)] = 1.0
    """How much nearer than the negative a triplet's positive must be, as a Euclidean distance."""
    classifier: Literal["trained", "fixed"] = "trained"
    """Whether W_t is trained (equation 1), or stays as it was drawn: `fit` of the paper's month gives its optimiser the
    encoder alone (sentence-transformers v0.2.0; v0.2.2 gives it W_t too)."""

    def text_columns(self) -> tuple[str, ...]:
        """The text columns that these settings read."""
        return PAIR_COLUMNS if self.objective == "triplets" else LABELLED_COLUMNS
