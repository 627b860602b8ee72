"""Progress for a reader that polls: each query reads only what changed since the last one."""

import threading
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Engine

from analysis.ledger import cluster_log, queries
from analysis.ledger.database import transaction
from analysis.progress import rows as progress_rows
from analysis.progress.pages import Listing
from analysis.progress.rows import ProgressRow
from analysis.progress.sweeps import Overview, RunLabels, SweepDetail, detail_of, listing_of, progress_of

Names = Mapping[str, str]


class Follower:
    """Progress of one ledger's sweeps, cached between queries. Threads may share it; a lock lets one read at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._lock = engine, threading.Lock()
        self._rows: dict[str, list[ProgressRow]] = {}
        self._since: float | None = None
        self._names: dict[str, tuple[object, Names]] = {}

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
                progress_of(connection, sweep, spec, self._rows.get(sweep, []), clusters, drivers, now, self._labels)
                for sweep, spec in queries.specs(connection).items()
            ]
        return Overview(now, sorted(sweeps, key=lambda sweep: (sweep.live, sweep.updated or 0.0), reverse=True))

    def detail(self, sweep: str) -> SweepDetail | None:
        """Returns one sweep with its runs, or None if the ledger does not have it. Raises LedgerError."""
        with self._lock, transaction(self._engine) as connection:
            now = self._read(connection)
            return detail_of(connection, sweep, self._rows.get(sweep, []), now, self._labels)

    def listing(self, sweep: str) -> Listing | None:
        """Returns every run of one sweep, or None if the ledger does not have it. Raises LedgerError."""
        with self._lock, transaction(self._engine) as connection:
            self._read(connection)
            spec = queries.specs(connection).get(sweep)
            return None if spec is None else listing_of(sweep, spec, self._rows.get(sweep, []), self._labels)

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
                self._rows[sweep] = _replace_rows(self._rows.get(sweep, []), new_rows)
        self._since = now
        return now

    def _labels(self, sweep: str, rows: Sequence[ProgressRow], searched: bool) -> Names:
        """Returns the labels of a sweep's runs, cached until runs are added or begin."""
        state = len(rows), sum(bool(row.identity) for row in rows), searched
        cached = self._names.get(sweep)
        if cached is None or cached[0] != state:
            cached = self._names[sweep] = state, RunLabels(rows, searched)
        return cached[1]


def _replace_rows(rows: Sequence[ProgressRow], new_rows: Sequence[ProgressRow]) -> list[ProgressRow]:
    """Returns the rows with the fresh ones in place of those with equal signature, cell and seed."""
    by_run: dict[str, list[ProgressRow]] = {}
    for row in new_rows:
        by_run.setdefault(row.signature, []).append(row)
    return [
        next((new for new in by_run.get(row.signature, ()) if (new.cell, new.seed) == (row.cell, row.seed)), row)
        for row in rows
    ]
