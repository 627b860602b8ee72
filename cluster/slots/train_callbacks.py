"""Ray Train callbacks of a worker group: free the room of a failed start (Ray Train 2.60), and save at SIGTERM."""

import signal
from typing import Any

from cluster.runtime.ray_internals import ControllerCallback, WorkerCallback, WorkerGroupCallback
from cluster.slots.worker import END_SIGNALS


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


class SavesFirst(WorkerCallback):  # type: ignore[misc]
    """Passes SIGTERM of a rank's process, which a preempted machine receives, on to `worker.serve`.

    Ray answers SIGTERM in the process's main thread with an exit that runs none of this project's code, while Ray Train
    runs the rank's code in another thread, and Python delivers signals to main threads only.
    """

    def after_init_train_context(self) -> None:
        """Installs the signal handler in the rank's main thread, before `serve` begins in its own."""
        signal.signal(signal.SIGTERM, lambda number, frame: END_SIGNALS.put(number))
