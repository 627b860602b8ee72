"""On which Ray cluster a sweep runs, as its driver says; a table beside the runs, also in ledgers made without it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, Float, String, Table, Text, delete, insert, inspect, select, update

from analysis.ledger import schema
from analysis.ledger.database import connect, transaction

clusters = Table(
    "cse_clusters",
    schema.metadata,
    Column("sweep", String(255), primary_key=True),
    Column("dashboard", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("began", Float, nullable=False),
    Column("ended", Float),
)


@dataclass(frozen=True)
class Cluster:
    """The newest driver of a sweep: times in seconds since 1970 by the database's clock."""

    sweep: str
    dashboard: str
    """HOST:PORT of Ray's dashboard; empty where Ray did not say."""
    shape: str
    """How many runs at once, of how many workers."""
    began: float
    ended: float | None
    """None while the driver lives, and after one that was killed."""


class ClusterLog:
    """The newest cluster of each sweep of a ledger."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str | Path) -> "ClusterLog":
        """The log of an existing ledger; LedgerError in one line."""
        return cls(connect(url, create=False))

    def close(self) -> None:
        self._engine.dispose()

    def begin(self, sweeps: Iterable[str], dashboard: str, shape: str) -> None:
        """A driver joined a cluster for these sweeps."""
        names = list(dict.fromkeys(sweeps))
        with transaction(self._engine, writes=True) as connection:
            clusters.create(connection, checkfirst=True)
            connection.execute(delete(clusters).where(clusters.c.sweep.in_(names)))
            for name in names:
                values = {"sweep": name, "dashboard": dashboard, "shape": shape, "began": schema.now()}
                connection.execute(insert(clusters).values(**values))

    def end(self, sweeps: Iterable[str]) -> None:
        """The driver of these sweeps leaves in order."""
        mine = clusters.c.sweep.in_(list(sweeps))
        with transaction(self._engine, writes=True) as connection:
            if inspect(connection).has_table(clusters.name):
                connection.execute(update(clusters).where(mine).values(ended=schema.now()))


def read(connection: Connection) -> dict[str, Cluster]:
    """Sweep -> its newest cluster."""
    if not inspect(connection).has_table(clusters.name):
        return {}
    return {row.sweep: Cluster(**row._mapping) for row in connection.execute(select(clusters))}
