"""A sweep in TensorBoard, read back with its own reader."""

from pathlib import Path
from typing import Any

import pytest

from cse.trackers import tools as trackers

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="pip install 'cse-search[tensorboard]'"
)
A, B, C = (letter * 24 for letter in "abc")


def read(folder: Path, signature: str) -> Any:
    (run,) = (folder / "tensorboard" / "E7").glob(f"*{signature[:8]}")
    events = accumulator.EventAccumulator(str(run))
    events.Reload()
    return events


def curve(events: Any, tag: str) -> list[tuple[int, float]]:
    return [(event.step, round(event.value, 4)) for event in events.Scalars(tag)]


def text(events: Any, tag: str) -> str:
    (event,) = events.Tensors(f"{tag}/text_summary")
    return str(event.tensor_proto.string_val[0].decode())


def test_each_run_is_a_folder_with_curve_scores_and_state(tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["tensorboard"], tmp_path)):
        tracked.whole()
    names = sorted(path.name for path in (tmp_path / "tensorboard" / "E7").iterdir())
    assert names == [f"learning_rate=3e-05 seed 0 {signature[:8]}" for signature in (A, B, C)]
    done = read(tmp_path, A)
    assert curve(done, "sts_dev") == [(100, 60.0), (200, 62.5)]
    assert curve(done, "loss") == [(100, 0.1), (200, 0.05)]
    assert (curve(done, "best"), curve(done, "score/sts_test")) == ([(200, 62.5)], [(200, 71.5)])
    states = [text(read(tmp_path, signature), "state") for signature in (A, B, C)]
    assert states == ["done", "stopped", "failed"]
    assert text(done, "retries") == "1" and text(read(tmp_path, C), "reason") == "NaN loss"


def test_settings_are_hyperparameters(tmp_path: Path, tracked: Any) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    with tracked.under(trackers.make_trackers(["tensorboard"], tmp_path)):
        tracked.whole()
    metadata = read(tmp_path, A).SummaryMetadata("_hparams_/session_start_info")
    shown = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info.hparams
    assert shown["method"].string_value == "esimcse" and shown["train.learning_rate"].number_value == 3e-5


def test_a_run_that_another_call_goes_on_with_has_each_point_once(tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["tensorboard"], tmp_path)):
        tracked.begin(A)
        tracked.point(A, 100, 60.0)
        tracked.ledger.release("me")
    with tracked.under(trackers.make_trackers(["tensorboard"], tmp_path)):
        tracked.begin(A)
        tracked.point(A, 200, 62.5)
        tracked.end(A, "done", 62.5)
    assert curve(read(tmp_path, A), "sts_dev") == [(100, 60.0), (200, 62.5)]
    assert text(read(tmp_path, A), "state") == "done"


def test_a_sweeps_name_is_one_folder(tmp_path: Path, tracked: Any) -> None:
    with tracked.under(trackers.make_trackers(["tensorboard"], tmp_path)):
        tracked.begin(A)
        tracked.sweeps[A] = "E7 train.corpus=../../elsewhere"
        tracked.end(A, "done", 62.5)
    (folder,) = (tmp_path / "tensorboard").iterdir()
    assert folder.name == "E7 train.corpus=.._.._elsewhere"
