"""A sweep tells of itself, event by event: progress, numbers for Prometheus, and the files that read them."""

import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from analysis.ledger import Ledger, cluster_log
from analysis.ledger.database import connect
from cluster.launch.config import load, settings_of
from cluster.launch.job import LaunchJob
from cluster.launch.targets import kuberay
from cluster.monitor import exporter
from cluster.monitor.exporter import DISCOVERY_FOLDER, Monitor, each
from cluster.monitor.metrics import METRICS, Board, Tally, clock
from cluster.monitor.progress import MARKS_LISTED, PROGRESS_BAR, Progress
from cluster.runtime import ray_internals
from cluster.runtime.start import LOGS_VARIABLE, ClusterLost, logs_place
from cluster.sweep.events import SweepEvent


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def shown(terminal: bool) -> tuple[Progress, io.StringIO, Clock]:
    out, now = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False, soft_wrap=not terminal)
    labels = {"a": "dup_rate=0.32 seed 0", "b": "dup_rate=0.32 seed 1"}
    return Progress({"s": 4}, labels=labels, console=console, now=now), out, now


def test_time_left_counts_the_share_of_a_running_run_and_leaves_reused_ones_out() -> None:
    tally = Tally(4)
    tally.add(SweepEvent(kind="reused", signature="z", best=70.0), 0.0)
    tally.add(SweepEvent(kind="started", signature="a", total_examples=100), 10.0)
    assert tally.seconds_left(20.0) is None
    tally.add(SweepEvent(kind="point", signature="a", examples=50, best=40.0), 20.0)
    assert tally.seconds_left(20.0) == pytest.approx(10.0 * 2.5 / 0.5)
    tally.add(SweepEvent(kind="done", signature="a", examples=100, best=55.0), 30.0)
    assert tally.seconds_left(30.0) == pytest.approx(20.0 * 2.0)
    assert tally.best == 70.0


def test_summary_counts_each_kind_once() -> None:
    tally = Tally(4)
    for kind, signature in (("reused", "a"), ("started", "b"), ("started", "c"), ("failed", "c"), ("started", "d")):
        tally.add(SweepEvent(kind=kind, signature=signature), 0.0)  # type: ignore[arg-type]
    tally.add(SweepEvent(kind="done", signature="d", best=61.25), 6.0)
    assert tally.summary(6.0) == "2/4 done (1 reused), 1 running, 1 failed, best run 61.25, about 3 s left"


def test_a_search_names_its_runs_as_it_proposes_them() -> None:
    out, labels = io.StringIO(), {}
    with Progress({"s": 1}, labels=labels, console=Console(file=out)) as progress:
        labels["a"] = "learning_rate=0.001 seed 0"
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=25, best=51.0))
        assert progress.tally.share("a") == 0.25
        progress(SweepEvent(kind="done", signature="a", examples=100, best=54.0))
    assert out.getvalue().startswith("done  learning_rate=0.001 seed 0  best 54.00")


def test_a_pipe_gets_plain_lines_without_control_codes() -> None:
    progress, out, now = shown(terminal=False)
    with progress:
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=50, best=51.0))
        now.seconds = 8.0
        progress(SweepEvent(kind="done", signature="a", examples=100, best=54.125))
        progress(SweepEvent(kind="failed", signature="b", reason="NaN loss at step 3", log="runs/b/logs"))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("done  dup_rate=0.32 seed 0  best 54.12  [1/4 done, best run 54.12, about 24 s left]")
    assert lines[1].startswith("failed  dup_rate=0.32 seed 1  NaN loss at step 3  log runs/b/logs  [")
    assert "\x1b" not in out.getvalue()
    assert len(lines) == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_values_and_reasons_move_nothing_on_a_terminal(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, soft_wrap=True)
    with Progress({"s": 2}, labels={"a": "cell \x1b]0;owned\x07", "b": "b\u202ec"}, console=console) as progress:
        progress(SweepEvent(kind="started", signature="b", total_examples=100))
        progress(SweepEvent(kind="failed", signature="a", reason="why \x1b[2J\u202e\nmore"))
    said = console.file.getvalue()
    assert "cell  ]0;owned" in said and "why  [2J more" in said
    assert not any(obeyed in said for obeyed in ("\x1b]", "\x1b[2J", "\x07", "\u202e"))


