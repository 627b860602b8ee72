"""Tables of the ledger (`cse_*`), the clock of the database, and JSON that every database accepts.

The tables are those of the newest version; `migrations` brings an older ledger to it before the first write. A ledger
that is only read may lack younger tables.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    cast,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class StateColumn(String):
    """Column type for states of runs, which stores a `RunState` as its text.

    For a value whose class it does not know, SQLAlchemy asks its ORM, which Optuna may be importing in another thread.
    """

    cache_ok = True

    def coerce_compared_value(self, op: Any, value: Any) -> "StateColumn":
        return self


class now(FunctionElement[float]):
    """Clock of the database in seconds since 1970, so that machines that share a ledger need not agree on the time."""

    type = Float()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: Any, **options: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


def _plain(value: object) -> object:
    """Returns a value in JSON's types: NaN and infinities become null (PostgreSQL refuses them)."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def dumps(value: object) -> str:
    """Returns canonical JSON with sorted keys and no spaces, so that equal values have equal text."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: object) -> str:
    """Returns 16 hex digits that identify a JSON value."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()[:16]


def insert_for(dialect: str) -> Any:
    """Returns the `insert` construct of a dialect, which supports ON CONFLICT; the other dialect is not imported."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    return insert


def cast_json(table: Table, names: Iterable[str]) -> list[ColumnElement[Any]]:
    """Returns columns of a table with JSON cast to text: most texts repeat, and each need be parsed only once."""
    columns = [table.c[name] for name in names]
    return [cast(column, Text) if isinstance(column.type, JSON) else column for column in columns]


metadata = MetaData()

meta = Table(
    "cse_meta",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)

runs = Table(
    "cse_runs",
    metadata,
    Column("signature", String(64), primary_key=True),
    Column("state", StateColumn(16), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("owner", String(255), nullable=False),
    Column("lease_until", Float, nullable=False),
    Column("previous_state", StateColumn(16)),
    Column("method", String(64), nullable=False),
    Column("seed", Integer, nullable=False),
    Column("config", JSON, nullable=False),
    Column("identity", JSON, nullable=False),
    Column("examples", Integer),
    Column("best", Float),
    Column("best_examples", Integer),
    Column("seconds", Float),
    Column("folder", Text),
    Column("reason", Text),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
    Index("ix_cse_runs_owner_state", "owner", "state"),  # a heartbeat meets what its driver holds, not all that it did
    Index("ix_cse_runs_updated", "updated"),  # a driver of a search asks for what changed since it looked last
)

LONGEST_LEASE = 600.0
"""Longest valid lease in seconds. A lease that ends later was written before the database's clock was set back, and
nobody renews it."""
leased = and_(runs.c.lease_until > now(), runs.c.lease_until <= now() + LONGEST_LEASE)
"""Condition that a run's lease has not ended."""

history = Table(
    "cse_history",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("signature", ForeignKey("cse_runs.signature"), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("state", StateColumn(16), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("at", Float, nullable=False),
    Column("folder", Text),
    Column("reason", Text),
)

curves = Table(
    "cse_curves",
    metadata,
    Column("signature", ForeignKey("cse_runs.signature"), primary_key=True),
    Column("examples", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("seconds", Float),
    Column("best", Float),
    Column("best_examples", Integer),
    Column("metrics", JSON, nullable=False),
)

scores = Table(
    "cse_scores",
    metadata,
    Column("signature", ForeignKey("cse_runs.signature"), primary_key=True),
    Column("suite", String(128), primary_key=True),
    Column("protocol_hash", String(16), primary_key=True),
    Column("value", Float),
    Column("protocol", JSON, nullable=False),
    Column("cosines_file", Text),
    Column("cosines_hash", String(64)),
    Column("at", Float, nullable=False),
)

provenance = Table(
    "cse_provenance",
    metadata,
    Column("signature", ForeignKey("cse_runs.signature"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("details", JSON, nullable=False),
    Column("examples", Integer),
    Column("seconds", Float),
    Column("at", Float, nullable=False),
)

sweeps = Table(
    "cse_sweeps",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("spec", JSON, nullable=False),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
)

sweep_runs = Table(
    "cse_sweep_runs",
    metadata,
    Column("sweep", ForeignKey("cse_sweeps.id"), primary_key=True),
    Column("signature", String(64), primary_key=True, index=True),
    Column("cell_hash", String(16), primary_key=True),
    Column("cell", JSON, nullable=False),
    Column("seed", Integer, nullable=False),
)

selections = Table(
    "cse_selections",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("space", String(255), nullable=False, index=True),
    Column("rule", String(255), nullable=False),
    Column("candidates", Integer, nullable=False),
    Column("signature", ForeignKey("cse_runs.signature"), nullable=False),
    Column("suites", JSON, nullable=False),
    Column("values", JSON, nullable=False),
    Column("at", Float, nullable=False),
)

baselines = Table(
    "cse_baselines",
    metadata,
    Column("suite", String(128), primary_key=True),
    Column("encoder", Text, primary_key=True),
    Column("corpus", Text, primary_key=True),
    Column("dev_max_length", Integer, primary_key=True),
    Column("inputs", JSON, nullable=False),
    Column("rows", JSON, nullable=False),
    Column("at", Float, nullable=False),
)

untrained_scores = Table(
    "cse_untrained_scores",
    metadata,
    Column("model", String(255), primary_key=True),
    Column("model_hash", String(64), primary_key=True),
    Column("pooler", String(64), primary_key=True),
    Column("suite", String(128), primary_key=True),
    Column("protocol_hash", String(64), primary_key=True),
    Column("data_hash", String(64), nullable=False),
    Column("value", Float),
    Column("protocol", JSON, nullable=False),
    Column("at", Float, nullable=False),
)

imports = Table(
    "cse_imports",
    metadata,
    Column("signature", ForeignKey("cse_runs.signature"), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("file", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("host", Text),
    Column("folder", Text),
    Column("at", Float, nullable=False),
)
clusters = Table(
    "cse_clusters",
    metadata,
    Column("sweep", String(255), primary_key=True),
    Column("dashboard", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("began", Float, nullable=False),
    Column("ended", Float),
)
pairs = Table(
    "cse_pairs",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("grades", String(64)),
    Column("numbers", JSON, nullable=False),
)
"""Table of rank lists and grades, by hash. A row for a file of cosines holds their dense ranks and the hash of the row
with the grades; a row for a list of grades holds the grades themselves, with no `grades` hash."""
