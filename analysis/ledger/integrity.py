"""A row that a hand has changed: databases such as SQLite take any value in any column."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import JSON, Column, Float, Integer, String, Table

from analysis.ledger import schema
from analysis.ledger.errors import LedgerError

KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    Integer: ((int,), "a whole number"),
    Float: ((int, float), "a number"),
    String: ((str,), "a text"),
    JSON: ((dict,), "a JSON object"),
}


def intact(table: Table, row: Mapping[str, Any]) -> None:
    """Raise LedgerError where a value is of another kind than its column, or a state is none; NULL is left alone."""
    for column, kinds, words in _columns(table):
        value = row.get(column.name)
        if value is None:
            continue
        if not isinstance(value, kinds):
            raise edited(table, row, f"{column.name}={value!r} is not {words}")
        if column.name == "state" and value not in schema.STATES:
            states = ", ".join(schema.STATES)
            raise edited(table, row, f"state={value!r} is unknown, the states are {states}")


@cache
def _columns(table: Table) -> tuple[tuple[Column[Any], tuple[type, ...], str], ...]:
    kinds = ((column, KINDS[kind]) for column in table.columns for kind in KINDS if isinstance(column.type, kind))
    return tuple((column, types, words) for column, (types, words) in kinds)


def edited(table: Table, row: Mapping[str, Any], what: str) -> LedgerError:
    """The one line for a row that a hand has changed."""
    keys = " ".join(f"{key.name}={row.get(key.name)}" for key in table.primary_key)
    return LedgerError(f"ledger row: {table.name} {keys} {what}; mend it there or restore a copy")
