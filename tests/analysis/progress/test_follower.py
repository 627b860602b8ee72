"""A page that looks again and again: what it says equals a first look, and it reads only what changed."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.ledger import Ledger, LedgerError, queries
from analysis.ledger.database import connect
from analysis.progress import rows as progress_rows
from analysis.progress.sweeps import Follower, SweepProgress
from analysis.sweep_spec import SweepSpec
from tests.run_values import book_run, claim_run, end_run, point_of

ABOUT = {"method": "simcse", "owner": "me", "identity": {}, "provenance": {}}
END = {"examples": 64, "best_examples": 64, "seconds": 1.0, "folder": None}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Two sweeps that share a run; what was written a moment ago counts as old."""
    monkeypatch.setattr(queries, "LATE_WRITE_SECONDS", -0.001)
    made = Ledger.open(tmp_path / "ledger.db")
    for sweep in ("s", "t"):
        made.record_sweep(sweep, SweepSpec({"title": sweep}))
    made.link("s", [(f"r{seed}", {"x": 1}, seed) for seed in range(4)])
    made.link("t", [("r0", {"y": 2}, 0)])
    for seed in range(2):
        config = {"train.examples": 64, "train.batch_size": 16}
        book_run(made, f"r{seed}", config, seed=seed, examples=64, best=50.0 + seed)
    return made


def same(follower: Follower, ledger_file: Path) -> None:
    fresh = Follower(connect(ledger_file, create=False))
    assert timeless(follower.overview().sweeps) == timeless(fresh.overview().sweeps)
    for sweep in ("s", "t"):
        ours, theirs = follower.detail(sweep), fresh.detail(sweep)
        assert ours is not None and theirs is not None
        assert timeless([ours]) == timeless([theirs])


def timeless(sweeps: Sequence[SweepProgress]) -> list[SweepProgress]:
    """Without what changes as the clock goes on."""
    return [replace(sweep, seconds_left=None) for sweep in sweeps]


def test_after_any_change_it_says_what_a_first_look_says(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    follower = Follower(connect(file, create=False))
    same(follower, file)
    claim = ledger.claim("r2", {"train.examples": 64, "train.batch_size": 16}, seed=2, **ABOUT)
    assert claim is not None
    ledger.running(claim)
    same(follower, file)
    assert follower.overview().sweeps[0].counts == {"done": 2, "running": 1, "unclaimed": 1}
    ledger.add_points(claim, [point_of(32, 60.0, step=2)])
    same(follower, file)
    with sqlite3.connect(file) as connection:
        connection.execute("update cse_runs set lease_until = 1 where signature = 'r2'")
    same(follower, file)
    assert next(s for s in follower.overview().sweeps if s.id == "s").counts["lost"] == 1
    ledger.link("t", [("r9", {"y": 3}, 0)])
    same(follower, file)
    ledger.reopen(["r0"], "its folder is gone")
    same(follower, file)
    assert all("done" not in s.counts or s.id == "s" for s in follower.overview().sweeps)


def test_a_look_reads_what_changed_alone(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(connect(tmp_path / "ledger.db", create=False))
    follower.overview()
    read: list[str] = []
    make = progress_rows._make_rows
    monkeypatch.setattr(progress_rows, "_make_rows", lambda rows: read.extend(row[1] for row in rows) or make(rows))
    follower.overview()
    assert read == []
    claim = claim_run(ledger, "r3", {}, seed=3)
    follower.overview()
    assert read == ["r3"]
    end_run(ledger, claim, examples=64, best=70.0)
    progress = next(s for s in follower.overview().sweeps if s.id == "s")
    assert (progress.best, progress.counts["done"]) == (70.0, 3)


def test_a_clock_that_was_set_back_hides_nothing(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    follower = Follower(connect(file, create=False))
    follower.overview()
    assert follower._since is not None
    follower._since += 3600
    ledger.reopen(["r1"], "its folder is gone")
    same(follower, file)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("update cse_runs set state = 'asleep'", "state='asleep' is unknown"),
        ("update cse_runs set best = 'high'", "best='high' is not a number"),
        ("update cse_runs set best = 9e999", "best=inf is not finite"),
        ("update cse_runs set updated = 1e15", "updated=1e+15 is no time"),
        ("update cse_runs set examples = 1.5", "examples=1.5 is not a whole number"),
        ("update cse_runs set reason = 'a' || char(0)", "has a null byte"),
        ("update cse_runs set identity = '[1]'", "identity=[1] is not a JSON object"),
        ("update cse_runs set identity = '{'", "identity"),
        ("update cse_sweep_runs set cell = '3'", "cell=3 is not a JSON object"),
        ("""update cse_sweep_runs set cell = '{"x": {}}'""", "has an object for a value"),
        ("update cse_sweep_runs set seed = 'one'", "seed='one' is not a whole number"),
    ],
)
def test_a_row_that_a_hand_has_changed_is_named(ledger: Ledger, tmp_path: Path, statement: str, what: str) -> None:
    table = "cse_sweep_runs" if "sweep_runs" in statement else "cse_runs"
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute(f"{statement} where signature = 'r1'")
    with pytest.raises(LedgerError, match=f"{table}.*r1") as refused:
        Follower(connect(tmp_path / "ledger.db", create=False)).overview()
    assert what in str(refused.value)
