"""Migration to version 2: every table that version 1 created only when first needed, and two newer indexes of the
runs."""

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
)

from analysis.ledger import schema
from analysis.ledger.baselines import read_old_file

tables = MetaData()
runs = Table(
    "cse_runs",
    tables,
    Column("signature", String(64), primary_key=True),
    Column("state", String(16)),
    Column("owner", String(255)),
    Column("updated", Float),
    Index("ix_cse_runs_owner_state", "owner", "state"),
    Index("ix_cse_runs_updated", "updated"),
)
"""Columns of the table of runs that foreign keys and indexes of version 2 need."""
selections = Table(
    "cse_selections",
    tables,
    Column("id", Integer, primary_key=True),
    Column("space", String(255), nullable=False, index=True),
    Column("rule", String(255), nullable=False),
    Column("candidates", Integer, nullable=False),
    Column("signature", ForeignKey("cse_runs.signature"), nullable=False),
    Column("suites", JSON, nullable=False),
    Column("values", JSON, nullable=False),
    Column("at", Float, nullable=False),
)
baselines = Table(
    "cse_baselines",
    tables,
    Column("suite", String(128), primary_key=True),
    Column("encoder", Text, primary_key=True),
    Column("corpus", Text, primary_key=True),
    Column("dev_max_length", Integer, primary_key=True),
    Column("inputs", JSON, nullable=False),
    Column("rows", JSON, nullable=False),
    Column("at", Float, nullable=False),
)
untrained_scores = Table(
    "cse_untrained_scores",
    tables,
    Column("model", String(255), primary_key=True),
    Column("model_hash", String(64), primary_key=True),
    Column("pooler", String(64), primary_key=True),
    Column("suite", String(128), primary_key=True),
    Column("protocol_hash", String(64), primary_key=True),
    Column("data_hash", String(64), nullable=False),
    Column("value", Float),
    Column("protocol", JSON, nullable=False),
    Column("at", Float, nullable=False),
)
clusters = Table(
    "cse_clusters",
    tables,
    Column("sweep", String(255), primary_key=True),
    Column("dashboard", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("began", Float, nullable=False),
    Column("ended", Float),
)
imports = Table(
    "cse_imports",
    tables,
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
    tables,
    Column("hash", String(64), primary_key=True),
    Column("grades", String(64)),
    Column("numbers", JSON, nullable=False),
)


def migrate(connection: Connection) -> None:
    """Creates the missing tables and indexes, and copies baseline rows from `baselines.json` into their new table."""
    entries = [] if inspect(connection).has_table(baselines.name) else read_old_file(connection)
    tables.create_all(connection)
    for index in runs.indexes:
        index.create(connection, checkfirst=True)
    for entry in entries:
        values = {name: getattr(entry, name) for name in ("suite", "encoder", "corpus", "dev_max_length")}
        rows = [[name, value] for name, value in entry.rows.items()]
        connection.execute(insert(baselines).values(**values, inputs=dict(entry.inputs), rows=rows, at=schema.now()))
