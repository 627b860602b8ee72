"""A ledger as version 1 of the schema made it, before anything younger was needed in it."""

from sqlalchemy import Engine, text, update

from analysis.ledger import schema
from analysis.ledger.migrations import to_2

YOUNGER = ("cse_pairs", "cse_imports", "cse_clusters", "cse_untrained_scores", "cse_baselines", "cse_selections")


def make_version_1(engine: Engine) -> None:
    """Take from a ledger of version 2 what version 1 has not; rows of the other tables stay."""
    with engine.begin() as connection:
        for table in YOUNGER:
            connection.execute(text(f"DROP TABLE {table}"))
        for index in to_2.runs.indexes:
            connection.execute(text(f"DROP INDEX {index.name}"))
        version = schema.meta.c.key == "schema_version"
        connection.execute(update(schema.meta).where(version).values(value="1"))
