"""A sweep's numbers from its events, and that neither a missing Ray nor a missing ledger holds a sweep up."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from analysis.ledger import Ledger, cluster_log
from analysis.ledger.database import connect
from cluster.monitor import exporter
from cluster.monitor.exporter import Monitor, each
from cluster.monitor.metrics import METRICS, Board
from cluster.runtime import ray_internals
from cluster.runtime.start import LOGS_VARIABLE, ClusterLost, logs_place
from cluster.sweep.events import SweepEvent

OF_EVENTS = [metric for metric in METRICS if metric.name not in ("cse_budget_share", "cse_storage_share")]


def board() -> Board:
    runs = ["a", "b", "c", "d"]
    return Board(dict.fromkeys(runs, "E7"), {"E7": 4}, {"a": "dup_rate=0.1"}, ["d"])


def test_events_become_samples() -> None:
    numbers = board()
    numbers.samples(0.0)
    for event in (
        SweepEvent(kind="reused", signature="d", best=50.0),
        SweepEvent(kind="started", signature="a", total_examples=100),
        SweepEvent(kind="point", signature="a", examples=40, best=41.0),
        SweepEvent(kind="started", signature="b"),
        SweepEvent(kind="retried", signature="b"),
        SweepEvent(kind="failed", signature="b"),
        SweepEvent(kind="resting", signature="c"),
        SweepEvent(kind="started", signature="elsewhere"),
    ):
        numbers.add(event, 1.0)
    values = {(name, *labels.values()): value for name, labels, value in numbers.samples(10.0)}
    states = {key[2]: value for key, value in values.items() if key[0] == "cse_runs"}
    assert states == {"waiting": 1, "running": 1, "done": 1, "stopped": 0, "failed": 1}
    assert values["cse_dev_score", "E7", "dup_rate=0.1"] == 41.0
    assert values["cse_run_share", "E7", "dup_rate=0.1"] == 0.4
    assert values["cse_examples_per_second", "E7"] == 4.0
    counters = ("examples", "reused", "retries", "failures", "rests")
    assert [values[f"cse_{name}", "E7"] for name in counters] == [40, 1, 1, 1, 1]


def test_a_run_that_ended_has_no_series() -> None:
    numbers = board()
    numbers.add(SweepEvent(kind="point", signature="a", examples=40, best=41.0), 1.0)
    numbers.add(SweepEvent(kind="done", signature="a", examples=100, best=42.0), 2.0)
    assert "run" not in {label for _, labels, _ in numbers.samples(3.0) for label in labels}


def test_every_sample_is_a_listed_metric_with_its_labels() -> None:
    listed = {metric.name: metric.labels for metric in OF_EVENTS}
    numbers = board()
    numbers.add(SweepEvent(kind="started", signature="a", total_examples=100), 0.0)
    numbers.add(SweepEvent(kind="point", signature="a", examples=50, best=1.0), 1.0)
    samples = numbers.samples(2.0)
    assert {name for name, _, _ in samples} == set(listed)
    assert all(tuple(labels) == listed[name] for name, labels, _ in samples)


def test_limits_are_measured_of_every_sweep(tmp_path: Path) -> None:
    monitor = Monitor("absent.db", tmp_path, {}, totals={"E7": 1, "D7": 2}, labels={})
    monitor.spent = {"8 GPU-hours": 0.75, "20 min": 0.5}.copy
    found = [(name, tuple(labels.items()), value) for name, labels, value in monitor._measure_limits()]
    labels = {metric.name: metric.labels for metric in METRICS}
    assert all(tuple(name for name, _ in given) == labels[metric] for metric, given, _ in found)
    shares = [value for metric, given, value in found if given == (("sweep", "D7"), ("budget", "8 GPU-hours"))]
    assert shares == [0.75] and len(found) == 2 * 3
    assert all(0 < value < 1 for metric, _, value in found if metric == "cse_storage_share")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Ray session on this host, with Ray's list of targets."""
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / ray_internals.DISCOVERY_FILE).write_text('[{"targets": ["10.0.0.1:8080"]}]', encoding="utf8")
    monkeypatch.setattr(ray_internals, "session_folder", lambda: folder)
    monkeypatch.setattr("cluster.runtime.start.session_folder", lambda: folder)
    return folder


