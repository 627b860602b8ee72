"""Whether the cluster under a sweep is still there: Tune would wait for ever for a head that does not come back."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from cluster.runtime.resources import HEAD

PERIOD_S = 5.0
GRACE_S = 60.0
"""A head that is away for less is taken for a slow one."""

Nodes = Iterable[Mapping[str, Any]]


class ClusterLost(RuntimeError):
    """The node that every slot has its place on is dead."""


class ClusterWatch:
    """While inside, looks for a living head every some seconds; without one for `grace_s` it sets `over`.

    Leaving raises ClusterLost then, unless something else went wrong first.
    """

    def __init__(
        self,
        over: threading.Event,
        nodes: Callable[[], Nodes] | None = None,
        period_s: float = PERIOD_S,
        grace_s: float = GRACE_S,
    ) -> None:
        self._over, self._nodes, self._period_s, self._grace_s = over, nodes or ray_nodes, period_s, grace_s
        self._left, self._lost = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "ClusterWatch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._left.set()
        if self._lost and error is None:
            line = "cluster lost: its head node does not live any more; see /tmp/ray/session_latest/logs/raylet.out"
            raise ClusterLost(f"{line}: runs are given back, the same command continues")

    def _watch(self) -> None:
        seen = time.monotonic()
        while not self._left.wait(self._period_s):
            if self._alive():
                seen = time.monotonic()
            elif time.monotonic() - seen > self._grace_s:
                self._lost = True
                self._over.set()
                return

    def _alive(self) -> bool:
        try:
            return any(node["Alive"] and HEAD in node["Resources"] for node in self._nodes())
        except Exception:  # a Ray that does not answer is as good as none
            return False


def ray_nodes() -> Nodes:
    """The nodes of this process's Ray, dead ones too; none where it has left its cluster."""
    import ray

    return ray.nodes() if ray.is_initialized() else []
