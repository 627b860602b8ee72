"""What `cse clean` frees, what `--keep-top` and `--disk-quota` free while a sweep trains, and what always stays."""

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.runtime.options import SweepOptions
from cluster.sweep import retention
from cluster.sweep.events import SweepEvent, SweepOutcome
from cluster.sweep.retention import (
    RETENTION_PERIOD_SECONDS,
    Pruner,
    Removable,
    parse_size,
    plan_cleaning,
    remove,
)
from cse.cli import exit, sweep_options
from cse.cli.app import main
from cse.experiments import run
from cse.experiments.request import Request, Work
from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.commands import printed
from tests.run_values import claim_run, end_run, score_of

pytestmark = pytest.mark.usefixtures("somewhere")


@pytest.fixture
def ledger(somewhere: Path) -> Ledger:
    """Five runs of one sweep, `r4` the best; `r0` has a score, `r1` an attempt that was replaced, `r5` still runs."""
    made = Ledger.open(somewhere / "results" / "ledger.db")
    made.record_sweep("s", SweepSpec({"title": "s"}))
    for seed in range(6):
        name = f"r{seed}"
        claim = claim_run(made, name, {}, seed=seed)
        home = somewhere / "results" / "runs" / name / ("final" if seed < 5 else "attempt-1")
        for kind in ("last", "best"):
            (home / kind).mkdir(parents=True)
            (home / kind / "file").touch()
            os.truncate(home / kind / "file", 10**6)
        made.link("s", [(name, {"seed": seed}, seed)])
        if seed < 5:
            end_run(made, claim, examples=1, best=float(seed), folder=home)
    made.add_score("r0", score_of("sts_test", 1.0, {"split": "test"}))
    old = somewhere / "results" / "runs" / "r1" / "attempt-1"
    old.mkdir()
    (old / "file").touch()
    os.truncate(old / "file", 500_000)
    stranger = somewhere / "results" / "runs" / "of-another-ledger" / "final" / "best"
    stranger.mkdir(parents=True)
    return made


def left() -> list[str]:
    """The checkpoints of all runs that are still there."""
    folders = Path("results", "runs").glob("r?/*/*")
    return sorted(f"{path.parent.parent.name}/{path.name}" for path in folders if path.is_dir())


ALL = [f"r{number}/{kind}" for number in range(6) for kind in ("best", "last")]
TOP = ["r0/best", "r4/best", "r4/last", "r5/best", "r5/last"]
"""Kept with --keep-top 1: the best run, a model with a score, and what still runs."""
DONE = SweepEvent(kind="done", signature="r1")


def named(removable: tuple[Removable, ...]) -> list[tuple[str, str]]:
    return [(item.signature, item.kind) for item in removable]


def test_by_itself_only_replaced_attempts_go(ledger: Ledger) -> None:
    cleaning = plan_cleaning(ledger, Path("results").resolve(), None, None)
    assert named(cleaning.removable) == [("r1", "superseded")]
    assert (cleaning.freed, cleaning.used) == (500_000, 12_500_000)


def test_beyond_the_best_of_a_sweep_checkpoints_go_but_none_with_a_score(ledger: Ledger) -> None:
    cleaning = plan_cleaning(ledger, Path("results").resolve(), 2, None, {"r1"})
    wanted = [("r1", "superseded"), ("r0", "last"), ("r1", "last"), ("r2", "last"), ("r2", "best")]
    assert named(cleaning.removable) == wanted


def test_a_quota_takes_the_worst_first_and_no_more_than_it_needs(ledger: Ledger) -> None:
    storage = Path("results").resolve()
    assert named(plan_cleaning(ledger, storage, None, 10_500_000).removable)[1:] == [("r0", "last"), ("r1", "last")]
    assert named(plan_cleaning(ledger, storage, None, 10**9).removable) == [("r1", "superseded")], "whatever the room"
    tight = plan_cleaning(ledger, storage, None, 100)
    assert tight.over == tight.used - tight.freed - 100 > 0
    assert {item.signature for item in tight.removable} == {"r0", "r1", "r2", "r3"}


