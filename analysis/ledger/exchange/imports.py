"""Origin of imported runs, and the sentence pairs behind their scores, in two tables of the ledger.

A ledger of an older version may lack both tables; then nothing is imported.
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
"""Table of rank lists and grades, by hash. A row for a file of cosines holds their dense ranks and the hash of the row
with the grades; a row for a list of grades holds the grades themselves, with no `grades` hash."""


@dataclass(frozen=True)
class Import:
    """Origin of an imported run, whose files lie on another machine."""

    signature: str
    file: str
    """File name of the bundle."""
    hash: str
    """Sha256 of the bundle, as its header states it."""
    host: str | None
    """Machine that trained the run; None if unknown."""
    folder: str | None
    """Folder of the run on the machine that trained it."""
    at: float
    """Time of the import, in seconds since 1970 by the database's clock."""

    def line(self) -> str:
        """Returns a sentence on where the run comes from and where its checkpoint lies."""
        checkpoint = RunFolder(Path(self.folder)).best if self.folder else None
        place_text = f"; its checkpoint lies at {self.host or 'unknown host'}:{checkpoint}" if checkpoint else ""
        return f"imported from {self.file} ({self.hash[:12]}){place_text}"


def read_imports(connection: Connection, signatures: Iterable[str] | None = None) -> dict[str, Import]:
    """Returns signature -> origin of imported runs; a run that was trained here since its import is left out."""
    if not sqlalchemy.inspect(connection).has_table(imports.name):
        return {}
    runs = schema.runs
    newest_attempt = and_(runs.c.signature == imports.c.signature, runs.c.attempt == imports.c.attempt)
    query = select(*(imports.c[name] for name in Import.__dataclass_fields__)).join(runs, newest_attempt)
    return {
        row.signature: Import(*row)
        for statement in queries.select_by_signature(query, imports.c.signature, signatures)
        for row in connection.execute(statement)
    }


def read_pairs(connection: Connection, hashes: Iterable[str]) -> dict[str, tuple[list[int], list[float]]]:
    """Returns hash of a file of cosines -> (dense ranks of its cosines, grades), for files of imported runs."""
    unique_hashes = list(hashes)
    if not unique_hashes or not sqlalchemy.inspect(connection).has_table(pairs.name):
        return {}
    grades = pairs.alias()
    query = select(pairs.c.hash, pairs.c.numbers, grades.c.numbers).join(grades, grades.c.hash == pairs.c.grades)
    return {
        row[0]: (row[1], row[2])
        for statement in queries.select_by_signature(query, pairs.c.hash, unique_hashes)
        for row in connection.execute(statement)
    }
