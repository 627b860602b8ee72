"""SQL statements that claim runs, take them over, report on them and release them, and that log each transition."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Update,
    and_,
    bindparam,
    case,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)

from analysis.ledger import places, queries, schema
from analysis.ledger.errors import LostClaim
from analysis.ledger.rows import Claim
from analysis.run_state import CLAIMABLE, HELD, RunState
from cse_train.results import Point

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


def fresh(insert: Any, lease_end: ColumnElement[float]) -> Any:
    """Returns the statement that claims a run which the ledger does not know yet; a known run yields no row."""
    times = {"lease_until": lease_end, "created": schema.now(), "updated": schema.now()}
    statement = insert(schema.runs).values(state=RunState.CLAIMED, attempt=1, **times)
    return statement.on_conflict_do_nothing().returning(schema.runs.c.signature)


def curve(insert: Any) -> Any:
    """Returns the statement that stores points of a curve; a point at the same examples replaces the stored one."""
    statement = insert(schema.curves)
    keys = ("attempt", "step", "seconds", "best", "best_examples", "metrics")
    replaced = {key: statement.excluded[key] for key in keys}
    return statement.on_conflict_do_update(index_elements=["signature", "examples"], set_=replaced)


def change_of(lease_end: ColumnElement[float]) -> Update:
    """Returns the statement for `change`, which also renews the lease until `lease_end`."""
    return update(schema.runs).where(_IS_HELD).values(lease_until=lease_end, updated=schema.now())


def change(connection: Connection, statement: Update, claim: Claim, values: Mapping[str, object]) -> None:
    """Updates the row of a held claim and renews its lease; raises LostClaim where the claim is no longer valid."""
    if connection.execute(statement, {**_bind_claim(claim), **values}).rowcount != 1:
        raise LostClaim(
            f"claim lost: signature={claim.signature} attempt={claim.attempt} of {claim.owner} "
            f"{holder(connection, claim.signature)}; this attempt reports nothing"
        )


def holder(connection: Connection, signature: str) -> str:
    """Returns a phrase for a message that says which attempt and owner hold a run now."""
    table = schema.runs
    row = connection.execute(
        select(table.c.state, table.c.attempt, table.c.owner).where(table.c.signature == signature)
    ).one_or_none()
    return "is not in the ledger" if row is None else f"gave way to attempt {row.attempt} of {row.owner} ({row.state})"


def note_cost(connection: Connection, claim: Claim, examples: int | None, seconds: float | None) -> None:
    """Stores the examples and seconds that an attempt has spent."""
    key = {name: value for name, value in _bind_claim(claim).items() if name != "of_owner"}
    connection.execute(_COST, {**key, "examples": examples, "seconds": seconds})


def note_details(connection: Connection, claim: Claim, details: Mapping[str, object]) -> None:
    """Adds details that only showed during training to an attempt's provenance."""
    table = schema.provenance
    condition = and_(table.c.signature == claim.signature, table.c.attempt == claim.attempt)
    stored = connection.execute(select(table.c.details).where(condition)).scalar_one_or_none()
    connection.execute(update(table).where(condition).values(details={**(stored or {}), **details}))


def _bind_claim(claim: Claim) -> dict[str, object]:
    return {name: getattr(claim, column) for name, column in _CLAIM_COLUMNS.items()}


def take_over(
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
        note(connection, orphan, RunState.LOST, reason=f"lease ended; taken over by {owner}")
    folders = queries.folders(connection, signature)
    return Claim(signature, row.attempt + 1, owner, RunState(previous), folders)


def begin(connection: Connection, claim: Claim, provenance: Mapping[str, object]) -> None:
    """Logs a new claim, and stores the provenance with which the attempt is going to be trained."""
    note(connection, claim, RunState.CLAIMED)
    row = {"signature": claim.signature, "attempt": claim.attempt, "details": dict(provenance)}
    connection.execute(_ORIGIN, row)


def release(connection: Connection, claimant: Claim | str, reason: str = "released") -> int:
    """Releases one claim, or all runs that an owner still holds, so that the next driver need not wait for the lease.

    A run that started becomes lost; one that did not returns to the state in which its last attempt ended. Returns the
    number of released runs.
    """
    runs = schema.runs
    target = is_held_by(claimant) if isinstance(claimant, str) else is_held(claimant)
    untouched = and_(runs.c.state == RunState.CLAIMED, runs.c.previous_state.is_not(None))
    state = case((untouched, runs.c.previous_state), else_=literal(RunState.LOST.value))
    released = connection.execute(
        select(runs.c.signature, runs.c.attempt, runs.c.owner, state.label("state")).where(target).with_for_update()
    ).all()
    connection.execute(update(runs).where(target).values(state=state, reason=reason, updated=schema.now()))
    for row in released:
        note(connection, Claim(row.signature, row.attempt, row.owner), row.state, reason=reason)
    return len(released)


def is_held_by(owner: str) -> ColumnElement[bool]:
    """Returns the condition that a run is held by an owner."""
    return and_(schema.runs.c.owner == owner, schema.runs.c.state.in_(HELD))


def is_held(claim: Claim) -> ColumnElement[bool]:
    """Returns the condition that a run is held by exactly this claim."""
    runs = schema.runs
    return and_(runs.c.signature == claim.signature, runs.c.attempt == claim.attempt, is_held_by(claim.owner))


def folder_value(folder: str | Path | None, signature: str) -> dict[str, str | None]:
    """Returns the column value for a run's folder, shortened to the part below the storage; empty without a folder."""
    return {} if folder is None else {"folder": places.shorten_path(folder, signature)}


def curve_row(claim: Claim, point: Point) -> dict[str, object]:
    """Returns the database row of one point of a run's curve."""
    names = ("examples", "step", "seconds", "best", "best_examples")
    return {
        "signature": claim.signature,
        "attempt": claim.attempt,
        "metrics": dict(point.metrics),
        **{name: getattr(point, name) for name in names},
    }


def note(
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
