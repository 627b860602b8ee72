"""The ledger: a database of runs, their owners and their results, shared by any number of drivers.

A run is identified by its signature. A driver claims it by insert; the claim is a lease by the database's clock that
`heartbeat` renews. A run whose lease ended, or that stopped, failed or was lost, is claimed again as the next attempt,
and from that moment the earlier attempt can report nothing. Each method is one transaction.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    and_,
    bindparam,
    case,
    delete,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)

from analysis.ledger import baselines as baseline_rows
from analysis.ledger import places, queries, schema, selection_log
from analysis.ledger.database import connect, file_identity, transaction
from analysis.ledger.errors import LedgerError, LostClaim, mask_password
from analysis.ledger.integrity import Row, require_sound
from analysis.ledger.rows import Claim, CurvePoint, RunRow
from analysis.run_state import CLAIMABLE, HELD, NOT_HELD, RunState
from analysis.sweep_spec import SweepSpec
from cse_train.results import Point, Score, Settings

LEASE_SECONDS = 60.0
PROGRESS_FIELDS = ("examples", "best", "best_examples", "seconds")
POINT_FIELDS = ("step", "seconds", "best", "best_examples")
"""Columns of a point of a curve, beside its examples, its attempt and its metrics."""

P = ParamSpec("P")
R = TypeVar("R")


def _transaction(
    query: Callable[Concatenate[Connection, P], R], *, writes: bool = False
) -> Callable[Concatenate["Ledger", P], R]:
    """Makes a method of Ledger from a query on an open connection; the method keeps the query's docstring."""

    def method(self: "Ledger", /, *args: P.args, **options: P.kwargs) -> R:
        with transaction(self._engine, writes=writes) as connection:
            return query(connection, *args, **options)

    functools.update_wrapper(method, query)
    return method


# Statements that every run needs are built once: SQLAlchemy takes as long to build one as the database to run it.
_NOTE = insert(schema.history).values(at=schema.now())
_ORIGIN = insert(schema.provenance).values(at=schema.now())
_CLAIM_COLUMNS = {"of_signature": "signature", "of_attempt": "attempt", "of_owner": "owner"}
_IS_HELD = and_(
    *(schema.runs.c[column] == bindparam(name) for name, column in _CLAIM_COLUMNS.items()),
    schema.runs.c.state.in_(HELD),
)
_COST = update(schema.provenance).where(
    *(schema.provenance.c[_CLAIM_COLUMNS[name]] == bindparam(name) for name in ("of_signature", "of_attempt"))
)


