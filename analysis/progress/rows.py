"""Queries on a ledger for the progress of sweeps: few columns, in one transaction, for any number of runs."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from analysis.ledger import queries, schema
from analysis.ledger.integrity import STATE_OF, all_intact
from analysis.ledger.queries import LIVE
from analysis.run_state import HELD, UNCLAIMED, WITH_RESULT, RunState, Standing, standing
from cse_train.results import Settings

RECENT = 400
"""Number of a sweep's newest transitions from which its pace is computed."""
NOTHING: Settings = MappingProxyType({})


class ProgressRow(NamedTuple):
    """Progress of one (cell, seed) of a sweep; times are in seconds since 1970 by the database's clock."""

    sweep: str
    signature: str
    cell: Settings
    seed: int
    state: Standing
    """State of the run; `lost` where the owner's lease ended, `unclaimed` where nobody has begun."""
    method: str | None = None
    examples: int = 0
    total: int | None = None
    """Examples of the whole run; None before anybody has begun."""
    best: float | None = None
    best_examples: int | None = None
    updated: float | None = None
    reason: str | None = None
    identity: Settings = NOTHING
    """Content hashes of the run's inputs; empty before anybody has begun."""

    @property
    def share(self) -> float:
        """Trained share of the run, 0 to 1."""
        if self.state == RunState.DONE:
            return 1.0
        return min(1.0, self.examples / self.total) if self.total else 0.0

    @property
    def way(self) -> float:
        """Progress towards a result, 0 to 1; a failed run counts as 0, since another attempt begins again."""
        if self.state in WITH_RESULT:
            return 1.0
        return 0.0 if self.state == RunState.FAILED else self.share


def cells_of(rows: Iterable[ProgressRow]) -> list[Settings]:
    """Returns the distinct cells of rows; equal cells that were read together are one object."""
    return list({id(row.cell): row.cell for row in rows}.values())


_LINK_COLUMNS = ("sweep", "signature", "cell", "seed")
_RUN_COLUMNS = ("state", "method", "examples", "best", "best_examples", "updated", "reason", "identity")


def sizes(connection: Connection) -> dict[str, int]:
    """Returns sweep -> number of its rows; sweeps without any are absent."""
    links = schema.sweep_runs
    return {row[0]: row[1] for row in connection.execute(select(links.c.sweep, func.count()).group_by(links.c.sweep))}


def read_changed_signatures(connection: Connection, since: float | None) -> tuple[list[str] | None, float]:
    """Returns signatures of runs that changed since a time of the database's clock (None: all), and the time now.

    Unlike `analysis.ledger.queries.read_changes`, it reads no rows.
    """
    runs, now = schema.runs, float(connection.scalar(select(schema.now())) or 0.0)
    if since is None or now < since:
        return None, now
    news = or_(runs.c.updated > since - queries.LATE_WRITE_SECONDS, runs.c.state.in_(HELD))
    return list(connection.scalars(select(runs.c.signature).where(news))), now


def mark(connection: Connection) -> tuple[object, ...] | None:
    """Returns a value that is equal for two queries with no change between; None while a driver is at work."""
    runs, links, sweeps = schema.runs, schema.sweep_runs, schema.sweeps
    if connection.scalar(select(runs.c.signature).where(runs.c.state.in_(HELD), schema.leased).limit(1)):
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
    """Returns sweep -> its rows by cell and seed: all, or those of the given sweeps or runs."""
    links, runs = schema.sweep_runs, schema.runs
    not_done = runs.c.state != RunState.DONE  # of those that are, no configuration is looked into: it takes longest
    query = select(
        *schema.cast_json(links, _LINK_COLUMNS),
        *schema.cast_json(runs, _RUN_COLUMNS),
        LIVE.label("live"),
        # A length in epochs stands in the configuration as text; what it comes to is among the run's inputs.
        case((not_done, func.coalesce(runs.c.identity["examples"].as_integer(), _setting("train.examples")))),
        case((not_done, _setting("train.batch_size"))),
    ).outerjoin(runs, runs.c.signature == links.c.signature)
    if sweeps is not None:
        query = query.where(links.c.sweep.in_(list(sweeps)))
    by_sweep: dict[str, list[ProgressRow]] = defaultdict(list)
    for statement in queries.select_by_signature(query, links.c.signature, signatures):
        for row in _make_rows(connection.execute(statement).all()):
            by_sweep[row.sweep].append(row)
    return dict(by_sweep)


def _setting(key: str) -> ColumnElement[int]:
    setting: ColumnElement[int] = schema.runs.c.config[key].as_integer()
    return setting


def _make_rows(stored: Sequence[Sequence[Any]]) -> list[ProgressRow]:
    """Returns rows from the query's result, by sweep, cell and seed. Equal cells, and equal inputs, are one object."""
    columns = list(zip(*stored, strict=True))
    if not columns:
        return []
    links: dict[str, Sequence[Any]] = dict(zip(_LINK_COLUMNS, columns, strict=False))
    runs: dict[str, Sequence[Any]] = dict(zip(_RUN_COLUMNS, columns[len(_LINK_COLUMNS) :], strict=False))
    cells = links["cell"]
    links["cell"], runs["identity"] = _decode(cells), _decode(runs["identity"])
    all_intact(schema.sweep_runs, links)
    all_intact(schema.runs, {"signature": links["signature"], **runs})
    rows = []
    parts = (zip(*values, strict=True) for values in (links.values(), runs.values(), columns[-3:]))
    for (sweep, signature, cell, seed), run, (live, length, batch) in zip(*parts, strict=True):
        state, method, examples, best, best_examples, updated, reason, identity = run
        current = standing(STATE_OF[state], live) if state else UNCLAIMED
        # A run ends with its last whole batch.
        total = examples if current == RunState.DONE else max(1, length // batch) * batch if length and batch else None
        progress = examples or 0, total, best, best_examples, updated, reason, identity or NOTHING
        rows.append(ProgressRow(sweep, signature, cell, seed, current, method, *progress))
    places = sorted(zip(links["sweep"], cells, links["seed"], range(len(rows)), strict=True))
    return [rows[place] for *_, place in places]


def _decode(texts: Sequence[str | None]) -> list[Any]:
    values = {text: None if text is None else json.loads(text) for text in set(texts)}
    return [values[text] for text in texts]


def recent(connection: Connection, sweep: str) -> dict[str, list[tuple[str, float]]]:
    """Returns signature -> (state, time) of its newest attempt's starts and ends, oldest first, up to RECENT in all."""
    table, links = schema.history, schema.sweep_runs
    query = (
        select(table.c.signature, table.c.attempt, table.c.state, table.c.at)
        .where(table.c.signature.in_(select(links.c.signature).where(links.c.sweep == sweep)))
        .where(table.c.state.in_((RunState.RUNNING, *WITH_RESULT)))
        .order_by(table.c.id.desc())
        .limit(RECENT)
    )
    newest: dict[str, int] = {}
    states: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for signature, attempt, state, time in connection.execute(query):
        if newest.setdefault(signature, attempt) == attempt:
            states[signature].insert(0, (state, time))
    return dict(states)
