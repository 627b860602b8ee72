"""`cse launch ray-job` to a cluster that was started with a token: what travels, who is let in, what is stored."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster.runtime.code_version import OUR_PACKAGES
from tests.cluster_real.head import Head

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

TINY = ("method=simcse", "train.learning_rate=1e-4", "train.encoder=words-l1-h64", "train.examples=128")
SWEEP = ("demo", *(word for pair in TINY for word in ("--set", pair)), "--seeds", "2", "--max-concurrent", "1")


def test_a_job_with_the_token_finishes_a_sweep_and_another_token_is_refused(head: Head) -> None:
    processes = head.processes
    wrong = processes.run("cse", "launch", "ray-job", *SWEEP, env={"RAY_AUTH_TOKEN": "0" * 64})
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr
    (line,) = wrong.stderr.strip().splitlines()
    assert line.startswith(f"cse: token refused: address={head.address};")
    assert head.asked("", token="0" * 64).status_code in (401, 403)
    assert head.asked("").json() == [], "the refused job was not taken"

    for decoy in (".venv", "results"):
        (processes.folder / decoy).mkdir()
        (processes.folder / decoy / "large.bin").write_bytes(b"not to be sent")
    said = head.finished(*SWEEP)
    assert "2 done, 0 failed" in said
    assert processes.environment["RAY_AUTH_TOKEN"] not in said
    check_ledger(processes.folder / "stored" / "ledger.db")
    check_code(head.code())


def check_ledger(path: Path) -> None:
    ledger = Ledger.open(path, create=False)
    runs = ledger.runs()
    assert [run.state for run in runs] == ["done", "done"]
    assert all(ledger.curves([run.signature]) for run in runs)
    ledger.close()


def check_code(uploaded: Path) -> None:
    assert {path.name for path in uploaded.iterdir() if path.name != "__pycache__"} == set(OUR_PACKAGES)
    parts = {part for path in uploaded.rglob("*") for part in path.relative_to(uploaded).parts}
    assert not {".venv", ".git", "large.bin"} & parts
