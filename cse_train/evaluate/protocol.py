"""How a score was made. It is stored with the score and printed under the table; unlike protocols never share one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cse_train.evaluate.pairs import Pairs, split_of

CODE_VERSION = "1"
"""Raised whenever an evaluation's numbers change."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Everything that two scores must agree on to be compared."""

    suite: str
    """Name of the pairs."""
    pooler: str
    """Pooler at test time."""
    aggregation: str = "all"
    """`all`: one Spearman correlation over the pairs of all subsets together; `mean` or `wmean` of the subsets'."""
    split: str
    """train, dev or test."""
    max_length: int
    """Tokens kept of a sentence, special tokens included."""
    precision: str = "fp32"
    """Arithmetic of the encoder; cosines and ranks are always fp64."""
    case: str = "as is"
    """What is done to the case of the texts before the tokenizer, which may lower it itself."""
    rule: str = ""
    """What a suite's number hangs on beside all this, as "senteval, 10 folds"."""
    data_hash: str
    """Hash of texts and grades."""
    code_version: str = CODE_VERSION

    def as_dict(self) -> dict[str, str | int]:
        """Plain values, in the order above."""
        return asdict(self)


def sts_protocol(pairs: Pairs, *, pooler: str, max_length: int, aggregation: str = "all") -> Protocol:
    """The protocol of cosines against the grades of a set."""
    return Protocol(
        suite=pairs.name,
        pooler=pooler,
        aggregation=aggregation,
        split=split_of(pairs.name),
        max_length=max_length,
        data_hash=pairs.content_hash,
    )


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
