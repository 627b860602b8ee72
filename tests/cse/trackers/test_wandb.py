"""A sweep in Weights & Biases, offline: its run files read back with its own reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from cse.trackers import tools as trackers
from cse_train.fields import ConfigError

wandb_log = pytest.importorskip("cse.importers.sources.wandb", reason="taken off here: importers")
wandb = pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
A, B, C = (letter * 24 for letter in "abc")


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))


def records(folder: Path, signature: str) -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.glob(f"wandb/offline-run-*-{signature}/*.wandb")
    return [wandb_internal_pb2.Record.FromString(data) for data in wandb_log.records(file)]


def values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_each_run_has_configuration_curve_summary_and_exit_code(tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["wandb"], tmp_path)):
        tracked.whole()
    done = records(tmp_path, A)
    (run,) = [record.run for record in done if record.HasField("run")][:1]
    assert (run.run_id, run.run_group, run.project) == (A, "E7", "cse-search")
    assert run.display_name == "learning_rate=3e-05 seed 0"
    settings = values(run.config.update)
    assert settings["method"] == "esimcse" and settings["train.learning_rate"] == 3e-5
    rows = [values(record.history.item) for record in done if record.HasField("history")]
    assert [(row["examples"], row["sts_dev"], row["loss"]) for row in rows] == [(100, 60.0, 0.1), (200, 62.5, 0.05)]
    summary: dict[str, Any] = {}
    for record in done:
        summary |= values(record.summary.update)
    assert (summary["best"], summary["score/sts_test"], summary["state"]) == (62.5, 71.5, "done")
    codes = [[r.exit.exit_code for r in records(tmp_path, name) if r.HasField("exit")] for name in (A, B, C)]
    assert codes == [[0], [0], [1]]


def test_without_a_login_one_line_says_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(ConfigError, match="no login: track=wandb; give wandb login or WANDB_API_KEY"):
        trackers.make_trackers(["wandb"], tmp_path)
