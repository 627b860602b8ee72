"""A real Prometheus scrapes a sweep that runs, and every panel of the Grafana dashboard has data."""

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.monitor.exporter import Monitor
from cluster.monitor.metrics import RAY_GPU_MEMORY
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import SweepEvent
from cluster.sweep.run_sweep import run_sweep
from cse_train.data_paths import DataPaths
from tests.cluster_real.processes import Processes
from tests.conftest import planned

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
GRAFANA = Path(__file__).resolve().parents[2] / "cluster" / "monitor" / "grafana_dashboard.json"
SEEDS = range(4)
TOLD = {"": {"pause": 15}, "1": {"raise_on": 0, "pause": 0}, "2": {"kill_on": 0, "at": 0, "pause": 1}}
"""Seed -> how its stand-in behaves: one fails, one is retried, the others are slow enough to be scraped."""
Ask = Callable[[str], list[Any]]


@pytest.fixture
def ask(ray_cluster: None, processes: Processes, needs: Callable[..., None], free_port: Callable[[], int]) -> Ask:
    """PromQL -> what a Prometheus answers that scrapes this session's Ray node."""
    import ray

    needs("prometheus", "prometheus")
    node, port = ray.nodes()[0], free_port()
    target = f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}"
    scrape = {"job_name": "ray", "scrape_interval": "3s", "static_configs": [{"targets": [target]}]}
    (processes.folder / "scrape.yml").write_text(json.dumps({"scrape_configs": [scrape]}), encoding="utf8")
    options = ["--config.file=scrape.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    processes.start("prometheus", *options, log="prometheus.txt")
    return lambda query: answer(port, query)


def answer(port: int, query: str) -> list[Any]:
    """The query's result; nothing while Prometheus does not listen yet."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            found: list[Any] = json.load(reply)["data"]["result"]
            return found
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return []
        raise


@pytest.fixture
def sweep(ray_cluster: None, tmp_path: Path) -> Iterator[threading.Thread]:
    """Three stand-in runs and one that was found in the ledger, two at once, watched as `cse run` watches."""
    script, ledger = tmp_path / "script.json", tmp_path / "ledger.db"
    script.write_text(json.dumps(TOLD), encoding="utf8")
    *runs, found = [planned(seed) for seed in SEEDS]
    sweeps = {run.signature: run.sweep for run in (*runs, found)}
    monitor = Monitor(
        str(ledger),
        tmp_path / "runs",
        sweeps,
        totals=Counter(sweeps.values()),
        labels={run.signature: f"seed {run.seed}" for run in (*runs, found)},
        reused=[found.signature],
    )
    monitor.spent = {"8 runs": 0.5}.copy
    monitor(SweepEvent(kind="resting", signature=runs[0].signature))  # no slot of these loses a run
    stand_in = {"function": "stub_training:train", "scorer": "stub_training:score"}
    options = SweepOptions(storage=tmp_path / "runs", max_concurrent=2, **stand_in)

    over = threading.Event()

    def work() -> None:
        with monitor:
            run_sweep(runs, ledger, DataPaths(train_file=script), options, monitor, over=over)

    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    over.set()
    thread.join(300)
    assert not thread.is_alive()


def test_every_panel_has_data(ask: Ask, sweep: threading.Thread) -> None:
    panels = json.loads(GRAFANA.read_text(encoding="utf8"))["panels"]
    queries = {target["expr"].replace("$sweep", ".*") for panel in panels for target in panel["targets"]}
    wanted = {query for query in queries if not any(name in query for name in RAY_GPU_MEMORY)}  # needs a card
    assert len(wanted) >= 8 and ask("ray_cse_of_no_panel") == []
    missing, deadline = set(wanted), time.monotonic() + 240
    while missing and sweep.is_alive() and time.monotonic() < deadline:
        missing -= {query for query in missing if ask(query)}
        time.sleep(1)
    assert not missing
