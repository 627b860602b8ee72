"""A ledger of version 1 in a PostgreSQL server: of two programs at once one migrates it, and the other waits."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import database
from tests.analysis.ledger import test_migrations as checks
from tests.cluster_real.postgres import Postgres

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
older, plant = checks.older, checks.plant


@pytest.fixture
def ledger_url(server: Postgres) -> str:
    return server.url


def test_version_1_becomes_what_a_new_ledger_is(older: str, tmp_path: Path) -> None:
    checks.test_version_1_becomes_what_a_new_ledger_is(older, tmp_path)


def test_a_step_that_fails_leaves_the_ledger_as_it_was(older: str, plant: Callable[[str, str], None]) -> None:
    checks.test_several_steps_are_one_transaction(older, plant)


def test_runs_that_an_older_driver_holds_are_left_to_it(ledger_url: str) -> None:
    checks.test_runs_that_a_driver_of_an_older_program_holds_are_left_to_it(ledger_url)


def test_of_two_drivers_at_once_one_migrates_and_the_other_waits(
    older: str, tmp_path: Path, plant: Callable[[str, str], None]
) -> None:
    database._server.cache_clear()  # a child must not share this process's connections
    checks.test_of_two_drivers_at_once_one_migrates_and_the_other_waits(older, tmp_path, plant)
