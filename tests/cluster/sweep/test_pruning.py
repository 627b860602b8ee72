"""`--keep-top` and `--disk-quota` of a sweep: what goes while it trains, when, and what is said of it."""

import threading
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.runtime.options import SweepOptions
from cluster.sweep import retention
from cluster.sweep.events import SweepEvent, SweepOutcome
from cluster.sweep.retention import RETENTION_PERIOD_SECONDS, Pruner
from cse.cli import exit
from cse.cli.app import main
from cse.experiments import run
from cse.experiments.request import Request, Work
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.run_values import score_of

SPACE = "version: 1\nid: mine\nmethod: simcse\nseeds: 1\nspace:\n  method.temperature: {grid: [0.05]}\n"
DONE = SweepEvent(kind="done", signature="r1")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Three runs of a sweep that are done, `r2` the best and `r0` with a score, and one that runs."""
    made = Ledger.open(tmp_path / "ledger.db")
    made.record_sweep("s", SweepSpec({"title": "s"}))
    for number in range(4):
        name, home = f"r{number}", tmp_path / "runs" / f"r{number}" / "final"
        claim = made.claim(name, {}, method="simcse", seed=number, owner="me", identity={}, provenance={})
        assert claim is not None
        for kind in ("last", "best"):
            (home / kind).mkdir(parents=True)
            (home / kind / "file").write_bytes(b"x" * 10**6)
        made.link("s", [(name, {"seed": number}, number)])
        if number < 3:
            made.finish(claim, "done", examples=1, best=number, best_examples=1, seconds=1.0, folder=home)
    made.add_score("r0", score_of("sts_test", 1.0, {"split": "test"}))
    return made


def left(folder: Path) -> list[str]:
    return sorted(f"{path.parent.parent.name}/{path.name}" for path in folder.glob("runs/*/final/*"))


ALL = [f"r{number}/{kind}" for number in range(4) for kind in ("best", "last")]
TOP = ["r0/best", "r2/best", "r2/last", "r3/best", "r3/last"]
"""Kept with --keep-top 1: the best run, a model with a score, and what still runs."""


def test_ends_of_runs_prune_now_and_then(ledger: Ledger, tmp_path: Path) -> None:
    clock = [0.0]
    pruner = Pruner(ledger.url, SweepOptions(storage=tmp_path, keep_top=1), lambda: clock[0])
    pruner(DONE)
    assert left(tmp_path) == ALL, "not yet"
    clock[0] = RETENTION_PERIOD_SECONDS
    pruner(SweepEvent(kind="point", signature="r3"))
    pruner.wait()
    assert left(tmp_path) == ALL, "only when a run ends"
    pruner(DONE)
    pruner.wait()
    assert left(tmp_path) == TOP and pruner.freed == 3 * 10**6


def test_a_run_that_has_ended_is_measured_once(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    disk = retention.DiskUse(tmp_path)
    before = retention.plan_cleaning(ledger, tmp_path, None, 10**6, disk=disk)
    monkeypatch.setattr(retention, "size_of", lambda folder: measured.append(folder.parts[-1]) or 0)
    again = retention.plan_cleaning(ledger, tmp_path, None, 10**6, disk=disk)
    assert measured == ["r3"], "the one that runs"
    assert again.removable == before.removable


def test_what_another_driver_removed_is_not_counted_as_freed_here(ledger: Ledger, tmp_path: Path) -> None:
    options = SweepOptions(storage=tmp_path, keep_top=1)
    with Pruner(ledger.url, options) as first, Pruner(ledger.url, options) as second:
        pass
    assert first.freed + second.freed == 3 * 10**6 and left(tmp_path) == TOP


def test_the_driver_does_not_wait_while_the_disk_is_slow(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, goes_on, waited = [RETENTION_PERIOD_SECONDS], threading.Event(), list[bool]()
    monkeypatch.setattr(retention, "size_of", lambda folder: waited.append(goes_on.wait(250)) or 10**6)
    with Pruner(ledger.url, SweepOptions(storage=tmp_path, keep_top=1), lambda: clock[0]) as pruner:
        clock[0] = 2 * RETENTION_PERIOD_SECONDS
        for _ in range(1000):
            pruner(DONE)
        assert waited == [] and pruner.freed == 0
        goes_on.set()
    assert left(tmp_path) == TOP


def test_without_the_options_everything_stays(ledger: Ledger, tmp_path: Path) -> None:
    with Pruner(ledger.url, SweepOptions(storage=tmp_path), lambda: 1e9) as pruner:
        pruner(DONE)
    assert left(tmp_path) == ALL


def test_a_ledger_that_is_away_ends_no_sweep(tmp_path: Path) -> None:
    with Pruner(str(tmp_path / "gone.db"), SweepOptions(storage=tmp_path, keep_top=1)) as pruner:
        pruner(DONE)
    assert pruner.freed == 0


def test_a_sweep_prunes_at_its_end_and_says_so(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cse.experiments.run.run_sweep", lambda *given: SweepOutcome(done=1))
    options = SweepOptions(storage=tmp_path, disk_quota=10**6)
    request = Request(
        resolved=resolve(load_space("demo")), seeds=(0,), paths=DataPaths(), ledger=ledger.url, options=options
    )
    outcome = run.run_grid(request, Work([], [], frozenset(), frozenset()))
    assert exit.print_outcome(outcome, ledger.url) == exit.DONE
    assert left(tmp_path) == TOP
    said = capsys.readouterr()
    assert "3.0 MB of checkpoints freed" in said.out
    assert "cse: above --disk-quota: 4.0 MB too much is in use or has scores; give more" in said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--disk-quota", "much"), "no size: disk_quota=much; write a number and KB"),
        (("--keep-top", "0"), "--keep-top"),
    ],
)
def test_what_is_no_quota_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    assert main(["run", "mine.yaml", *options]) == 2
    assert told in capsys.readouterr().err
