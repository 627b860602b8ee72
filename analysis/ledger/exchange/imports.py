"""What imported runs bring beside their rows: where they come from, and the order of their sentence pairs.

A ledger of before has nothing imported.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from sqlalchemy import JSON, Column, Connection, Float, ForeignKey, Integer, String, Table, Text, and_, select

from analysis.ledger import queries, schema
from analysis.run_folder import RunFolder

imports = Table(
    "cse_imports",
    schema.metadata,
    Column("signature", ForeignKey("cse_runs.signature"), primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("file", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("host", Text),
    Column("folder", Text),
    Column("at", Float, nullable=False),
)
pairs = Table(
    "cse_pairs",
    schema.metadata,
    Column("hash", String(64), primary_key=True),
    Column("grades", String(64)),
    Column("numbers", JSON, nullable=False),
)
"""Of a file of cosines, by its hash, their dense ranks and the hash of the row that holds their grades; of grades, by
the hash of the list, the grades themselves."""


@dataclass(frozen=True)
class Import:
    """Where an imported run comes from. Its files are not here."""

    signature: str
    file: str
    """Name of the bundle."""
    hash: str
    """The bundle's sha256, as its header says."""
    host: str | None
    """The machine that trained it."""
    folder: str | None
    """The run's folder where it was trained."""
    at: float
    """When it was imported, in seconds since 1970 by the database's clock."""

    def line(self) -> str:
        """In words."""
        where = RunFolder(Path(self.folder)).best if self.folder else None
        lies = f"; its checkpoint lies at {self.host or 'unknown host'}:{where}" if where else ""
        return f"imported from {self.file} ({self.hash[:12]}){lies}"


def read_imports(connection: Connection, signatures: Iterable[str] | None = None) -> dict[str, Import]:
    """Signature -> where the run comes from; a run that was trained here since is none of them."""
    if not sqlalchemy.inspect(connection).has_table(imports.name):
        return {}
    runs = schema.runs
    here = and_(runs.c.signature == imports.c.signature, runs.c.attempt == imports.c.attempt)
    query = select(*(imports.c[name] for name in Import.__dataclass_fields__)).join(runs, here)
    return {
        row.signature: Import(*row)
        for statement in queries.select_by_signature(query, imports.c.signature, signatures)
        for row in connection.execute(statement)
    }


def read_pairs(connection: Connection, hashes: Iterable[str]) -> dict[str, tuple[list[int], list[float]]]:
    """Hash of a file of cosines -> (dense ranks of its cosines, grades), of those that imported runs brought."""
    wanted = list(hashes)
    if not wanted or not sqlalchemy.inspect(connection).has_table(pairs.name):
        return {}
    grades = pairs.alias()
    query = select(pairs.c.hash, pairs.c.numbers, grades.c.numbers).join(grades, grades.c.hash == pairs.c.grades)
    return {
        row[0]: (row[1], row[2])
        for statement in queries.select_by_signature(query, pairs.c.hash, wanted)
        for row in connection.execute(statement)
    }