class Ledger:
    """Database of runs, curves and scores; open it with `Ledger.open`. Threads may share it, forks may not."""

    def __init__(self, engine: Engine, lease: float = LEASE_SECONDS) -> None:
        self._engine, self.lease = engine, lease
        self._insert = schema.insert_for(engine.dialect.name)
        times = {"lease_until": self._lease_end(), "created": schema.now(), "updated": schema.now()}
        new_claim = self._insert(schema.runs).values(state=RunState.CLAIMED, attempt=1, **times)
        self._claim_statement = new_claim.on_conflict_do_nothing().returning(schema.runs.c.signature)
        """Claims a run that the ledger does not know yet; yields no row for a known run."""
        new_points = self._insert(schema.curves)
        replaced = {key: new_points.excluded[key] for key in ("attempt", "metrics", *POINT_FIELDS)}
        self._curve_statement = new_points.on_conflict_do_update(
            index_elements=["signature", "examples"], set_=replaced
        )
        change = update(schema.runs).where(_IS_HELD)
        self._change_statement = change.values(lease_until=self._lease_end(), updated=schema.now())
        self._file = file_identity(engine)
        self._noted_storage: Path | None = None
        """The storage that was noted last: nearly every run's."""

    @classmethod
    def open(
        cls, url: str | Path, *, lease: float = LEASE_SECONDS, create: bool = True, storage: Path | None = None
    ) -> "Ledger":
        """Opens the ledger at `sqlite:///PATH`, a bare path, or `postgresql://…`. Raises LedgerError.

        `lease` is in seconds; `create=False` refuses a ledger that does not exist yet; `storage` is the folder in which
        runs' files are looked for first.
        """
        return cls(connect(url, create=create, storage=storage), lease)

    @property
    def url(self) -> str:
        """Address of the database, with its password hidden."""
        return mask_password(self._engine.url)

    def require_file(self) -> None:
        """Raises LedgerError where the SQLite file that was opened is no longer at its path: writes would be lost."""
        if file_identity(self._engine) != self._file:
            line = f"ledger file: url={self.url} was removed or replaced while it was open; what came after is lost"
            raise LedgerError(f"{line}, put a copy back and give the same command again")

    def require_sound(self) -> None:
        """Raises LedgerError unless a SQLite file can be written and read whole; reads every page of the file."""
        require_sound(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    runs = _transaction(queries.runs)
    changed = _transaction(queries.read_changes)
    states = _transaction(queries.states)
    curves = _transaction(queries.curves)
    best_scores = _transaction(queries.best_scores)
    first_points = _transaction(queries.first_points)
    scores = _transaction(queries.scores)
    history = _transaction(queries.history)
    stands = _transaction(queries.stands)
    provenance = _transaction(queries.provenance)
    codes = _transaction(queries.codes)
    versions = _transaction(queries.versions)
    sweeps = _transaction(queries.sweeps)
    sweep_spec = _transaction(queries.sweep_spec)
    cells = _transaction(queries.cells)
    signatures = _transaction(queries.signatures)
    baselines = _transaction(baseline_rows.read)
    store_baselines = _transaction(baseline_rows.store, writes=True)
    untrained_scores = _transaction(baseline_rows.read_untrained_scores)
    store_untrained = _transaction(baseline_rows.store_untrained, writes=True)
    looks = _transaction(selection_log.looks)
    add_look = _transaction(selection_log.add, writes=True)
    imports = _transaction(queries.imports)
    pairs = _transaction(queries.pairs)
    find_edited = _transaction(queries.find_edited)

    def run(self, signature: str) -> RunRow | None:
        """Returns one run, or None if the ledger does not have it."""
        return next(iter(self.runs(signatures=[signature])), None)

    def curve(self, signature: str) -> list[CurvePoint]:
        """Returns the points of one run's curve by examples; empty where it has none."""
        return self.curves([signature]).get(signature, [])

    def claim(
        self,
        signature: str,
        config: Settings,
        *,
        method: str,
        seed: int,
        owner: str,
        identity: Mapping[str, str | int],
        provenance: Mapping[str, object],
        finished: Sequence[RunState] = (),
    ) -> Claim | None:
        """Claims the next attempt of a run; None if it is done or a live claim holds it, the caller's own included.

        `finished` holds states other than done in which a run is not continued.
        """
        with self.writes() as connection:
            row = {"signature": signature, "owner": owner, "method": method, "seed": seed}
            row |= {"config": dict(config), "identity": dict(identity)}
            if connection.scalar(self._claim_statement, row) is not None:
                claim = Claim(signature, 1, owner)
            else:
                next_claim = _take_over(connection, signature, owner, self._lease_end(), finished)
                if next_claim is None:
                    return None
                claim = next_claim
            _note(connection, claim, RunState.CLAIMED)
            origin = {"signature": claim.signature, "attempt": claim.attempt, "details": dict(provenance)}
            connection.execute(_ORIGIN, origin)
            return claim

    def heartbeat(self, owner: str) -> int:
        """Renews all leases of an owner; returns the number of runs that it still holds."""
        with self.writes() as connection:
            return connection.execute(
                update(schema.runs).where(_is_held_by(owner)).values(lease_until=self._lease_end())
            ).rowcount

    def release(self, claimant: Claim | str, reason: str = "released") -> int:
        """Releases one claim, or all runs that an owner still holds, so that the next driver need not wait for a lease.

        A run that started becomes lost; one that did not returns to the state in which its last attempt ended. Returns
        the number of released runs.
        """
        runs = schema.runs
        target = _is_held_by(claimant if isinstance(claimant, str) else claimant.owner)
        if isinstance(claimant, Claim):
            target = and_(target, runs.c.signature == claimant.signature, runs.c.attempt == claimant.attempt)
        untouched = and_(runs.c.state == RunState.CLAIMED, runs.c.previous_state.is_not(None))
        state = case((untouched, runs.c.previous_state), else_=literal(RunState.LOST.value))
        with self.writes() as connection:
            released = connection.execute(
                select(runs.c.signature, runs.c.attempt, runs.c.owner, state.label("state"))
                .where(target)
                .with_for_update()
            ).all()
            connection.execute(update(runs).where(target).values(state=state, reason=reason, updated=schema.now()))
            for row in released:
                _note(connection, Claim(row.signature, row.attempt, row.owner), row.state, reason=reason)
        return len(released)

    def running(self, claim: Claim, folder: str | Path | None = None) -> None:
        """Records that an attempt has started in `folder`, where the next attempt looks for a checkpoint. Raises
        LostClaim."""
        storage = places.storage_of(folder, claim.signature)
        with self.writes() as connection:
            self._note_storage(connection, storage)
            self._change(connection, claim, {"state": RunState.RUNNING, **_folder_value(folder, claim.signature)})
            _note(connection, claim, RunState.RUNNING, folder=folder)
        self._noted_storage = storage

    def add_points(self, claim: Claim, points: Sequence[Point]) -> None:
        """Stores points of a run's curve and renews the lease. Raises LostClaim.

        A point at the same examples replaces the stored one, so reporting again after a resume changes nothing.
        """
        if points:
            last = max(points, key=attrgetter("examples"))
            with self.writes() as connection:
                self._change(connection, claim, {name: getattr(last, name) for name in PROGRESS_FIELDS})
                self._store_curve(connection, claim, points)

    def finish(
        self,
        claim: Claim,
        state: RunState,
        *,
        examples: int | None,
        best: float | None,
        best_examples: int | None,
        seconds: float | None,
        folder: str | Path | None,
        reason: str | None = None,
        points: Sequence[Point] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Ends an attempt as done, stopped, failed or lost, and stores its last points.

        `details` are added to the attempt's provenance. Raises LostClaim, but not where the same end is reported twice.
        """
        assert state in NOT_HELD, state
        reached = dict(zip(PROGRESS_FIELDS, (examples, best, best_examples, seconds), strict=True))
        values = {**reached, "state": state, "reason": reason, **_folder_value(folder, claim.signature)}
        storage = places.storage_of(folder, claim.signature)
        with self.writes() as connection:
            try:
                self._change(connection, claim, values)
            except LostClaim:
                if queries.stands(connection, claim) == state:
                    return  # the same end was stored before, and only the answer was lost
                raise
            self._note_storage(connection, storage)
            self._store_curve(connection, claim, points)
            _note(connection, claim, state, folder=folder, reason=reason)
            bound = _bind_claim(claim)
            del bound["of_owner"]
            connection.execute(_COST, {**bound, "examples": examples, "seconds": seconds})
            if details:
                table = schema.provenance
                condition = and_(table.c.signature == claim.signature, table.c.attempt == claim.attempt)
                stored = connection.execute(select(table.c.details).where(condition)).scalar_one_or_none()
                changed = update(table).where(condition).values(details={**(stored or {}), **details})
                connection.execute(changed)
        self._noted_storage = storage

    def reopen(self, signatures: Iterable[str], reason: str) -> int:
        """Marks finished runs as lost, so that they are trained again; curves and scores stay. Returns their number."""
        runs, count = schema.runs, 0
        with self.writes() as connection:
            for row in queries.runs(connection, states=[RunState.DONE], signatures=signatures):
                lost = update(runs).where(runs.c.signature == row.signature, runs.c.state == RunState.DONE)
                count += connection.execute(
                    lost.values(state=RunState.LOST, reason=reason, updated=schema.now())
                ).rowcount
                _note(connection, Claim(row.signature, row.attempt, row.owner), RunState.LOST, reason=reason)
        return count

    def restore_best(self, signature: str) -> None:
        """Sets a finished run's best score to the greatest one of its curve."""
        runs, curves = schema.runs, schema.curves
        points = select(curves.c.best, curves.c.examples).where(
            curves.c.signature == signature, curves.c.best.is_not(None)
        )
        with self.writes() as connection:
            first = connection.execute(points.order_by(curves.c.best.desc(), curves.c.examples)).first()
            if first is not None:
                restored = update(runs).where(runs.c.signature == signature)
                connection.execute(restored.values(best=first.best, best_examples=first.examples))

    def add_score(self, signature: str, score: Score) -> None:
        """Stores a run's score on a suite; a score under the same protocol replaces the stored one."""
        protocol, file = score.protocol.facts, score.file
        values = {
            "value": score.value,
            "protocol": protocol,
            "cosines_hash": file.sha256 if file else None,
            "cosines_file": places.shorten_path(file.path, signature) if file else None,
            "at": schema.now(),
        }
        key = {"signature": signature, "suite": score.column, "protocol_hash": schema.digest(protocol)}
        with self.writes() as connection:
            statement = self._insert(schema.scores).values(**key, **values)
            connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))

    def record_sweep(self, sweep: str, spec: SweepSpec) -> None:
        """Stores a sweep's description; recording it again replaces the description and keeps its runs."""
        values = {"spec": dict(spec.stored), "updated": schema.now()}
        with self.writes() as connection:
            statement = self._insert(schema.sweeps).values(id=sweep, created=schema.now(), **values)
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=values))

    def link(self, sweep: str, rows: Iterable[tuple[str, Settings, int]]) -> None:
        """Records which run answers each `(signature, cell, seed)` of a recorded sweep; the run need not exist yet.

        Where a cell differs only in absolute paths from one that the run answered before, it replaces that cell.
        """
        values = [
            {"sweep": sweep, "signature": signature, "cell_hash": schema.digest(cell), "cell": dict(cell), "seed": seed}
            for signature, cell, seed in rows
        ]
        if values:
            with self.writes() as connection:
                _unlink_moved(connection, sweep, values)
                connection.execute(self._insert(schema.sweep_runs).on_conflict_do_nothing(), values)

    def _note_storage(self, connection: Connection, storage: Path | None) -> None:
        if storage and storage != self._noted_storage:
            places.note_storage(connection, storage)

    def _store_curve(self, connection: Connection, claim: Claim, points: Sequence[Point]) -> None:
        key = {"signature": claim.signature, "attempt": claim.attempt}
        rows = [
            {
                **key,
                "examples": point.examples,
                "metrics": dict(point.metrics),
                **{name: getattr(point, name) for name in POINT_FIELDS},
            }
            for point in points
        ]
        if rows:
            connection.execute(self._curve_statement, rows)

    def _change(self, connection: Connection, claim: Claim, values: Mapping[str, object]) -> None:
        """Updates the row of a held claim and renews its lease; raises LostClaim where the claim is no longer valid."""
        if connection.execute(self._change_statement, {**_bind_claim(claim), **values}).rowcount == 1:
            return
        table = schema.runs
        row = connection.execute(
            select(table.c.state, table.c.attempt, table.c.owner).where(table.c.signature == claim.signature)
        ).one_or_none()
        holder = f"gave way to attempt {row.attempt} of {row.owner} ({row.state})" if row else "is not in the ledger"
        raise LostClaim(
            f"claim lost: signature={claim.signature} attempt={claim.attempt} of {claim.owner} {holder}; "
            "this attempt reports nothing"
        )

    def _lease_end(self) -> ColumnElement[float]:
        return schema.now() + self.lease

    def reads(self) -> AbstractContextManager[Connection]:
        """Opens one transaction that reads."""
        return transaction(self._engine)

    def writes(self) -> AbstractContextManager[Connection]:
        """Opens one transaction that writes; an error within the block undoes all of it."""
        return transaction(self._engine, writes=True)


