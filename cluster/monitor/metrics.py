"""Names, labels and meaning of the metrics that a sweep exports to Prometheus.

Every label has few values: sweeps of one driver, five states, and one series per run that runs now.
"""

from dataclasses import dataclass
from typing import Literal

WAITING_STATE = "waiting"
"""Value of the label `state` for runs that have neither begun nor ended."""


@dataclass(frozen=True)
class PrometheusMetric:
    """A Prometheus metric of a sweep; `exported` is its full name in Prometheus."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str

    @property
    def exported(self) -> str:
        return f"ray_{self.name}" + ("_total" if self.kind == "counter" else "")


METRICS = (
    PrometheusMetric("cse_runs", "gauge", ("sweep", "state"), "Runs of the sweep by state"),
    PrometheusMetric("cse_best", "gauge", ("sweep",), "Highest dev score so far, Spearman x 100"),
    PrometheusMetric("cse_dev_score", "gauge", ("sweep", "run"), "Best dev score so far of each run that runs now"),
    PrometheusMetric("cse_run_share", "gauge", ("sweep", "run"), "Trained part of each run that runs now, 0 to 1"),
    PrometheusMetric("cse_examples_per_second", "gauge", ("sweep",), "Training examples a second over the last minute"),
    PrometheusMetric("cse_seconds_left", "gauge", ("sweep",), "Seconds to the end at the pace so far"),
    PrometheusMetric("cse_examples", "counter", ("sweep",), "Training examples seen by this driver's runs"),
    PrometheusMetric("cse_reused", "counter", ("sweep",), "Runs found in the ledger and not trained"),
    PrometheusMetric("cse_retries", "counter", ("sweep",), "Times that a run went on after its workers died"),
    PrometheusMetric("cse_failures", "counter", ("sweep",), "Runs that ended without a result"),
    PrometheusMetric("cse_rests", "counter", ("sweep",), "Times that a slot was set aside after it lost several runs"),
    PrometheusMetric("cse_budget_share", "gauge", ("sweep", "budget"), "Spent part of each limit of --budget, 0 to 1"),
    PrometheusMetric("cse_storage_share", "gauge", ("sweep",), "Full part of the storage's disk, 0 to 1"),
)
"""Metrics that the monitor of a sweep exports."""

RAY_GPU_MEMORY = ("ray_node_gram_used", "ray_node_gram_available")
"""Names of Ray's own metrics of GPU memory in MB, by node and GPU."""
