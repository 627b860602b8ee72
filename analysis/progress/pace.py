"""Estimates the remaining time of a sweep from the newest starts and ends in its history."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow
from analysis.run_state import FINAL, RunState


def seconds_left(
    connection: Connection, sweep: str, rows: Sequence[ProgressRow], num_samples: int | None, now: float
) -> float | None:
    """Returns examples to come times seconds per example of the newest runs, divided by the number of concurrent runs.

    None if no run is training or no pace is known.
    """
    costs = _seconds_an_example(rows, progress_rows.recent(connection, sweep), now)
    at_once = sum(row.state == RunState.RUNNING for row in rows)
    totals = [row.total for row in rows if row.total]
    if not costs or not at_once or not totals:
        return None
    usual_total, usual_cost = statistics.mean(totals), statistics.mean(costs.values())
    remaining = sum(
        ((row.total or usual_total) - row.examples) * costs.get(row.method or "", usual_cost)
        for row in rows
        if row.state not in FINAL
    )
    unseen = max(0, (num_samples or 0) - len(rows))
    return (remaining + unseen * usual_total * usual_cost) / at_once


def _seconds_an_example(
    rows: Sequence[ProgressRow], recent: Mapping[str, Sequence[tuple[str, float]]], now: float
) -> dict[str, float]:
    """Returns method -> wall seconds of one run per training example, evaluation included."""
    seconds: defaultdict[str, float] = defaultdict(float)
    examples: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        times = dict(recent.get(row.signature, ()))
        begin = times.get(RunState.RUNNING)  # None where it is older than what was read of the history
        end = now if row.state == RunState.RUNNING else times.get(row.state)
        if begin is not None and end is not None and end != begin and row.examples and row.method:
            seconds[row.method] += end - begin
            examples[row.method] += row.examples
    return {method: seconds[method] / examples[method] for method in examples}
