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

SLOTS, RUNS, PAUSE_S = 4, 200, 2.0
Spans = list[tuple[float, float]]


def start(folder: Path, user: str, priority: int, first: int, runs: int) -> subprocess.Popen[bytes]:
    address = ray.get_runtime_context().gcs_address
    given = map(str, (folder, address, user, priority, first, runs))
    argv = [sys.executable, "-m", "tests.cluster.sweep.sharing_driver", *given]
    with (folder / f"{user}.log").open("w") as said:
        return subprocess.Popen(argv, cwd=REPO, stdout=said, stderr=said)


def list_spans(folder: Path, user: str) -> Spans:
    """When each of a user's runs had a slot, as the ledger has it; by its start."""
    if not (folder / "ledger.db").exists():
        return []
    ledger = Ledger.open(folder / "ledger.db")
    rows = [row for row in ledger.runs(states=["done"]) if row.user == user]
    notes = [{note.state: note.at for note in ledger.history(row.signature)} for row in rows]
    ledger.close()
    return sorted((note["claimed"], note["done"]) for note in notes)


def sum_within(runs: Spans, begin: float, end: float) -> float:
    """Slot-seconds of these runs in a span of time."""
    return sum(max(0.0, min(last, end) - max(first, begin)) for first, last in runs)


@pytest.mark.parametrize("priority", [1, 3])
def test_two_users_get_what_their_priorities_ask_for(tmp_path: Path, ray_cluster: None, priority: int) -> None:
    """Anna comes first and has the whole cluster; once Ben has runs they share it, until one has no more."""
    (tmp_path / "script.json").write_text(json.dumps(PAUSE_S))
    share, deadline = priority / (priority + 1), time.monotonic() + 300
    anna = start(tmp_path, "anna", priority, 0, 2 * RUNS)
    while len(list_spans(tmp_path, "anna")) < 8:
        assert time.monotonic() < deadline and anna.poll() is None, (tmp_path / "anna.log").read_text()
        time.sleep(1.0)
    ben = start(tmp_path, "ben", 1, 2 * RUNS, round(RUNS * (1 - share)) + 2 * SLOTS)
    assert ben.wait(600) == 0, (tmp_path / "ben.log").read_text()
    hers, his = list_spans(tmp_path, "anna"), list_spans(tmp_path, "ben")
    anna.terminate()
    anna.wait(60)
    # From when Ben has all that is his: a slot changes hands when a run of Anna's ends.
    begin, end = his[2 * SLOTS - 1][1], his[-1][0]
    used = sum_within(hers, begin, end), sum_within(his, begin, end)
    ended = sum(begin < last <= end for _, last in [*hers, *his])
    in_use = sum(used) / (SLOTS * (end - begin))
    print(f"anna {used[0] / sum(used):.3f}, asked {share:.3f}; {ended} runs, {end - begin:.0f} s, {in_use:.2f} in use")
    assert ended > 0.7 * RUNS
    assert used[0] / sum(used) == pytest.approx(share, abs=0.1)
