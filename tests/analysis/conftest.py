"""A ledger on SQLite, and on the PostgreSQL database that CSE_TEST_POSTGRES names (its cse_* tables are dropped)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from analysis.ledger import Ledger, schema
from analysis.ledger.database import parse_url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url = os.environ.get("CSE_TEST_POSTGRES")
    if not url:
        pytest.skip("CSE_TEST_POSTGRES names no PostgreSQL database")
    engine = create_engine(parse_url(url))
    schema.metadata.drop_all(engine)
    engine.dispose()
    return url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = Ledger.open(ledger_url)
    yield opened
    opened.close()