def test_a_run_that_was_claimed_meanwhile_keeps_all(ledger: Ledger, somewhere: Path) -> None:
    running = somewhere / "results" / "runs" / "r5" / "attempt-1" / "last"
    assert remove(ledger, [Removable("r5", "last", running, 1000)]) == 0
    assert running.is_dir()


def test_a_link_out_of_the_storage_is_not_followed(ledger: Ledger, somewhere: Path) -> None:
    elsewhere = somewhere / "elsewhere"
    elsewhere.mkdir()
    last = somewhere / "results" / "runs" / "r0" / "final" / "last"
    (last / "file").unlink()
    last.rmdir()
    last.symlink_to(elsewhere)
    (somewhere / "results" / "runs" / "r1" / "attempt-2").symlink_to(elsewhere)
    cleaning = plan_cleaning(ledger, Path("results").resolve(), 1, None)
    assert ("r0", "last") not in named(cleaning.removable)
    assert [item.folder.name for item in cleaning.removable if item.kind == "superseded"] == ["attempt-1"]


def test_a_home_or_a_folder_that_leads_out_of_the_storage_is_left_alone(ledger: Ledger, somewhere: Path) -> None:
    runs, elsewhere = somewhere / "results" / "runs", somewhere / "elsewhere"
    for name in ("r0", "r1"):
        (runs / name).rename(somewhere / f"{name}-moved")
        (runs / name).symlink_to(somewhere / f"{name}-moved")
    (elsewhere / "last").mkdir(parents=True)
    (runs / "r2" / "final").rename(runs / "r2" / "was-final")
    (runs / "r2" / "final").symlink_to(elsewhere)
    with sqlite3.connect(somewhere / "results" / "ledger.db") as connection:
        connection.execute("update cse_runs set folder = ? where signature = 'r3'", (str(runs / "r3" / ".."),))
    cleaning = plan_cleaning(ledger, Path("results").resolve(), 1, None)
    assert {item.signature for item in cleaning.removable}.isdisjoint({"r0", "r1", "r2", "r3"})


