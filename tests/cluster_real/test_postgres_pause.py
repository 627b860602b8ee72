"""A driver that is stopped inside a transaction, and how many connections a driver holds."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.ledger.database import LOCK_WAIT_SECONDS, TRANSACTION_IDLE_SECONDS
from tests.cluster_real.postgres import Postgres
from tests.cluster_real.processes import Processes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ABOUT = {"method": "simcse", "seed": 0, "identity": {}, "provenance": {}}
PAUSED = f"""
import os, signal, sys, threading
from analysis.ledger import Ledger, LostClaim, claims
from cluster.sweep.ledger_retry import RetryingLedger

begin, paused = claims.begin, []
def pause_once(*given):
    begin(*given)
    if not paused:
        paused.append(True)
        print("inside", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
claims.begin = pause_once
ledger = RetryingLedger(Ledger.open(sys.argv[1]), threading.Event(), lambda line: print(line, flush=True))
claim = ledger.claim("r1", {{}}, owner="paused", **{ABOUT!r})
print("claim", claim, flush=True)
other = ledger.claim("r2", {{}}, owner="paused", **{ABOUT!r})
ledger.running(other)
print("goes on with", other.signature, flush=True)
"""


def wait_until(said: Callable[[], str], words: str) -> None:
    for _ in range(600):
        if words in said():
            return
        time.sleep(0.1)
    raise AssertionError(said())


def test_a_driver_that_is_stopped_inside_a_transaction_holds_up_nobody_for_long(
    server: Postgres, processes: Processes
) -> None:
    ledger = Ledger.open(server.url)
    (processes.folder / "paused.py").write_text(PAUSED, encoding="utf8")
    paused = processes.start(sys.executable, str(processes.folder / "paused.py"), server.url, log="paused.log")
    log = Path(processes.folder, "paused.log")
    wait_until(lambda: log.read_text(encoding="utf8"), "inside")
    begun = time.monotonic()
    claim = ledger.claim("r1", {}, owner="other", **ABOUT)
    waited = time.monotonic() - begun
    assert claim is not None and claim.owner == "other"
    assert waited < LOCK_WAIT_SECONDS, waited
    assert waited > TRANSACTION_IDLE_SECONDS / 2, "the paused driver did not hold the row: the test shows nothing"
    os.kill(paused.pid, signal.SIGCONT)
    assert paused.wait(60) == 0, log.read_text(encoding="utf8")
    said = log.read_text(encoding="utf8")
    assert "had paused" in said and "claim None" in said and "goes on with r2" in said
    rows = {row.signature: (row.owner, row.attempt) for row in ledger.runs()}
    assert rows == {"r1": ("other", 1), "r2": ("paused", 1)}
    assert [row.owner for row in ledger.history("r1")] == ["other"]
    ledger.close()


def test_all_ledgers_of_a_process_share_one_connection(server: Postgres) -> None:
    import psycopg

    ledgers = [Ledger.open(server.url, storage=Path(f"/storage{number}")) for number in range(5)]
    for _ in range(3):
        for ledger in ledgers:
            ledger.heartbeat("me")
    count = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    with psycopg.connect(server.url) as connection:
        row = connection.execute(count).fetchone()
    assert row is not None and row[0] - 1 == 1
    ledgers[0].close()
    assert ledgers[1].runs() == [], "another's end takes nothing away"
    for ledger in ledgers[1:]:
        ledger.close()
