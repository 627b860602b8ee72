"""A ledger that is deleted or replaced while a sweep runs ends it with one line: there is no table from a lost file."""

import shutil
import threading
from pathlib import Path

import pytest

from analysis.ledger import Ledger, LedgerError
from analysis.sweep_spec import SweepSpec
from cluster.runtime.options import SweepOptions
from cluster.sweep import run_sweep as module
from cse.cli.exit import MISTAKE, verdict
from cse_train.data_paths import DataPaths
from tests.cluster.sweep.list_driver import wanted


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
