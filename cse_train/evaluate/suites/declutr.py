"""DeCLUTR's average over SentEval: the mean of the two group means (its table 1; reference_spec C7).

Eighteen downstream and ten probing tasks give one number each: accuracy, but MRPC the mean of accuracy and F1, COCO the
mean of its six recalls, SICK-R and STS-B a learned relatedness' Spearman, STS12-16 the mean over subsets (test mode).
The released script also prints the sum over all 28 divided by 28, which is another number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import Score
from cse_train.evaluate.suites import sts, transfer
from cse_train.fields import ConfigError, nearest
from cse_train.text.sources import texts_hash

GROUPS: dict[str, tuple[str, ...]] = {
    "downstream": tuple(
        "CR MR MPQA SUBJ SST2 SST5 TREC MRPC SNLI SICK-E SICK-R STS-B COCO STS12 STS13 STS14 STS15 STS16".split()
    ),
    "probing": tuple("SentLen WC TreeDepth TopConst BShift Tense SubjNum ObjNum SOMO CoordInv".split()),
}
STS = {name.lower(): name for name in GROUPS["downstream"][-5:]}
"""Our suites -> the paper's tasks; its SICK-R and STS-B are learned, so ours are other tasks."""
TRANSFER = {name.lower(): name for name in ("CR", "MR", "MPQA", "SUBJ", "SST2", "TREC", "MRPC")}
NAME = "declutr"
COLUMNS = (f"{NAME}:downstream", f"{NAME}:average")
NEEDS = (*transfer.NEEDS, *STS)
AGGREGATION, CLASSIFIER = "mean", "senteval, 10 folds, adam"
"""Protocol of its published numbers."""


@dataclass(frozen=True)
class Averages:
    """The three numbers of a row of DeCLUTR's table 1, and what they lack."""

    groups: dict[str, float]
    """Group -> mean over its tasks; a group without a task is absent."""
    average: float
    """Mean of the group means."""
    missing: tuple[str, ...]
    """Tasks that the paper has and `scores` has not."""


def declutr_average(scores: Mapping[str, float], *, partial: bool = False) -> Averages:
    """Average of task -> score (0 to 100, as the module says). `partial` takes the tasks that are present.

    Raises ConfigError for an unknown task, for no task at all, and, unless `partial`, for a set that is not whole.
    """
    tasks = [task for group in GROUPS.values() for task in group]
    unknown = [f"unknown task: task={task}; {nearest(task, tasks)}" for task in scores if task not in tasks]
    missing = tuple(task for task in tasks if task not in scores)
    if unknown:
        raise ConfigError(unknown)
    if not scores or (missing and not partial):
        line = f"partial average: tasks={len(scores)} of {len(tasks)}, without {', '.join(missing)}"
        raise ConfigError([f"{line}; score these too, or ask for a partial average"])
    present = {name: [scores[task] for task in group if task in scores] for name, group in GROUPS.items()}
    groups = {name: fmean(values) for name, values in present.items() if values}
    return Averages(groups, fmean(groups.values()), missing)


def by_task(scores: Sequence[Score]) -> dict[str, float]:
    """Task -> number of the scores that are tasks of DeCLUTR; others are passed over.

    Raises ConfigError where a task was scored under another protocol than the paper's.
    """
    chosen = [score for score in scores if score.suite in TRANSFER or score.suite in STS]
    wrong = [line for score in chosen if (line := _problem(score))]
    if wrong:
        raise ConfigError(wrong)
    return {(TRANSFER | STS)[score.suite]: _value(score) for score in chosen}


def averages(scores: Sequence[Score], *, partial: bool = False) -> list[Score]:
    """The average of the scores of the transfer and the STS suite, and the means of the groups that are present."""
    tasks = by_task(scores)
    means = declutr_average(tasks, partial=partial)
    used = [score for score in scores if (TRANSFER | STS).get(score.suite) in tasks]
    protocol = replace(
        used[0].protocol,
        suite=NAME,
        aggregation="mean of group means",
        rule=f"{len(tasks)} of {len(tasks) + len(means.missing)} tasks",
        data_hash=texts_hash(sorted(f"{score.suite} {score.protocol.data_hash}" for score in used)),
    )
    details = {"tasks": tasks, "missing": means.missing}
    return [
        Score(suite=NAME, metric=metric, value=value, protocol=protocol, details=details)
        for metric, value in {**means.groups, "average": means.average}.items()
    ]


def evaluate(model: TextModel, paths: DataPaths) -> list[Score]:
    """The averages over those tasks whose files are at hand; the protocol's rule says how many of all they are.

    Each task is scored by the paper's protocol, whatever a command asks for elsewhere. Raises ConfigError where no task
    is at hand, and for a file that is short or unreadable.
    """
    scores: list[Score] = []
    absent: list[str] = []
    for name in (*TRANSFER, *STS):
        try:
            scores += _task(model, paths, name)
        except ConfigError as error:
            if not error.problems[0].startswith("missing data"):
                raise
            absent += error.problems
    if not scores:
        raise ConfigError(absent[:1])
    return averages(scores, partial=True)


def _task(model: TextModel, paths: DataPaths, name: str) -> list[Score]:
    if name in TRANSFER:
        return transfer.evaluate(model, paths, members=(name,))
    return sts.evaluate(model, paths, members=(name,), aggregation=AGGREGATION)


def _problem(score: Score) -> str | None:
    """What sets a result apart from the paper's protocol."""
    name, wanted = ("rule", CLASSIFIER) if score.suite in TRANSFER else ("aggregation", AGGREGATION)
    value = getattr(score.protocol, name)
    if value == wanted:
        return None
    return f"another protocol: {name}={value} of {score.suite}; DeCLUTR's average is over {wanted}"


def _value(score: Score) -> float:
    """A task's one number: MRPC's is the mean of accuracy and F1."""
    return fmean((score.value, score.details["f1"])) if score.suite == "mrpc" else score.value
