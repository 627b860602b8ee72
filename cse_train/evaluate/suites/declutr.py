"""DeCLUTR's average over SentEval: the mean of the two group means (its table 1; reference_spec C7).

Eighteen downstream and ten probing tasks give one number each: accuracy, but MRPC the mean of accuracy and F1, COCO the
mean of its six recalls, SICK-R and STS-B a learned relatedness' Spearman, STS12-16 the mean over subsets (test mode).
The released script also prints the sum over all 28 divided by 28, which is another number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from cse_train.data_paths import DataPaths
from cse_train.evaluate.models.text_model import TextModel
from cse_train.evaluate.protocol import Score
from cse_train.evaluate.suites import sts, transfer
from cse_train.fields import ConfigError
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
AGGREGATION = "mean"
"""Over the subsets of STS12-16, in its published numbers; the transfer tasks are scored as by default."""


def means(scores: Mapping[str, float]) -> dict[str, float]:
    """The mean over each group's tasks that are present, and `average`, the mean of these means: table 1's numbers.

    `scores`: task -> score (0 to 100, as the module says). A group without a task is absent.
    """
    present = {name: [scores[task] for task in group if task in scores] for name, group in GROUPS.items()}
    groups = {name: fmean(values) for name, values in present.items() if values}
    return groups | {"average": fmean(groups.values())}


def averages(scores: Sequence[Score]) -> list[Score]:
    """The means of the scores of single tasks, each made by the paper's protocol."""
    tasks = {(TRANSFER | STS)[score.suite]: _value(score) for score in scores}
    missing = tuple(task for group in GROUPS.values() for task in group if task not in tasks)
    protocol = replace(
        scores[0].protocol,
        suite=NAME,
        aggregation="mean of group means",
        rule=f"{len(tasks)} of {len(tasks) + len(missing)} tasks",
        data_hash=texts_hash(sorted(f"{score.suite} {score.protocol.data_hash}" for score in scores)),
    )
    details = {"tasks": tasks, "missing": missing}
    return [
        Score(suite=NAME, metric=metric, value=value, protocol=protocol, details=details)
        for metric, value in means(tasks).items()
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
    return averages(scores)


def _task(model: TextModel, paths: DataPaths, name: str) -> list[Score]:
    if name in TRANSFER:
        return transfer.evaluate(model, paths, members=(name,))
    return sts.evaluate(model, paths, members=(name,), aggregation=AGGREGATION)


def _value(score: Score) -> float:
    """A task's one number: MRPC's is the mean of accuracy and F1."""
    return fmean((score.value, score.details["f1"])) if score.suite == "mrpc" else score.value
