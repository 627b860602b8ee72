"""A database that is away for a while, and for too long."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger, LedgerAway, LedgerError
from analysis.sweep_spec import SweepSpec
from cluster.runtime.options import SweepOptions
from cluster.sweep import ledger_retry, run_sweep
from cluster.sweep import run_sweep as module
from cluster.sweep.ledger_retry import RetryingLedger
from cse.cli.exit import MISTAKE, verdict
from cse_train.data_paths import DataPaths
from tests.cluster.sweep.list_driver import wanted

KNOWN: dict[str, Any] = {"method": "simcse", "seed": 1, "identity": {}, "provenance": {}}


class Flaky:
    """A ledger whose methods fail `times` times, before or after they have done their work."""

    def __init__(self, ledger: Ledger, times: int, after: bool = False) -> None:
        self.ledger, self.times, self.after = ledger, times, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.ledger, name)
        if not callable(method):
            return method

        def called(*args: Any, **options: Any) -> Any:
            if name == "claim" and self.times:
                self.times -= 1
                if self.after:
                    method(*args, **options)
                raise LedgerAway("ledger unreachable: url=here (gone)")
            return method(*args, **options)

        return called


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_retry, "LEDGER_AWAY_SECONDS", 60.0)
    monkeypatch.setattr(ledger_retry, "LEDGER_RETRY_SECONDS", 0.001)


def retrying(flaky: Flaky, said: list[str]) -> RetryingLedger:
    return RetryingLedger(flaky, threading.Event(), said.append)  # type: ignore[arg-type]


@pytest.mark.parametrize("after", [False, True])
def test_a_call_waits_until_the_database_answers(tmp_path: Path, after: bool) -> None:
    ledger, said = Ledger.open(tmp_path / "l.db"), list[str]()
    claim = retrying(Flaky(ledger, 3, after), said).claim("aa", {}, owner="me", **KNOWN)
    assert claim is not None and claim.attempt == (4 if after else 1)
    row = ledger.run("aa")
    assert row is not None and (row.state, row.owner, row.attempt) == ("claimed", "me", claim.attempt)
    assert len(said) == 2
    assert said[0] == "ledger unreachable: url=here (gone); trying again for 60 s"
    assert said[1].startswith("the ledger answers again after")


def test_a_database_that_stays_away_ends_it_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_retry, "LEDGER_AWAY_SECONDS", 0.05)
    said: list[str] = []
    with pytest.raises(LedgerAway, match="ledger unreachable"):
        retrying(Flaky(Ledger.open(tmp_path / "l.db"), 10**9), said).claim("aa", {}, owner="me", **KNOWN)
    assert len(said) == 1


def test_an_interrupt_ends_the_wait(tmp_path: Path) -> None:
    over = threading.Event()
    over.set()
    waiting = RetryingLedger(Flaky(Ledger.open(tmp_path / "l.db"), 10**9), over, lambda line: None)  # type: ignore[arg-type]
    with pytest.raises(LedgerAway):
        waiting.claim("aa", {}, owner="me", **KNOWN)


def test_after_an_outage_nobody_is_taken_over_for_one_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(tmp_path / "l.db", lease=0.001)
    assert ledger.claim("aa", {}, owner="cut off", **KNOWN) is not None
    ours = RetryingLedger(Ledger.open(tmp_path / "l.db"), threading.Event(), lambda line: None)
    clock = [1000.0]
    monkeypatch.setattr(ledger_retry.time, "monotonic", lambda: clock[0])
    ours.away()
    assert ours.claim("aa", {}, owner="me", **KNOWN) is None
    assert ours.claim("bb", {}, owner="me", **KNOWN) is not None, "a run that nobody holds is free"
    ledger.heartbeat("cut off")
    time.sleep(0.01)  # longer than that driver's lease
    clock[0] += 61
    taken = ours.claim("aa", {}, owner="me", **KNOWN)
    assert taken is not None and taken.attempt == 2, "a driver that says nothing for a lease is dead"


def test_a_heartbeat_comes_as_soon_as_the_database_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_sweep, "HEARTBEAT_RETRY_SECONDS", 0.01)
    done, beats = threading.Event(), list[str]()

    class Away:
        tries = 0

        def require_file(self) -> None:
            pass

        def heartbeat(self, owner: str) -> None:
            self.tries += 1
            if self.tries < 5:
                raise LedgerAway("gone")
            beats.append(owner)
            done.set()

    away = list[bool]()
    retrying: Any = type("Retrying", (), {"away": lambda self: away.append(True)})()
    ledger: Any = Away()
    thread = threading.Thread(target=run_sweep._heartbeats, args=(ledger, retrying, "me", threading.Event(), done))
    thread.start()
    thread.join(5)
    assert beats == ["me"] and len(away) == 4, "well before the next heartbeat is due"


@pytest.mark.parametrize("replaced", [False, True])
def test_the_sweep_ends_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool) -> None:
    monkeypatch.setattr(module, "LEASE_HEARTBEAT_SECONDS", 0.05)
    file = tmp_path / "l.db"
    other = Ledger.open(file)
    given = {"method": "simcse", "seed": 1, "owner": "other", "identity": {}, "provenance": {}}
    assert other.claim("signature1", {}, **given)

    def remove(event: object) -> None:
        """Once this driver waits for the other one's run."""
        aside = file.with_name("kept.db")
        if not aside.exists():
            file.rename(aside)
        if replaced:
            shutil.copy(aside, file)

    over = threading.Event()
    with pytest.raises(LedgerError) as raised:
        module.run_sweep([wanted(1)], file, DataPaths(), SweepOptions(storage=tmp_path), remove, over=over)
    other.close()
    code, (line,) = verdict(raised.value)
    assert code == MISTAKE and line.startswith("ledger file: url=sqlite:///") and over.is_set()
    assert "l.db was removed or replaced while it was open" in line


def test_a_ledger_that_stays_is_no_problem(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db")
    ledger.record_sweep("mine", SweepSpec({}))
    ledger.require_file()
    ledger.close()
