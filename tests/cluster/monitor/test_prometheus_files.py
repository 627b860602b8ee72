"""What Prometheus reads: alerts that fire when they should, metrics that exist, targets of what was launched."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.launch.config import load, settings_of
from cluster.launch.job import LaunchJob
from cluster.launch.targets import kuberay
from cluster.monitor.exporter import DISCOVERY_FOLDER
from cluster.monitor.metrics import METRICS

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
