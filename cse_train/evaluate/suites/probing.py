"""Suite `probing`: SentEval's ten probing tasks, which test what words and syntax an embedding reveals.

Conneau et al., 2018; classified as SST-2 is (SentEval probing.py). DeCLUTR's table S4, with its mean in table 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites import transfer
from cse_train.evaluate.tasks import PROBING
from cse_train.evaluate.vectors import TextModel
from cse_train.results import DEV_SUFFIX, Score
from cse_train.text.files import texts_hash

NAME = "probing"
MEMBERS = tuple(PROBING)
COLUMNS = (*MEMBERS, NAME)
DEV_COLUMNS = (f"{NAME}{DEV_SUFFIX}",)
NEEDS = MEMBERS


def evaluate(model: TextModel, paths: DataPaths, *, members: Sequence[str] = MEMBERS) -> list[Score]:
    """Returns each task's test accuracy, and for all ten their mean, named `probing`. Raises as `transfer.evaluate`."""
    scores = transfer.evaluate(model, paths, members=members)
    if set(members) != set(MEMBERS):
        return scores
    return [*scores, mean(scores, "mean", {score.suite: score.value for score in scores})]


def evaluate_dev(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns the mean dev accuracy over the ten tasks, as in DeCLUTR's tables S1 and S5. Raises as `evaluate`.

    The classifiers are those of the test scores: SentEval chooses the weight decay by this accuracy.
    """
    scores = transfer.evaluate(model, paths, members=MEMBERS)
    return [mean(scores, "devmean", {score.suite: score.details["devacc"] for score in scores})]


def mean(scores: Sequence[Score], metric: str, tasks: Mapping[str, float]) -> Score:
    """Returns the mean over the ten tasks as a score whose `details` hold the number of each task."""
    protocol = replace(
        scores[0].protocol,
        suite=NAME,
        split="dev" if metric.startswith("dev") else "test",
        aggregation="mean over tasks",
        data_hash=texts_hash(sorted(score.protocol.data_hash for score in scores)),
    )
    details = {"tasks": dict(tasks)}
    return Score(suite=NAME, metric=metric, value=fmean(tasks.values()), protocol=protocol, details=details)
