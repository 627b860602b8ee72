"""How long a sweep still takes, from the newest starts and ends in its history."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow
from analysis.run_state import FINAL, RunState


def seconds_left(
    connection: Connection, sweep: str, rows: Sequence[ProgressRow], num_samples: int | None, now: float
) -> float | None:
    """Examples to come x seconds an example of the newest runs, shared by the runs that run at once."""
    costs = _seconds_an_example(rows, progress_rows.recent(connection, sweep), now)
    at_once = sum(row.state == RunState.RUNNING for row in rows)
    totals = [row.total for row in rows if row.total]
    if not costs or not at_once or not totals:
        return None
    usual_total, usual_cost = statistics.mean(totals), statistics.mean(costs.values())
    left = sum(
        ((row.total or usual_total) - row.examples) * costs.get(row.method or "", usual_cost)
        for row in rows
        if row.state not in FINAL
    )
    unseen = max(0, (num_samples or 0) - len(rows))
    return (left + unseen * usual_total * usual_cost) / at_once


def _seconds_an_example(
    rows: Sequence[ProgressRow], recent: Mapping[str, Sequence[tuple[str, float]]], now: float
) -> dict[str, float]:
    """Method -> wall seconds that one training example takes a run, evaluation included."""
    seconds: defaultdict[str, float] = defaultdict(float)
    examples: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        taken = _wall_seconds(recent.get(row.signature, ()), row.state, now)
        if taken and row.examples and row.method:
            seconds[row.method] += taken
            examples[row.method] += row.examples
    return {method: seconds[method] / examples[method] for method in examples}


def _wall_seconds(transitions: Iterable[tuple[str, float]], state: str, now: float) -> float | None:
    """From an attempt's start to its end, or till now where it runs; None where the start is not known."""
    at = dict(transitions)
    end = at.get(state) if state != RunState.RUNNING else now
    return None if RunState.RUNNING not in at or end is None else end - at[RunState.RUNNING]
