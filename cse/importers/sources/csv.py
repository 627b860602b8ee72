"""Reads runs from any .csv or .tsv with a header: one row for each run, or for each seed of a configuration."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.tables.labels import some
from cse.importers import ForeignRun
from cse.importers.columns import NAMES_SHOWN, SETTINGS_BEGIN, is_fact
from cse.importers.tables import read_rows
from cse.importers.values import scalar
from cse_train.fields import ConfigError, Json, Scalar
from cse_train.reading import reading
from cse_train.text.corpora.delimited import is_delimited

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
    id_column = next((name for name in header if name.lower() in ROW_ID), None)
    return read_flat(rows, [name for name in header if name != id_column], id_column)


def read_flat(rows: Sequence[tuple[int, Json]], names: Sequence[str], id_column: str | None) -> list[ForeignRun]:
    """Returns a run for each row of a table of texts, from the named columns."""
    names = [
        name
        for name in names
        if name.lower() not in (*ROW_ID, *ROW_NUMBER) and not name.lower().startswith(UNNAMED_BEGINS)
    ]
    texts = {name: [str(row[name]) for _, row in rows if row[name] is not None] for name in names}
    is_setting = {name: _holds_settings(name, texts[name]) for name in names}
    facts = [name for name in names if is_setting[name] and is_fact(name, _present(texts[name]))]
    commas = [name for name in names if is_setting[name] and any(_is_decimal_comma(text) for text in texts[name])]
    remarks = [f"read as texts: decimal commas of {', '.join(commas)}; export numbers with a decimal point"] * bool(
        commas
    )
    blank = [name for name in names if not _present(texts[name])]
    remarks += [f"left out: columns without a value: {some(blank, NAMES_SHOWN)}"] * bool(blank)
    states = [name for name in names if name.lower() in STATE_COLUMNS]
    return [_read_row(number, row, is_setting, facts, states, id_column, remarks) for number, row in rows]


def _present(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if text.strip().lower() not in NO_NUMBER]


def _is_decimal_comma(text: str) -> bool:
    whole, comma, part = text.strip().partition(",")
    return bool(comma) and whole.lstrip("-").isdecimal() and part.isdecimal()


def _holds_settings(name: str, texts: Sequence[str]) -> bool:
    """Returns True if a column holds settings: its name says so, or some text in it is no number."""
    is_named = name.startswith(SETTINGS_BEGIN) or name.lower() == SEED_COLUMN
    return is_named or any(_number(text) is None for text in _present(texts))


def _read_row(
    number: int,
    row: Json,
    is_setting: Mapping[str, bool],
    facts: Sequence[str],
    states: Sequence[str],
    id_column: str | None,
    remarks: Sequence[str],
) -> ForeignRun:
    settings = {
        name.lower() if name.lower() == SEED_COLUMN else name: _setting(row[name])
        for name, is_kept in is_setting.items()
        if is_kept and name not in facts
    }
    metrics = {
        name: value for name, is_kept in is_setting.items() if not is_kept and (value := _number(row[name])) is not None
    }
    state = next((text for name in states if (text := str(row[name]).strip().lower()) in UNFINISHED), "")
    return ForeignRun(
        id=str(row[id_column]) if id_column else "",
        unfinished=state,
        settings=settings,
        metrics=metrics,
        rest={name: row[name] for name in facts if _present([str(row[name])])},
        is_flat=True,
        row=number,
        remarks=remarks,
    )


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
