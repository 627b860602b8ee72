"""A sweep whose head died ends with a reason; a head that is away for a moment ends nothing."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.runtime import start
from cluster.runtime.resources import HEAD_RESOURCE
from cluster.runtime.start import ClusterLost, cluster_watch

ALIVE = [{"Alive": True, "Resources": {HEAD_RESOURCE: 1.0}}]
Nodes = list[dict[str, Any]]
DEAD: Nodes = [{"Alive": False, "Resources": {}}, {"Alive": True, "Resources": {"CPU": 4.0}}]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Nodes]], None]:
    """Lets a watch that is fast ask this function for the cluster's nodes."""
    monkeypatch.setattr(start, "HEAD_POLL_SECONDS", 0.01)
    monkeypatch.setattr(start, "HEAD_GRACE_SECONDS", 0.2)
    return lambda asked: monkeypatch.setattr(start, "ray_nodes", asked)


def watched(answers: Iterator[Nodes], nodes: Callable[[Callable[[], Nodes]], None], wait_s: float) -> bool:
    """Whether a watch over these answers, a dead head after the last, ends the sweep within the time."""
    over = threading.Event()
    nodes(lambda: next(answers, DEAD))
    with cluster_watch(over):
        return over.wait(wait_s)


def test_without_a_head_for_the_grace_the_sweep_ends(nodes) -> None:
    with pytest.raises(ClusterLost, match="the same command continues"):
        watched(iter([ALIVE, ALIVE]), nodes, 10)


def test_a_head_that_comes_back_in_time_ends_nothing(nodes) -> None:
    answers = iter((DEAD, ALIVE) * 200)
    assert watched(answers, nodes, 0.5) is False


def test_a_ray_that_raises_is_a_lost_one_and_another_error_goes_first(nodes) -> None:
    over = threading.Event()

    def gone() -> Nodes:
        raise ConnectionError("no head")

    nodes(gone)

    def failing() -> None:
        with cluster_watch(over):
            over.wait(10)
            raise KeyError("the sweep's own")

    with pytest.raises(KeyError):
        failing()
    assert over.is_set()
