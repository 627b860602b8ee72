"""One number of an evaluation with how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cse_train.evaluate.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a suite hands back; a suite may hand back several."""

    suite: str
    """The set or task: sts12, MR, sts_test."""
    metric: str
    """spearman, accuracy, devacc, recall@1, alignment, uniformity, mean_abs_error ..."""
    value: float
    """Correlations and accuracies times 100."""
    protocol: Protocol
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers behind the value, as subsets, folds or counts."""
