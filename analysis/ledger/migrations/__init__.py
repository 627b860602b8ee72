"""From one version of the ledger's schema to the next. The folder is the registry: `to_N` makes N out of N - 1.

A module exports `migrate(connection)`, which changes tables and rows inside the transaction that it is given. It holds
the tables as they were at its version, because `schema` goes on. What it leaves is what a new ledger of that version
has.
"""

import importlib
import pkgutil
from collections.abc import Callable

from sqlalchemy import Connection, select, update

from analysis.ledger import schema
from analysis.ledger.errors import LedgerError, mask_password
from analysis.run_state import HELD

__all__ = ()

FIRST_VERSION = 1
"""The version that no module makes."""
VERSION_KEY = "schema_version"
MIGRATION_WAIT_S = 600
"""How long a driver waits for another that migrates."""


def newest() -> int:
    """The version that this program writes."""
    return max(
        (int(module.name.removeprefix("to_")) for module in pkgutil.iter_modules(__path__)), default=FIRST_VERSION
    )


def readable(version: str | None) -> bool:
    """Whether this program knows a version."""
    return version in [str(number) for number in range(FIRST_VERSION, newest() + 1)]


def read_version(connection: Connection) -> str | None:
    """The version that a ledger says."""
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == VERSION_KEY))


def migrate(connection: Connection) -> None:
    """Bring a ledger to the newest version, in a transaction that writes: all steps or none.

    Of several programs at once the first does it, and the others wait and find it done. LedgerError where a driver of
    an older program holds runs, since that one would not understand what it meets.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{MIGRATION_WAIT_S}s'")
    row = schema.meta.c.key == VERSION_KEY
    version = connection.scalar(select(schema.meta.c.value).where(row).with_for_update())
    steps = range(int(str(version)) + 1, newest() + 1)
    if steps:
        _require_idle(connection, str(version))
    for step in steps:
        _step(step)(connection)
        connection.execute(update(schema.meta).where(row).values(value=str(step)))


def _step(version: int) -> Callable[[Connection], None]:
    migrate: Callable[[Connection], None] = importlib.import_module(f"{__name__}.to_{version}").migrate
    return migrate


def _require_idle(connection: Connection, version: str) -> None:
    runs = schema.runs.c
    owner = connection.scalar(select(runs.owner).where(runs.state.in_(HELD), schema.leased).limit(1))
    if owner is not None:
        raise LedgerError(
            f"ledger in use: version={version} at {mask_password(connection.engine.url)}, where a driver of an older "
            f"cse-search holds runs ({owner}); wait until it ends, then give the same command again"
        )
