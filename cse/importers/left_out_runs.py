"""Reports what an import leaves out: unfinished runs, runs without the score, and values that it cannot place."""

from collections import Counter
from collections.abc import Sequence

from analysis.tables.labels import number_of, some
from cse.importers import INFEASIBLE, ForeignRun
from cse.importers.columns import NAMES_SHOWN
from cse.importers.records import ImportRequest

DISPLAY_NAMES = ("name", "Name", "mlflow.runName")
"""Names of the run's name in other tools; listed only where runs of one configuration differ in it."""
TAKES = "--rename NAME=KEY takes one as a setting"


def count_states(runs: Sequence[ForeignRun]) -> str:
    """Returns counts of unfinished runs by state, such as `2 crashed, 1 running`."""
    states = Counter(run.unfinished for run in runs if run.unfinished)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def list_left_out(runs: Sequence[ForeignRun], scored: Sequence[ForeignRun], request: ImportRequest) -> list[str]:
    """Returns lines on runs and values of a source that were left out, and what to do about them.

    `scored`: the runs that were taken, with their settings.
    """
    infeasible = sum(run.unfinished == INFEASIBLE for run in runs)
    unfinished = sum(bool(run.unfinished) for run in runs) - infeasible
    unscored = len(runs) - unfinished - infeasible - len(scored)
    used = {request.score, *request.names, *request.drop, *(metric.name for metric in request.metrics), request.seed}
    used |= {name for run in scored for name in run.settings}
    rest = list(dict.fromkeys(name for run in runs for name in run.rest if name not in {*used, *DISPLAY_NAMES}))
    metrics = list(dict.fromkeys(name for run in scored if run.is_flat for name in run.metrics if name not in used))
    states = count_states([run for run in runs if run.unfinished != INFEASIBLE])
    counts = [f"{unfinished} not finished ({states})"] if unfinished else []
    counts += [f"{unscored} without {request.score}"] if unscored else []
    lines = [f"left out: runs: {', '.join(counts)}; import again when they have ended"] if counts else []
    lines += [f"left out: {number_of(infeasible, 'run')} that break a constraint"] if infeasible else []
    lines += [f"left out: texts: {some(rest, NAMES_SHOWN)}; {TAKES}"] if rest else []
    return lines + ([f"kept as metrics: {some(metrics, NAMES_SHOWN)}; {TAKES}"] if metrics else [])
