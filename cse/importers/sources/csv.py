"""Reads runs from any .csv or .tsv with a header: one row for each run, or for each seed of a configuration."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.columns import NAMES_SHOWN, SETTINGS_BEGIN, is_fact
from cse.importers.values import scalar
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading
from cse_train.text.files import header_of, is_delimited, read_delimited

SCORE = None
LOCAL = True
SEED_COLUMN = "seed"
ROW_ID = ("id", "run_id", "run id")
"""Columns, in lower case, whose value identifies a row."""
ROW_NUMBER = ("", "index", "level_0")
"""Names, in lower case, of the index column that pandas writes."""
UNNAMED_BEGINS = "unnamed: "
STATE_COLUMNS = ("state", "status")
UNFINISHED = frozenset(
    "failed fail crashed running pruned killed error errored pending canceled cancelled waiting".split()
)
"""States, in lower case, of a run that did not end in order."""
NO_NUMBER = frozenset(("", "nan", "na", "n/a", "none", "null", "inf", "-inf"))
"""Texts, in lower case, that mean a missing number."""


def read(source: str, study: str | None) -> list[ForeignRun]:
    """Returns a run for each row of a table file; a column with any text that is no number holds settings.

    Missing numbers are left out. Raises ConfigError for a file that is no table.
    """
    if study is not None:
        raise ConfigError([f"no studies: study={study}; a table has rows, leave --study out"])
    path = Path(source).expanduser()
    if not path.is_file():
        raise ConfigError([f"no such file: source={source}; name a .csv or .tsv with a header"])
    if not is_delimited(path):
        raise ConfigError([f"no table: source={source}; name a .csv or .tsv with a header"])
    with reading("unreadable table", f"source={path}", "give each row as many fields as the header has"):
        rows = read_rows(path)
    header = list(rows[0][1]) if rows else []
    return read_flat(rows, header, next((name for name in header if name.lower() in ROW_ID), None))


def read_rows(path: Path) -> list[tuple[int, Json]]:
    """Returns rows by column name, each with its line number or, in a .json, its index from 1.

    Raises ValueError for a .json that is no list of runs, and for a line with more or fewer fields than the header.
    """
    if path.suffix == ".json":
        rows = json.loads(path.read_text(encoding="utf8"))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no list of runs")
        return list(enumerate(rows, start=1))
    lines = read_delimited(path)
    header = header_of(next(lines, (0, []))[1], path)
    table = [(number, fields) for number, fields in lines if fields]
    for number, fields in table:
        if len(fields) != len(header):
            raise ValueError(f"line {number} has {len(fields)} fields, the header {len(header)}")
    return [(number, dict(zip(header, fields, strict=True))) for number, fields in table]


def read_flat(
    rows: Sequence[tuple[int, Mapping[str, Any]]], columns: Sequence[str], id_column: str | None
) -> list[ForeignRun]:
    """Returns a run for each row of a table of texts, from some of its columns."""
    names = [
        name
        for name in columns
        if name.lower() not in (*ROW_ID, *ROW_NUMBER) and not name.lower().startswith(UNNAMED_BEGINS)
    ]
    texts = {name: _present(str(row[name]) for _, row in rows if row[name] is not None) for name in names}
    # A column holds settings if its name says so, or if some text in it is no number.
    held = [
        name
        for name in names
        if name.startswith(SETTINGS_BEGIN)
        or name.lower() == SEED_COLUMN
        or any(_number(text) is None for text in texts[name])
    ]
    facts = [name for name in held if is_fact(name, texts[name])]
    remarks = []
    if commas := [name for name in held if any(_is_decimal_comma(text) for text in texts[name])]:
        remarks.append(f"read as texts: decimal commas of {', '.join(commas)}; export numbers with a decimal point")
    if blank := [name for name in names if not texts[name]]:
        remarks.append(f"left out: columns without a value: {some(blank, NAMES_SHOWN)}")
    states = [name for name in names if name.lower() in STATE_COLUMNS]
    return [
        ForeignRun(
            id=str(row[id_column]) if id_column else "",
            unfinished=next((text for name in states if (text := str(row[name]).strip().lower()) in UNFINISHED), ""),
            settings={
                name.lower() if name.lower() == SEED_COLUMN else name: _setting(row[name])
                for name in held
                if name not in facts
            },
            metrics={name: value for name in names if name not in held and (value := _number(row[name])) is not None},
            rest={name: row[name] for name in facts if _present([str(row[name])])},
            is_flat=True,
            row=number,
            remarks=remarks,
        )
        for number, row in rows
    ]


def _present(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text.strip().lower() not in NO_NUMBER]


def _is_decimal_comma(text: str) -> bool:
    whole, comma, part = text.strip().partition(",")
    return bool(comma) and whole.lstrip("-").isdecimal() and part.isdecimal()


def _setting(text: object) -> Scalar:
    """Parses a setting; whole numbers become int, however they are written."""
    value = scalar(text.strip() if isinstance(text, str) else text)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(text: object) -> float | None:
    """Returns the finite number in a text; None for any other text."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    # float() also reads 1_000, which is a text in a table.
    return value if math.isfinite(value) and "_" not in str(text) else None
