"""Claims as rows: who holds a run, how it is taken over, and the note that each transition leaves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, insert, literal, not_, or_, select, update

from analysis.ledger import places, queries, schema
from analysis.ledger.rows import Claim


def take_over(
    connection: Connection, signature: str, owner: str, lease_end: ColumnElement[float], finished: Sequence[str]
) -> Claim | None:
    """The next attempt of a known run, or None where it is held or finished; the row stays locked to the caller."""
    runs = schema.runs
    stale = and_(runs.c.state.in_(schema.HELD), not_(schema.leased))
    row = connection.execute(
        select(runs.c.state, runs.c.attempt, runs.c.owner).where(runs.c.signature == signature).with_for_update()
    ).one()
    previous = "lost" if row.state in schema.HELD else row.state
    changed = connection.execute(
        update(runs)
        .where(runs.c.signature == signature, runs.c.attempt == row.attempt, runs.c.state == row.state)
        .where(or_(runs.c.state.in_(set(schema.OPEN) - set(finished)), stale))
        .values(
            state="claimed",
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
    if row.state in schema.HELD:
        orphan = Claim(signature, row.attempt, row.owner)
        note(connection, orphan, "lost", reason=f"lease ended; taken over by {owner}")
    folders = queries.folders(connection, signature)
    return Claim(signature, row.attempt + 1, owner, previous, folders)


def begin(connection: Connection, claim: Claim, provenance: Mapping[str, Any]) -> None:
    """Note a claim, and with what it is going to be trained."""
    note(connection, claim, "claimed")
    about = {"signature": claim.signature, "attempt": claim.attempt, "details": dict(provenance)}
    connection.execute(insert(schema.provenance).values(**about, at=schema.now()))


def release(connection: Connection, who: Claim | str, reason: str = "released") -> int:
    """Gives back one claim, or all that an owner still holds; the next driver need not wait for the lease.

    A run that started becomes lost; one that did not returns to how its last attempt ended. Returns their number.
    """
    runs = schema.runs
    target = held_by(who) if isinstance(who, str) else is_held(who)
    untouched = and_(runs.c.state == "claimed", runs.c.previous_state.is_not(None))
    state = case((untouched, runs.c.previous_state), else_=literal("lost"))
    given = connection.execute(
        select(runs.c.signature, runs.c.attempt, runs.c.owner, state.label("state")).where(target).with_for_update()
    ).all()
    connection.execute(update(runs).where(target).values(state=state, reason=reason, updated=schema.now()))
    for row in given:
        note(connection, Claim(row.signature, row.attempt, row.owner), row.state, reason=reason)
    return len(given)


def held_by(owner: str) -> ColumnElement[bool]:
    return and_(schema.runs.c.owner == owner, schema.runs.c.state.in_(schema.HELD))


def is_held(claim: Claim) -> ColumnElement[bool]:
    runs = schema.runs
    return and_(runs.c.signature == claim.signature, runs.c.attempt == claim.attempt, held_by(claim.owner))


def folder_value(folder: str | Path | None, signature: str) -> dict[str, str | None]:
    return {} if folder is None else {"folder": places.stored(folder, signature)}


def curve_row(claim: Claim, point: Mapping[str, Any]) -> dict[str, Any]:
    names = ("examples", "step", "seconds", "best", "best_examples")
    return {
        "signature": claim.signature,
        "attempt": claim.attempt,
        "metrics": dict(point["metrics"]),
        **{name: point.get(name) for name in names},
    }


def note(
    connection: Connection,
    claim: Claim,
    state: str,
    *,
    folder: str | Path | None = None,
    reason: str | None = None,
) -> None:
    connection.execute(
        insert(schema.history).values(
            signature=claim.signature,
            attempt=claim.attempt,
            state=state,
            owner=claim.owner,
            at=schema.now(),
            reason=reason,
            **folder_value(folder, claim.signature),
        )
    )
