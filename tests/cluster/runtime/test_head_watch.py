"""A sweep whose head died ends with a reason; a head that is away for a moment ends nothing."""

import threading
from collections.abc import Iterator

import pytest

from cluster.runtime.head_watch import ClusterLost, Nodes, cluster_watch
from cluster.runtime.resources import HEAD

ALIVE = [{"Alive": True, "Resources": {HEAD: 1.0}}]
DEAD = [{"Alive": False, "Resources": {}}, {"Alive": True, "Resources": {"CPU": 4.0}}]


def watched(answers: Iterator[Nodes], wait_s: float) -> bool:
    """Whether a watch over these answers, the last one for ever, ends the sweep within the time."""
    over, last = threading.Event(), DEAD

    def nodes() -> Nodes:
        return next(answers, last)

    with cluster_watch(over, nodes, period_s=0.01, grace_s=0.2):
        return over.wait(wait_s)


def test_without_a_head_for_the_grace_the_sweep_ends() -> None:
    with pytest.raises(ClusterLost, match="the same command continues"):
        watched(iter([ALIVE, ALIVE]), 10)


def test_a_head_that_comes_back_in_time_ends_nothing() -> None:
    answers = iter((DEAD, ALIVE) * 200)
    assert watched(answers, 0.5) is False


def test_a_ray_that_raises_is_a_lost_one_and_another_error_goes_first() -> None:
    over = threading.Event()

    def gone() -> Nodes:
        raise ConnectionError("no head")

    def failing() -> None:
        with cluster_watch(over, gone, period_s=0.01, grace_s=0.05):
            over.wait(10)
            raise KeyError("the sweep's own")

    with pytest.raises(KeyError):
        failing()
    assert over.is_set()
