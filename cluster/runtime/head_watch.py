"""Whether the cluster under a sweep is still there: Tune would wait for ever for a head that does not come back."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cluster.runtime.background import background
from cluster.runtime.resources import HEAD

PERIOD_S = 5.0
GRACE_S = 60.0
"""A head that is away for less is taken for a slow one."""

Nodes = Iterable[Mapping[str, Any]]


class ClusterLost(RuntimeError):
    """The node that every slot has its place on is dead."""


@contextlib.contextmanager
def cluster_watch(
    over: threading.Event,
    nodes: Callable[[], Nodes] | None = None,
    period_s: float = PERIOD_S,
    grace_s: float = GRACE_S,
) -> Iterator[None]:
    """While inside, looks for a living head every some seconds; without one for `grace_s` it sets `over`.

    Leaving raises ClusterLost then, unless something else went wrong first.
    """
    lost = threading.Event()

    def watch(done: threading.Event) -> None:
        seen = time.monotonic()
        while not lost.is_set() and not done.wait(period_s):
            if _head_lives(nodes or ray_nodes):
                seen = time.monotonic()
            elif time.monotonic() - seen > grace_s:
                lost.set()
                over.set()

    with background(watch):
        yield
    if lost.is_set():
        line = "cluster lost: its head node does not live any more; see /tmp/ray/session_latest/logs/raylet.out"
        raise ClusterLost(f"{line}: runs are given back, the same command continues")


def _head_lives(nodes: Callable[[], Nodes]) -> bool:
    try:
        return any(node["Alive"] and HEAD in node["Resources"] for node in nodes())
    except Exception:  # a Ray that does not answer is as good as none
        return False


def ray_nodes() -> Nodes:
    """The nodes of this process's Ray, dead ones too; none where it has left its cluster."""
    import ray

    return ray.nodes() if ray.is_initialized() else []
