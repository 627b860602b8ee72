"""Options of Mirror-BERT (Liu et al., EMNLP 2021)."""

from dataclasses import dataclass
from typing import Annotated

from cse_train.fields import Range
from cse_train.methods.options import PlainPooler

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    """Defaults are the paper's for sentences and BERT; for words the temperature is 0.2."""

    pooler: PlainPooler = "mean"
    """Mean over the attended positions (BERT), bare [CLS] (RoBERTa); the others as SimCSE's."""
    temperature: Annotated[float, Range(above=0)] = 0.04
    """Divides the cosines."""
    span: Annotated[int, Range(low=0)] = 5
    """Characters of view 2 for which [MASK] stands, k, in texts of at least 30; 0 leaves dropout alone."""


def dropout_alone(config: Config) -> str | None:
    """As SimCSE's: no span is masked."""
    return None if config.span else "method.span=0"


def both_ends(config: Config) -> str | None:
    """As SimCSE's: the span that is masked."""
    return f"method.span={config.span}" if config.span else None
