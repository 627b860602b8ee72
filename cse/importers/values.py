"""Plain values out of what tools hand out: texts, nested settings, SQLite files."""

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from cse_train.fields import ConfigError, Scalar

PLAIN_WORDS: Mapping[str, Scalar] = {"True": True, "False": False, "None": None, "": None}


def scalar(value: object) -> Scalar:
    """The number, truth value or text that a value or its text stands for; a list stays as JSON text."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        if value in PLAIN_WORDS:
            return PLAIN_WORDS[value]
        with contextlib.suppress(ValueError):
            read = json.loads(value)
            if isinstance(read, bool | int) or (isinstance(read, float) and math.isfinite(read)):
                return read
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else json.dumps(value, default=str)


def flat(values: Mapping[str, object], before: str = "") -> dict[str, Scalar]:
    """Nested settings by dotted key; what begins with `_` is a tool's own."""
    return {name: scalar(value) for name, value in _leaves(values, before, private=False)}


def numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The finite numbers among the values, nested ones by dotted key."""
    plain = {name: scalar(value) for name, value in _leaves(values, "", private=True)}
    return {name: float(v) for name, v in plain.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _leaves(values: Mapping[str, object], before: str, *, private: bool) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if str(name).startswith("_") and (before or not private or isinstance(value, Mapping)):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{name}.", private=private)
        else:
            yield f"{before}{name}", value


def sqlite_file(source: str) -> Path | None:
    """The file of a `sqlite:///` address, or of a path that is a SQLite file; None for anything else."""
    path = Path(source.removeprefix("sqlite:///")).expanduser()
    if source.startswith("sqlite:///"):
        return path
    with contextlib.suppress(OSError), path.open("rb") as file:
        return path if file.read(15) == b"SQLite format 3" else None
    return None


def require_table(path: Path, table: str, what: str) -> None:
    """ConfigError where a SQLite file is absent or lacks the table: a tool would make it, and find nothing there."""
    if path.is_file():
        read_only = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(read_only, uri=True)) as connection:
            if connection.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone():
                return
        raise ConfigError([f"no {what}: source={path} has no table {table}; name {what}'s own database"])
    raise ConfigError([f"no such file: source={path}; name {what}'s database"])
