"""What a ledger keeps beside its runs' curves: scores, sweeps, and which run answers which cell."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.dialects import postgresql, sqlite

from analysis import schema
from analysis.database import transaction
from analysis.ledger_reader import LedgerReader


class LedgerRecords(LedgerReader):
    """Writes that need no claim: saying a thing again replaces it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._insert = sqlite.insert if engine.dialect.name == "sqlite" else postgresql.insert

    def add_score(
        self,
        signature: str,
        suite: str,
        value: float,
        protocol: Mapping[str, Any],
        cosines_file: str | Path | None = None,
        cosines_hash: str | None = None,
    ) -> None:
        """Stores one suite's value under its protocol; scoring again under the same protocol replaces it."""
        values = {
            "value": value,
            "protocol": dict(protocol),
            "cosines_hash": cosines_hash,
            "cosines_file": None if cosines_file is None else str(cosines_file),
            "at": schema.now(),
        }
        key = {"signature": signature, "suite": suite, "protocol_hash": schema.digest(protocol)}
        with self._writes() as connection:
            statement = self._insert(schema.scores).values(**key, **values)
            connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))

    def record_sweep(self, sweep: str, spec: Mapping[str, Any]) -> None:
        """Stores a sweep's description; recording it again replaces the description and keeps its runs."""
        values = {"spec": dict(spec), "updated": schema.now()}
        with self._writes() as connection:
            statement = self._insert(schema.sweeps).values(id=sweep, created=schema.now(), **values)
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))

    def link(self, sweep: str, signature: str, cell: Mapping[str, Any], seed: int) -> None:
        """Says which run answers a (cell, seed) of a recorded sweep; the run need not exist yet."""
        self.link_all(sweep, [(signature, cell, seed)])

    def link_all(self, sweep: str, rows: Iterable[tuple[str, Mapping[str, Any], int]]) -> None:
        """`link` for many `(signature, cell, seed)` in one transaction."""
        values = [
            {"sweep": sweep, "signature": signature, "cell_hash": schema.digest(cell), "cell": dict(cell), "seed": seed}
            for signature, cell, seed in rows
        ]
        if values:
            with self._writes() as connection:
                connection.execute(self._insert(schema.sweep_runs).on_conflict_do_nothing(), values)

    def _writes(self) -> AbstractContextManager[Connection]:
        return transaction(self._engine, writes=True)
