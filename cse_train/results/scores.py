"""Scores of an evaluation and how they were made. Imports no library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cse_train.results.scalar import Json

if TYPE_CHECKING:
    import numpy as np

CODE_VERSION = "1"
"""Raised whenever an evaluation's numbers change."""
DEV_SUFFIX = "_dev"
SENTEVAL = "senteval"
TEST_METRICS, DEV_METRICS = ("accuracy", "mean"), ("devacc", "devpearson", "devmean")
"""By SentEval's rule, these are what a task's or a group's own name stands for, on its test and on its dev set."""
RULED = ("alignment", "recall@", "accuracy", "devacc")
"""Beginnings of the metrics that one call scores, or a person may ask for, under several rules."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Everything that two scores must agree on to be compared; empty for what an older score or a stranger's does not
    say."""

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
    others: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What a stored one says beside all this."""
    names: Sequence[str] | None = field(default=None, compare=False)
    """Of a stored one: what it says, in its order."""

    @classmethod
    def read(cls, stored: Mapping[str, object]) -> "Protocol":
        """The protocol of a stored score, of which `facts` are the same again."""
        given: dict[str, Any] = {
            name: value if type(value := stored.get(name)) is kind else kind() for name, kind in FIELD_KINDS.items()
        }
        others = {name: value for name, value in stored.items() if name not in given or given[name] != value}
        return cls(**given, others=others, names=tuple(stored))

    @cached_property
    def facts(self) -> Mapping[str, object]:
        """All that it says, by name; a prompt only where there is one, as scores of before have none."""
        said = {name: getattr(self, name) for name in FIELD_KINDS if name != "prompt" or self.prompt} | dict(
            self.others
        )
        return said if self.names is None else {name: said.get(name, "") for name in self.names}


FIELD_KINDS: Mapping[str, type[str] | type[int]] = {
    each.name: int if each.name == "max_length" else str
    for each in fields(Protocol)
    if each.name not in ("others", "names")
}
"""Field of a protocol -> what it is where it is known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairCosines:
    """What a Spearman correlation was made of."""

    cosines: "np.ndarray"
    """float64 [pairs], in the order of the set."""
    gold: "np.ndarray"
    """float64 [pairs]: the grades."""


@dataclass(frozen=True)
class CosinesFile:
    """The npz with the cosines and grades of one score."""

    path: Path
    sha256: str | None


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
    details: Json = field(default_factory=dict)
    """Numbers behind the value, as subsets, folds or counts."""
    cosines: PairCosines | None = None
    """Of graded sets alone, until they are kept in a file."""
    file: CosinesFile | None = None
    """Of graded sets, where they are kept."""
    queries: "np.ndarray | None" = field(default=None, compare=False)
    """float64 [queries], in the order of the set: what each gave, times 100, whose mean is the value. Of a user's
    retrieval set alone, until they are kept in a file."""
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
            return self.suite + (DEV_SUFFIX if self.metric in DEV_METRICS else "")
        ruled = rule and self.metric.startswith(RULED) and not rule.startswith(self.metric)
        shown = f" ({rule})" if ruled else ""
        return f"{self.suite}:{self.metric}{shown}"
