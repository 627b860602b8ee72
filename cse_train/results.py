"""Results of a run and of its evaluations: points, an outcome, scores and their protocols, and where a model came from.

These objects go from the evaluator through ranks, worker and ledger to the page: nothing on the way takes them apart.
Imports no library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Scalar = bool | int | float | str | None
"""Types that the value of a setting may have."""
Settings = Mapping[str, Scalar]
"""Dotted key -> value: a run's configuration, or the axes of a cell."""
Json = Mapping[str, object]
"""Object of a JSON or YAML file, or row of a database, not yet checked."""


@dataclass(frozen=True)
class Point:
    """Report of a run after one dev evaluation."""

    examples: int
    """Number of training examples seen so far."""
    step: int
    seconds: float
    """Seconds since the start of the run, dev evaluations and earlier attempts included."""
    metrics: dict[str, float]
    """Dev score under its set's name, NaN for none, and the mean of each step metric since the point before."""
    best: float
    """Best dev score so far; a later equal score does not replace it."""
    best_examples: int
    """Training examples seen at the best dev score."""
    replayed: bool = False
    """True when a resumed run reports again what an earlier attempt reached."""
    precision: str = ""
    """Arithmetic that the device computed with; empty for a point of a version that did not store it."""


@dataclass(frozen=True)
class Outcome:
    """Final state of a run that reached its end or was stopped."""

    stopped: bool
    """True where the caller's report of a point asked to end the run early."""
    examples: int
    best: float
    best_examples: int
    seconds: float
    points: tuple[Point, ...]
    precision: str = ""
    """Arithmetic of the run, as its points give it."""


CODE_VERSION = "1"
"""Version of the evaluation code, raised whenever an evaluation's numbers change."""
DEV_SUFFIX = "_dev"
"""Ending of the columns of SentEval's scores on dev data."""
SENTEVAL = "senteval"
"""Beginning of the rules of scores made by SentEval's protocol."""
TEST_METRICS, DEV_METRICS = ("accuracy", "mean"), ("devacc", "devpearson", "devmean")
"""Metrics of SentEval's protocol stored under the name of the task or group itself, on test and on dev data."""
RULED = ("alignment", "recall@", "accuracy", "devacc")
"""Beginnings of metrics that are scored under several rules, so that their columns name the rule."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Facts that two scores must share to be compared; empty where an older or imported score does not state one."""

    suite: str
    """Name of the suite, set or task that is scored."""
    pooler: str
    """Pooler that made the embeddings at test time."""
    aggregation: str = "all"
    """Joining of subsets. `all`: one Spearman correlation over all pairs; `mean` or `wmean`: of the subsets' values."""
    split: str
    """Split of the data: train, dev or test."""
    max_length: int
    """Tokens kept of a sentence, special tokens included."""
    precision: str = "fp32"
    """Arithmetic of the encoder; cosines and ranks are always fp64."""
    case: str = "as is"
    """Change of the texts' case before the tokenizer, which may lower it itself."""
    prompt: str = ""
    """Prompt in front of every text; in a task of mteb, where the task's names choose none."""
    rule: str = ""
    """Everything else that a suite's number depends on, such as "senteval, 10 folds"."""
    data_hash: str
    """Hash of the evaluation's texts and grades."""
    code_version: str = CODE_VERSION
    others: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Fields of a stored protocol that this version does not know, or that have an unexpected type."""
    names: Sequence[str] | None = field(default=None, compare=False)
    """Field names of a protocol read from the ledger, in stored order; None for one made in memory."""

    @classmethod
    def read(cls, stored: Mapping[str, object]) -> "Protocol":
        """Reads the protocol of a stored score, so that `facts` equals what was stored."""
        values: dict[str, Any] = {
            name: value if type(value := stored.get(name)) is kind else kind() for name, kind in FIELD_KINDS.items()
        }
        others = {name: value for name, value in stored.items() if name not in values or values[name] != value}
        return cls(**values, others=others, names=tuple(stored))

    @cached_property
    def facts(self) -> Mapping[str, object]:
        """Fields of the protocol by name; a prompt only where there is one, since older scores have no such field."""
        values = {name: getattr(self, name) for name in FIELD_KINDS if name != "prompt" or self.prompt} | dict(
            self.others
        )
        return values if self.names is None else {name: values.get(name, "") for name in self.names}


FIELD_KINDS: Mapping[str, type[str] | type[int]] = {
    each.name: int if each.name == "max_length" else str
    for each in fields(Protocol)
    if each.name not in ("others", "names")
}
"""Field of a protocol -> its type where it is known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PairCosines:
    """Cosines and grades behind a Spearman correlation."""

    cosines: "np.ndarray"
    """float64 [pairs]: cosines in the order of the set."""
    gold: "np.ndarray"
    """float64 [pairs]: human grade of each pair's similarity."""


@dataclass(frozen=True)
class CosinesFile:
    """Path of the .npz with the cosines and grades of one score."""

    path: Path
    sha256: str | None


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number of a suite, with all that is needed to compare or examine it; a suite may give several."""

    suite: str
    """Name of the set or task: sts12, mr, sts_test."""
    metric: str
    """Name of the metric: spearman, accuracy, devacc, recall@1, alignment, uniformity, mean_abs_error ..."""
    value: float
    """Value of the metric; correlations and accuracies times 100."""
    protocol: Protocol
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers behind the value, such as scores of subsets or folds, or counts."""
    cosines: PairCosines | None = None
    """Cosines of a graded set until they are saved to a file; None for any other score."""
    file: CosinesFile | None = None
    """File with the cosines of a graded set, once saved."""
    queries: "np.ndarray | None" = field(default=None, compare=False)
    """float64 [queries]: values of a user set's queries, times 100, until saved to a file; `value` is their mean."""
    unscored: str = ""
    """Reason why `value` is NaN; empty where there is a value."""
    headline: bool = False
    """True where the score is stored under its set's name whatever its metric: a user's own set, or a task of mteb."""

    @property
    def column(self) -> str:
        """Name of the column under which the score is stored.

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


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """Origin of an exported model: what a ledger knows of its run; all empty for a run outside a sweep."""

    signature: str | None = None
    sweeps: Sequence[str] = ()
    cell: Mapping[str, object] = field(default_factory=dict)
    """Values that this run's cell has on the axes that the sweep compared."""
    seeds: Mapping[int, float | None] = field(default_factory=dict)
    """Seed -> best dev score, for the finished runs of this cell."""
    hashes: Mapping[str, object] = field(default_factory=dict)
    """Content hashes of encoder, tokenizer, corpus, dev set and what else the method reads."""
    provenance: Json = field(default_factory=dict)
    scores: Sequence[tuple[str, float, Mapping[str, object]]] = ()
    """Suite, value and protocol of every stored score."""
