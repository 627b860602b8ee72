"""A sweep's numbers from its events, and that neither a missing Ray nor a missing ledger holds a sweep up."""

from pathlib import Path

from cluster.monitor.exporter import Monitor, each
from cluster.monitor.metrics import METRICS
from cluster.monitor.samples import Board
from cluster.sweep.events import SweepEvent


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
        SweepEvent(kind="started", signature="elsewhere"),
    ):
        numbers.add(event, 1.0)
    values = {(name, *labels.values()): value for name, labels, value in numbers.samples(10.0)}
    states = {key[2]: value for key, value in values.items() if key[0] == "cse_runs"}
    assert states == {"waiting": 1, "running": 1, "done": 1, "stopped": 0, "failed": 1}
    assert values["cse_dev_score", "E7", "dup_rate=0.1"] == 41.0
    assert values["cse_run_share", "E7", "dup_rate=0.1"] == 0.4
    assert values["cse_examples_per_second", "E7"] == 4.0
    assert [values[f"cse_{name}", "E7"] for name in ("examples", "reused", "retries", "failures")] == [40, 1, 1, 1]


def test_a_run_that_ended_has_no_series() -> None:
    numbers = board()
    numbers.add(SweepEvent(kind="point", signature="a", examples=40, best=41.0), 1.0)
    numbers.add(SweepEvent(kind="done", signature="a", examples=100, best=42.0), 2.0)
    assert "run" not in {label for _, labels, _ in numbers.samples(3.0) for label in labels}


def test_every_sample_is_a_listed_metric_with_its_labels() -> None:
    listed = {metric.name: metric.labels for metric in METRICS}
    numbers = board()
    numbers.add(SweepEvent(kind="started", signature="a", total_examples=100), 0.0)
    numbers.add(SweepEvent(kind="point", signature="a", examples=50, best=1.0), 1.0)
    samples = numbers.samples(2.0)
    assert {name for name, _, _ in samples} == set(listed)
    assert all(tuple(labels) == listed[name] for name, labels, _ in samples)


def test_without_ray_and_ledger_the_sweep_goes_on(tmp_path: Path, monkeypatch: object) -> None:
    seen: list[SweepEvent] = []
    monitor = Monitor(str(tmp_path / "absent.db"), {}, totals={"E7": 1}, labels={})
    monkeypatch.setattr("cluster.monitor.exporter.start_exporter", _no_ray)  # type: ignore[attr-defined]
    with monitor:
        each(monitor, seen.append)(SweepEvent(kind="cluster", reason="1 x 1 workers; dashboard 127.0.0.1:8265"))
    assert len(seen) == 1 and not (tmp_path / "absent.db").exists()


def test_nothing_is_exported_before_ray_runs() -> None:
    with Monitor("absent.db", {}, totals={}, labels={}) as monitor:
        monitor(SweepEvent(kind="ray", reason="starts on this machine"))
        assert monitor._thread.ident is None


def _no_ray(title: str) -> None:
    raise RuntimeError("no cluster")