def test_the_command_is_dry_until_told_to_delete(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Path("results", "runs")
    assert "--delete does it" in printed(capsys, "clean", "--keep-top", "1")
    assert (runs / "r1" / "attempt-1").is_dir() and (runs / "r0" / "final" / "last").is_dir()
    assert "freed of" in printed(capsys, "clean", "--keep-top", "1", "--delete")
    assert left() == TOP
    assert (runs / "of-another-ledger" / "final" / "best").is_dir()


def test_sizes(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    assert [parse_size(text) for text in ("500MB", "1.5 GB", "2tb")] == [500_000_000, 1_500_000_000, 2 * 10**12]
    with pytest.raises(ConfigError, match="no size: disk_quota=20"):
        parse_size("20")
    for command in ("clean",), ("run", "demo"):
        assert main([*command, "--disk-quota", "much"]) == 2
        line = "cse: no size: disk_quota=much; write a number and KB, MB, GB or TB, such as 20GB\n"
        assert capsys.readouterr().err == line
    assert main(["run", "demo", "--keep-top", "0"]) == 2 and "--keep-top" in capsys.readouterr().err


@pytest.fixture
def bens(ledger: Ledger) -> Ledger:
    """The runs are Ben's, but for `r1` and `r2`."""
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql("update cse_runs set owner = 'ben@host:1:aa' where signature not in ('r1', 'r2')")
    return ledger


def test_anothers_runs_are_deleted_only_where_their_user_is_named(
    bens: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    there = sorted(Path("results").rglob("file"))
    assert main(["clean", "--keep-top", "1", "--delete"]) == 2
    line = "another's runs: user=ben has 3 of what would go; give --user anna for yours alone, or --user ben for theirs"
    assert capsys.readouterr() == ("", f"cse: {line}\n")
    assert main(["clean", "--keep-top", "1"]) == 0 and "r3" in capsys.readouterr().out
    assert sorted(Path("results").rglob("file")) == there
    assert main(["clean", "--keep-top", "1", "--delete", "--user", "anna"]) == 0
    assert {path.parts[2] for path in set(there) - set(Path("results").rglob("file"))} == {"r1", "r2"}
    assert main(["clean", "--keep-top", "1", "--delete", "--user", "ben"]) == 0
    assert {path.parts[2] for path in set(there) - set(Path("results").rglob("file"))} == {"r0", "r1", "r2", "r3"}


def test_a_sweep_that_keeps_its_top_leaves_other_users_checkpoints_alone(bens: Ledger) -> None:
    cleaning = plan_cleaning(bens, Path("results").resolve(), 1, None, user="anna")
    assert {item.signature for item in cleaning.removable} == {"r1", "r2"}
    assert cleaning.used == 12_500_000


def test_ends_of_runs_prune_now_and_then(ledger: Ledger) -> None:
    clock = [0.0]
    pruner = Pruner(ledger.url, SweepOptions(storage=Path("results").resolve(), keep_top=1), lambda: clock[0])
    pruner(DONE)
    assert left() == ALL, "not yet"
    clock[0] = RETENTION_PERIOD_SECONDS
    pruner(SweepEvent(kind="point", signature="r5"))
    pruner.wait()
    assert left() == ALL, "only when a run ends"
    pruner(DONE)
    pruner.wait()
    assert left() == TOP and pruner.freed == 7_500_000


def test_a_run_that_has_ended_is_measured_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    disk = retention.DiskUse(Path("results").resolve())
    before = retention.plan_cleaning(ledger, Path("results").resolve(), None, 100, disk=disk)
    monkeypatch.setattr(retention, "size_of", lambda folder: measured.append(folder.parts[-1]) or 0)
    again = retention.plan_cleaning(ledger, Path("results").resolve(), None, 100, disk=disk)
    assert measured == ["r5"], "the one that runs"
    assert again.removable == before.removable


def test_what_another_driver_removed_is_not_counted_as_freed_here(ledger: Ledger) -> None:
    options = SweepOptions(storage=Path("results").resolve(), keep_top=1)
    with Pruner(ledger.url, options) as first, Pruner(ledger.url, options) as second:
        pass
    assert first.freed + second.freed == 7_500_000 and left() == TOP


def test_the_driver_does_not_wait_while_the_disk_is_slow(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, goes_on, waited = [RETENTION_PERIOD_SECONDS], threading.Event(), list[bool]()
    monkeypatch.setattr(retention, "size_of", lambda folder: waited.append(goes_on.wait(250)) or 10**6)
    with Pruner(ledger.url, SweepOptions(storage=Path("results").resolve(), keep_top=1), lambda: clock[0]) as pruner:
        clock[0] = 2 * RETENTION_PERIOD_SECONDS
        for _ in range(1000):
            pruner(DONE)
        assert waited == [] and pruner.freed == 0
        goes_on.set()
    assert left() == TOP


def test_without_the_options_everything_stays(ledger: Ledger) -> None:
    with Pruner(ledger.url, SweepOptions(storage=Path("results").resolve()), lambda: 1e9) as pruner:
        pruner(DONE)
    assert left() == ALL


def test_a_ledger_that_is_away_ends_no_sweep() -> None:
    with Pruner("gone.db", SweepOptions(storage=Path("results").resolve(), keep_top=1)) as pruner:
        pruner(DONE)
    assert pruner.freed == 0


def test_a_sweep_prunes_at_its_end_and_says_so(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cse.experiments.run.run_sweep", lambda *given: SweepOutcome(done=1))
    options = SweepOptions(storage=Path("results").resolve(), disk_quota=10**6)
    request = Request(
        resolved=resolve(load_space("demo")), seeds=(0,), paths=DataPaths(), ledger=ledger.url, options=options
    )
    outcome = run.run_grid(request, Work([], [], frozenset(), frozenset()))
    assert sweep_options.print_outcome(outcome, ledger.url) == exit.DONE
    assert left() == TOP
    said = capsys.readouterr()
    assert "7.5 MB of checkpoints freed" in said.out
    assert "cse: above --disk-quota: 4.0 MB too much is in use or has scores; give more" in said.err
