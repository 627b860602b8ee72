"""One sick card of four on real Ray: its slot rests and is tried again, and no run fails for it."""

from collections import Counter

import pytest

from tests.cluster.sick_slots import FAILS, SLOTS


@pytest.mark.slow
def test_a_sick_slot_of_four_fails_no_run_rests_by_name_and_is_tried_again(ray_cluster, sweeper, tmp_path):
    swept = sweeper(
        tmp_path, {}, list(range(40)), cpus_per_worker=0.5, max_concurrent=SLOTS, group="sick_slots:SickGroup"
    )
    assert (swept.outcome.done, swept.outcome.failures) == (40, ())
    kinds = Counter(event.kind for _, event in swept.events)
    reasons = {event.kind: event.reason for _, event in swept.events}
    assert len(list(tmp_path.glob("fail-*"))) == FAILS
    assert kinds["requeued"] == 3 and kinds["failed"] == 0
    assert "machine failed 3 times: RuntimeError: CUDA error: uncorrectable ECC" in reasons["requeued"]
    assert kinds["resting"] >= 1 and "slot 2 of s quarantined after 3 different runs" in reasons["resting"]
    slots = Counter(swept.ledger.curve(f"signature{seed}")[-1].metrics["slot"] for seed in range(40))
    assert set(slots) == set(range(1, SLOTS + 1))  # the second did runs after its rests
