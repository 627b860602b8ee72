"""How far a sweep is, as words: `cse status` and the live page print the same."""

from collections.abc import Mapping, Sequence

from analysis.progress.sweeps import SweepProgress
from analysis.run_state import UNCLAIMED, RunState, Standing
from analysis.tables.labels import number_of
from cluster.monitor.metrics import clock

UNDER_WORDS: Mapping[str, Sequence[Standing]] = {
    RunState.RUNNING: (RunState.RUNNING,),
    "waiting": (UNCLAIMED, RunState.CLAIMED, RunState.LOST),
    RunState.STOPPED: (RunState.STOPPED,),
    RunState.FAILED: (RunState.FAILED,),
}
"""Word of `cse status` -> the run states that it counts, in the order in which they are printed."""


def facts(sweep: SweepProgress) -> list[str]:
    """Returns the counts of a sweep's runs by state, and the time left, as words."""
    counts = {word: sum(sweep.counts.get(state, 0) for state in states) for word, states in UNDER_WORDS.items()}
    parts = [f"{sweep.counts.get(RunState.DONE, 0)}/{sweep.num_samples or sweep.runs} done"]
    parts += [f"{number} {word}" for word, number in counts.items() if number]
    parts += [f"at most {number_of(sweep.num_samples, 'run')}"] if sweep.num_samples else []
    parts += [lacking(sweep.missing_input)] if sweep.missing_input else []
    parts += [f"about {clock(sweep.seconds_left)} left"] if sweep.seconds_left else []
    return parts if sweep.live or sweep.ended == sweep.runs else [*parts, "no driver works on it"]


def lacking(cells: int) -> str:
    return f"{number_of(cells, 'cell')} lack{'s' * (cells == 1)} an input"