def test_ray_s_list_of_targets_lies_in_the_storage_while_a_driver_sweeps(session: Path, tmp_path: Path) -> None:
    storage = tmp_path / "results"
    first, other = exporter.TargetFile(storage), storage / exporter.DISCOVERY_FOLDER / "n9-1.json"
    first.refresh()
    assert first.path.parent == other.parent
    assert first.path.read_bytes() == (session / ray_internals.DISCOVERY_FILE).read_bytes()
    other.write_text("[]", encoding="utf8")
    exporter.TargetFile(storage).refresh()
    assert other.exists(), "another driver's"
    os.utime(other, (time.time() - 2 * exporter.STALE_FILE_SECONDS,) * 2)
    exporter.TargetFile(storage).refresh()
    assert not other.exists(), "a killed driver's"
    first.remove()
    assert not list(other.parent.iterdir())


def test_a_driver_that_is_not_on_the_head_writes_no_targets(session: Path, tmp_path: Path) -> None:
    (session / ray_internals.DISCOVERY_FILE).unlink()
    exporter.TargetFile(tmp_path / "results").refresh()
    assert not (tmp_path / "results").exists()


def test_the_logs_of_ray_are_named_with_their_host(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "n1")
    assert logs_place() == f"n1:{session}/logs"
    monkeypatch.setenv(LOGS_VARIABLE, "/shared/results/ray-logs/7")
    assert logs_place() == f"/shared/results/ray-logs/7, else n1:{session}/logs"


@pytest.mark.parametrize(("error", "is_open"), [(None, False), (ValueError, False), (ClusterLost, True)])
def test_only_a_lost_cluster_stays_open_in_the_ledger(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception] | None, is_open: bool
) -> None:
    monkeypatch.setattr("cluster.monitor.exporter.start_here", _no_ray)
    monkeypatch.setattr("platform.node", lambda: "n1")
    Ledger.open(url := str(tmp_path / "ledger.db")).close()
    with contextlib.suppress(ValueError, ClusterLost), Monitor(url, tmp_path, {}, totals={"E7": 1}, labels={}) as made:
        made(SweepEvent(kind="cluster", reason="1 x 1 workers; dashboard 127.0.0.1:8265"))
        made._thread.join()
        if error:
            raise error
    with connect(url, create=False).connect() as connection:
        kept = cluster_log.read(connection)["E7"]
    assert (kept.host, kept.dashboard, kept.logs) == ("n1", "127.0.0.1:8265", f"n1:{session}/logs")
    assert (kept.ended is None) == is_open


def test_without_ray_and_ledger_the_sweep_goes_on(tmp_path: Path, monkeypatch: object) -> None:
    seen: list[SweepEvent] = []
    monitor = Monitor(str(tmp_path / "absent.db"), tmp_path, {}, totals={"E7": 1}, labels={})
    monkeypatch.setattr("cluster.monitor.exporter.start_here", _no_ray)  # type: ignore[attr-defined]
    with monitor:
        each(monitor, seen.append)(SweepEvent(kind="cluster", reason="1 x 1 workers; dashboard 127.0.0.1:8265"))
    assert len(seen) == 1 and not (tmp_path / "absent.db").exists()


def test_nothing_is_exported_before_ray_runs() -> None:
    with Monitor("absent.db", Path(), {}, totals={}, labels={}) as monitor:
        monitor(SweepEvent(kind="ray", reason="starts on this machine"))
        assert monitor._thread.ident is None


def _no_ray(*actor: object) -> None:
    raise RuntimeError("no cluster")
