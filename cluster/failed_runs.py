"""What a failure says: of the run itself, of the machines, or of the storage that all runs share."""

from collections.abc import Iterable
from pathlib import Path

from analysis.records import HistoryRow
from cluster.storage import check_here
from cse_train.fields import ConfigError

LOST = ("workers lost", "nodes lost", "slot lost")
"""How the reason of a failure begins that is the machines' and not the run's: such a run is always tried again."""
FULL = "disk full"
"""How the reason of a rank that found no space begins."""


class StorageFailed(RuntimeError):
    """The folder of runs takes no more files: every further run would fail."""


def failed_twice(history: Iterable[HistoryRow]) -> bool:
    """Whether a run's last two failures had one reason, of its own making."""
    reasons = [row.reason or "" for row in history if row.state == "failed"][-2:]
    return len(reasons) == 2 and reasons[0] == reasons[1] and not reasons[0].startswith(LOST)


def storage_problem(storage: Path, reason: str) -> str:
    """What is wrong with the storage after a run failed for this reason; empty where nothing is."""
    advice = "runs are given back, the same command continues"
    if reason.startswith(FULL):
        return f"{reason.partition(';')[0]}; free some space: {advice}"
    try:
        check_here(storage)
    except ConfigError as error:
        return f"{error.problems[0].partition(';')[0]}; make it writable: {advice}"
    return ""
