"""Merges records into a ledger in one transaction. Runs merge by signature; two results of one run are never mixed."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select
from sqlalchemy.exc import IntegrityError

from analysis.ledger import baselines, queries, schema, selection_log
from analysis.ledger.errors import LedgerAway, LedgerError
from analysis.ledger.exchange.columns import RECORD_KINDS, RUN_SHAPE, SWEEP, Record
from analysis.ledger.exchange.records import finite
from analysis.ledger.ledger import Ledger
from analysis.ledger.rows import RunRow
from analysis.run_state import RunState
from analysis.sweep_spec import SweepSpec
from cse_train.results import Json

RUNS_AT_ONCE = 200
"""Number of records that are looked up in one query."""
IDENTITY_COLUMNS = ("method", "seed")
"""Columns in which two runs of one signature agree. Settings may differ, such as the name of an equal corpus."""
RESULT_COLUMNS = ("examples", "best", "best_examples")
"""Columns in which two finished runs of one signature agree, in addition to scores."""

FOREIGN_METRICS = "metrics"
"""Key in an attempt's details for a run of another tool: every number that the tool recorded for the run."""

Key = tuple[str, str]
"""Suite, and hash of the protocol."""


@dataclass(frozen=True)
class RecordSource:
    """File or tool from which records are merged."""

    file: str
    hash: str
    sweep: str | None = None
    """Sweep of another tool's runs, which may be imported again with more settings and metrics that replace the stored
    ones; None for records of a bundle."""


@dataclass
class Merged:
    """Counts of what an import changed in a ledger."""

    added: int = 0
    replaced: int = 0
    """Runs without a result in the ledger that the records have finished."""
    there: int = 0
    renewed: int = 0
    """Runs of another tool that the ledger had with the same result and other settings or metrics."""
    held: int = 0
    """Runs that a driver of this ledger is training; the import leaves them unchanged."""
    scores: int = 0
    """New scores of runs that the ledger had before."""
    sweeps: int = 0
    other_sweeps: list[str] = field(default_factory=list)
    """Sweeps that the ledger has with another space, profile or settings; the stored description stays."""
    other_baselines: list[str] = field(default_factory=list)
    """Columns whose baseline rows differ from the stored ones, which stay."""


def merge(ledger: Ledger, records: Iterable[Record], source: RecordSource) -> Merged:
    """Merges checked records, all or none, runs first. Raises LedgerError if the ledger has a run with another
    result."""
    try:
        with ledger.writes() as connection:
            return _merge(connection, records, source)
    except IntegrityError as error:
        line = f"ledger busy: url={ledger.url} got one of these rows meanwhile; give the same command again"
        raise LedgerAway(line) from error


def _merge(connection: Connection, records: Iterable[Record], source: RecordSource) -> Merged:
    merged, conflicts = Merged(), Conflicts(source)
    for kind, of_kind in itertools.groupby(records, key=lambda record: record["kind"]):
        while chunk := list(itertools.islice(of_kind, RUNS_AT_ONCE)):
            if kind == "run":
                _merge_runs(connection, chunk, source, merged, conflicts)
            else:
                conflicts.check()  # runs come first: one message counts all their conflicts
                MERGES[kind](connection, chunk, merged)
    conflicts.check()
    return merged


class Conflicts:
    """Runs with two different results, collected for one error message."""

    def __init__(self, source: RecordSource) -> None:
        self._source, self._lines = source, list[str]()

    def add(self, record: Record, name: str, stored: object, imported: object) -> None:
        """Adds one difference between a record and the run of its signature."""
        run = f"signature={record['signature']} seed={record['seed']}"
        self._lines.append(f"{run} has {name}={stored} here and {imported} in {self._source.file}")

    def check(self) -> None:
        """Raises LedgerError where conflicts were added."""
        if self._lines:
            count_text = f" (and {len(self._lines) - 1} more)" if len(self._lines) > 1 else ""
            raise LedgerError(
                f"two results: {self._lines[0]}{count_text}; nothing was imported, "
                "give the file a ledger of its own with --ledger and compare the two"
            )


