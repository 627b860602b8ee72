"""What is read of a ledger to say how far its sweeps are: few columns, one transaction, whatever the size."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from analysis.ledger import places, queries, schema
from analysis.ledger.integrity import intact
from analysis.ledger.queries import LIVE

ENDED = ("done", "stopped", "failed")
"""States of runs that nobody works on any more."""
RECENT = 400
"""Transitions of a sweep that its pace is taken from, the newest ones."""


@dataclass(frozen=True)
class ProgressRow:
    """One (cell, seed) of a sweep and how far its run is; times in seconds since 1970 by the database's clock."""

    sweep: str
    signature: str
    cell: Mapping[str, Any]
    seed: int
    state: str
    """A state of the ledger; `lost` where the owner's lease ended, `unclaimed` where nobody has begun."""
    method: str | None = None
    examples: int = 0
    total: int | None = None
    """Examples of the whole run; None before anybody has begun."""
    dev: str | None = None
    """Name of the dev score among a point's metrics."""
    best: float | None = None
    best_examples: int | None = None
    updated: float | None = None
    folder: str | None = None
    reason: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    """Content hashes of its inputs; empty before anybody has begun."""

    @property
    def share(self) -> float:
        """Trained part, 0 to 1."""
        if self.state == "done":
            return 1.0
        return min(1.0, self.examples / self.total) if self.total else 0.0


def clock(connection: Connection) -> float:
    """The database's time, seconds since 1970."""
    return float(connection.scalar(select(schema.now())) or 0.0)


_OF_RUN = ("state", "method", "examples", "best", "best_examples", "updated", "folder", "reason", "identity")


def sizes(connection: Connection) -> dict[str, int]:
    """Sweep -> its number of rows; sweeps without any are absent."""
    links = schema.sweep_runs
    return {row[0]: row[1] for row in connection.execute(select(links.c.sweep, func.count()).group_by(links.c.sweep))}


def changed(connection: Connection, since: float | None) -> tuple[list[str] | None, float]:
    """Signatures of runs with news since a moment of the database's clock, None for all, and this moment.

    As `analysis.ledger.queries.changed`, without the rows.
    """
    runs, now = schema.runs, clock(connection)
    if since is None or now < since:
        return None, now
    news = or_(runs.c.updated > since - queries.LATE_S, runs.c.state.in_(schema.HELD))
    return list(connection.scalars(select(runs.c.signature).where(news))), now


def mark(connection: Connection) -> tuple[object, ...] | None:
    """Equal at two looks where nothing changed between them; None while a driver works, since times move with it."""
    runs, links, sweeps = schema.runs, schema.sweep_runs, schema.sweeps
    if connection.scalar(select(runs.c.signature).where(runs.c.state.in_(schema.HELD), schema.leased).limit(1)):
        return None
    counts = (
        select(func.count(), func.sum(runs.c.updated)).select_from(runs),
        select(func.count()).select_from(links),
        select(func.count(), func.sum(sweeps.c.updated)).select_from(sweeps),
    )
    return tuple(value for query in counts for value in connection.execute(query).one())


def rows(
    connection: Connection, sweeps: Iterable[str] | None = None, signatures: Iterable[str] | None = None
) -> dict[str, list[ProgressRow]]:
    """Sweep -> its rows by cell and seed; all, or those of these sweeps or runs."""
    links, runs = schema.sweep_runs, schema.runs
    query = select(
        *(links.c[name] for name in ("sweep", "signature", "cell", "seed")),
        *(runs.c[name] for name in _OF_RUN),
        LIVE.label("live"),
        # A length in epochs stands in the configuration as text; what it comes to is among the run's inputs.
        func.coalesce(runs.c.identity["examples"].as_integer(), _setting("train.examples")).label("total_examples"),
        _setting("train.batch_size").label("batch"),
        runs.c.config["train.dev"].as_string().label("dev"),
    ).outerjoin(runs, runs.c.signature == links.c.signature)
    if sweeps is not None:
        query = query.where(links.c.sweep.in_(list(sweeps)))
    by_sweep: dict[str, list[ProgressRow]] = defaultdict(list)
    where = places.of(connection)
    query = query.order_by(links.c.sweep, links.c.cell_hash, links.c.seed)
    for statement in queries.by_signature(query, links.c.signature, signatures):
        for row in connection.execute(statement):
            by_sweep[row.sweep].append(_row({**row._mapping, "folder": where.path(row.folder, row.signature)}))
    return dict(by_sweep)


def _setting(key: str) -> ColumnElement[int]:
    return schema.runs.c.config[key].as_integer()


def _row(values: Mapping[str, Any]) -> ProgressRow:
    intact(schema.runs, values)
    intact(schema.sweep_runs, values)
    kept = {name: values[name] for name in ProgressRow.__dataclass_fields__ if name in values}
    state = kept.pop("state") or "unclaimed"
    if state in schema.HELD and not values["live"]:
        state = "lost"
    examples, batch = values["total_examples"], values["batch"]
    total = max(1, examples // batch) * batch if examples and batch else None  # a run ends with its last whole batch
    kept |= {"examples": kept["examples"] or 0, "identity": kept["identity"] or {}}
    return ProgressRow(**{**kept, "state": state, "total": total})


def recent(connection: Connection, sweep: str) -> dict[str, list[tuple[str, float]]]:
    """Signature -> (state, time) of its newest attempt's starts and ends, oldest first; of the sweep's newest ones."""
    table, links = schema.history, schema.sweep_runs
    query = (
        select(table.c.signature, table.c.attempt, table.c.state, table.c.at)
        .where(table.c.signature.in_(select(links.c.signature).where(links.c.sweep == sweep)))
        .where(table.c.state.in_(("running", "done", "stopped")))
        .order_by(table.c.id.desc())
        .limit(RECENT)
    )
    newest: dict[str, int] = {}
    states: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for signature, attempt, state, at in connection.execute(query):
        if newest.setdefault(signature, attempt) == attempt:
            states[signature].insert(0, (state, at))
    return dict(states)
