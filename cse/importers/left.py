"""What an import cannot place, in plain lines: runs that did not end, runs without the score, values of no kind."""

from collections import Counter
from collections.abc import Sequence

from analysis.tables.labels import number_of, some
from cse.importers import INFEASIBLE, ForeignRun
from cse.importers.columns import NAMES_SHOWN
from cse.importers.records import Taking

DISPLAY_NAMES = ("name", "Name", "mlflow.runName")
"""Texts that every run has; a line names them only where runs of one configuration differ in them."""
TAKES = "--rename NAME=KEY takes one as a setting"


def count_states(runs: Sequence[ForeignRun]) -> str:
    """How many runs stand how, of those that did not end in order."""
    states = Counter(run.unfinished for run in runs if run.unfinished)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items()))


def list_left_out(runs: Sequence[ForeignRun], scored: Sequence[ForeignRun], taking: Taking) -> list[str]:
    """What of a source's runs was not taken, and what to do; `scored` are those that were, with their settings."""
    infeasible = sum(run.unfinished == INFEASIBLE for run in runs)
    unfinished = sum(bool(run.unfinished) for run in runs) - infeasible
    unscored = len(runs) - unfinished - infeasible - len(scored)
    used = {taking.score, *taking.names, *taking.drop, *(metric.name for metric in taking.metrics), taking.seed}
    used |= {name for run in scored for name in run.settings}
    rest = list(dict.fromkeys(name for run in runs for name in run.rest if name not in {*used, *DISPLAY_NAMES}))
    metrics = list(dict.fromkeys(name for run in scored if run.is_flat for name in run.metrics if name not in used))
    states = count_states([run for run in runs if run.unfinished != INFEASIBLE])
    counts = [f"{unfinished} not finished ({states})"] if unfinished else []
    counts += [f"{unscored} without {taking.score}"] if unscored else []
    lines = [f"left out: runs: {', '.join(counts)}; import again when they have ended"] if counts else []
    lines += [f"left out: {number_of(infeasible, 'run')} that break a constraint"] if infeasible else []
    lines += [f"left out: texts: {some(rest, NAMES_SHOWN)}; {TAKES}"] if rest else []
    return lines + ([f"kept as metrics: {some(metrics, NAMES_SHOWN)}; {TAKES}"] if metrics else [])