def _merge_runs(
    connection: Connection, chunk: Sequence[Record], source: RecordSource, merged: Merged, conflicts: Conflicts
) -> None:
    stored_runs = {row.signature: row for row in queries.runs(connection, signatures=[r["signature"] for r in chunk])}
    values: dict[str, dict[Key, float | None]] = defaultdict(dict)
    for score in queries.scores(connection, stored_runs):
        values[score.signature][score.suite, score.protocol_hash] = score.value
    noted = queries.provenance(connection, stored_runs) if source.sweep is not None else {}
    metrics = {name: attempts[-1].details.get(FOREIGN_METRICS) for name, attempts in noted.items()}
    new_records, scores = [], []
    for record in chunk:
        row, stored_scores = stored_runs.get(record["signature"]), values[record["signature"]]
        if row is None:
            merged.added += 1
            new_records.append(record)
        elif difference := _difference(row, stored_scores, record, source):
            conflicts.add(record, *difference)
        elif row.live:
            merged.held += 1
        elif row.state != RunState.DONE and record["state"] == RunState.DONE:
            merged.replaced += 1
            _clear(connection, record["signature"])
            new_records.append(record)
        elif source.sweep is not None and (row.config, row.seed, metrics.get(row.signature)) != _foreign_facts(record):
            merged.renewed += 1
            _clear(connection, record["signature"])
            links = schema.sweep_runs  # the caller adds the new cell
            of_run = links.c.sweep == source.sweep, links.c.signature == record["signature"]
            connection.execute(delete(links).where(*of_run))
            new_records.append(record)
        else:
            merged.there += 1
            added = [
                score for score in record["scores"] if RUN_SHAPE.parts["scores"].key_of(score) not in stored_scores
            ]
            scores += (
                [{"signature": record["signature"], **score} for score in added] if row.state == RunState.DONE else []
            )
    merged.scores += len(scores)
    _add(connection, new_records, source)
    _insert(connection, schema.scores, scores)


def _difference(
    row: RunRow, stored_scores: Mapping[Key, float | None], record: Record, source: RecordSource
) -> tuple[str, object, object] | None:
    """Returns name, stored value and imported value of the first field in which a run contradicts the record; None if
    none.

    Runs of another tool are compared by result only: their seed may be a number that the import chose.
    """
    columns = IDENTITY_COLUMNS if source.sweep is None else ()
    names = (*columns, *RESULT_COLUMNS) if row.state == record["state"] == RunState.DONE else columns
    for name in names:
        if (value := finite(getattr(row, name))) != record[name]:
            return name, value, record[name]
    for score in record["scores"] if row.state == RunState.DONE else ():
        key = RUN_SHAPE.parts["scores"].key_of(score)
        if key in stored_scores and (value := finite(stored_scores[key])) != score["value"]:
            return score["suite"], value, score["value"]
    return None


def _foreign_facts(record: Record) -> tuple[Any, ...]:
    """Returns settings, seed and metrics of a record from another tool."""
    return record["config"], record["seed"], record["attempts"][-1]["details"].get(FOREIGN_METRICS)


def _clear(connection: Connection, signature: str) -> None:
    """Deletes all rows of a run."""
    # The row of the run goes last, since the others refer to it.
    for table in (schema.imports, *(shape.table for shape in RUN_SHAPE.parts.values()), schema.runs):
        connection.execute(delete(table).where(table.c.signature == signature))


def _add(connection: Connection, records: Sequence[Record], source: RecordSource) -> None:
    """Inserts new runs with their parts and origin, without a folder, since their files lie elsewhere."""
    owner = f"import:{source.hash[:12]}"
    rows = [{name: record[name] for name in RUN_SHAPE.names} for record in records]
    _insert(connection, schema.runs, [row | {"folder": None, "owner": owner, "lease_until": 0.0} for row in rows])
    for name, shape in RUN_SHAPE.parts.items():
        extra = {"owner": owner} if "owner" in shape.table.c else {}
        parts = [{"signature": record["signature"], **part, **extra} for record in records for part in record[name]]
        _insert(connection, shape.table, parts)
    origin = {"file": source.file, "hash": source.hash, "at": connection.scalar(select(schema.now()))}
    notes = []
    for record in records:
        host = record["attempts"][-1]["details"].get("host") if record["attempts"] else None
        columns = {name: record[name] for name in ("signature", "attempt", "folder")}
        notes.append({**columns, "host": None if host is None else str(host), **origin})
    _insert(connection, schema.imports, notes)


