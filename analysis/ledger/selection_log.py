"""Every look at a test set by a selection: one table beside the runs, also in ledgers that were made without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, insert, inspect, select

from analysis.ledger import schema
from analysis.ledger.database import connect, transaction


@dataclass(frozen=True)
class Look:
    """One selection whose checkpoint was scored on test sets."""

    space: str
    """The sweep that was selected from."""
    rule: str
    candidates: int
    signature: str
    """The run whose checkpoint was scored."""
    suites: tuple[str, ...]
    values: Mapping[str, float]
    """Column -> value."""
    at: float = 0.0
    """Seconds since 1970 by the database's clock."""


class SelectionLog:
    """The looks of one ledger, oldest first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str | Path) -> "SelectionLog":
        """The log of an existing ledger; LedgerError in one line."""
        return cls(connect(url, create=False))

    def close(self) -> None:
        self._engine.dispose()

    def add(self, look: Look) -> None:
        """Append; the table is made where the ledger is older than it."""
        values = {"suites": list(look.suites), "values": dict(look.values), "at": schema.now()}
        about = {name: getattr(look, name) for name in ("space", "rule", "candidates", "signature")}
        with transaction(self._engine, writes=True) as connection:
            schema.selections.create(connection, checkfirst=True)
            connection.execute(insert(schema.selections).values(**about, **values))

    def looks(self, space: str) -> list[Look]:
        """All looks of a sweep."""
        table = schema.selections
        query = select(*(table.c[name] for name in Look.__dataclass_fields__)).where(table.c.space == space)
        with transaction(self._engine) as connection:
            if not inspect(connection).has_table(table.name):
                return []
            rows = connection.execute(query.order_by(table.c.id)).all()
        return [Look(**{**row._mapping, "suites": tuple(row.suites)}) for row in rows]


def looks_by_suite(looks: Sequence[Look], signature: str) -> dict[str, Look]:
    """Suite -> the look that scored this run on it."""
    return {suite: look for look in looks if look.signature == signature for suite in look.suites}


def count(looks: Sequence[Look], suite: str) -> int:
    """How many different runs of the sweep were scored on a suite."""
    return len({look.signature for look in looks if suite in look.suites})
