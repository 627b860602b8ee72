"""Suite `senteval`: SentEval's downstream tasks as DeCLUTR reports them, and their mean (its tables S3 and 1).

One number for each task: accuracy, but MRPC the mean of accuracy and F1, SICK-R and STS-B the Spearman correlation of a
learned relatedness, STS12-16 the mean over subsets. These are the 16 tasks of DeCLUTR's released script; the paper's
averages are over 18, with SNLI and COCO.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import STS_YEARS
from cse_train.evaluate.suites import sts, transfer
from cse_train.evaluate.suites.registry import require
from cse_train.evaluate.tasks import MORE_TASKS
from cse_train.evaluate.vectors import TextModel
from cse_train.results import DEV_SUFFIX, Score
from cse_train.text.files import texts_hash

NAME = "senteval"
F1, SPEARMAN_MEAN = "mrpc:f1", "spearman_mean"
COLUMNS = (*transfer.COLUMNS, *MORE_TASKS, F1, *(f"{year}:{SPEARMAN_MEAN}" for year in STS_YEARS), NAME)
DEV_COLUMNS = (f"{NAME}{DEV_SUFFIX}",)
NEEDS = (*transfer.NEEDS, *MORE_TASKS, *STS_YEARS)


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns every task's test score, MRPC's F1, the average of the seven transfer tasks and, as `senteval`, the mean.

    Each task is scored by the paper's protocol, whatever a command asks for elsewhere. Raises ConfigError, before
    anything is encoded, for data that is missing or short.
    """
    scores = _task_scores(model, paths)
    return [*scores, mean(scores, "mean", test_values(scores))]


def evaluate_dev(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns the mean over the tasks on dev data, by which DeCLUTR chooses settings (figures 2, 3 and S1).

    Accuracy or Pearson; STS12-16, which have no dev set, as on test data. The classifiers are those of the test scores,
    as in DeCLUTR's numbers: `transfer_dev` has fewer folds.
    """
    scores = _task_scores(model, paths)
    values = _tasks(scores, lambda score: score.details.get("devacc", score.details.get("devpearson", score.value)))
    return [mean(scores, "devmean", values)]


def _task_scores(model: TextModel, paths: DataPaths) -> list[Score]:
    """Returns the scores of all columns of the suite `senteval` but its mean; `details` hold SentEval's dev scores."""
    require([NAME], paths)
    seven = transfer.evaluate(model, paths)
    mrpc = next(score for score in seven if score.suite == "mrpc")
    return [
        *seven,
        *transfer.evaluate(model, paths, members=MORE_TASKS),
        replace(mrpc, metric="f1", value=mrpc.details["f1"]),
        *(
            replace(s, metric=SPEARMAN_MEAN, cosines=None)
            for s in sts.evaluate(model, paths, members=tuple(STS_YEARS), aggregation="mean")
        ),
    ]


def test_values(scores: Sequence[Score]) -> dict[str, float]:
    """Returns task -> its number on test data; MRPC's is the mean of accuracy and F1."""
    tasks = _tasks(scores, lambda score: score.value)
    f1 = next(score.value for score in scores if score.column == F1)
    return tasks | {"mrpc": fmean((tasks["mrpc"], f1))}


def mean(scores: Sequence[Score], metric: str, tasks: Mapping[str, float]) -> Score:
    """Returns the mean over tasks as a score whose `details` hold the number of each task."""
    first = scores[0].protocol
    protocol = replace(
        first,
        suite=NAME,
        split="dev" if metric.startswith("dev") else "test",
        aggregation="mean over tasks",
        rule=f"{first.rule}, {len(tasks)} of 18 downstream tasks",
        data_hash=texts_hash(sorted(f"{score.suite} {score.protocol.data_hash}" for score in scores)),
    )
    details = {"tasks": dict(tasks)}
    return Score(suite=NAME, metric=metric, value=fmean(tasks.values()), protocol=protocol, details=details)


def _tasks(scores: Sequence[Score], value: Callable[[Score], float]) -> dict[str, float]:
    """Returns task -> number for each of the 16 tasks, by applying `value` to the task's score."""
    return {score.suite: value(score) for score in scores if score.column != F1 and score.suite != transfer.NAME}
