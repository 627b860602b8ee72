"""Options of Mirror-BERT (Liu et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cse_train.fields import Added, Range
from cse_train.methods.options import PlainPooler
from cse_train.plugins.options import Options


@dataclass(frozen=True, kw_only=True)
class Config(Options):
    """Defaults are the paper's for sentences and BERT; for words the temperature is 0.2."""

    VERSION = 2
    ADDED: ClassVar = {"padding": Added("left_out"), "masking": Added("intended")}

    pooler: PlainPooler = "mean"
    """Mean over the attended positions (BERT), bare [CLS] (RoBERTa); the others as SimCSE's."""
    temperature: Annotated[float, Range(above=0)] = 0.04
    """Divides the cosines."""
    span: Annotated[int, Range(low=0)] = 5
    """Characters of view 2 for which [MASK] stands, k, in texts of at least 30; 0 leaves dropout alone."""
    padding: Literal["averaged", "left_out"] = "averaged"
    """Whether `mean` averages what stands at [PAD] too, as released: texts are padded to `train.max_seq_length`
    (contrastive_learning.py:46-48, train.py:172-186), and at test cut and padded to 64 tokens (eval.py:76-84). A model
    that counts them cannot be exported."""
    masking: Literal["released", "intended"] = "released"
    """What view 2 gets: the text "[MASK]" whatever the tokenizer's own mask is, at the first place where the drawn k
    characters stand (released data_loader.py:21-23); or the tokenizer's mask at the drawn place."""

    def version(self) -> int:
        """2 where the mean counts [PAD], or view 2 is masked as released."""
        return (
            self.VERSION if (self.pooler == "mean" and self.padding == "averaged") or self.masking == "released" else 1
        )

    def dropout_alone(self) -> str | None:
        """As SimCSE's: no span is masked."""
        return None if self.span else "method.span=0"

    def both_ends(self) -> str | None:
        """As SimCSE's: the span that is masked."""
        return f"method.span={self.span}" if self.span else None
