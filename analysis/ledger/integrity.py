"""Checks for rows that were edited by hand or came damaged from a bundle; SQLite takes any value in any column.

A command about one damaged row ends with a one-line error. A command about other rows warns once and leaves it out.
"""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import JSON, Column, Engine, Float, Integer, String, Table

from analysis.ledger import schema
from analysis.ledger.database import MIGRATION_PENDING, transaction
from analysis.ledger.errors import LedgerError, mask_password
from analysis.run_state import RunState
from cse_train.results import Json

log = logging.getLogger(__name__)

NUMBERS = (int, float)
TIME_COLUMNS = ("created", "updated", "at", "began", "ended", "lease_until")
YEAR_3000 = 32_503_680_000
STATE_OF = {state.value: state for state in RunState}
"""Text of a state in the database -> the RunState."""
COLUMN_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    Integer: ((int,), "a whole number"),
    Float: ((int, float), "a number"),
    String: ((str,), "a text"),
    JSON: ((dict,), "a JSON object"),
}
OTHER_SHAPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "suites": ((list,), "a JSON list"),
    "rows": ((object,), "a list of [name, number]"),  # `baselines` looks into it
}
"""JSON columns whose value is not an object -> allowed types, and the words for an error message."""


def require_sound(engine: Engine) -> None:
    """Raises LedgerError unless a SQLite file is writable and all its pages can be read; a server checks itself."""
    if engine.dialect.name != "sqlite":
        return
    with transaction(engine.execution_options(**{MIGRATION_PENDING: False}), writes=True):  # as it is, not migrated
        pass
    with transaction(engine) as connection:
        answer = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    if answer != "ok":
        line = f"ledger file: url={mask_password(engine.url)} is damaged ({' '.join(answer.split())})"
        raise LedgerError(f"{line}; restore a copy or use another --ledger")


def intact(table: Table, row: Json) -> None:
    """Raises LedgerError where a value has a type other than its column's, or a state is unknown. NULL passes."""
    for column, kinds, words in _columns(table):
        value: Any = row.get(column.name)
        if value is None:
            continue
        # A bool is an int in Python, and no number in a column.
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise report_edited(table, row, f"{column.name}={shorten_value(value)} is not {words}")
        if isinstance(value, str) and "\0" in value:
            raise report_edited(table, row, f"{column.name}={shorten_value(value)} has a null byte")
        if isinstance(value, float) and not math.isfinite(value):
            raise report_edited(table, row, f"{column.name}={value} is not finite")
        if column.name in TIME_COLUMNS and isinstance(value, int | float) and not 0 <= value <= YEAR_3000:
            raise report_edited(table, row, f"{column.name}={value:g} is no time in seconds since 1970")
        if column.name == "cell" and isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()):
            raise report_edited(table, row, f"cell={shorten_value(value)} has an object for a value")
        if column.name == "state" and value not in STATE_OF:
            states = ", ".join(STATE_OF)
            raise report_edited(table, row, f"state={shorten_value(value)} is unknown, the states are {states}")


