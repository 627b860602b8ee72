"""Scores that tables print without training, each stored with the hashes of the inputs that it was computed from.

There are two kinds: baseline rows under a table, for the encoder from which its runs start, and scores of models that a
paper prints next to its own. A ledger of version 1 may lack both tables: then `baselines.json` in the folder of a
SQLite ledger is read, and the migration to version 2 takes its rows over.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, inspect, select

from analysis.ledger import schema
from analysis.ledger.integrity import Row, intact, report_edited, sound_rows
from cse_train.results import Json, Protocol

OLD_FILE = "baselines.json"
OLD_KEY = re.compile(r"(.+) train\.corpus=(.+) train\.dev_max_length=(\d+) train\.encoder=(.+)")
"""Pattern of a key in `baselines.json`: the column, and the settings in alphabetical order."""


Key = tuple[str, str, str, int]
"""Column, encoder, corpus, and the number of tokens kept of a sentence."""


@dataclass(frozen=True)
class Baselines:
    """Baseline rows of one column of a table, computed without training for one encoder and one corpus."""

    suite: str
    """Column of the table."""
    encoder: str
    corpus: str
    dev_max_length: int
    inputs: Mapping[str, str]
    """Content hashes of the files from which the values were computed."""
    rows: Mapping[str, float]
    """Name of the row -> value, in the order in which a table prints the rows; a row without a score is left out."""

    @property
    def key(self) -> Key:
        """Primary key of the entry in the ledger."""
        return self.suite, self.encoder, self.corpus, self.dev_max_length


@dataclass(frozen=True)
class UntrainedScore:
    """Score in one column of a model that a paper prints and that nobody trains here."""

    model: str
    """Encoder, or file of word vectors, by the name that the table gives it."""
    model_hash: str
    """Hash of the model's weights."""
    pooler: str
    suite: str
    """Column of the table."""
    data_hash: str
    """Hash of all data that the column's suite reads, and of the version of the suite's code."""
    value: float | None
    """Score in points; None for a number that is not finite."""
    protocol: Protocol

    def row(self) -> dict[str, object]:
        """Returns the score as column name -> value of a database row."""
        protocol = self.protocol.facts
        return {**vars(self), "protocol": protocol, "protocol_hash": schema.digest(protocol)}


def read(connection: Connection) -> list[Baselines]:
    """Returns all baseline rows; warns about and leaves out rows edited by hand. A ledger without the table falls back
    to `baselines.json`."""
    if not inspect(connection).has_table(schema.baselines.name):
        return read_old_file(connection)
    table = schema.baselines
    rows = _read_with_texts(connection, table, Baselines.__dataclass_fields__)
    return [Baselines(**{**entry, "rows": _rows(entry)}) for entry in sound_rows(table, rows, check_baselines)]


def check_baselines(entry: Json) -> None:
    """Raises LedgerError for a baseline row that was edited by hand."""
    intact(schema.baselines, entry)
    _rows(entry)


def _read_with_texts(connection: Connection, table: Table, names: Iterable[str]) -> list[Json]:
    """Returns rows whose JSON columns are still text."""
    return [row._asdict() for row in connection.execute(select(*schema.cast_json(table, names)))]


def store(connection: Connection, entries: Iterable[Baselines]) -> None:
    """Adds baseline rows; an entry with the same column, encoder, corpus and length is replaced."""
    table = schema.baselines
    for entry in entries:
        key = dict(zip((column.name for column in table.primary_key), entry.key, strict=True))
        connection.execute(delete(table).where(*(table.c[name] == value for name, value in key.items())))
        rows = [[name, value] for name, value in entry.rows.items()]
        connection.execute(insert(table).values(**key, inputs=dict(entry.inputs), rows=rows, at=schema.now()))


def read_untrained_scores(connection: Connection) -> list[UntrainedScore]:
    """Returns all scores of models that a paper prints, oldest first; warns about and leaves out edited rows."""
    table = schema.untrained_scores
    if not inspect(connection).has_table(table.name):
        return []
    fields = tuple(UntrainedScore.__dataclass_fields__)
    rows = _read_with_texts(connection, table, (*fields, "protocol_hash", "at"))
    sound = list(sound_rows(table, rows, partial(intact, table)))
    return [
        UntrainedScore(**{name: row[name] for name in fields} | {"protocol": Protocol.read(row["protocol"])})
        for row in sorted(sound, key=itemgetter("at"))
    ]


def store_untrained(connection: Connection, scores: Iterable[UntrainedScore]) -> None:
    """Adds scores of models that a paper prints; one of the same model, pooler, column and protocol is replaced."""
    table = schema.untrained_scores
    for score in scores:
        values = score.row()
        conditions = (column == values[column.name] for column in table.primary_key)
        connection.execute(delete(table).where(*conditions))
        connection.execute(insert(table).values(**values, at=schema.now()))


def _rows(entry: Row) -> dict[str, float]:
    """Returns row name -> value. Rows are stored as a list of pairs, because the keys of a JSON object would be
    sorted."""
    try:
        return {str(name): float(value) for name, value in entry["rows"] if value is not None}
    except (TypeError, ValueError) as error:
        raise report_edited(schema.baselines, entry, "rows is not a list of [name, number]") from error


def read_old_file(connection: Connection) -> list[Baselines]:
    """Returns the baseline rows of `baselines.json` in the folder of a SQLite ledger. Unreadable entries are left out,
    and are computed again."""
    url = connection.engine.url
    if url.get_backend_name() != "sqlite" or not url.database:
        return []
    try:
        content = json.loads(Path(url.database).with_name(OLD_FILE).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return []
    entries = content.items() if isinstance(content, dict) else ()
    return [entry for key, value in entries if (entry := _old_entry(key, value)) is not None]


def _old_entry(key: str, value: Any) -> Baselines | None:
    match = OLD_KEY.fullmatch(key)
    try:
        rows = {str(name): float(number) for name, number in value["rows"].items()}
        inputs = {str(name): str(content) for name, content in value.get("inputs", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if match is None:
        return None
    suite, corpus, length, encoder = match.groups()
    return Baselines(suite, encoder, corpus, int(length), inputs, rows)
