"""What the page and `cse status` say of a sweep, and what they read of each database."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from analysis.ledger import Ledger, cluster_log, schema
from analysis.ledger.cluster_log import Driver, write_driver
from analysis.ledger.database import connect, transaction
from analysis.progress import rows as progress_rows
from analysis.progress.rows import ProgressRow
from analysis.progress.sweeps import Follower, seconds_left
from analysis.run_state import RunState
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse.cli.results.status import block
from cse.cli.status_text import facts
from tests.commands import printed
from tests.run_values import book_run

AXES = ("train.learning_rate", "method.temperature", "method.dup_rate", "method.queue_multiple")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Six of at most fourteen runs, four of them done."""
    path = str(tmp_path / "ledger.db")
    ledger = Ledger.open(path)
    ledger.record_sweep("s", SweepSpec({"title": "A search", "space": "s", "asked": 14}))
    draws = np.random.default_rng(0).uniform(size=(6, len(AXES)))
    cells = [dict(zip(AXES, map(float, row), strict=True)) for row in draws]
    ledger.link("s", [(f"{number}", cell, 0) for number, cell in enumerate(cells)])
    for number, cell in enumerate(cells[:4]):
        book_run(ledger, f"{number}", cell | {"train.dev": "sts_dev"}, method="esimcse", owner="o", best=50.0 + number)
    ledger.close()
    return path


def test_a_search_names_all_axes_and_counts_out_of_what_it_may_make(url: str) -> None:
    shown = Follower(connect(url, create=False)).detail("s")
    assert shown is not None
    names = [axis.rpartition(".")[2] for axis in AXES]
    assert all(f"{name}=" in run.label for run in shown.listed for name in names)
    assert all(f"{name}=" in shown.best_run for name in names)
    assert shown.share == pytest.approx(4 / 14)
    assert facts(shown)[0] == "4/14 done"


