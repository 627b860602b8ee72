"""Progress of sweeps from the ledger alone, for `cse status` and the page of `cse dashboard`."""

import statistics
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine

from analysis.documents import HIDDEN, spell_key
from analysis.ledger import cluster_log, queries
from analysis.ledger.cluster_log import Cluster, Driver
from analysis.ledger.database import transaction
from analysis.ledger.rows import read_metric
from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow, cells_of
from analysis.run_state import FINAL, UNCLAIMED, RunState, Standing
from analysis.sweep_spec import SweepSpec
from analysis.tables.labels import choose_axes, distinguish_runs, label
from analysis.tables.spec import POINTS, MetricScale
from cse_train.evaluate.metric_names import read_span

SHOWN_RUNS = 200
"""Number of runs in a sweep's list; further ones are counted."""
SHOWN_CURVES = 24
"""Number of learning curves in one figure: of the running runs first, then of the best."""
STATE_ORDER: Sequence[Standing] = (
    *(RunState.RUNNING, RunState.CLAIMED, RunState.FAILED, RunState.LOST, RunState.DONE, RunState.STOPPED),
    UNCLAIMED,
)
"""Default order of runs by state."""


@dataclass(frozen=True, kw_only=True)
class SweepProgress:
    """Progress of one sweep; scores are dev scores, Spearman x 100."""

    id: str
    title: str
    runs: int
    """Number of recorded (cell, seed) pairs; a search records them as it proposes them."""
    num_samples: int | None
    """Largest number of runs of a search; None if all are recorded."""
    search: bool = field(metadata=HIDDEN)
    """True if a sampler proposes the runs."""
    counts: Mapping[Standing, int]
    """State -> number of runs, without zeros; `unclaimed` runs have no owner yet, the owner of `lost` ones is gone."""
    share: float
    """Trained share of the sweep's runs, 0 to 1; a search counts the largest number of runs that it may make."""
    live: bool
    """True if a driver holds one of the sweep's runs now."""
    best: float | None
    """Highest stored score; a score whose lower value is better is stored with inverted sign."""
    is_turned: bool
    digits: int
    """Number of decimals that count in the sweep's scores."""
    best_run: str
    seconds_left: float | None
    """Remaining seconds at the pace of the newest runs; None if nobody is training or no pace is known."""
    updated: float | None
    """Time of the newest report of a run, in seconds since 1970."""
    dashboard: str
    """HOST:PORT of the driver's Ray dashboard while the driver lives, else empty."""
    host: str
    """Host name of the driver while it lives, else empty; a 127.0.0.1 in `dashboard` is on this host."""
    lost_logs: str
    """HOST:FOLDER of Ray's logs where the driver or the cluster was lost and runs are left, else empty."""
    missing_input: int
    """Number of cells that cannot be trained for want of data."""
    spent: Sequence[str]
    """Lines that say how much of each budget was spent."""
    drivers: Sequence[Driver]
    """Drivers at work on the sweep's runs; they may work on other sweeps too."""
    ended: int
    """Number of runs whose driver saw them end."""


@dataclass(frozen=True)
class Overview:
    """Progress of every sweep of a ledger, the newest first, at one time of the database's clock."""

    now: float
    sweeps: Sequence[SweepProgress]


@dataclass(frozen=True)
class RunProgress:
    """One run in a sweep's list."""

    label: str
    signature: str
    state: Standing
    share: float
    """Trained share of the run, 0 to 1."""
    examples: int
    total: int | None
    """Examples of the whole run; None before anybody has begun."""
    best: float | None
    reason: str | None
    folder: str | None = field(metadata=HIDDEN)
    """Folder of a failed run's files; None for other runs."""


@dataclass(frozen=True)
class SweepCurve:
    """Dev score of one run over training examples."""

    label: str
    signature: str
    state: str
    points: Sequence[tuple[int, float]]
    """Training examples and the score after them."""


@dataclass(frozen=True, kw_only=True)
class SweepDetail(SweepProgress):
    """One sweep with its runs: running ones first, then badly ended ones, then the best."""

    listed: Sequence[RunProgress] = field(metadata=spell_key("list"))
    unlisted: int
    """Number of further runs."""
    curves: Sequence[SweepCurve]
    rows: Sequence[ProgressRow] = field(metadata=HIDDEN)
    """Every run of the sweep, not only the listed ones."""
    labels: Mapping[str, str] = field(metadata=HIDDEN)
    """Signature -> label of the run."""