def test_finished_runs_count_from_the_start() -> None:
    assert Progress({"s": 4}, reused=["x", "y"]).tally.summary(0.0) == "2/4 done (2 reused)"


def test_a_terminal_gets_one_live_block() -> None:
    progress, out, _ = shown(terminal=True)
    with progress:
        progress(SweepEvent(kind="started", signature="a", total_examples=100))
        progress(SweepEvent(kind="point", signature="a", examples=50, best=51.0))
    final = out.getvalue()
    assert "\x1b" in final
    assert "1 running" in final
    assert "50%  dup_rate=0.32 seed 0" in final


def test_the_bar_is_red_for_failures_alone_and_narrow() -> None:
    progress, _, _ = shown(terminal=True)
    healthy = progress._bar()
    assert "red" not in {str(span.style) for span in healthy.spans} and len(healthy) == PROGRESS_BAR
    for kind, signature in (("done", "a"), ("failed", "b"), ("started", "c"), ("stopped", "d")):
        progress(SweepEvent(kind=kind, signature=signature))  # type: ignore[arg-type]
    spans = [(str(span.style), span.end - span.start) for span in progress._bar().spans]
    assert spans == [("green", 10), ("yellow", 10), ("red", 10), ("bright_black", 10)]


def test_a_hundred_running_runs_leave_the_block_short() -> None:
    out = io.StringIO()
    progress = Progress({"s": 100}, console=Console(file=out, force_terminal=True, width=60))
    for number in range(100):
        progress(SweepEvent(kind="started", signature="a long label " * 9 + str(number)))
    lines = progress.console.render_lines(progress._block())
    assert len(lines) == MARKS_LISTED + 3 and "and 88 more" in "".join(part.text for part in lines[-1])


@pytest.mark.parametrize(("seconds", "said"), [(8.4, "8 s"), (125, "2 min 05 s"), (11400, "3 h 10 min")])
def test_clock(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_the_block_is_drawn_while_thousands_of_runs_begin_and_end() -> None:
    progress, _, _ = shown(terminal=True)
    errors: list[BaseException] = []
    over = threading.Event()

    def draw() -> None:
        try:
            while not over.is_set():
                progress._block()
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=draw)
    thread.start()
    for number in range(3000):
        for kind in ("started", "point", "done"):
            progress(SweepEvent(kind=kind, signature=str(number), examples=1, total_examples=1))  # type: ignore[arg-type]
    over.set()
    thread.join(10)
    sys.setswitchinterval(before)
    assert errors == [] and progress.tally.count("done") == 3000 and not progress.tally.running


def test_a_score_of_a_suite_is_not_the_best_run() -> None:
    tally = Tally(1)
    tally.add(SweepEvent(kind="scored", signature="a", best=95.0, reason="intents"), 0.0)
    tally.add(SweepEvent(kind="done", signature="a", best=23.5), 1.0)
    assert tally.summary(2.0) == "1/1 done, best run 23.50"


def test_running_counts_equal_a_count_of_all_states() -> None:
    rng, tally = random.Random(0), Tally(50, state={"0": "reused"})
    kinds = ("started", "point", "requeued", "resting", "done", "stopped", "failed", "reused", "scored")
    for _ in range(2000):
        tally.add(SweepEvent(kind=rng.choice(kinds), signature=str(rng.randrange(50))), 0.0)  # type: ignore[arg-type]
        for kind in ("started", "done", "stopped", "failed", "reused"):
            assert tally.count(kind) == sum(state == kind for state in tally.state.values())
        assert set(tally.running) == {name for name, state in tally.state.items() if state == "started"}


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


