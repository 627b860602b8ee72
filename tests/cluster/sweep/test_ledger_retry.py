"""A database that is away for a while, and for too long."""

import threading
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger, LedgerAway
from cluster.sweep import ledger_retry
from cluster.sweep.ledger_retry import RetryingLedger

KNOWN: dict[str, Any] = {"method": "simcse", "seed": 1, "identity": {}, "provenance": {}}


class Flaky:
    """A ledger whose methods fail `times` times, before or after they have done their work."""

    def __init__(self, ledger: Ledger, times: int, after: bool = False) -> None:
        self.ledger, self.times, self.after = ledger, times, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.ledger, name)

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
    monkeypatch.setattr(ledger_retry, "AWAY_S", 60.0)
    monkeypatch.setattr(ledger_retry, "PAUSE_S", 0.001)


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
    monkeypatch.setattr(ledger_retry, "AWAY_S", 0.05)
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
