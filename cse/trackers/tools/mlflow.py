"""MLflow: an experiment for each sweep, at MLFLOW_TRACKING_URI or MLflow's default place."""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from analysis.run_state import RunState
from cse.trackers.tools import TrackedRun

STATUS = {
    RunState.DONE: "FINISHED",
    RunState.STOPPED: "FINISHED",
    RunState.FAILED: "FAILED",
    RunState.LOST: "KILLED",
}
SIGNATURE_TAG = "cse.signature"
LONGEST_PARAMETER = 5_000
"""Letters of a value; MLflow's databases take 6,000."""
MLFLOW_BATCH = 1_000
"""Metrics in one request: MLflow's limit."""


class Tracker:
    """A run of another call of the command, known by its signature, goes on as the same MLflow run."""

    def __init__(self, storage: Path) -> None:
        # Both are settled here: while Ray runs, the working folder is not the user's.
        self._uri = mlflow.get_tracking_uri()
        self._client: Any = None
        self._experiments: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        for library in ("mlflow", "alembic"):
            logging.getLogger(library).setLevel(logging.WARNING)

    def send(self, run: TrackedRun) -> None:
        self._client = self._client or MlflowClient(tracking_uri=self._uri)
        seen: set[int] = set()
        if run.signature not in self._ids:
            seen = self._open(run)
        mine = self._ids[run.signature]
        at = max((examples for examples, _ in run.points), default=0)
        new = [(examples, metrics) for examples, metrics in run.points if examples not in seen]
        metrics = [*_metrics(new), *(_metrics([(at, run.results)]) if run.ended else ())]
        tags = [RunTag(f"cse.{name}", value[:LONGEST_PARAMETER]) for name, value in run.notes.items()]
        self._client.log_batch(mine, tags=tags)
        for start in range(0, len(metrics), MLFLOW_BATCH):
            self._client.log_batch(mine, metrics=metrics[start : start + MLFLOW_BATCH])
        if run.ended:
            self._client.set_terminated(mine, STATUS.get(run.state, "FINISHED"))
            del self._ids[run.signature]

    def close(self) -> None:
        """Nothing: each call was answered."""

    def _open(self, run: TrackedRun) -> set[int]:
        """Begin the run, or go on with it; the examples of the points that it has."""
        experiment: str | None = self._experiments.get(run.sweep)
        if experiment is None:
            stored = self._client.get_experiment_by_name(run.sweep)
            experiment = stored.experiment_id if stored else self._client.create_experiment(run.sweep)
            self._experiments[run.sweep] = experiment
        same = self._client.search_runs([experiment], f"tags.`{SIGNATURE_TAG}` = '{run.signature}'", max_results=1)
        if same:
            self._ids[run.signature] = mine = same[0].info.run_id
            self._client.set_terminated(mine, "RUNNING")
            names = {_key(name) for _, metrics in run.points for name in metrics}
            return {point.step for name in names for point in self._client.get_metric_history(mine, name)}
        tags = {SIGNATURE_TAG: run.signature, "cse.sweep": run.sweep}
        mine = self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        params = [Param(_key(name), str(value)[:LONGEST_PARAMETER]) for name, value in run.settings.items()]
        for start in range(0, len(params), 100):
            self._client.log_batch(mine, params=params[start : start + 100])
        self._ids[run.signature] = mine
        return set()


def _metrics(points: Sequence[tuple[int, Mapping[str, float]]]) -> Iterator[Metric]:
    now = int(time.time() * 1000)
    return (Metric(_key(name), value, now, examples) for examples, values in points for name, value in values.items())


def _key(name: str) -> str:
    """A name with the letters that MLflow takes."""
    return re.sub(r"[^\w\-. /]", "_", name)[:250]
