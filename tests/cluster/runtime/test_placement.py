"""Where slots and ranks are put, and what GPUs they see."""

from pathlib import Path

import pytest

from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import HEAD_RESOURCE
from cluster.slots.worker_group import backend
from cluster.sweep.places import slot_bundle


@pytest.mark.slow
def test_slots_sit_on_the_head_and_take_no_cpu(ray_cluster: None) -> None:
    bundle = slot_bundle(SweepOptions(storage=Path("x")), 1)
    assert bundle == {HEAD_RESOURCE: 0.001, "trial_slot": 1, "memory": int(0.6 * 2**30)}


@pytest.mark.slow
def test_a_rank_without_a_card_sees_none(ray_cluster: None) -> None:
    """Ray 2.60 leaves CUDA_VISIBLE_DEVICES alone for zero GPUs; a rank would then train on one not given to it."""
    import ray

    @ray.remote(num_cpus=0)
    def visible() -> str | None:
        import os

        return os.environ.get("CUDA_VISIBLE_DEVICES")

    assert ray.get(visible.remote(), timeout=120) == ""


def test_ranks_with_cards_talk_through_nccl_and_gloo_together() -> None:
    from ray.train.torch.config import _is_backend_nccl

    assert backend(0) == "gloo"
    assert backend(0.5) == "cpu:gloo,cuda:nccl" and _is_backend_nccl(backend(0.5))
