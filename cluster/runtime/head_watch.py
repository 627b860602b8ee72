"""Watches the Ray head under a sweep: Tune alone would wait for ever for a head that does not come back."""

import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator

from cluster.runtime.background import background
from cluster.runtime.ray_internals import HEAD_RESOURCE, LOG_FOLDER, session_folder
from cse_train.fields import Json

HEAD_POLL_SECONDS = 5.0
HEAD_GRACE_SECONDS = 60.0
"""Seconds that a head may be missing before the cluster counts as lost; shorter absences are taken for slowness."""
LOGS_VARIABLE = "CSE_RAY_LOGS"
"""Environment variable with the folder to which Ray's logs are copied when a cluster ends after a failure.

Set by the launcher that removes the session's folder (a Slurm job script, for one).
"""


class ClusterLost(RuntimeError):
    """Raised when the head node of the Ray cluster is dead, and with it every slot."""


@contextlib.contextmanager
def cluster_watch(over: threading.Event) -> Iterator[None]:
    """Polls for a living Ray head inside the block, and sets `over` after HEAD_GRACE_SECONDS without one.

    Leaving the block then raises ClusterLost, unless another exception is already on its way.
    """
    head_lost, logs = threading.Event(), logs_place()

    def watch(done: threading.Event) -> None:
        last_seen = time.monotonic()
        while not head_lost.is_set() and not done.wait(HEAD_POLL_SECONDS):
            if _head_lives():
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > HEAD_GRACE_SECONDS:
                head_lost.set()
                over.set()

    with background(watch):
        yield
    if head_lost.is_set():
        line = f"cluster lost: its head node does not live any more; Ray's logs: {logs}"
        raise ClusterLost(f"{line}; runs are given back, the same command continues")


def logs_place() -> str:
    """Returns HOST:FOLDER of this process's Ray logs, after the folder of their copies if one is set.

    Empty without Ray.
    """
    folder = session_folder()
    if folder is None:
        return ""
    place, copies = f"{platform.node()}:{folder / LOG_FOLDER}", os.environ.get(LOGS_VARIABLE)
    return f"{copies}, else {place}" if copies else place


def _head_lives() -> bool:
    try:
        return any(node["Alive"] and HEAD_RESOURCE in node["Resources"] for node in ray_nodes())
    except Exception:  # a Ray that does not answer is as good as none
        return False


def ray_nodes() -> list[Json]:
    """Returns Ray's records of the cluster's nodes, dead nodes included; empty where Ray is not connected."""
    import ray

    return ray.nodes() if ray.is_initialized() else []
