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
from cse_train.evaluate.protocol import Result
from cse_train.evaluate.suites import sts
from cse_train.evaluate.suites.transfer import suite as transfer
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


def from_results(results: Sequence[Result]) -> dict[str, float]:
    """Task -> score of the results that are tasks of DeCLUTR; others are passed over.

    Raises ConfigError where a task was scored under another protocol than the paper's.
    """
    chosen = [result for result in results if result.suite in TRANSFER or result.suite in STS]
    wrong = [line for result in chosen if (line := _problem(result))]
    if wrong:
        raise ConfigError(wrong)
    return {(TRANSFER | STS)[result.suite]: _score(result) for result in chosen}


def evaluate(results: Sequence[Result], *, partial: bool = False) -> list[Result]:
    """The average of what the transfer and the STS suite found, and the means of the groups that are present."""
    scores = from_results(results)
    found = declutr_average(scores, partial=partial)
    used = [result for result in results if (TRANSFER | STS).get(result.suite) in scores]
    protocol = replace(
        used[0].protocol,
        suite="declutr",
        aggregation="mean of group means",
        rule=f"{len(scores)} of {len(scores) + len(found.missing)} tasks",
        data_hash=texts_hash(sorted(f"{result.suite} {result.protocol.data_hash}" for result in used)),
    )
    details = {"tasks": scores, "missing": found.missing}
    return [
        Result(suite="declutr", metric=metric, value=value, protocol=protocol, details=details)
        for metric, value in {**found.groups, "average": found.average}.items()
    ]


def score(model: TextModel, paths: DataPaths) -> list[Result]:
    """The averages over those tasks whose files are at hand; the protocol's rule says how many of all they are.

    Each task is scored by the paper's protocol, whatever a command asks for elsewhere. Raises ConfigError where no task
    is at hand, and for a file that is short or unreadable.
    """
    found: list[Result] = []
    absent: list[str] = []
    for name in (*TRANSFER, *STS):
        try:
            found += _task(model, paths, name)
        except ConfigError as error:
            if not error.problems[0].startswith("missing data"):
                raise
            absent += error.problems
    if not found:
        raise ConfigError(absent[:1])
    return evaluate(found, partial=True)


def _task(model: TextModel, paths: DataPaths, name: str) -> list[Result]:
    if name in TRANSFER:
        return transfer.evaluate(model, paths, tasks=(name,))
    return sts.evaluate(model, paths, sets=(name,), aggregation=AGGREGATION)


def _problem(result: Result) -> str | None:
    """What sets a result apart from the paper's protocol."""
    name, wanted = ("rule", CLASSIFIER) if result.suite in TRANSFER else ("aggregation", AGGREGATION)
    found = getattr(result.protocol, name)
    if found == wanted:
        return None
    return f"another protocol: {name}={found} of {result.suite}; DeCLUTR's average is over {wanted}"


def _score(result: Result) -> float:
    """A task's one number: MRPC's is the mean of accuracy and F1."""
    return fmean((result.value, result.details["f1"])) if result.suite == "mrpc" else result.value
