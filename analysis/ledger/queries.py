"""Queries that read a ledger, each on an open connection."""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, inspect, or_, select

from analysis.ledger import places, schema
from analysis.ledger.errors import LedgerError
from analysis.ledger.integrity import STATE_OF, Row, all_intact, intact, intact_point, intact_spec, sound_rows
from analysis.ledger.rows import (
    Claim,
    CurvePoint,
    HistoryRow,
    Import,
    Objects,
    ProvenanceRow,
    RunRow,
    ScoreRow,
    SweepCell,
    SweepRow,
)
from analysis.run_state import HELD, UNCLAIMED, RunState, Standing
from analysis.run_state import standing as standing_of
from analysis.sweep_spec import SweepSpec

NAMES_A_QUERY = 500
"""Signatures per SQL statement, below the limit on bound parameters of every database."""

LATE_WRITE_SECONDS = 60.0
"""Longest time in seconds between a statement and the end of its transaction; `database` sets the server's timeouts."""

LIVE = and_(schema.runs.c.state.in_(HELD), schema.leased)
"""Condition that somebody holds a run now, by a lease that has not ended."""
_STANDS = select(schema.runs.c.state).where(
    *(schema.runs.c[name] == bindparam(f"of_{name}") for name in ("signature", "attempt", "owner"))
)
RUN_NAMES = tuple(name for name in RunRow.__dataclass_fields__ if name not in ("live", "settings"))


def find_edited(connection: Connection) -> list[tuple[str, float | None, float]]:
    """Returns (signature, best, greatest best of the curve) of finished runs whose best is not on their curve."""
    table, curves = schema.runs, schema.curves
    same_run = curves.c.signature == table.c.signature
    greatest = select(func.max(curves.c.best)).where(same_run).scalar_subquery()
    matched = select(curves.c.best).where(same_run, curves.c.best == table.c.best).exists()
    query = select(*schema.cast_json(table, ["signature", "best", "identity"]), greatest.label("greatest")).where(
        table.c.state == RunState.DONE, greatest.is_not(None), ~matched
    )
    rows = connection.execute(query.order_by(table.c.signature))
    return [(row.signature, row.best, row.greatest) for row in rows if "imported" not in str(row.identity)]


def runs(
    connection: Connection,
    sweep: str | None = None,
    states: Iterable[str] | None = None,
    signatures: Iterable[str] | None = None,
) -> list[RunRow]:
    """Returns runs in the order of their creation (within each 500 signatures); the given conditions must all hold."""
    table = schema.runs
    query = select(*schema.cast_json(schema.runs, RUN_NAMES), LIVE.label("live"))
    if sweep is not None:
        linked = select(schema.sweep_runs.c.signature).where(schema.sweep_runs.c.sweep == sweep)
        query = query.where(table.c.signature.in_(linked))
    if states is not None:
        query = query.where(table.c.state.in_(list(states)))
    is_filtered = sweep is not None or signatures is not None
    return _run_rows(connection, select_by_signature(query, table.c.signature, signatures), strict=is_filtered)


def read_changes(connection: Connection, since: float | None) -> tuple[list[RunRow], float]:
    """Returns the runs that changed since a time of the database's clock (None: all), and the time of this query.

    Held runs are always included, because a lease ends without a write. So is every row written up to
    LATE_WRITE_SECONDS before `since`: a row has the time of its statement, but becomes visible only when its
    transaction ends. A clock that was set back gives all runs.
    """
    table, now = schema.runs, float(connection.scalar(select(schema.now())) or 0.0)
    query = select(*schema.cast_json(schema.runs, RUN_NAMES), LIVE.label("live"))
    if since is not None and now >= since:
        query = query.where(or_(table.c.updated > since - LATE_WRITE_SECONDS, table.c.state.in_(HELD)))
    return _run_rows(connection, [query]), now


