"""Tracker for MLflow: an experiment for each sweep, at MLFLOW_TRACKING_URI or MLflow's default location."""

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
"""Characters kept of a value; MLflow's databases take 6,000."""
MLFLOW_BATCH = 1_000
"""Maximum number of metrics in one request, by MLflow's limit."""


class Tracker:
    """Sends runs to MLflow; a run of an earlier command, found by its signature, continues as the same MLflow run."""

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
        sent_examples: set[int] = set()
        if run.signature not in self._ids:
            sent_examples = self._open(run)
        run_id = self._ids[run.signature]
        at = max((examples for examples, _ in run.points), default=0)
        new_points = [(examples, metrics) for examples, metrics in run.points if examples not in sent_examples]
        metrics = [*_metrics(new_points), *(_metrics([(at, run.results)]) if run.ended else ())]
        tags = [RunTag(f"cse.{name}", value[:LONGEST_PARAMETER]) for name, value in run.notes.items()]
        self._client.log_batch(run_id, tags=tags)
        for start in range(0, len(metrics), MLFLOW_BATCH):
            self._client.log_batch(run_id, metrics=metrics[start : start + MLFLOW_BATCH])
        if run.ended:
            self._client.set_terminated(run_id, STATUS.get(run.state, "FINISHED"))
            del self._ids[run.signature]

    def close(self) -> None:
        """Does nothing, since every request was answered."""

    def _open(self, run: TrackedRun) -> set[int]:
        """Creates the run in MLflow, or reopens it; returns the examples of the points that MLflow has."""
        experiment: str | None = self._experiments.get(run.sweep)
        if experiment is None:
            stored = self._client.get_experiment_by_name(run.sweep)
            experiment = stored.experiment_id if stored else self._client.create_experiment(run.sweep)
            self._experiments[run.sweep] = experiment
        matching_runs = self._client.search_runs(
            [experiment], f"tags.`{SIGNATURE_TAG}` = '{run.signature}'", max_results=1
        )
        if matching_runs:
            self._ids[run.signature] = run_id = matching_runs[0].info.run_id
            self._client.set_terminated(run_id, "RUNNING")
            names = {_key(name) for _, metrics in run.points for name in metrics}
            return {point.step for name in names for point in self._client.get_metric_history(run_id, name)}
        tags = {SIGNATURE_TAG: run.signature, "cse.sweep": run.sweep}
        run_id = self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id
        params = [Param(_key(name), str(value)[:LONGEST_PARAMETER]) for name, value in run.settings.items()]
        # MLflow takes at most 100 parameters in one request.
        for start in range(0, len(params), 100):
            self._client.log_batch(run_id, params=params[start : start + 100])
        self._ids[run.signature] = run_id
        return set()


def _metrics(points: Sequence[tuple[int, Mapping[str, float]]]) -> Iterator[Metric]:
    now = int(time.time() * 1000)
    return (Metric(_key(name), value, now, examples) for examples, values in points for name, value in values.items())


def _key(name: str) -> str:
    """Returns a name with every character that MLflow refuses replaced by `_`."""
    return re.sub(r"[^\w\-. /]", "_", name)[:250]
