"""Whether the cluster under a sweep is still there: Tune would wait for ever for a head that does not come back."""

import contextlib
import threading
import time
from collections.abc import Iterator

from cluster.runtime.background import background
from cluster.runtime.ray_internals import HEAD_RESOURCE
from cse_train.fields import Json

HEAD_PERIOD_S = 5.0
HEAD_GRACE_S = 60.0
"""A head that is away for less is taken for a slow one."""


class ClusterLost(RuntimeError):
    """The node that every slot has its place on is dead."""


@contextlib.contextmanager
def cluster_watch(over: threading.Event) -> Iterator[None]:
    """While inside, looks for a living head every some seconds; without one for GRACE_S it sets `over`.

    Leaving raises ClusterLost then, unless something else went wrong first.
    """
    lost = threading.Event()

    def watch(done: threading.Event) -> None:
        seen = time.monotonic()
        while not lost.is_set() and not done.wait(HEAD_PERIOD_S):
            if _head_lives():
                seen = time.monotonic()
            elif time.monotonic() - seen > HEAD_GRACE_S:
                lost.set()
                over.set()

    with background(watch):
        yield
    if lost.is_set():
        line = "cluster lost: its head node does not live any more; see /tmp/ray/session_latest/logs/raylet.out"
        raise ClusterLost(f"{line}: runs are given back, the same command continues")


def _head_lives() -> bool:
    try:
        return any(node["Alive"] and HEAD_RESOURCE in node["Resources"] for node in ray_nodes())
    except Exception:  # a Ray that does not answer is as good as none
        return False


def ray_nodes() -> list[Json]:
    """The nodes of this process's Ray, dead ones too; none where it has left its cluster."""
    import ray

    return ray.nodes() if ray.is_initialized() else []