def _run_rows(connection: Connection, statements: Iterable[Select[Any]], *, strict: bool = False) -> list[RunRow]:
    """Returns runs. With `strict`, raises LedgerError for a damaged row; otherwise warns and leaves the row out."""
    rows = list[RunRow]()
    for statement in statements:
        try:
            rows += _run_rows_of(connection, statement)
        except (LedgerError, ValueError):
            if strict:
                raise
            # One damaged row fails the whole statement: find the sound ones row by row, then ask for those alone.
            every = select(*schema.cast_json(schema.runs, schema.runs.c.keys()))
            texts = (row._asdict() for row in connection.execute(every))
            check = functools.partial(intact, schema.runs)
            sound = [row["signature"] for row in sound_rows(schema.runs, texts, check)]
            for part in select_by_signature(statement, schema.runs.c.signature, sound):
                rows += _run_rows_of(connection, part)
    return rows


def _run_rows_of(connection: Connection, statement: Select[Any]) -> list[RunRow]:
    file_places, objects = places.read_places(connection), Objects()
    columns = _columns_of(connection, statement, (*RUN_NAMES, "live"))
    configs = [objects.config(text) for text in columns["config"]]
    columns["config"], columns["identity"] = [c for c, _ in configs], list(map(objects.read, columns["identity"]))
    live = map(bool, columns.pop("live"))
    all_intact(schema.runs, columns)
    columns["state"] = [STATE_OF[state] for state in columns["state"]]
    columns["folder"] = list(map(file_places.path, columns["folder"], columns["signature"]))
    # By position: RUN_NAMES are in the order of the fields of RunRow, whose last two are `live` and `settings`.
    run_rows = map(RunRow, *columns.values(), live, [settings for _, settings in configs])
    return sorted(run_rows, key=attrgetter("created", "signature"))