MONITOR = Path(__file__).resolve().parents[3] / "cluster" / "monitor"
ALERTS = MONITOR / "alerts.yml"
EXAMPLE = MONITOR.parent / "launch" / "cluster.yaml"
RUNNING = 'ray_cse_runs{sweep="E7", state="running"}'
PACE = 'ray_cse_examples_per_second{sweep="E7"}'
NODE_DISK = "ray_node_disk_utilization_percentage"
"""Ray's own."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def series(name: str, values: str) -> dict[str, str]:
    return {"series": name, "values": values}


@pytest.mark.parametrize(
    ("alert", "fires", "input_series"),
    [
        ("SweepWithoutProgress", True, [series(RUNNING, "2x40"), series(PACE, "0x40")]),
        ("SweepWithoutProgress", False, [series(RUNNING, "2x40"), series(PACE, "0x15 90 0x24")]),
        ("SweepWithoutProgress", False, [series(RUNNING, "0x40"), series(PACE, "0x40")]),
        ("SlotSetAside", True, [series('ray_cse_rests_total{sweep="E7"}', "1x40")]),
        ("SlotSetAside", False, [series('ray_cse_retries_total{sweep="E7"}', "1x40")]),
        ("BudgetNearlySpent", True, [series('ray_cse_budget_share{sweep="E7", budget="8 GPU-hours"}', "0.5x30 0.8x9")]),
        ("BudgetNearlySpent", False, [series('ray_cse_budget_share{sweep="E7", budget="8 GPU-hours"}', "0.79x40")]),
        ("StorageNearlyFull", True, [series('ray_cse_storage_share{sweep="E7"}', "0.9x40")]),
        ("StorageNearlyFull", False, [series('ray_cse_storage_share{sweep="E7"}', "0.89x40")]),
        ("NodeDiskNearlyFull", True, [series(f'{NODE_DISK}{{ip="10.0.0.7"}}', "90x40")]),
        ("NodeDiskNearlyFull", False, [series(f'{NODE_DISK}{{ip="10.0.0.7"}}', "89x40")]),
    ],
)
def test_an_alert_fires_when_it_should(
    tmp_path: Path, alert: str, fires: bool, input_series: list[dict[str, str]]
) -> None:
    """After forty minutes, a value each minute; promtool evaluates the rules as Prometheus would."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    query = {"expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})', "eval_time": "40m"}
    expected = [{"labels": "{}", "value": 1}] if fires else []
    test = {"interval": "1m", "input_series": input_series, "promql_expr_test": [query | {"exp_samples": expected}]}
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": [test]}), encoding="utf8")
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_asks_for_metrics_that_are_exported() -> None:
    known = {metric.exported: {*metric.labels} for metric in METRICS} | {NODE_DISK: {"ip"}}
    for rule in rules():
        assert (named := set(re.findall(r"ray_\w+", rule["expr"]))) and named <= known.keys(), rule["alert"]
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= set.intersection(*(known[name] for name in named))


def test_the_scrape_file_reads_where_drivers_of_the_example_write() -> None:
    (scrape,) = yaml.safe_load((MONITOR / "prometheus.yml").read_text(encoding="utf8"))["scrape_configs"]
    (discovery,) = scrape["file_sd_configs"]
    assert discovery["files"] == [f"{load(EXAMPLE).storage}/{DISCOVERY_FOLDER}/*.json"]


def test_the_pod_monitor_selects_every_pod_of_a_launch() -> None:
    spec = yaml.safe_load((MONITOR / "pod_monitor.yaml").read_text(encoding="utf8"))["spec"]
    (chosen,) = spec["selector"]["matchExpressions"]
    assert chosen["operator"] == "Exists"
    config = load(EXAMPLE)
    made = kuberay.cluster_spec(LaunchJob(config, ("run", "E7")), settings_of("kuberay", config))
    for group in (made["headGroupSpec"], *made["workerGroupSpecs"]):
        assert chosen["key"] in group["template"]["metadata"]["labels"]
        # KubeRay adds the port `metrics` to the containers that have none of this name.
        assert "ports" not in group["template"]["spec"]["containers"][0]
    assert [endpoint["port"] for endpoint in spec["podMetricsEndpoints"]] == ["metrics"]
