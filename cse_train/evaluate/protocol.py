"""A score, and how it was made. The protocol is stored with the score and printed under the table; unlike protocols
never share one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.pairs import Pairs

CODE_VERSION = "1"
"""Raised whenever an evaluation's numbers change."""
DEV = "_dev"
SENTEVAL = "senteval"
TEST_METRICS, DEV_METRICS = ("accuracy", "mean"), ("devacc", "devpearson", "devmean")
"""By SentEval's rule, these are what a task's or a group's own name stands for, on its test and on its dev set."""
RULED = ("alignment", "recall@", "accuracy", "devacc")
"""Beginnings of the metrics that one call scores, or a person may ask for, under several rules."""


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
    prompt: str = ""
    """What stands in front of every text; in a task of mteb, where its names choose none."""
    rule: str = ""
    """What a suite's number hangs on beside all this, as "senteval, 10 folds"."""
    data_hash: str
    """Hash of texts and grades."""
    code_version: str = CODE_VERSION

    def as_dict(self) -> dict[str, str | int]:
        """Plain values, in the order above; a prompt only where there is one, as scores of before have none."""
        return {name: value for name, value in asdict(self).items() if name != "prompt" or value}


def sts_protocol(pairs: Pairs, model: TextModel, *, aggregation: str = "all", rule: str = "") -> Protocol:
    """The protocol of a model's cosines on a graded set."""
    return Protocol(
        suite=pairs.name,
        pooler=model.pooler,
        aggregation=aggregation,
        split=pairs.split,
        max_length=model.max_length,
        rule=rule,
        data_hash=pairs.content_hash,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class PairCosines:
    """What a Spearman correlation was made of."""

    cosines: np.ndarray
    """float64 [pairs], in the order of the set."""
    gold: np.ndarray
    """float64 [pairs]: the grades."""
    file: Path | None = None
    """The npz with both, once they are kept."""
    file_hash: str | None = None
    """sha256 of the file."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number of a suite, with all that is needed to compare or to examine it; a suite may give several."""

    suite: str
    """The set or task: sts12, MR, sts_test."""
    metric: str
    """spearman, accuracy, devacc, recall@1, alignment, uniformity, mean_abs_error ..."""
    value: float
    """Correlations and accuracies times 100."""
    protocol: Protocol
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers behind the value, as subsets, folds or counts."""
    cosines: PairCosines | None = None
    """Of graded sets alone."""
    unscored: str = ""
    """Why there is no value, which is NaN then."""
    headline: bool = False
    """Whether it stands under its set's name whatever its metric: of a user's own set, and of a task of mteb."""

    @property
    def column(self) -> str:
        """The name under which it is stored.

        A correlation, a headline, and an accuracy or a mean by SentEval's rule, is stored under its set's, task's or
        group's own name (`sts_test`, `mr`); SentEval's score on dev data has `_dev` behind it. Any other number is
        `SUITE:METRIC`, with the rule in brackets where several rules are scored side by side.
        """
        rule = self.protocol.rule
        if self.metric == "spearman" or self.headline:
            return self.suite
        if rule.startswith(SENTEVAL) and self.metric in (*TEST_METRICS, *DEV_METRICS):
            return self.suite + (DEV if self.metric in DEV_METRICS else "")
        ruled = rule and self.metric.startswith(RULED) and not rule.startswith(self.metric)
        shown = f" ({rule})" if ruled else ""
        return f"{self.suite}:{self.metric}{shown}"

    def record(self) -> dict[str, Any]:
        """Plain values, as a rank posts them and as `Ledger.add_score` takes them."""
        file = self.cosines.file if self.cosines else None
        return {
            "suite": self.column,
            "value": self.value,
            "protocol": self.protocol.as_dict(),
            "cosines_file": None if file is None else str(file),
            "cosines_hash": self.cosines.file_hash if self.cosines else None,
        }
