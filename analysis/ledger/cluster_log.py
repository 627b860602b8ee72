"""On which Ray cluster a sweep runs, as its driver says; a table beside the runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Float, String, Table, Text, delete, insert, inspect, select, update

from analysis.ledger import schema
from analysis.ledger.integrity import intact

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


def begin(connection: Connection, sweeps: Iterable[str], dashboard: str, shape: str) -> None:
    """A driver joined a cluster for these sweeps."""
    names = list(dict.fromkeys(sweeps))
    connection.execute(delete(clusters).where(clusters.c.sweep.in_(names)))
    for name in names:
        values = {"sweep": name, "dashboard": dashboard, "shape": shape, "began": schema.now()}
        connection.execute(insert(clusters).values(**values))


def end(connection: Connection, sweeps: Iterable[str]) -> None:
    """The driver of these sweeps leaves in order."""
    connection.execute(update(clusters).where(clusters.c.sweep.in_(list(sweeps))).values(ended=schema.now()))


def read(connection: Connection) -> dict[str, Cluster]:
    """Sweep -> its newest cluster."""
    if not inspect(connection).has_table(clusters.name):
        return {}
    rows = connection.execute(select(clusters)).all()
    for row in rows:
        intact(clusters, row._asdict())
    return {row.sweep: Cluster(**row._mapping) for row in rows}
