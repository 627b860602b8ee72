"""Converts values of other tools to plain scalars: texts, nested settings, SQLite files."""

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from cse_train.fields import ConfigError, Scalar

PLAIN_WORDS: Mapping[str, Scalar] = {
    "True": True, "TRUE": True, "False": False, "FALSE": False, "None": None, "": None,
}  # fmt: skip


def scalar(value: object) -> Scalar:
    """Returns the number, bool or text that a value or its text means; lists become JSON text."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        if value in PLAIN_WORDS:
            return PLAIN_WORDS[value]
        with contextlib.suppress(ValueError):
            parsed = json.loads(value)
            if isinstance(parsed, bool | int) or (isinstance(parsed, float) and math.isfinite(parsed)):
                return parsed
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else json.dumps(value, default=str)


def flat(values: Mapping[str, object], prefix: str = "") -> dict[str, Scalar]:
    """Returns nested settings by dotted key, without keys that begin with `_`, which belong to the tool."""
    return {name: scalar(value) for name, value in _leaves(values, prefix, private=False)}


def numbers(values: Mapping[str, object]) -> dict[str, float]:
    """Returns the finite numbers among the values; nested ones by dotted key."""
    plain = {name: scalar(value) for name, value in _leaves(values, "", private=True)}
    return {name: float(v) for name, v in plain.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _leaves(values: Mapping[str, object], prefix: str, *, private: bool) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if str(name).startswith("_") and (prefix or not private or isinstance(value, Mapping)):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.", private=private)
        else:
            yield f"{prefix}{name}", value


def sqlite_file(source: str) -> Path | None:
    """Returns the path of a `sqlite:///` address, or of a file that is SQLite; None for anything else."""
    path = Path(source.removeprefix("sqlite:///")).expanduser()
    if source.startswith("sqlite:///"):
        return path
    with contextlib.suppress(OSError), path.open("rb") as file:
        return path if file.read(15) == b"SQLite format 3" else None
    return None


def require_table(path: Path, table: str, tool: str) -> None:
    """Raises ConfigError if a SQLite file is absent or lacks the table: the tool itself would create both, and find
    nothing."""
    if path.is_file():
        read_only = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(read_only, uri=True)) as connection:
            if connection.execute("select 1 from sqlite_master where name = ?", (table,)).fetchone():
                return
        raise ConfigError([f"no {tool}: source={path} has no table {table}; name {tool}'s own database"])
    raise ConfigError([f"no such file: source={path}; name {tool}'s database"])