def test_status_says_what_each_user_has_of_the_cluster_and_by_what_rule(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger.open(url)
    facts = {"cluster": "one", "slots": 4, "most": 4, "wanted": 4}
    anna = Driver(owner="anna@node1:71:aa", sweeps=("s",), running=3, priority=3, cap=None, **facts)
    ben = Driver(owner="ben@node2:72:bb", sweeps=("other", "s"), running=1, priority=1, cap=2, **facts)
    eve = Driver(owner="eve@node2:73:cc", sweeps=("other",), running=0, priority=1, cap=2, **facts)
    for driver in (anna, ben, eve):
        write_driver(ledger, driver)
    assert main(["status", "--ledger", url]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("  driver")] == [
        "  driver anna@node1:71  3 of 4 slots, 1 more wait, priority 3",
        "  driver ben@node2:72  1 of 4 slots, 3 more wait, priority 1, at most 2 for ben",
    ]
    assert '"owner": "ben@node2:72:bb"' in printed(capsys, "status", "--format", "json", "--ledger", url)


def test_a_ledger_that_another_process_made_takes_a_cluster(tmp_path: Path) -> None:
    """That process imports nothing of clusters: its ledger had no table for them, and `cse status` no dashboard. One
    that was made so gets the table."""
    file = tmp_path / "l.db"
    make = f"from analysis.ledger import Ledger; Ledger.open({str(file)!r}).close()"
    subprocess.run([sys.executable, "-c", make], check=True, timeout=120)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        names = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        assert names == set(schema.metadata.tables)
        connection.execute("drop table cse_clusters")
        connection.commit()
    with contextlib.closing(Ledger.open(file)) as ledger:
        cluster_log.join(ledger, ["s"], "127.0.0.1:8265", "1 x 1 workers")
        with ledger.reads() as read:
            assert cluster_log.read(read)["s"].dashboard == "127.0.0.1:8265"


def test_a_lost_cluster_s_logs_are_named_in_one_line(url: str) -> None:
    """While a run's lease holds, the dashboard and its machine; then where Ray's logs lie; nothing after an end."""
    ledger = Ledger.open(url, lease=0.0)
    cluster_log.join(ledger, ["s"], "127.0.0.1:8265", "1 x 1 workers; logs n1:/tmp/ray/session_1/logs")

    def lines() -> list[str]:
        shown = Follower(connect(url, create=False)).detail("s")
        assert shown is not None
        return [line.strip() for line in block(shown).splitlines()[3:]]

    lost = ["its driver or cluster was lost; Ray's logs: n1:/tmp/ray/session_1/logs"]
    assert lines() == lost
    cell: dict[str, float] = {}
    settings = {"train.dev": "sts_dev"}
    living = Ledger.open(url)
    claim = living.claim("4", settings, method="esimcse", seed=0, owner="o", identity=cell, provenance={})
    assert claim is not None
    assert lines() == ["Ray dashboard http://127.0.0.1:8265 on n1"]
    living.release("o")
    assert lines() == lost
    cluster_log.leave(ledger, ["s"])
    assert lines() == []
    ledger.close()
    living.close()


# One run of 100 examples took 50 s, one that runs has 20 of 100 after 10 s.
NOW = 1000.0


def row(signature: str, state: str, examples: int, method: str | None = "simcse") -> ProgressRow:
    known = None if method is None else 100
    return ProgressRow("s", signature, {}, 0, state, method=method, examples=examples, total=known)


ROWS = [row("a", "done", 100), row("b", "running", 20), row("c", "unclaimed", 0, None)]
RECENT = {"a": [("running", 900.0), ("done", 950.0)], "b": [("running", 990.0)]}


def test_what_is_left_at_the_pace_of_the_newest_runs() -> None:
    # 60 s for 120 examples: 80 of b and 100 of c are to come
    assert seconds_left(ROWS, RECENT, 0, NOW) == pytest.approx(180 * 0.5)


def test_runs_that_a_search_has_not_proposed_count_and_runs_at_once_share() -> None:
    assert seconds_left(ROWS, RECENT, 5, NOW) == pytest.approx((180 + 200) * 0.5)
    both = [*ROWS[:2], row("c", "running", 0)]
    assert seconds_left(both, RECENT, 0, NOW) == pytest.approx(180 * 0.5 / 2)


def test_nothing_is_told_before_anything_is_known() -> None:
    assert seconds_left(ROWS, {}, 0, NOW) is None
    assert seconds_left([ROWS[0], ROWS[2]], RECENT, 0, NOW) is None


CONFIG = {"train.examples": 100, "train.batch_size": 16, "train.dev": "sts_dev"}


def test_rows_of_every_state(ledger: Ledger, ledger_url: str) -> None:
    ledger.record_sweep("s", SweepSpec({"title": "s"}))
    cells = [{"x": 2, "y": None}, {"x": 1, "y": "é"}]
    ledger.link("s", [(f"run{seed}{cell['x']}", cell, seed) for cell in cells for seed in (1, 0)])
    claims = [
        ledger.claim(name, CONFIG, method="simcse", seed=0, owner="me", identity=identity, provenance={})
        for name, identity in (("run01", {"corpus": "c"}), ("run11", {"examples": 40}), ("run02", {"corpus": "c"}))
    ]
    done, goes_on, lost = claims
    assert done is not None and goes_on is not None and lost is not None
    ledger.finish(done, "done", examples=90, best=50.5, best_examples=64, seconds=1.0, folder=None)
    ledger.release(lost)
    engine = connect(ledger_url, create=False)
    with transaction(engine) as connection:
        rows = progress_rows.rows(connection)["s"]
    engine.dispose()
    assert [(row.signature, row.cell, row.seed) for row in rows] == [
        (f"run{seed}{cell['x']}", cell, seed) for cell in reversed(cells) for seed in (0, 1)
    ]
    states = {row.signature: (row.state, row.examples, row.total, row.best, dict(row.identity)) for row in rows}
    assert states == {
        "run01": ("done", 90, 90, 50.5, {"corpus": "c"}),
        "run11": ("claimed", 0, 32, None, {"examples": 40}),
        "run02": ("lost", 0, 96, None, {"corpus": "c"}),
        "run12": ("unclaimed", 0, None, None, {}),
    }


@pytest.mark.parametrize(
    ("state", "way"), [("done", 1.0), ("stopped", 1.0), ("failed", 0.0), ("running", 0.5), ("lost", 0.5)]
)
def test_a_failed_run_fills_no_bar(state: str, way: float) -> None:
    """16 failed and none done of 24 were shown as two thirds."""
    row = ProgressRow(sweep="s", signature="r", cell={}, seed=0, state=RunState(state), examples=50, total=100)
    assert row.way == way