def _insert(connection: Connection, table: Table, rows: Sequence[Json], *, add_only: bool = False) -> None:
    """Inserts rows; with `add_only`, rows whose key exists are left out."""
    if rows:
        wary = schema.insert_for(connection.dialect.name)(table).on_conflict_do_nothing()
        statement = wary if add_only else insert(table)
        connection.execute(statement, list(rows))


def _merge_sweeps(connection: Connection, chunk: Sequence[Record], merged: Merged) -> None:
    """Inserts new sweeps. A sweep that exists keeps its description, and gets the cells and looks that it lacks."""
    stored_specs = queries.specs(connection)
    merged.sweeps += sum(record["id"] not in stored_specs for record in chunk)
    imported = {record["id"]: SweepSpec(record["spec"]) for record in chunk if record["id"] in stored_specs}
    merged.other_sweeps += [name for name, spec in imported.items() if _identity(spec) != _identity(stored_specs[name])]
    _insert(
        connection, schema.sweeps, [{name: record[name] for name in SWEEP.names} for record in chunk], add_only=True
    )
    for record in chunk:
        cells = [{"sweep": record["id"], **cell} for cell in record["cells"]]
        _insert(connection, schema.sweep_runs, cells, add_only=True)
        logged = {(look.signature, look.at) for look in selection_log.looks(connection, record["id"])}
        new_looks = [look for look in record["looks"] if (look["signature"], look["at"]) not in logged]
        signatures = {look["signature"] for look in new_looks}
        if unknown := sorted(signatures - queries.states(connection, signatures).keys()):
            description = f"sweep={record['id']} has a look at signature={unknown[0]}"
            raise LedgerError(f"unknown run: {description}; have the file made again")
        _insert(connection, schema.selections, [{"space": record["id"], **look} for look in new_looks])


def _identity(spec: SweepSpec) -> tuple[object, ...]:
    """Returns the parts of a sweep's description that make it another sweep; its file's path does not count."""
    return spec.space, spec.yaml, spec.profile, spec.profile_yaml, spec.settings


def _merge_baselines(connection: Connection, chunk: Sequence[Record], merged: Merged) -> None:
    stored = {entry.key: entry for entry in baselines.read(connection)}
    new_rows = []
    for record in chunk:
        key = RECORD_KINDS["baselines"].key_of(record)
        rows = dict(record["rows"])
        if key not in stored:
            new_rows.append({name: value for name, value in record.items() if name != "kind"})
        elif {name: finite(value) for name, value in stored[key].rows.items()} != rows:
            merged.other_baselines.append(record["suite"])
    at = connection.scalar(select(schema.now()))
    _insert(connection, schema.baselines, [row | {"at": at} for row in new_rows])


def _merge_untrained(connection: Connection, chunk: Sequence[Record], merged: Merged) -> None:
    """Inserts scores of untrained models; a score that exists stays."""
    shape = RECORD_KINDS["untrained"]
    entries = baselines.read_untrained_scores(connection)
    stored = {shape.key_of(entry.row()): entry.value for entry in entries}
    new_records = [record for record in chunk if shape.key_of(record) not in stored]
    known_records = [record for record in chunk if shape.key_of(record) in stored]
    merged.other_baselines += [r["suite"] for r in known_records if finite(stored[shape.key_of(r)]) != r["value"]]
    at = connection.scalar(select(schema.now()))
    _insert(
        connection, shape.table, [{name: record[name] for name in shape.names} | {"at": at} for record in new_records]
    )


def _merge_pairs(connection: Connection, chunk: Sequence[Record], merged: Merged) -> None:
    """Inserts lists of ranks and grades. A list is named by its content's hash, so an existing one is equal."""
    rows = [{name: record[name] for name in RECORD_KINDS["pairs"].names} for record in chunk]
    _insert(connection, schema.pairs, rows, add_only=True)


MERGES = {"sweep": _merge_sweeps, "baselines": _merge_baselines, "untrained": _merge_untrained, "pairs": _merge_pairs}
"""Record kind -> function that merges such records into a ledger, once all runs are merged."""