class RunLabels(Mapping[str, str]):
    """Mapping from a run's signature to its label: the axes that name its cell, its seed, and its data where runs of
    one cell differ in data.

    A label is made on first access, since a page shows a hundred of a hundred thousand.
    """

    def __init__(self, rows: Sequence[ProgressRow], searched: bool) -> None:
        cells = cells_of(rows)
        self._axes = choose_axes(cells, list(dict.fromkeys(axis for cell in cells for axis in cell)), searched=searched)
        self._inputs = distinguish_runs(
            (row.signature, row.cell, row.seed, row.identity) for row in rows if row.identity
        )
        self._rows, self._labels = {row.signature: row for row in rows}, dict[str, str]()

    def __getitem__(self, signature: str) -> str:
        if signature not in self._labels:
            row, inputs = self._rows[signature], self._inputs.get(signature, {})
            self._labels[signature] = label({**row.cell, **inputs}, [*self._axes, *inputs], row.seed)
        return self._labels[signature]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Follower:
    """Progress of one ledger's sweeps for a reader that polls: each query reads only what changed since the last one.

    Threads may share it; a lock lets one read at a time.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._rows: dict[str, list[ProgressRow]] = {}
        self._since: float | None = None
        self._labels: dict[str, tuple[object, RunLabels]] = {}

    def mark(self) -> tuple[object, ...] | None:
        """Returns a value that changes when progress changes (`rows.mark`). Raises LedgerError."""
        with transaction(self._engine) as connection:
            return progress_rows.mark(connection)

    def overview(self) -> Overview:
        """Returns the progress of all sweeps. Raises LedgerError."""
        with self._lock, transaction(self._engine) as connection:
            now = self._read(connection)
            clusters, drivers = cluster_log.read(connection), cluster_log.read_drivers(connection)
            sweeps = [
                self._progress(connection, sweep, spec, clusters.get(sweep), drivers, now)
                for sweep, spec in queries.specs(connection).items()
            ]
        return Overview(now, sorted(sweeps, key=lambda sweep: (sweep.live, sweep.updated or 0.0), reverse=True))

    def detail(self, sweep: str) -> SweepDetail | None:
        """Returns one sweep with its runs, or None if the ledger does not have it. Raises LedgerError."""
        with self._lock, transaction(self._engine) as connection:
            now, spec = self._read(connection), queries.specs(connection).get(sweep)
            if spec is None:
                return None
            cluster, drivers = cluster_log.read(connection).get(sweep), cluster_log.read_drivers(connection)
            rows, labels = self._labelled(sweep, spec)
            listed = sorted(rows, key=prominence)[:SHOWN_RUNS]
            failed = [row.signature for row in listed if row.state == RunState.FAILED]
            folders = {run.signature: run.folder for run in queries.runs(connection, signatures=failed)}
            return SweepDetail(
                **vars(self._progress(connection, sweep, spec, cluster, drivers, now)),
                listed=[_describe_run(row, labels[row.signature], folders.get(row.signature)) for row in listed],
                unlisted=len(rows) - len(listed),
                curves=_curves(connection, rows, labels),
                rows=rows,
                labels=labels,
            )

    def labelled(self, sweep: str) -> tuple[Sequence[ProgressRow], Mapping[str, str]] | None:
        """Returns every run of one sweep and signature -> label, or None for an unknown sweep. Raises LedgerError."""
        with self._lock, transaction(self._engine) as connection:
            self._read(connection)
            spec = queries.specs(connection).get(sweep)
            return None if spec is None else self._labelled(sweep, spec)

    def _read(self, connection: Connection) -> float:
        """Updates the cached rows and returns the database's time. Sweeps that got or lost runs are read whole."""
        sizes = progress_rows.sizes(connection)
        changed, now = progress_rows.read_changed_signatures(connection, self._since)
        grown = [sweep for sweep, size in sizes.items() if len(self._rows.get(sweep, ())) != size]
        if changed is None or len(grown) == len(sizes):
            self._rows = progress_rows.rows(connection)
        else:
            self._rows = {sweep: rows for sweep, rows in self._rows.items() if sweep in sizes}
            if grown:
                self._rows |= progress_rows.rows(connection, grown)
            for sweep, new_rows in progress_rows.rows(connection, signatures=changed).items():
                by_run: dict[str, list[ProgressRow]] = {}  # a sweep may hold a run in several cells and seeds
                for new in new_rows:
                    by_run.setdefault(new.signature, []).append(new)
                self._rows[sweep] = [
                    next(
                        (new for new in by_run.get(row.signature, ()) if (new.cell, new.seed) == (row.cell, row.seed)),
                        row,
                    )
                    for row in self._rows.get(sweep, [])
                ]
        self._since = now
        return now

    def _labelled(self, sweep: str, spec: SweepSpec) -> tuple[list[ProgressRow], RunLabels]:
        """Returns a sweep's runs with their labels, which are cached until runs are added or begin."""
        rows = self._rows.get(sweep, [])
        state = len(rows), sum(bool(row.identity) for row in rows), spec.asked
        cached = self._labels.get(sweep)
        if cached is None or cached[0] != state:
            cached = self._labels[sweep] = state, RunLabels(rows, spec.asked is not None)
        return rows, cached[1]

    def _progress(
        self,
        connection: Connection,
        sweep: str,
        spec: SweepSpec,
        cluster: Cluster | None,
        drivers: Sequence[Driver],
        now: float,
    ) -> SweepProgress:
        rows, labels = self._labelled(sweep, spec)
        counts = Counter(row.state for row in rows)
        live = bool(counts[RunState.RUNNING] or counts[RunState.CLAIMED])
        at_most = spec.asked or 0
        best = max((row for row in rows if row.best is not None), key=lambda row: row.best or 0.0, default=None)
        is_open = cluster is not None and cluster.ended is None
        has_open_runs = any(row.state not in FINAL for row in rows)
        return SweepProgress(
            id=sweep,
            title=spec.title,
            runs=len(rows),
            num_samples=at_most if at_most > len(rows) else None,
            search=spec.asked is not None,
            counts=dict(counts),
            share=sum(row.way for row in rows) / max(len(rows), at_most, 1),
            live=live,
            best=best.best if best else None,
            is_turned=spec.is_turned,
            digits=count_digits(spec, [row.best for row in rows if row.best is not None]),
            best_run=labels[best.signature] if best else "",
            seconds_left=seconds_left(rows, progress_rows.recent(connection, sweep), at_most, now) if live else None,
            updated=max((row.updated for row in rows if row.updated is not None), default=None),
            dashboard=cluster.dashboard if cluster and is_open and live else "",
            host=cluster.host if cluster and is_open and live else "",
            lost_logs=cluster.logs if cluster and is_open and has_open_runs and not live else "",
            missing_input=len(spec.blocked),
            spent=spec.spent,
            drivers=[driver for driver in drivers if sweep in driver.sweeps],
            ended=sum(counts[state] for state in FINAL),
        )


