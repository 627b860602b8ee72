"""A driver whose clock is days off: leases are the database's, so it neither takes a living run over nor waits long."""

import time
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from tests.cluster.runtime.test_storage import SPACE
from tests.cse.cli.sweeps.pretended import NoRay

LEASE_S = 2.0
DAYS = 2 * 86_400.0


@pytest.mark.parametrize("off", [DAYS, -DAYS], ids=["ahead", "behind"])
def test_a_run_of_a_living_driver_is_waited_for_and_taken_over_when_its_lease_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], off: float
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", NoRay)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    command = ["run", "mine.yaml", "--ledger", "l.db"]
    assert main(command) == 2  # plans, claims, and gives the run back
    ledger = Ledger.open("l.db", lease=LEASE_S)
    (row,) = ledger.runs()
    given = {"method": row.method, "seed": row.seed, "owner": "other", "identity": {}, "provenance": {}}
    held = ledger.claim(row.signature, {}, **given)
    assert held is not None
    ledger.running(held)
    begun, true = time.monotonic(), time.time
    with monkeypatch.context() as skewed:
        skewed.setattr(time, "time", lambda: true() + off)
        assert main(["trials", "--ledger", "l.db"]) == 0
        shown = capsys.readouterr().out
        assert main(command) == 2
    waited = time.monotonic() - begun
    said = capsys.readouterr().err
    assert "running" in shown and "other" in said and LEASE_S - 0.5 < waited < LEASE_S + 30
    assert [note.state for note in ledger.history(row.signature)][2:] == [
        "claimed",
        "running",
        "lost",
        "claimed",
        "lost",
    ]
    ledger.close()
