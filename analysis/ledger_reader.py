"""What may be asked of a ledger; each method is one transaction."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine

from analysis import queries
from analysis.database import transaction
from analysis.records import HistoryRow, ProvenanceRow, RunRow, ScoreRow, SweepCell, SweepRow
from analysis.shown_url import shown_url


class LedgerReader:
    """The reading half of `analysis.ledger.Ledger`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def url(self) -> str:
        """The address, password hidden."""
        return shown_url(self._engine.url)

    def close(self) -> None:
        self._engine.dispose()

    def run(self, signature: str) -> RunRow | None:
        """One run, or None."""
        with self._reads() as connection:
            return next(iter(queries.runs(connection, signatures=[signature])), None)

    def runs(
        self,
        sweep: str | None = None,
        states: Iterable[str] | None = None,
        signatures: Iterable[str] | None = None,
    ) -> list[RunRow]:
        """Runs in the order of their creation: all, or a sweep's, or in these states, or with these signatures."""
        with self._reads() as connection:
            return list(queries.runs(connection, sweep, states, signatures))

    def states(self, signatures: Iterable[str]) -> dict[str, str]:
        """Signature -> state of those that exist; a dead owner's run counts as lost."""
        with self._reads() as connection:
            return queries.states(connection, signatures)

    def curve(self, signature: str) -> list[dict[str, Any]]:
        """The stored points of a run by examples, each as `add_points` takes them."""
        return self.curves([signature]).get(signature, [])

    def curves(self, signatures: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """`curve` for many runs at once; runs without points are absent."""
        with self._reads() as connection:
            return queries.curves(connection, signatures)

    def scores(self, signatures: Iterable[str]) -> list[ScoreRow]:
        """All scores of these runs, oldest first."""
        with self._reads() as connection:
            return queries.scores(connection, signatures)

    def history(self, signature: str) -> list[HistoryRow]:
        """Every transition of a run, oldest first."""
        with self._reads() as connection:
            return queries.history(connection, signature)

    def provenance(self, signature: str) -> list[ProvenanceRow]:
        """Commit, versions, host, data and cost of each attempt, oldest first."""
        with self._reads() as connection:
            return queries.provenance(connection, signature)

    def attempts(self, signatures: Iterable[str]) -> dict[str, list[ProvenanceRow]]:
        """`provenance` for many runs at once."""
        with self._reads() as connection:
            return queries.attempts(connection, signatures)

    def codes(self) -> dict[str, int]:
        """Digest of our code -> runs of which it trained a part."""
        with self._reads() as connection:
            return queries.codes(connection)

    def sweeps(self) -> list[SweepRow]:
        """All sweeps, oldest first, with the number of their runs by state."""
        with self._reads() as connection:
            return queries.sweeps(connection)

    def sweep_spec(self, sweep: str) -> dict[str, Any]:
        """What was recorded of a sweep; empty for an unknown one."""
        with self._reads() as connection:
            return queries.sweep_spec(connection, sweep)

    def cells(self, sweep: str) -> list[SweepCell]:
        """Every linked (cell, seed) of a sweep."""
        with self._reads() as connection:
            return queries.cells(connection, sweep)

    def _reads(self) -> AbstractContextManager[Connection]:
        return transaction(self._engine)
