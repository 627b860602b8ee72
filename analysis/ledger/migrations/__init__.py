"""Migrations of the ledger's schema. The folder is the registry: module `to_N` migrates version N - 1 to N.

A module exports `migrate(connection)`, which changes tables and rows inside an open transaction. It holds the tables as
they were at its version, because `schema` goes on. A migrated ledger equals a new one of that version.
"""

import importlib
import pkgutil

from sqlalchemy import Connection, select, update

from analysis.ledger import schema
from analysis.ledger.errors import LedgerError, mask_password
from analysis.run_state import HELD

__all__ = ()

FIRST_VERSION = 1
"""Oldest version of the schema, which no migration creates."""
VERSION_KEY = "schema_version"
MIGRATION_WAIT_SECONDS = 600
"""Seconds that a driver waits while another one migrates the ledger."""


def newest() -> int:
    """Returns the version of the schema that this program writes."""
    return max(
        (int(module.name.removeprefix("to_")) for module in pkgutil.iter_modules(__path__)), default=FIRST_VERSION
    )


def readable(version: str | None) -> bool:
    """Returns whether this program can read a version of the schema."""
    return version in [str(number) for number in range(FIRST_VERSION, newest() + 1)]


def read_version(connection: Connection) -> str | None:
    """Returns the schema version that a ledger records."""
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.key == VERSION_KEY))


def migrate(connection: Connection) -> None:
    """Migrates a ledger to the newest version, in a transaction that writes: all steps or none.

    Of several concurrent programs the first migrates, and the others wait and find it done. Raises LedgerError where a
    driver of an older version holds runs, since it would not understand the new tables.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{MIGRATION_WAIT_SECONDS}s'")
    row = schema.meta.c.key == VERSION_KEY
    version = connection.scalar(select(schema.meta.c.value).where(row).with_for_update())
    steps = range(int(str(version)) + 1, newest() + 1)
    if steps:
        _require_no_drivers(connection, str(version))
    for step in steps:
        importlib.import_module(f"{__name__}.to_{step}").migrate(connection)
        connection.execute(update(schema.meta).where(row).values(value=str(step)))


def _require_no_drivers(connection: Connection, version: str) -> None:
    runs = schema.runs.c
    owner = connection.scalar(select(runs.owner).where(runs.state.in_(HELD), schema.leased).limit(1))
    if owner is not None:
        raise LedgerError(
            f"ledger in use: version={version} at {mask_password(connection.engine.url)}, where a driver of an older "
            f"cse-search holds runs ({owner}); wait until it ends, then give the same command again"
        )
