"""Whether the cluster under a sweep is still there: Tune would wait for ever for a head that does not come back."""

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator

from cluster.runtime.background import background
from cluster.runtime.ray_internals import HEAD_RESOURCE, LOG_FOLDER, session_folder
from cse_train.fields import Json

HEAD_PERIOD_S = 5.0
HEAD_GRACE_S = 60.0
"""A head that is away for less is taken for a slow one."""
LOGS_VARIABLE = "CSE_RAY_LOGS"
"""Set by what removes the session's folder when a cluster ends: where it copies Ray's logs to, if something failed."""


class ClusterLost(RuntimeError):
    """The node that every slot has its place on is dead."""


@contextlib.contextmanager
def cluster_watch(over: threading.Event) -> Iterator[None]:
    """While inside, looks for a living head every some seconds; without one for GRACE_S it sets `over`.

    Leaving raises ClusterLost then, unless something else went wrong first.
    """
    lost, logs = threading.Event(), logs_place()

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
        line = f"cluster lost: its head node does not live any more; Ray's logs: {logs}"
        raise ClusterLost(f"{line}; runs are given back, the same command continues")


def logs_place() -> str:
    """HOST:FOLDER of the logs of this process's Ray, behind the folder to which they are copied; empty without Ray."""
    folder = session_folder()
    if folder is None:
        return ""
    place, kept = f"{platform.node()}:{folder / LOG_FOLDER}", os.environ.get(LOGS_VARIABLE)
    return f"{kept}, else {place}" if kept else place


def _head_lives() -> bool:
    try:
        return any(node["Alive"] and HEAD_RESOURCE in node["Resources"] for node in ray_nodes())
    except Exception:  # a Ray that does not answer is as good as none
        return False


def ray_nodes() -> list[Json]:
    """The nodes of this process's Ray, dead ones too; none where it has left its cluster."""
    import ray

    return ray.nodes() if ray.is_initialized() else []
