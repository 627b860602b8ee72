"""Finds and deletes damaged rows that no command can read, and imported runs that fail today's checks of bundles."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Table, delete, inspect, select

from analysis.ledger import baselines, queries, schema
from analysis.ledger.errors import LedgerError
from analysis.ledger.exchange.columns import problem
from analysis.ledger.exchange.records import run_records
from analysis.ledger.integrity import intact, intact_point, intact_spec, read_row
from analysis.ledger.ledger import Ledger
from cse_train.results import Json

TABLE_PARTS: Mapping[Table, str] = {
    **dict.fromkeys((schema.imports, schema.history, schema.curves, schema.scores, schema.provenance), "signature"),
    schema.selections: "signature",
}
"""Table with parts of a run -> the column that holds the run's signature."""
ROW_CHECKS: Mapping[Table, Callable[[Json], object]] = {
    schema.sweeps: intact_spec,
    schema.curves: intact_point,
    schema.baselines: baselines.check_baselines,
    **{table: partial(intact, table) for table in (schema.runs, schema.history, schema.scores, schema.provenance)},
    **{table: partial(intact, table) for table in (schema.selections, schema.sweep_runs, schema.untrained_scores)},
}


@dataclass(frozen=True)
class DamagedRow:
    """One damaged row to delete; for a run or a sweep, all its parts are deleted with it."""

    table: str
    key: Json
    line: str
    """Message that says what is wrong with the row."""


def find_unsound(ledger: Ledger) -> list[DamagedRow]:
    """Returns all damaged rows; for an imported run with a damaged part, returns the run."""
    with ledger.reads() as connection:
        table_names = set(inspect(connection).get_table_names())
        rows = [row for table in ROW_CHECKS if table.name in table_names for row in _find_spoilt(connection, table)]
        damaged = {row.key.get("signature") for row in rows}
        for signature in sorted(queries.imports(connection).keys() - damaged):
            records = run_records(connection, [signature])
            fault = problem(records[0]) if records else "stands as one that a driver trains, and no driver does"
            if fault:
                line = f"imported run: signature={signature} {fault}"
                rows.append(DamagedRow(schema.runs.name, {"signature": signature}, line))
    return rows


def take_out(ledger: Ledger, row: DamagedRow) -> None:
    """Deletes a damaged row with its parts. A run that is linked to a sweep counts as unclaimed afterwards."""
    with ledger.writes() as connection:
        table_names = set(inspect(connection).get_table_names())
        if row.table == schema.runs.name:
            for table, column in TABLE_PARTS.items():
                if table.name in table_names:
                    connection.execute(delete(table).where(table.c[column] == row.key["signature"]))
        if row.table == schema.sweeps.name:
            connection.execute(delete(schema.sweep_runs).where(schema.sweep_runs.c.sweep == row.key["id"]))
            if schema.selections.name in table_names:
                connection.execute(delete(schema.selections).where(schema.selections.c.space == row.key["id"]))
        table = schema.metadata.tables[row.table]
        connection.execute(delete(table).where(*(table.c[name] == value for name, value in row.key.items())))


def _find_spoilt(connection: Connection, table: Table) -> Iterator[DamagedRow]:
    keys = [column.name for column in table.primary_key]
    for row in connection.execute(select(*schema.cast_json(table, table.c.keys()))).all():
        values = row._asdict()
        try:
            read_row(table, values, ROW_CHECKS[table])
        except LedgerError as error:
            yield DamagedRow(table.name, {name: values[name] for name in keys}, str(error).rpartition(";")[0])
