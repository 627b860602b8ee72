"""SIGTERM in a rank, of a machine that is taken back for one, is noted where nothing ends at once.

Ray answers it in the process's main thread with an exit that runs nothing of ours, while Ray Train has the rank's code
in another thread, which may take no signal.
"""

import signal

from cluster.runtime.ray_internals import WorkerCallback
from cluster.slots.worker import ASKED_TO_END


class SavesFirst(WorkerCallback):  # type: ignore[misc]
    """Lets `worker.serve` answer SIGTERM."""

    def after_init_train_context(self) -> None:
        """In the rank's main thread, before `serve` begins in its own."""
        signal.signal(signal.SIGTERM, lambda number, frame: ASKED_TO_END.put(number))
