"""Records on which Ray cluster each sweep runs, and how many runs each live driver has and wants.

Clusters have a table of their own. Drivers have rows in `cse_meta` that are deleted when they end, so that older
versions, which know nothing of drivers that share a cluster, can still read the ledger.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, inspect, select, update

from analysis.ledger import schema
from analysis.ledger.integrity import intact
from analysis.ledger.ledger import Ledger
from analysis.ledger.rows import user_of

DRIVER_KEY = "driver:"
"""Prefix of the keys of drivers in `cse_meta`."""
SILENCE_SECONDS = 30.0
"""Seconds without a heartbeat after which a driver counts as gone."""


@dataclass(frozen=True)
class Driver:
    """Live driver of sweeps, with the runs that it has and wants on its Ray cluster."""

    owner: str
    """Owner that holds the driver's runs, USER@HOST:PID:ID."""
    cluster: str
    """Session name of the Ray cluster that the driver is connected to."""
    sweeps: tuple[str, ...]
    """Sweeps from which the driver has claimed runs."""
    slots: int
    """Number of the driver's runs that fill the cluster."""
    most: int
    """Largest number of concurrent runs that the driver's own options allow."""
    running: int
    wanted: int
    """Concurrent runs that the driver would have now: `most`, or `running` while it has none to start."""
    priority: int
    cap: int | None
    """Limit on the concurrent runs of all drivers of the same user, as the driver's options ask; None for no limit."""

    @property
    def user(self) -> str:
        return user_of(self.owner)


@dataclass(frozen=True)
class Cluster:
    """Ray cluster of a sweep's newest driver; times in seconds since 1970 by the database's clock."""

    sweep: str
    dashboard: str
    """HOST:PORT of Ray's dashboard; empty if Ray does not report it."""
    shape: str
    """Number of concurrent runs and of workers per run, then `; logs ` and the place of Ray's logs."""
    began: float
    ended: float | None
    """Time at which the driver ended; None while it lives, after it was killed, or where its cluster was lost."""

    @property
    def logs(self) -> str:
        """Place of Ray's logs, HOST:FOLDER, after the folder to which they are copied; empty in a ledger of 0.1.0."""
        return self.shape.partition("; logs ")[2]

    @property
    def host(self) -> str:
        """Host of the driver."""
        return self.logs.rpartition(", else ")[2].partition(":")[0]


def join(ledger: Ledger, sweeps: Iterable[str], dashboard: str, shape: str) -> None:
    """Records that a driver joined a Ray cluster for some sweeps."""
    names = list(dict.fromkeys(sweeps))
    with ledger.writes() as connection:
        schema.clusters.create(connection, checkfirst=True)  # for a while new ledgers were made without this table
        connection.execute(delete(schema.clusters).where(schema.clusters.c.sweep.in_(names)))
        for name in names:
            values = {"sweep": name, "dashboard": dashboard, "shape": shape, "began": schema.now()}
            connection.execute(insert(schema.clusters).values(**values))


def leave(ledger: Ledger, sweeps: Iterable[str]) -> None:
    """Records that the driver of some sweeps left its cluster as planned."""
    with ledger.writes() as connection:
        connection.execute(
            update(schema.clusters).where(schema.clusters.c.sweep.in_(list(sweeps))).values(ended=schema.now())
        )


def read(connection: Connection) -> dict[str, Cluster]:
    """Returns sweep -> the Ray cluster of its newest driver."""
    if not inspect(connection).has_table(schema.clusters.name):
        return {}
    rows = connection.execute(select(schema.clusters)).all()
    for row in rows:
        intact(schema.clusters, row._asdict())
    return {row.sweep: Cluster(**row._mapping) for row in rows}


def write_driver(ledger: Ledger, driver: Driver) -> tuple[list[Driver], float]:
    """Stores a driver's heartbeat and counts; returns the other live drivers, and the time in seconds since 1970."""
    key = _key(driver.owner)
    with ledger.writes() as connection:
        now = float(connection.scalar(select(schema.now())) or 0.0)
        text = json.dumps({**asdict(driver), "at": now})
        statement = schema.insert_for(connection.dialect.name)(schema.meta).values(key=key, value=text)
        connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": text}))
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(_read_drivers(connection, now)[1])))
        return [other for other in read_drivers(connection) if other.owner != driver.owner], now


def remove_driver(ledger: Ledger, owner: str) -> None:
    """Deletes the row of a driver that ends."""
    with ledger.writes() as connection:
        connection.execute(delete(schema.meta).where(schema.meta.c.key == _key(owner)))


def read_drivers(connection: Connection) -> list[Driver]:
    """Returns the live drivers."""
    return _read_drivers(connection, float(connection.scalar(select(schema.now())) or 0.0))[0]


def _read_drivers(connection: Connection, now: float) -> tuple[list[Driver], list[str]]:
    """Returns the live drivers, and the keys of drivers whose heartbeat stopped."""
    living, gone = list[Driver](), list[str]()
    rows = select(schema.meta.c.key, schema.meta.c.value).where(schema.meta.c.key.startswith(DRIVER_KEY))
    for key, text in connection.execute(rows.order_by(schema.meta.c.key)):
        try:
            fields = json.loads(text)
            silence_seconds = now - fields.pop("at")
            driver = Driver(**{**fields, "sweeps": tuple(fields["sweeps"])})
        except (ValueError, TypeError, KeyError, AttributeError):  # spoilt; who lives writes it again
            silence_seconds = math.inf
        if abs(silence_seconds) > SILENCE_SECONDS:  # below 0 where the clock was set back
            gone.append(key)
        else:
            living.append(driver)
    return living, gone


def _key(owner: str) -> str:
    return f"{DRIVER_KEY}{owner[-24:]}"  # keys have 32 characters at most, and the end of an owner is unique
