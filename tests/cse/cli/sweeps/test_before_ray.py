"""A driver as far as Ray, which here never starts: its claims, its clock, its code, and Ctrl-C meanwhile."""

import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cluster.runtime import code_version
from cse.cli.app import main
from cse_train.fields import ConfigError
from tests.cluster.runtime.test_storage import SPACE
from tests.commands import printed
from tests.cse.cli.sweeps.pretended import NoRay


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", NoRay)
    (tmp_path / "mine.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return said.err.strip().splitlines()


def run(capsys: pytest.CaptureFixture[str], code: str) -> list[str]:
    """A driver of this code, as far as Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_version, "code_digest", lambda: code)
        code_version.provenance.cache_clear()
        assert main(["run", "mine.yaml", "--ledger", "l.db"]) == 2
    code_version.provenance.cache_clear()
    return lines(capsys)


def test_the_second_is_told_and_claims_what_the_first_gave_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "a" * 16) == ["ray  starts on this machine", "cse: here Ray would start"]
    told, _, stopped = run(capsys, "b" * 16)
    assert told.startswith(f"ledger  runs of other code in this ledger: 1 of {'a' * 16}, this is {'b' * 16}; ")
    assert told.endswith("give a new --ledger and --storage") and stopped == "cse: here Ray would start"
    ledger = Ledger.open("l.db", create=False)
    (row,) = [one for one in ledger.runs() if one.attempt == 2]
    assert [one.details["code_digest"][0] for one in ledger.provenance([row.signature])[row.signature]] == ["a", "b"]
    assert ledger.codes() == {"a" * 16: 1, "b" * 16: 1}
    ledger.close()


def test_one_code_alone_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(capsys, "a" * 16) == ["ray  starts on this machine", "cse: here Ray would start"]


def test_a_row_that_a_hand_has_broken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "a" * 16)
    with sqlite3.connect("l.db") as connection:
        connection.execute("update cse_provenance set details = ?", (json.dumps({"code_digest": "a"})[:-1],))
    (line,) = run(capsys, "b" * 16)
    assert line.startswith("cse: ledger row: cse_provenance signature=")
    assert "has broken JSON in details (malformed JSON); cse doctor --repair --yes takes it out" in line


LEASE_S = 2.0
DAYS = 2 * 86_400.0


@pytest.mark.parametrize("off", [DAYS, -DAYS], ids=["ahead", "behind"])
def test_a_run_of_a_living_driver_is_waited_for_and_taken_over_when_its_lease_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], off: float
) -> None:
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
        shown = printed(capsys, "trials", "--ledger", "l.db")
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


class SlowRay:
    """Stands for a Ray that is being started when the signal comes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ledger, end = Ledger.open("l.db", create=False), time.monotonic() + 20
        (row,) = ledger.runs()
        assert row.live
        while ledger.run(row.signature).live and time.monotonic() < end:
            time.sleep(0.05)
        ledger.close()
        raise ConfigError([f"given back: {time.monotonic() < end}"])


def test_a_claimed_run_is_given_back_while_ray_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", SlowRay)
    monkeypatch.setattr("cluster.sweep.run_sweep.RELEASE_DELAY_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGINT)
    assert main(["run", "mine.yaml", "--ledger", "l.db"]) == 2
    assert capsys.readouterr().err.split("\n") == ["ray  starts on this machine", "cse: given back: True", ""]
    assert signal.getsignal(signal.SIGINT) is before
