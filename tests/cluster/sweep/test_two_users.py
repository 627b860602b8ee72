"""Two users' drivers, each a process, on one Ray cluster of four slots and one ledger."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray

from analysis.ledger import Ledger
from tests.conftest import REPO

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SLOTS = 4
PAUSE_S = 0.25
"""Of each of a run's four evaluations."""


def start(folder: Path, user: str, priority: int, first: int, runs: int) -> subprocess.Popen[bytes]:
    address = ray.get_runtime_context().gcs_address
    given = map(str, (folder, address, user, priority, first, runs))
    with (folder / f"{user}.log").open("w") as said:
        argv = [sys.executable, "-m", "tests.cluster.sweep.sharing_driver", *given]
        return subprocess.Popen(argv, cwd=REPO, stdout=said, stderr=said)


def spans(folder: Path, user: str) -> list[tuple[float, float]]:
    """When each of a user's runs ran, as the ledger has it."""
    ledger = Ledger.open(folder / "ledger.db")
    rows = [row for row in ledger.runs() if row.user == user]
    notes = [{note.state: note.at for note in ledger.history(row.signature)} for row in rows]
    ledger.close()
    return [(note["running"], note["done"]) for note in notes]


def within(runs: list[tuple[float, float]], begin: float, end: float) -> float:
    """Slot-seconds of these runs in a span of time."""
    return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in runs)


@pytest.mark.parametrize("priority", [1, 3])
def test_two_users_get_what_their_priorities_ask_for(tmp_path: Path, ray_cluster: None, priority: int) -> None:
    """Anna comes first and has the whole cluster; from Ben's first run on they share it, until one has no more."""
    (tmp_path / "script.json").write_text(json.dumps({"": {"pause": PAUSE_S}}))
    share = priority / (priority + 1)
    count = {"anna": round(200 * share), "ben": round(200 * (1 - share))}
    anna = start(tmp_path, "anna", priority, 0, count["anna"] + 40)
    deadline = time.monotonic() + 240
    while not (tmp_path / "ledger.db").exists() or len(Ledger.open(tmp_path / "ledger.db").runs(states=["done"])) < 12:
        assert time.monotonic() < deadline and anna.poll() is None, (tmp_path / "anna.log").read_text()
        time.sleep(0.5)
    ben = start(tmp_path, "ben", 1, 1000, count["ben"])
    for driver, user in ((anna, "anna"), (ben, "ben")):
        assert driver.wait(600) == 0, (tmp_path / f"{user}.log").read_text()
    hers, his = spans(tmp_path, "anna"), spans(tmp_path, "ben")
    begin = sorted(first for first, _ in his)[SLOTS] + 5.0
    end = min(max(last for _, last in hers), max(last for _, last in his)) - 2 * 4 * PAUSE_S
    used = {"anna": within(hers, begin, end), "ben": within(his, begin, end)}
    alone = within(hers, min(first for first, _ in hers) + 5.0, min(first for first, _ in his) - 1.0)
    print(f"anna {used['anna'] / sum(used.values()):.3f}, asked {share:.3f}", f"{end - begin:.0f} s", alone, used)
    assert used["anna"] / sum(used.values()) == pytest.approx(share, abs=0.1)
    # No slot is idle but while it goes from one run to the next.
    assert sum(used.values()) > 0.7 * SLOTS * (end - begin)
