"""Options of Mirror-BERT (Liu et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Options of Mirror-BERT; defaults are the paper's for sentences and BERT; for words its temperature is 0.2."""

    VERSION = 2
    ADDED: ClassVar = {"padding": Added("left_out"), "masking": Added("intended")}

    pooler: PlainPooler = "mean"
    """Pooling: mean over attended positions (BERT), [CLS] (RoBERTa), last position, or mean of two layers."""
    temperature: Annotated[float, Range(above=0)] = 0.04
    """Temperature by which the cosines are divided."""
    span: Annotated[int, Range(low=0)] = 5
    """Number k of characters of view 2 that [MASK] replaces, in texts of at least 30; 0 for dropout alone."""
    padding: Literal["averaged", "left_out"] = "averaged"
    """Treatment of [PAD] by the pooler `mean`: averaged, as released, where texts are padded to `train.max_seq_length`
    (contrastive_learning.py:46-48, train.py:172-186), and at test cut and padded to 64 tokens (eval.py:76-84); or left
    out. A model that averages padding cannot be exported."""
    masking: Literal["released", "intended"] = "released"
    """Mask of view 2: the text "[MASK]" whatever the tokenizer's own mask is, at the first place where the drawn k
    characters occur (released data_loader.py:21-23); or the tokenizer's mask at the drawn place."""

    def version(self) -> int:
        """Returns the version of a run's numbers: 2 if the mean counts [PAD] or the mask is the released one, else
        1."""
        return (
            self.VERSION if (self.pooler == "mean" and self.padding == "averaged") or self.masking == "released" else 1
        )

    def dropout_alone(self) -> str | None:
        """Returns the setting under which only dropout makes the views differ: no span is masked; None otherwise."""
        return None if self.span else "method.span=0"

    def both_ends(self) -> str | None:
        """Returns the setting that edits a text between the special tokens of both ends: the masked span, or None."""
        return f"method.span={self.span}" if self.span else None
