"""One slot of two ranks on real Ray: runs, an error on one rank, a killed rank; then two slots under ASHA."""

import json
from pathlib import Path

import pytest

from cluster.runtime.options import AshaOptions

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def swept(ray_cluster, sweeper, tmp_path_factory):
    script = {"1": {"raise_on": 1}, "2": {"kill_on": 1, "at": 2}}
    return sweeper(tmp_path_factory.mktemp("slot"), script, [0, 1, 2, 3], workers=2)


def test_every_run_has_its_end(swept):
    outcome = swept.outcome
    assert (outcome.done, outcome.stopped, outcome.reused, outcome.interrupted) == (3, 0, 0, False)
    assert [swept.row(seed).state for seed in range(4)] == ["done", "failed", "done", "done"]
    assert [swept.row(seed).best for seed in (0, 2, 3)] == [10.0, 12.0, 13.0]


def test_tune_saves_no_trials(swept):
    """It would pickle each at the sweep's end, 15 ms a trial, for a restore that the ledger replaces."""
    (state,) = swept.folder.glob("runs/ray/tune/*/experiment_state-*.json")
    assert json.loads(state.read_text())["trial_data"] == []


def test_the_cluster_is_named_once_ray_runs(swept):
    first, second, *_ = [event for _, event in swept.events]
    assert (first.kind, second.kind) == ("ray", "cluster") and second.reason.startswith("1 x 2 workers")


def test_an_error_on_one_rank_frees_the_other_and_is_the_one_that_is_shown(swept):
    (failure,) = swept.outcome.failures
    assert failure.signature == "signature1" and failure.reason.startswith(
        "KeyError: 'the real error' (stub_training.py:"
    )
    (begun, _), (failed, _) = swept.of(1, "started", "failed")
    assert failed - begun < 5.0
    assert "the real error" in Path(failure.log, "rank1.log").read_text()


def test_a_killed_rank_is_replaced_and_the_run_goes_on_from_its_checkpoint(swept):
    assert [event.kind for _, event in swept.of(2)] == [
        "started",
        *["point"] * 2,
        "retried",
        *["point"] * 2,
        "scored",
        "done",
    ]
    assert [point.examples for point in swept.ledger.curve("signature2")] == [32, 64, 96, 128]
    assert swept.row(2).attempt == 1


def test_points_scores_and_folders_are_booked(swept):
    curve = swept.ledger.curve("signature0")
    assert [(point.examples, point.best) for point in curve] == [(32, 2.5), (64, 5.0), (96, 7.5), (128, 10.0)]
    assert {score.signature for score in swept.ledger.scores([f"signature{seed}" for seed in range(4)])} == {
        "signature0",
        "signature2",
        "signature3",
    }
    final = Path(swept.row(0).folder)
    assert final.name == "final-1" and json.loads((final / "last" / "state.json").read_text()) == 4
    assert {path.name for path in (final / "logs").iterdir()} == {"rank0.log", "rank1.log"}


def test_slots_mailboxes_and_train_runs_are_named_by_slot_and_sweep(swept):
    import ray
    from ray.util.state import list_actors

    here = ray.get_runtime_context().gcs_address  # without one Ray looks through the machine for any cluster
    names = {actor.repr_name for actor in list_actors(address=here, detail=True, limit=10_000)}
    assert {"slot 1 of s", "mailbox of slot 1 of s"} <= names
    trained = [path.name for path in (swept.folder / "runs" / "ray" / "train").iterdir()]
    assert trained and all(name.startswith("slot-1-of-s-") for name in trained)


def test_the_same_call_again_starts_nothing_but_the_failed_run(swept, sweeper):
    again = sweeper(swept.folder, {}, [0, 2, 3], workers=2)
    assert (again.outcome.done, again.outcome.reused) == (0, 3)
    assert {event.kind for _, event in again.events} == {"reused"}
    assert again.outcome.seconds < 2


@pytest.mark.slow
def test_asha_stops_the_worse_runs_at_the_same_examples(ray_cluster, sweeper, tmp_path_factory):
    """The last run is worse than the best one at every rung that both passed, and slow to end: it is trained whole."""
    script = {str(seed): {"score": score} for seed, score in enumerate((50.0, 40.0, 46.0, 49.0))}
    script["3"]["tail"] = 2.5
    asha = AshaOptions(grace_examples=32, max_examples=128, reduction_factor=2)
    swept = sweeper(tmp_path_factory.mktemp("asha"), script, [0, 1, 2, 3], asha=asha, max_concurrent=1)
    assert [swept.row(seed).state for seed in range(4)] == ["done", "stopped", "stopped", "done"]
    assert [swept.row(seed).examples for seed in range(4)] == [128, 32, 64, 128]
    assert swept.outcome.stopped == 2
    assert Path(swept.row(1).folder, "last", "state.json").read_text() == "1"
