"""Any .csv or .tsv with a header: a row for each run, or for each seed of one configuration."""

import math
from collections.abc import Sequence
from pathlib import Path

from cse.importers import ForeignRun
from cse.importers.tables import read_rows
from cse.importers.values import scalar
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading
from cse_train.text.corpora.delimited import is_delimited

SCORE = None
LOCAL = True
SEED_COLUMN = "seed"
SETTINGS_BEGIN = ("method", "train.", "method.")
"""How the names of settings begin; every other column of numbers is a metric, unless --rename or --seed takes it."""
ROW_ID = ("id", "run_id", "run id")
"""Columns, in small letters, that tell a row from every other."""
ROW_NUMBER = ("", "unnamed: 0", "index")
"""What pandas writes beside the columns of a frame."""
NO_NUMBER = frozenset(("", "nan", "na", "n/a", "none", "null", "inf", "-inf"))
"""Texts, in small letters, of a number that is missing."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """A run for each row. A column with a text that is no number holds settings; a missing number is none."""
    if study is not None:
        raise ConfigError([f"no studies: study={study}; a table has rows, leave --study out"])
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError([f"no such file: source={source}; name a .csv or .tsv with a header"])
    if not is_delimited(path):
        raise ConfigError([f"no table: source={source}; name a .csv or .tsv with a header"])
    with reading("unreadable table", f"source={path}", "give each row as many fields as the header has"):
        rows = read_rows(path)
    names = [name for name in (rows[0][1] if rows else ()) if name.lower() not in (*ROW_ID, *ROW_NUMBER)]
    is_setting = {name: _holds_settings(name, [row[name] for _, row in rows]) for name in names}
    id_column = next((name for name in (rows[0][1] if rows else ()) if name.lower() in ROW_ID), None)
    return [_read_row(number, row, is_setting, id_column) for number, row in rows]


def _holds_settings(name: str, texts: Sequence[str]) -> bool:
    """Whether its name says so, or some text is no number; a column without any value holds none."""
    given = [text for text in texts if text.strip().lower() not in NO_NUMBER]
    is_named = name.startswith(SETTINGS_BEGIN) or name.lower() == SEED_COLUMN
    return is_named or any(_number(text) is None for text in given)


def _read_row(number: int, row: Json, is_setting: dict[str, bool], id_column: str | None) -> ForeignRun:
    settings = {
        name.lower() if name.lower() == SEED_COLUMN else name: _setting(row[name])
        for name, kept in is_setting.items()
        if kept
    }
    metrics = {
        name: value for name, kept in is_setting.items() if not kept and (value := _number(row[name])) is not None
    }
    return ForeignRun(
        id=row[id_column] if id_column else "", settings=settings, metrics=metrics, is_flat=True, row=number
    )


def _setting(text: str) -> Scalar:
    """A whole number is one however it is written."""
    value = scalar(text.strip())
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(text: str) -> float | None:
    """The finite number of a text; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
