"""Log of selections whose checkpoint was scored on a test set ("looks" at it), in a table of the ledger."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, insert, inspect, select

from analysis.ledger import schema
from analysis.ledger.integrity import intact


@dataclass(frozen=True)
class Look:
    """One selection whose checkpoint was scored on test sets."""

    space: str
    """Sweep from which the checkpoint was selected."""
    rule: str
    candidates: int
    signature: str
    """Signature of the run whose checkpoint was scored."""
    suites: tuple[str, ...]
    values: Mapping[str, float]
    """Column of a test set -> score of the selected checkpoint."""
    at: float = 0.0
    """Time of the look in seconds since 1970, by the database's clock."""


def add(connection: Connection, look: Look) -> None:
    """Appends a selection's look at test sets to the log."""
    values = {"suites": list(look.suites), "values": dict(look.values), "at": schema.now()}
    fields = {name: getattr(look, name) for name in ("space", "rule", "candidates", "signature")}
    connection.execute(insert(schema.selections).values(**fields, **values))


def looks(connection: Connection, space: str, *, is_prefix: bool = False) -> list[Look]:
    """Returns all looks of a sweep at test sets, oldest first; empty for a ledger of an older version.

    `is_prefix`: of all sweeps and loops whose name begins with `space`.
    """
    table = schema.selections
    if not inspect(connection).has_table(table.name):
        return []
    named = table.c.space.startswith(space, autoescape=True) if is_prefix else table.c.space == space
    query = select(*(table.c[name] for name in Look.__dataclass_fields__)).where(named)
    log = []
    for row in connection.execute(query.order_by(table.c.id)).all():
        intact(table, row._asdict())
        stored = row._mapping["values"]  # a score that is none, NaN, stands in JSON as null
        values = {name: math.nan if value is None else value for name, value in stored.items()}
        log.append(Look(**{**row._mapping, "suites": tuple(row.suites), "values": values}))
    return log