def _unlink_moved(connection: Connection, sweep: str, links: Sequence[Row]) -> None:
    """Deletes the links of a sweep's runs to cells that differ from the new ones only in absolute paths."""
    moved = {link["signature"]: link["cell"] for link in links if _paths(link["cell"])}
    if not moved:
        return
    table, new_links = schema.sweep_runs, {(link["signature"], link["cell_hash"]) for link in links}
    condition = table.c.sweep == sweep, table.c.signature.in_(moved)
    for row in connection.execute(select(table.c.signature, table.c.cell_hash, table.c.cell).where(*condition)).all():
        cell = moved[row.signature]
        differing_axes = {key for key in {*cell, *row.cell} if cell.get(key) != row.cell.get(key)}
        if (row.signature, row.cell_hash) not in new_links and differing_axes <= _paths(cell) & _paths(row.cell):
            link_condition = table.c.signature == row.signature, table.c.cell_hash == row.cell_hash
            connection.execute(delete(table).where(table.c.sweep == sweep, *link_condition))


def _paths(cell: Settings) -> set[str]:
    """Returns the axes of a cell whose value is an absolute path."""
    return {axis for axis, value in cell.items() if isinstance(value, str) and value.startswith("/")}


def _bind_claim(claim: Claim) -> dict[str, object]:
    return {name: getattr(claim, column) for name, column in _CLAIM_COLUMNS.items()}


