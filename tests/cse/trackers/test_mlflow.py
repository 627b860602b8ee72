"""A sweep in MLflow, read back with its own client from a SQLite store."""

from pathlib import Path
from typing import Any

import pytest

from cse.trackers import tools as trackers

mlflow = pytest.importorskip("mlflow", reason="pip install 'cse-search[mlflow]'")
A, B, C = (letter * 24 for letter in "abc")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    url = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
    return mlflow.MlflowClient(tracking_uri=url)


def runs(client: Any, sweep: str = "E7") -> dict[str, Any]:
    experiment = client.get_experiment_by_name(sweep)
    return {run.data.tags["cse.signature"]: run for run in client.search_runs([experiment.experiment_id])}


def curve(client: Any, run: Any, name: str) -> list[tuple[int, float]]:
    return sorted((metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name))


def test_each_run_has_parameters_curve_scores_and_status(client: Any, tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["mlflow"], tmp_path)):
        tracked.whole()
    shown = runs(client)
    assert {name: run.info.status for name, run in shown.items()} == {A: "FINISHED", B: "FINISHED", C: "FAILED"}
    assert [shown[name].data.tags["cse.state"] for name in (A, B, C)] == ["done", "stopped", "failed"]
    done = shown[A]
    assert done.info.run_name == "learning_rate=3e-05 seed 0"
    assert done.data.params["method"] == "esimcse" and done.data.params["train.learning_rate"] == "3e-05"
    assert curve(client, done, "sts_dev") == [(100, 60.0), (200, 62.5)]
    assert curve(client, done, "loss") == [(100, 0.1), (200, 0.05)]
    assert done.data.metrics["best"] == 62.5 and done.data.metrics["score/sts_test"] == 71.5
    assert done.data.tags["cse.retries"] == "1" and shown[C].data.tags["cse.reason"] == "NaN loss"


def test_a_run_that_another_call_goes_on_with_is_one_run(client: Any, tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["mlflow"], tmp_path)):
        tracked.begin(A)
        tracked.point(A, 100, 60.0)
        tracked.ledger.release("me")
    assert runs(client)[A].info.status == "KILLED"
    with tracked.under(trackers.make_trackers(["mlflow"], tmp_path)):
        tracked.begin(A)
        tracked.point(A, 200, 62.5)
        tracked.end(A, "done", 62.5)
    (run,) = runs(client).values()
    assert run.info.status == "FINISHED" and run.data.tags["cse.state"] == "done"
    assert curve(client, run, "sts_dev") == [(100, 60.0), (200, 62.5)]
