"""Reads the values of a table from a ledger: one per cell, seed and column."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from analysis.ledger import Ledger, RunRow, ScoreRow
from analysis.ledger.rows import ARITHMETIC
from analysis.run_state import UNCLAIMED, RunState, Standing
from analysis.tables.spec import Key, RunValue, TableError, identify
from cse_train.results import Protocol, Scalar

BEST_COLUMN = "best"
"""Name of the column that always means the run's best dev score."""
DEV = "train.dev"
"""Setting that names the dev set."""

PART = "set_for"
"""Entry of a cell's key that names the one suite that its runs are for; other columns of the row use other runs."""

Planned = tuple[Key, str, int]
"""Cell key, signature and seed of a run that a table asks for."""


def drop_part(key: Key) -> dict[str, Scalar]:
    """Returns the key of the table's row for a cell's key, without the suite that its runs are for."""
    return {axis: value for axis, value in key.items() if axis != PART}


def stands_behind(planned: Sequence[Planned], suite: str) -> list[bool]:
    """Returns per run whether a suite's column uses it: runs for that suite alone replace a row's other runs."""
    separate_rows = {identify(drop_part(key)) for key, _, _ in planned if key.get(PART) == suite}
    return [
        key.get(PART) == suite
        or (PART not in key and not (separate_rows and identify(drop_part(key)) in separate_rows))
        for key, _, _ in planned
    ]


def results_of(
    ledger: Ledger,
    planned: Iterable[Planned],
    columns: Sequence[str],
    names: Mapping[str, str] | None = None,
    runs: Iterable[RunRow] | None = None,
) -> list[RunValue]:
    """Returns the value of each run in each column that uses it.

    A column is a suite whose scores the ledger holds, under its own name or the one that `names` gives for it; `best`,
    or the dev set's own name where no run has that suite's score, is the best score on the curve. Only done runs have
    values; others have NaN, so that a table can count what is missing. Of several scores of one suite the newest
    counts. `runs` are the planned runs where they were read before.
    """
    rows = list(planned)
    signatures = [signature for _, signature, _ in rows]
    runs_by_signature = {run.signature: run for run in (ledger.runs(signatures=signatures) if runs is None else runs)}
    scores = {(score.signature, score.suite): score for score in ledger.scores(signatures)}
    scored = {suite for _, suite in scores}
    suites = {column: (names or {}).get(column, column) for column in columns}
    stands = {column: stands_behind(rows, suite) for column, suite in suites.items()}
    computed = find_computed(ledger, runs_by_signature.values())
    values: list[RunValue] = []
    for place, (key, signature, seed) in enumerate(rows):
        run = runs_by_signature.get(signature)
        state: Standing = UNCLAIMED if run is None else run.state
        row = drop_part(key)
        for column in (column for column in columns if stands[column][place]):
            suite = suites[column]
            value, protocol = _cell(run, suite, scores.get((signature, suite)), suite in scored)
            dev = None if run is None or suite in (BEST_COLUMN, run.config.get(DEV, suite)) else run.best
            values.append(RunValue(row, seed, column, value, protocol, signature, state, dev, computed.get(signature)))
    return values


def find_computed(ledger: Ledger, runs: Iterable[RunRow]) -> dict[str, tuple[str, str]]:
    """Returns signature -> requested and actual precision, for runs whose device decides the precision."""
    requested = {run.signature: str(run.config.get(ARITHMETIC, "fp32")) for run in runs}
    # fp32 leaves the device no choice.
    attempts = ledger.provenance([signature for signature, value in requested.items() if value != "fp32"])
    newest = {signature: rows[-1].details.get(ARITHMETIC) for signature, rows in attempts.items()}
    return {signature: (requested[signature], str(value)) for signature, value in newest.items() if value}


def require_one_precision(results: Iterable[RunValue], table: str) -> None:
    """Raises TableError where runs of one setting had several precisions, as `auto` has on a card and a CPU."""
    finite = (result for result in results if math.isfinite(result.value))
    require_one_way({result.signature: result.computed for result in finite if result.computed}, table)


def require_one_way(computed: Mapping[str, tuple[str, str]], table: str) -> None:
    """Raises TableError where one requested precision in `computed` (`find_computed`) came to several actual ones."""
    runs: dict[str, Counter[str]] = defaultdict(Counter)
    for requested, way in computed.values():
        runs[requested][way] += 1
    for requested, ways in runs.items():
        if len(ways) > 1:
            counted = " and ".join(f"{way} ({count})" for way, count in sorted(ways.items()))
            line = f"one precision: {ARITHMETIC}={requested} was {counted} in the runs of {table}"
            raise TableError(f"{line}; train them on one kind of device, or give {ARITHMETIC} a value of its own")


def _cell(run: RunRow | None, suite: str, score: ScoreRow | None, scored: bool) -> tuple[float, Protocol | None]:
    """Returns value and protocol of one run in one column; the value is NaN without a finished run or a score."""
    if run is None or run.state != RunState.DONE:
        return float("nan"), None
    if score is not None:
        return float("nan") if score.value is None else score.value, score.protocol
    if suite == BEST_COLUMN or (suite == run.config.get(DEV) and not scored):
        return float("nan") if run.best is None else run.best, None
    return float("nan"), None