def _take_over(
    connection: Connection, signature: str, owner: str, lease_end: ColumnElement[float], finished: Sequence[RunState]
) -> Claim | None:
    """Returns a claim on the next attempt of a known run, or None if the run is held or finished.

    The row stays locked until the caller's transaction ends.
    """
    runs = schema.runs
    stale = and_(runs.c.state.in_(HELD), not_(schema.leased))
    row = connection.execute(
        select(runs.c.state, runs.c.attempt, runs.c.owner).where(runs.c.signature == signature).with_for_update()
    ).one()
    previous = RunState.LOST if row.state in HELD else row.state
    changed = connection.execute(
        update(runs)
        .where(runs.c.signature == signature, runs.c.attempt == row.attempt, runs.c.state == row.state)
        .where(or_(runs.c.state.in_(set(CLAIMABLE) - set(finished)), stale))
        .values(
            state=RunState.CLAIMED,
            attempt=row.attempt + 1,
            owner=owner,
            lease_until=lease_end,
            previous_state=previous,
            reason=None,
            updated=schema.now(),
        )
    )
    if changed.rowcount != 1:
        return None
    if row.state in HELD:
        orphan = Claim(signature, row.attempt, row.owner)
        _note(connection, orphan, RunState.LOST, reason=f"lease ended; taken over by {owner}")
    folders = queries.folders(connection, signature)
    return Claim(signature, row.attempt + 1, owner, RunState(previous), folders)


def _is_held_by(owner: str) -> ColumnElement[bool]:
    """Returns the condition that a run is held by an owner."""
    return and_(schema.runs.c.owner == owner, schema.runs.c.state.in_(HELD))


def _folder_value(folder: str | Path | None, signature: str) -> dict[str, str | None]:
    """Returns the column value for a run's folder, shortened to the part below the storage; empty without a folder."""
    return {} if folder is None else {"folder": places.shorten_path(folder, signature)}


def _note(
    connection: Connection,
    claim: Claim,
    state: RunState,
    *,
    folder: str | Path | None = None,
    reason: str | None = None,
) -> None:
    """Appends a transition of an attempt to the history of its run."""
    key = {"signature": claim.signature, "attempt": claim.attempt, "owner": claim.owner}
    stored_folder = places.shorten_path(folder, claim.signature)
    connection.execute(_NOTE, {**key, "state": state, "reason": reason, "folder": stored_folder})
