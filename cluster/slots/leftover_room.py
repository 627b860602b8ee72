"""Ray Train callback that frees the placement group of a worker group whose start failed half way (Ray Train 2.60)."""

from typing import Any

from cluster.runtime.ray_internals import ControllerCallback, WorkerGroupCallback


class LeftoverRoom(ControllerCallback, WorkerGroupCallback):  # type: ignore[misc]
    """Removes the placement group that Ray Train's controller created, when the controller ends.

    Where a rank dies while the process group is set up, the controller has no worker group yet that it could shut down.
    The placement group would keep its CPUs and GPUs for as long as the driver lives, and take others on another node
    when its own is lost.
    """

    def __init__(self) -> None:
        self._placement: Any = None

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._placement = worker_group.get_worker_group_state().placement_group_handle

    async def before_controller_shutdown(self) -> None:
        if self._placement is not None:
            self._placement.shutdown()