def _columns_of(connection: Connection, statement: Select[Any], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Runs a statement and returns its result by column, under the given names."""
    rows = connection.execute(statement).all()
    return dict(zip(names, zip(*rows, strict=True) if rows else repeat(()), strict=False))


def select_by_signature(
    query: Select[Any], column: ColumnElement[str], signatures: Iterable[str] | None
) -> Iterator[Select[Any]]:
    """Yields the query for a list of signatures, split into statements that every database accepts; None asks for all
    rows."""
    if signatures is None:
        yield query
        return
    unique = list(dict.fromkeys(signatures))
    for start in range(0, len(unique), NAMES_A_QUERY):
        yield query.where(column.in_(unique[start : start + NAMES_A_QUERY]))


def states(connection: Connection, signatures: Iterable[str]) -> dict[str, RunState]:
    """Returns signature -> state of the runs that exist; a run whose lease has ended counts as lost."""
    table = schema.runs
    standing = dict[str, RunState]()
    query = select(table.c.signature, table.c.state, LIVE.label("live"))
    for statement in select_by_signature(query, table.c.signature, signatures):
        for signature, state, live in connection.execute(statement):
            intact(schema.runs, {"signature": signature, "state": state})
            standing[signature] = standing_of(STATE_OF[state], live)
    return standing


def stands(connection: Connection, claim: Claim) -> RunState | None:
    """Returns the state of the run that a claim holds; None if the claim's attempt is no longer the newest."""
    names = ("signature", "attempt", "owner")
    state = connection.scalar(_STANDS, {f"of_{name}": getattr(claim, name) for name in names})
    return None if state is None else RunState(state)


def folders(connection: Connection, signature: str) -> tuple[str, ...]:
    """Returns the folders of all attempts of a run, newest first."""
    table = schema.history
    rows = connection.scalars(
        select(table.c.folder)
        .where(table.c.signature == signature, table.c.folder.is_not(None))
        .order_by(table.c.id.desc())
    )
    file_places = places.read_places(connection)
    return tuple(path for row in dict.fromkeys(rows) if (path := file_places.path(row, signature)) is not None)


def curves(connection: Connection, signatures: Iterable[str]) -> dict[str, list[CurvePoint]]:
    """Returns signature -> points of the run's curve by examples; runs without points are absent."""
    table = schema.curves
    names = tuple(CurvePoint.__dataclass_fields__)
    query = select(table.c.signature, *(table.c[name] for name in names)).order_by(table.c.signature, table.c.examples)
    points = defaultdict(list)
    for statement in select_by_signature(query, table.c.signature, signatures):
        for signature, *values in connection.execute(statement):
            intact_point(dict(zip(names, values, strict=True), signature=signature))
            points[signature].append(CurvePoint(*values))
    return dict(points)


def best_scores(connection: Connection, signatures: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
    """Returns signature -> (examples, best dev score up to there) by examples; runs and points without a score are
    absent."""
    table = schema.curves
    query = select(table.c.signature, table.c.examples, table.c.best).order_by(table.c.signature, table.c.examples)
    scores = defaultdict(list)
    for statement in select_by_signature(query.where(table.c.best.is_not(None)), table.c.signature, signatures):
        for signature, examples, best in connection.execute(statement):
            intact(table, {"signature": signature, "examples": examples, "best": best})
            scores[signature].append((examples, float(best)))
    return dict(scores)


def first_points(connection: Connection, signatures: Iterable[str]) -> dict[str, int]:
    """Returns signature -> examples at the run's first evaluation; runs without points are absent."""
    runs, curves = schema.runs, schema.curves
    first = select(func.min(curves.c.examples)).where(curves.c.signature == runs.c.signature).scalar_subquery()
    statements = select_by_signature(select(runs.c.signature, first), runs.c.signature, signatures)
    rows = (row for statement in statements for row in connection.execute(statement).all())
    return {signature: examples for signature, examples in rows if examples is not None}


def scores(connection: Connection, signatures: Iterable[str]) -> list[ScoreRow]:
    """Returns all scores of some runs, oldest first."""
    table = schema.scores
    names = tuple(ScoreRow.__dataclass_fields__)
    query = select(*schema.cast_json(table, names))
    rows, file_places, objects = list[ScoreRow](), places.read_places(connection), Objects()
    for statement in select_by_signature(query, table.c.signature, signatures):
        columns = _columns_of(connection, statement, names)
        texts, columns["protocol"] = columns["protocol"], list(map(objects.read, columns["protocol"]))
        all_intact(table, columns)
        columns["protocol"] = list(map(objects.protocol, texts))
        columns["cosines_file"] = list(map(file_places.path, columns["cosines_file"], columns["signature"]))
        rows += map(ScoreRow, *columns.values())
    return sorted(rows, key=lambda row: row.at)


def history(connection: Connection, signature: str) -> list[HistoryRow]:
    """Returns every transition of a run, oldest first."""
    table = schema.history
    query = select(*(table.c[name] for name in HistoryRow.__dataclass_fields__))
    rows = connection.execute(query.where(table.c.signature == signature).order_by(table.c.id)).all()
    file_places = places.read_places(connection)
    for row in rows:
        intact(table, row._asdict())
    return [
        HistoryRow(**{**row._mapping, "state": STATE_OF[row.state], "folder": file_places.path(row.folder, signature)})
        for row in rows
    ]


def provenance(connection: Connection, signatures: Iterable[str]) -> dict[str, list[ProvenanceRow]]:
    """Returns signature -> commit, versions, host, data and cost of each attempt, oldest first."""
    table = schema.provenance
    query = select(*(table.c[name] for name in ProvenanceRow.__dataclass_fields__))
    rows = defaultdict(list)
    for statement in select_by_signature(
        query.order_by(table.c.signature, table.c.attempt), table.c.signature, signatures
    ):
        for row in connection.execute(statement):
            intact(table, row._asdict())
            rows[row.signature].append(ProvenanceRow(*row))
    return dict(rows)


def codes(connection: Connection) -> dict[str, int]:
    """Returns digest of this project's code -> number of runs that it trained in part; unknown digests do not count."""
    table = schema.provenance
    code = table.c.details["code_digest"].as_string()
    query = select(code, func.count(table.c.signature.distinct())).where(code.is_not(None)).group_by(code)
    return {row[0]: row[1] for row in connection.execute(query)}


def versions(connection: Connection) -> dict[str, int]:
    """Returns signature -> VERSION of the method in the run's newest attempt; runs without one are absent."""
    table = schema.provenance
    version = table.c.details["method_version"].as_integer()
    query = select(table.c.signature, version).where(version.is_not(None)).order_by(table.c.attempt)
    # In the order of the attempts, so that the newest one overwrites the others.
    return {row[0]: row[1] for row in connection.execute(query)}


def sweep_spec(connection: Connection, sweep: str) -> SweepSpec:
    """Returns the description of a sweep; empty for an unknown sweep."""
    row = connection.execute(select(schema.sweeps).where(schema.sweeps.c.id == sweep)).one_or_none()
    if row is None:
        return SweepSpec({})
    intact_spec(row._asdict())
    return SweepSpec(row.spec)


def sweeps(connection: Connection) -> list[SweepRow]:
    """Returns all sweeps, oldest first, with the number of their runs by state."""
    counts = _counts(connection)
    return [
        SweepRow(**row, runs=counts[row["id"]].total(), states=dict(counts[row["id"]])) for row in _sweeps(connection)
    ]


def specs(connection: Connection) -> dict[str, SweepSpec]:
    """Returns sweep -> its description, oldest first; faster than `sweeps`, which also counts runs."""
    return {row["id"]: row["spec"] for row in _sweeps(connection)}


def _sweeps(connection: Connection) -> list[Row]:
    """Returns the rows of sweeps; damaged rows are left out with a warning."""
    names = ("id", "spec", "created", "updated")
    query = select(*schema.cast_json(schema.sweeps, names)).order_by(schema.sweeps.c.created, schema.sweeps.c.id)
    rows = (dict(zip(names, row, strict=True)) for row in connection.execute(query).all())
    return [{**row, "spec": SweepSpec(row["spec"])} for row in sound_rows(schema.sweeps, rows, intact_spec)]


def _counts(connection: Connection) -> dict[str, Counter[Standing]]:
    links, table = schema.sweep_runs, schema.runs
    # Several cells of a sweep may link to one run, which counts once.
    linked = select(links.c.sweep, links.c.signature).distinct().subquery()
    state = func.coalesce(table.c.state, UNCLAIMED)
    query = (
        select(linked.c.sweep, state, func.count())
        .outerjoin(table, table.c.signature == linked.c.signature)
        .group_by(linked.c.sweep, state)
    )
    counts: dict[str, Counter[Standing]] = defaultdict(Counter)
    for sweep, run_state, number in connection.execute(query):
        counts[sweep][STATE_OF.get(run_state, UNCLAIMED)] += number
    return counts


def signatures(connection: Connection, sweep: str) -> list[str]:
    """Returns the signatures of the runs that are linked to a sweep, each once."""
    table = schema.sweep_runs
    return list(connection.scalars(select(table.c.signature).where(table.c.sweep == sweep).distinct()))


def cells(connection: Connection, sweep: str) -> list[SweepCell]:
    """Returns every (cell, seed) of a sweep with the signature of its run."""
    table = schema.sweep_runs
    query = select(table.c.signature, table.c.cell, table.c.seed).where(table.c.sweep == sweep)
    rows = connection.execute(query.order_by(table.c.cell_hash, table.c.seed)).all()
    for row in rows:
        intact(table, row._asdict())
    return [SweepCell(*row) for row in rows]


def imports(connection: Connection, signatures: Iterable[str] | None = None) -> dict[str, Import]:
    """Returns signature -> origin of imported runs; a run that was trained here since its import is left out."""
    table, runs = schema.imports, schema.runs
    if not inspect(connection).has_table(table.name):
        return {}
    newest_attempt = and_(runs.c.signature == table.c.signature, runs.c.attempt == table.c.attempt)
    query = select(*(table.c[name] for name in Import.__dataclass_fields__)).join(runs, newest_attempt)
    return {
        row.signature: Import(*row)
        for statement in select_by_signature(query, table.c.signature, signatures)
        for row in connection.execute(statement)
    }


def pairs(connection: Connection, hashes: Iterable[str]) -> dict[str, tuple[list[int], list[float]]]:
    """Returns hash of a file of cosines -> (dense ranks of its cosines, grades), for files of imported runs."""
    table, grades, unique_hashes = schema.pairs, schema.pairs.alias(), list(hashes)
    if not unique_hashes or not inspect(connection).has_table(table.name):
        return {}
    query = select(table.c.hash, table.c.numbers, grades.c.numbers).join(grades, grades.c.hash == table.c.grades)
    return {
        row[0]: (row[1], row[2])
        for statement in select_by_signature(query, table.c.hash, unique_hashes)
        for row in connection.execute(statement)
    }