def all_intact(table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
    """Checks many rows, given as the values of each column, in a twentieth of the time that `intact` takes for each
    row.

    Raises LedgerError for the first damaged row.
    """
    if not all(_sound(table.c[name], values) for name, values in columns.items()):
        for row in zip(*columns.values(), strict=True):
            intact(table, dict(zip(columns, row, strict=True)))


def _sound(column: Column[Any], values: Sequence[Any]) -> bool:
    """True only if `intact` would accept all values of a column; False also where `intact` must decide."""
    kinds = {kind for kind in map(type, values) if kind is not type(None)}
    present: Any = [value for value in values if value is not None]
    if isinstance(column.type, JSON):
        # Equal texts are mostly parsed into one object, so that each object is looked into once.
        objects = {id(value): value for value in present}.values()
        return kinds <= {dict} and not any(isinstance(item, dict) for value in objects for item in value.values())
    if isinstance(column.type, String):
        return (
            kinds <= {str}
            and "\0" not in "".join(present)
            and (column.name != "state" or {*present} <= STATE_OF.keys())
        )
    finite = kinds <= ({int} if isinstance(column.type, Integer) else {*NUMBERS}) and all(map(math.isfinite, present))
    return finite and (
        column.name not in TIME_COLUMNS or not present or (min(present) >= 0 and max(present) <= YEAR_3000)
    )


def intact_point(row: Json) -> None:
    """Raises LedgerError for a damaged point of a curve. Faster than `intact`, as a ledger may hold millions of
    points; also checks that metrics are numbers or null."""
    metrics, examples = row["metrics"], row["examples"]
    if not isinstance(metrics, dict) or not all(value is None or type(value) in NUMBERS for value in metrics.values()):
        raise report_edited(schema.curves, row, f"metrics={shorten_value(metrics)} is not a JSON object of numbers")
    if type(examples) is not int:
        raise report_edited(schema.curves, row, f"examples={shorten_value(examples)} is not a whole number")
    for name in ("step", "seconds", "best", "best_examples"):
        value: Any = row[name]
        if value is not None and not (type(value) in NUMBERS and math.isfinite(value)):
            raise report_edited(schema.curves, row, f"{name}={shorten_value(value)} is not a number")


SPEC_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("title", "space", "file", "profile"), (str,)),
    **{"set": (dict,), "seeds": (list,), "blocked": (dict, list), "asked": (int,), "margin": NUMBERS, "looks": (list,)},
    **dict.fromkeys(("yaml", "profile_yaml", "inputs", "confirms"), (dict,)),
}
"""Keys of a sweep's description that commands read -> the allowed types of their values."""
LISTS_OF_COUNTS = ("seeds", "looks")
"""Keys of SPEC_TYPES whose values are lists of whole numbers."""


def intact_spec(row: Json) -> None:
    """Raises LedgerError for a damaged row of a sweep, or a value of its description that breaks SPEC_TYPES."""
    intact(schema.sweeps, row)
    spec: Any = row["spec"]
    for name, kinds in SPEC_TYPES.items():
        value = spec.get(name)
        if value is None:
            continue
        counts = (
            not isinstance(value, list) or name not in LISTS_OF_COUNTS or all(type(count) is int for count in value)
        )
        if not isinstance(value, kinds) or isinstance(value, bool) or not counts:
            raise report_edited(schema.sweeps, row, f"spec.{name}={shorten_value(value)} is no {kinds[0].__name__}")


Row = Mapping[str, Any]
"""Row of a table whose values a check has found to be what the table's columns say."""


def sound_rows(table: Table, rows: Iterable[Json], check: Callable[[Json], object]) -> Iterator[Row]:
    """Yields the rows that pass `check`, with their JSON parsed, and warns once for each row that does not pass."""
    for row in rows:
        try:
            yield read_row(table, row, check)
        except LedgerError as error:
            say_once(str(error))


def read_row(table: Table, row: Json, check: Callable[[Json], object]) -> Row:
    """Returns a row with its JSON columns parsed from text. Raises LedgerError for broken JSON or a failed check."""
    parsed: dict[str, Any] = dict(row)
    for name in (name for name in row if isinstance(table.c[name].type, JSON)):
        try:
            parsed[name] = None if row[name] is None else json.loads(parsed[name])
        except (ValueError, TypeError, RecursionError) as error:
            raise report_edited(table, row, f"has broken JSON in {name}") from error
    check(parsed)
    return parsed


@cache
def say_once(line: str) -> None:
    """Logs a warning about a row that is left out, once per process."""
    log.warning("cse: left out: %s", line)


def shorten_value(value: object) -> str:
    """Returns the repr of a value for a message, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


REPAIR_ADVICE = "cse doctor --repair --yes takes it out"
"""Advice in messages about a row that cannot be read."""


@cache
def _columns(table: Table) -> tuple[tuple[Column[Any], tuple[type, ...], str], ...]:
    kinds = (
        (column, OTHER_SHAPES.get(column.name, COLUMN_KINDS[kind]))
        for column in table.columns
        for kind in COLUMN_KINDS
        if isinstance(column.type, kind)
    )
    return tuple((column, types, words) for column, (types, words) in kinds)


def report_edited(table: Table, row: Json, fault: str) -> LedgerError:
    """Returns the one-line error for a row that was changed by hand."""
    keys = " ".join(f"{key.name}={row.get(key.name)}" for key in table.primary_key)
    return LedgerError(f"ledger row: {table.name} {keys} {fault}; {REPAIR_ADVICE}")
