"""Two drivers on two simulated nodes and one PostgreSQL: each has its slots, and a slot is a fork of little memory."""

from pathlib import Path

import pytest

from benchmarks.driver.many_nodes import HEADER, database, measure, simulated_nodes
from benchmarks.driver.sleeping import Load
from tests.cluster_real.postgres import programs


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_drivers_share_a_cluster_and_a_database(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="pip install 'psycopg[binary]'")
    if programs() is None:
        pytest.skip("no pg_ctl: apt-get install postgresql")
    with simulated_nodes(nodes=2, slots=4) as address, database() as server:
        row = measure(address, Load(str(tmp_path), slots=4, seconds=1.0, rounds=2, drivers=2), server)
    cells = row.split("|")[1:-1]
    assert len(cells) == len(HEADER.splitlines()[0].split("|")) - 2
    drivers, slots, _, share, _, _, head, of_database, _, connections, own_mb = cells
    assert (int(drivers), int(slots)) == (2, 4) and 0.2 < float(share) <= 1
    assert float(head) > 0 and float(of_database) > 0 and int(connections) >= 2
    assert float(own_mb) < 60, "a fork of what was imported, not a Python of its own"
