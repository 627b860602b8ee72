"""What stands in tables without training, each value with the hashes of what it was computed from.

There are two kinds: rows under a table, of the encoder that its runs start from, and the scores of models that a paper
prints beside its own. A ledger of version 1 may lack both tables: then `baselines.json` beside a SQLite ledger is read,
and the step to version 2 takes its rows over.
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
from analysis.ledger.integrity import intact, report_edited, sound_rows
from cse_train.results import Json, Protocol

OLD_FILE = "baselines.json"
OLD_KEY = re.compile(r"(.+) train\.corpus=(.+) train\.dev_max_length=(\d+) train\.encoder=(.+)")
"""A key of the old file: the column, and the settings in alphabetical order."""


Key = tuple[str, str, str, int]
"""Column, encoder, corpus, and tokens kept of a sentence."""


@dataclass(frozen=True)
class Baselines:
    """The rows without training of one column for one encoder and corpus."""

    suite: str
    """The column."""
    encoder: str
    corpus: str
    dev_max_length: int
    inputs: Mapping[str, str]
    """Content hashes of what the values come from."""
    rows: Mapping[str, float]
    """Name of the row -> value, in the order in which a table prints them; a row without a score is left out."""

    @property
    def key(self) -> Key:
        """What tells the entry from others."""
        return self.suite, self.encoder, self.corpus, self.dev_max_length


@dataclass(frozen=True)
class UntrainedScore:
    """One column of a model that a paper prints and nobody trains here."""

    model: str
    """An encoder, or a file of word vectors, by the name that the table gives it."""
    model_hash: str
    """Of its weights."""
    pooler: str
    suite: str
    """The column."""
    data_hash: str
    """Of all data that the column's suite reads, and of the version of its code."""
    value: float | None
    """None for a number that is not finite."""
    protocol: Protocol

    def row(self) -> dict[str, object]:
        """Its columns."""
        protocol = self.protocol.facts
        return {**vars(self), "protocol": protocol, "protocol_hash": schema.digest(protocol)}


def read(connection: Connection) -> list[Baselines]:
    """All of them; a ledger without the table is asked for its old file. A line is said of a row edited by hand."""
    if not inspect(connection).has_table(schema.baselines.name):
        return read_old_file(connection)
    table = schema.baselines
    rows = _read_with_texts(connection, table, Baselines.__dataclass_fields__)
    return [Baselines(**{**entry, "rows": _rows(entry)}) for entry in sound_rows(table, rows, check_baselines)]


def check_baselines(entry: Json) -> None:
    """Raise LedgerError for a row edited by hand."""
    intact(schema.baselines, entry)
    _rows(entry)


def _read_with_texts(connection: Connection, table: Table, names: Iterable[str]) -> list[Json]:
    """Rows with their JSON as text."""
    return [row._asdict() for row in connection.execute(select(*schema.cast_json(table, names)))]


def store(connection: Connection, entries: Iterable[Baselines]) -> None:
    """Add entries; one of the same column, encoder, corpus and length is replaced."""
    table = schema.baselines
    for entry in entries:
        key = dict(zip((column.name for column in table.primary_key), entry.key, strict=True))
        connection.execute(delete(table).where(*(table.c[name] == value for name, value in key.items())))
        rows = [[name, value] for name, value in entry.rows.items()]
        connection.execute(insert(table).values(**key, inputs=dict(entry.inputs), rows=rows, at=schema.now()))


def read_untrained_scores(connection: Connection) -> list[UntrainedScore]:
    """All scores of models that a paper prints, oldest first; a line is said of a row edited by hand."""
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
    """Add scores; one of the same model, pooler, column and protocol is replaced."""
    table = schema.untrained_scores
    for score in scores:
        values = score.row()
        same = (column == values[column.name] for column in table.primary_key)
        connection.execute(delete(table).where(*same))
        connection.execute(insert(table).values(**values, at=schema.now()))


def _rows(entry: Json) -> dict[str, float]:
    """JSON objects are stored with sorted keys, so that rows are a list of pairs."""
    try:
        return {str(name): float(value) for name, value in entry["rows"] if value is not None}
    except (TypeError, ValueError) as error:
        raise report_edited(schema.baselines, entry, "rows is not a list of [name, number]") from error


def read_old_file(connection: Connection) -> list[Baselines]:
    """What the file beside a SQLite ledger holds; entries that cannot be read are left out and computed again."""
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
