"""Ray Train callback that lets a rank save its run at SIGTERM, which a preempted machine receives.

Ray answers SIGTERM in the process's main thread with an exit that runs none of this project's code, while Ray Train
runs the rank's code in another thread, and Python delivers signals to main threads only.
"""

import signal

from cluster.runtime.ray_internals import WorkerCallback
from cluster.slots.worker import END_SIGNALS


class SavesFirst(WorkerCallback):  # type: ignore[misc]
    """Passes SIGTERM of a rank's process on to `worker.serve`."""

    def after_init_train_context(self) -> None:
        """Installs the signal handler in the rank's main thread, before `serve` begins in its own."""
        signal.signal(signal.SIGTERM, lambda number, frame: END_SIGNALS.put(number))
