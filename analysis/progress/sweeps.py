"""Progress of sweeps from the ledger alone, for `cse status` and the page of `cse dashboard`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from analysis.ledger import cluster_log, queries
from analysis.ledger.cluster_log import Cluster, Driver
from analysis.ledger.database import transaction
from analysis.ledger.rows import read_metric
from analysis.progress import pace
from analysis.progress.pages import Listing, prominence
from analysis.progress.rows import ProgressRow, cells_of
from analysis.run_state import FINAL, RunState, Standing
from analysis.sweep_spec import SweepSpec
from analysis.tables.data_sets import distinguish_runs
from analysis.tables.labels import choose_axes, label
from analysis.tables.spec import POINTS, MetricScale
from cse_train.evaluate.metric_names import read_span

SHOWN_RUNS = 200
"""Number of runs in a sweep's list; further ones are counted."""
SHOWN_CURVES = 24
"""Number of learning curves in one figure: of the running runs first, then of the best."""


@dataclass(frozen=True)
class SweepProgress:
    """Progress of one sweep; scores are dev scores, Spearman x 100."""

    id: str
    space: str
    """ID of the sweep's space."""
    title: str
    runs: int
    """Number of recorded (cell, seed) pairs; a search records them as it proposes them."""
    num_samples: int | None
    """Largest number of runs of a search; None if all are recorded."""
    search: bool
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

    @property
    def ended(self) -> int:
        return sum(self.counts.get(state, 0) for state in FINAL)


@dataclass(frozen=True)
class Overview:
    """Progress of every sweep of a ledger, the newest first, at one time of the database's clock."""

    now: float
    sweeps: Sequence[SweepProgress]


@dataclass(frozen=True)
class RunProgress:
    """One run in a sweep's list."""

    label: str
    row: ProgressRow
    folder: str | None
    """Folder of a failed run's files; None for other runs."""


@dataclass(frozen=True)
class SweepCurve:
    """Dev score of one run over training examples."""

    label: str
    signature: str
    state: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class SweepDetail:
    """One sweep with its runs: running ones first, then badly ended ones, then the best."""

    progress: SweepProgress
    runs: Sequence[RunProgress]
    unlisted: int
    curves: Sequence[SweepCurve]
    listing: Listing
    """Every run of the sweep, not only the listed ones."""


Labels = Callable[[str, Sequence[ProgressRow], bool], Mapping[str, str]]
"""Function from a sweep, its rows, and whether a sampler proposes them, to signature -> label."""


def detail_of(
    connection: Connection, sweep: str, rows: Sequence[ProgressRow], now: float, labels: Labels
) -> SweepDetail | None:
    """Returns the detail of a sweep with these rows, or None if the ledger does not have the sweep."""
    spec = queries.specs(connection).get(sweep)
    if spec is None:
        return None
    clusters, drivers = cluster_log.read(connection), cluster_log.read_drivers(connection)
    progress = progress_of(connection, sweep, spec, rows, clusters, drivers, now, labels)
    listing = listing_of(sweep, spec, rows, labels)
    names = listing.names
    listed_rows = sorted(rows, key=prominence)[:SHOWN_RUNS]
    failed = queries.runs(connection, signatures=[row.signature for row in listed_rows if row.state == RunState.FAILED])
    folders = {run.signature: run.folder for run in failed}
    runs = [RunProgress(names[row.signature], row, folders.get(row.signature)) for row in listed_rows]
    curves = _curves(connection, rows, names)
    return SweepDetail(progress, runs, len(rows) - len(listed_rows), curves, listing)


def listing_of(sweep: str, spec: SweepSpec, rows: Sequence[ProgressRow], labels: Labels) -> Listing:
    """Returns the listing of a sweep with these rows."""
    return Listing(rows, labels(sweep, rows, spec.asked is not None))


def progress_of(
    connection: Connection,
    sweep: str,
    spec: SweepSpec,
    rows: Sequence[ProgressRow],
    clusters: Mapping[str, Cluster],
    drivers: Sequence[Driver],
    now: float,
    labels: Labels,
) -> SweepProgress:
    """Returns the progress of a sweep with these rows."""
    counts = Counter(row.state for row in rows)
    live = bool(counts[RunState.RUNNING] or counts[RunState.CLAIMED])
    num_samples = spec.asked
    searched = num_samples is not None
    at_most = num_samples if isinstance(num_samples, int) else 0
    best = max((row for row in rows if row.best is not None), key=lambda row: row.best or 0.0, default=None)
    cluster = clusters.get(sweep)
    open_cluster = cluster if cluster and cluster.ended is None else None
    has_open_runs = any(row.state not in FINAL for row in rows)
    return SweepProgress(
        id=sweep,
        space=spec.space or sweep,
        title=spec.title,
        runs=len(rows),
        num_samples=at_most if at_most > len(rows) else None,
        search=searched,
        counts=dict(counts),
        share=sum(row.way for row in rows) / max(len(rows), at_most, 1),
        live=live,
        best=best.best if best else None,
        is_turned=spec.is_turned,
        digits=count_digits(spec, [row.best for row in rows if row.best is not None]),
        best_run=labels(sweep, rows, searched)[best.signature] if best else "",
        seconds_left=pace.seconds_left(connection, sweep, rows, num_samples, now) if live else None,
        updated=max((row.updated for row in rows if row.updated is not None), default=None),
        dashboard=open_cluster.dashboard if open_cluster and live else "",
        host=open_cluster.host if open_cluster and live else "",
        lost_logs=open_cluster.logs if open_cluster and has_open_runs and not live else "",
        missing_input=len(spec.blocked),
        spent=spec.spent,
        drivers=[driver for driver in drivers if sweep in driver.sweeps],
    )


def count_digits(spec: SweepSpec, scores: Sequence[float]) -> int:
    """Returns the number of decimals that count in a sweep's best scores: two in points, four from 0 to 1."""
    scale = MetricScale(span=spec.span or read_span(spec.metric, scores)) if spec.metric else POINTS
    return scale.digits(scores)


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


def _curves(connection: Connection, rows: Sequence[ProgressRow], names: Mapping[str, str]) -> list[SweepCurve]:
    """Returns curves of the running runs and the best others, up to SHOWN_CURVES; runs without a point are left out."""
    ranked = sorted(
        (row for row in rows if row.examples), key=lambda row: (row.state != RunState.RUNNING, -(row.best or 0.0))
    )
    drawn_rows = ranked[:SHOWN_CURVES]
    points = queries.curves(connection, [row.signature for row in drawn_rows])
    dev = {run.signature: run.config.get("train.dev") for run in queries.runs(connection, signatures=points)}
    scores = [read_metric(points.get(row.signature, ()), dev.get(row.signature)) for row in drawn_rows]
    return [
        SweepCurve(names[row.signature], row.signature, row.state, list(by_examples.items()))
        for row, by_examples in zip(drawn_rows, scores, strict=True)
        if by_examples
    ]


def run_folder(engine: Engine, signature: str) -> str | None:
    """Returns the folder of a run's files; None for an unknown run, or one without files. Raises LedgerError."""
    with transaction(engine) as connection:
        runs = queries.runs(connection, signatures=[signature])
    return runs[0].folder if runs else None
