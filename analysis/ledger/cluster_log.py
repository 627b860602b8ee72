"""On which Ray cluster a sweep runs, and how each driver stands that is at work, as they say.

Clusters have a table beside the runs. Drivers have rows of `cse_meta` that end with them, so that programs which know
nothing of shares read the ledger as ever.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Column, Connection, Float, String, Table, Text, delete, insert, inspect, select, update

from analysis.ledger import schema
from analysis.ledger.integrity import intact
from analysis.ledger.rows import user_of

clusters = Table(
    "cse_clusters",
    schema.metadata,
    Column("sweep", String(255), primary_key=True),
    Column("dashboard", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("began", Float, nullable=False),
    Column("ended", Float),
)


DRIVER_KEY = "driver:"
"""How the keys of drivers begin in `cse_meta`."""
SILENT_S = 30.0
"""Seconds without a word after which a driver counts as gone."""


@dataclass(frozen=True)
class Driver:
    """A driver that is at work."""

    owner: str
    """Who holds its runs."""
    cluster: str
    """The session of the Ray cluster that it is connected to."""
    sweeps: tuple[str, ...]
    """Those of which it has claimed runs."""
    slots: int
    """As many of its runs fill the cluster."""
    most: int
    """Runs that it may have at once by its own options."""
    running: int
    wanted: int
    """Runs that it would have at once now: `most`, or `running` while it has none to start."""
    priority: int
    cap: int | None
    """Runs at once of all drivers of its user, as this one asks."""

    @property
    def user(self) -> str:
        return user_of(self.owner)


@dataclass(frozen=True)
class Cluster:
    """The newest driver of a sweep: times in seconds since 1970 by the database's clock."""

    sweep: str
    dashboard: str
    """HOST:PORT of Ray's dashboard; empty where Ray did not say."""
    shape: str
    """How many runs at once, of how many workers, and `; logs ` with where Ray writes its logs."""
    began: float
    ended: float | None
    """None while the driver lives, and after one that was killed or whose cluster was lost."""

    @property
    def logs(self) -> str:
        """HOST:FOLDER of Ray's logs, behind the folder to which they are copied; empty in a ledger of 0.1.0."""
        return self.shape.partition("; logs ")[2]

    @property
    def host(self) -> str:
        """The driver's."""
        return self.logs.rpartition(", else ")[2].partition(":")[0]


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


def stand_beside(connection: Connection, driver: Driver) -> tuple[list[Driver], float]:
    """Note how a driver stands; the other drivers that are at work, and the time in seconds since 1970."""
    key = _key(driver.owner)
    now = float(connection.scalar(select(schema.now())) or 0.0)
    text = json.dumps({**asdict(driver), "at": now})
    statement = schema.insert_for(connection.dialect.name)(schema.meta).values(key=key, value=text)
    connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": text}))
    connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(_read_drivers(connection, now)[1])))
    return [other for other in read_drivers(connection) if other.owner != driver.owner], now


def leave(connection: Connection, owner: str) -> None:
    """A driver ends."""
    connection.execute(delete(schema.meta).where(schema.meta.c.key == _key(owner)))


def read_drivers(connection: Connection) -> list[Driver]:
    """The drivers that are at work."""
    return _read_drivers(connection, float(connection.scalar(select(schema.now())) or 0.0))[0]


def _read_drivers(connection: Connection, now: float) -> tuple[list[Driver], list[str]]:
    """Those that are at work, and the keys of those that are gone."""
    living, gone = list[Driver](), list[str]()
    rows = select(schema.meta.c.key, schema.meta.c.value).where(schema.meta.c.key.startswith(DRIVER_KEY))
    for key, text in connection.execute(rows.order_by(schema.meta.c.key)):
        try:
            said = json.loads(text)
            silent_s = now - said.pop("at")
            driver = Driver(**{**said, "sweeps": tuple(said["sweeps"])})
        except (ValueError, TypeError, KeyError, AttributeError):  # spoilt; who lives writes it again
            silent_s = math.inf
        if abs(silent_s) > SILENT_S:
            gone.append(key)
        else:
            living.append(driver)
    return living, gone


def _key(owner: str) -> str:
    return f"{DRIVER_KEY}{owner[-24:]}"
