"""Ctrl-C while Ray is still starting, which nothing can hurry: the claimed run is free again all the same."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.fields import ConfigError
from tests.cluster.runtime.test_storage import SPACE


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", SlowRay)
    monkeypatch.setattr("cluster.sweep.run_sweep.RELEASE_DELAY_SECONDS", 0.2)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    before = signal.getsignal(signal.SIGINT)
    assert main(["run", "mine.yaml", "--ledger", "l.db"]) == 2
    assert capsys.readouterr().err.split("\n") == ["ray  starts on this machine", "cse: given back: True", ""]
    assert signal.getsignal(signal.SIGINT) is before