def _describe_run(row: ProgressRow, label: str, folder: str | None) -> RunProgress:
    return RunProgress(
        label, row.signature, row.state, row.share, row.examples, row.total, row.best, row.reason, folder
    )


def prominence(row: ProgressRow) -> tuple[int, float]:
    """Returns the default sort key of a run: running runs first, then badly ended ones, then the best."""
    return STATE_ORDER.index(row.state), -(row.best or 0.0)


def count_digits(spec: SweepSpec, scores: Sequence[float]) -> int:
    """Returns the number of decimals that count in a sweep's best scores: two in points, four from 0 to 1."""
    scale = MetricScale(span=spec.span or read_span(spec.metric, scores)) if spec.metric else POINTS
    return scale.digits(scores)


def seconds_left(
    rows: Sequence[ProgressRow], recent: Mapping[str, Sequence[tuple[str, float]]], at_most: int, now: float
) -> float | None:
    """Returns examples to come times seconds per example of the newest runs, divided by the number of concurrent runs.

    `recent` has signature -> newest (state, time); `at_most` runs are made in all, where that is more than `rows`.
    None if no run is training or no pace is known.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    examples: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        times = dict(recent.get(row.signature, ()))
        begin = times.get(RunState.RUNNING)  # None where it is older than what was read of the history
        end = now if row.state == RunState.RUNNING else times.get(row.state)
        if begin is not None and end is not None and end != begin and row.examples and row.method:
            seconds[row.method] += end - begin
            examples[row.method] += row.examples
    costs = {method: seconds[method] / examples[method] for method in examples}
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
    return (remaining + max(0, at_most - len(rows)) * usual_total * usual_cost) / at_once


def _curves(connection: Connection, rows: Sequence[ProgressRow], labels: Mapping[str, str]) -> list[SweepCurve]:
    """Returns curves of the running runs and the best others, up to SHOWN_CURVES; runs without a point are left out."""
    ranked = sorted(
        (row for row in rows if row.examples), key=lambda row: (row.state != RunState.RUNNING, -(row.best or 0.0))
    )
    drawn_rows = ranked[:SHOWN_CURVES]
    points = queries.curves(connection, [row.signature for row in drawn_rows])
    dev = {run.signature: run.config.get("train.dev") for run in queries.runs(connection, signatures=points)}
    scores = [read_metric(points.get(row.signature, ()), dev.get(row.signature)) for row in drawn_rows]
    return [
        SweepCurve(labels[row.signature], row.signature, row.state, list(by_examples.items()))
        for row, by_examples in zip(drawn_rows, scores, strict=True)
        if by_examples
    ]
