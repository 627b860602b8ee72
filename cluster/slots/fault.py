"""Tells errors of a run, which would fail on any machine, from errors of its machine, where another may do better."""

import errno
from typing import Literal

from cse_train.reading import MachineFault, chain, is_of_full_card, message_of

Fault = Literal["run", "machine", "echo"]
"""Cause of a rank's error: `run`, `machine`, or `echo`.

`echo`: the error only says that another process is gone, a rank or the ranks' mailbox.
"""

ECHO_WORDS = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe", "processgroup")
"""Lower-case words in the message of an echo, an error that only says that another process is gone."""
RUN_ERROR_WORDS = ("tried to allocate", "device-side assert")
"""Lower-case words of CUDA errors that a run would meet on any GPU: out of memory, or an index out of range."""
MACHINE_ERROR_WORDS = (
    "cuda error",
    "cudnn error",
    "cudnn_status",
    "cublas_status",
    "cusolver error",
    "hip error",
    "uncorrectable ecc",
    "cuda driver",
    "no cuda gpus are available",
    "stale file handle",
    "transport endpoint is not connected",
)
"""Lower-case words in errors of a GPU, its driver or a mount (https://docs.nvidia.com/deploy/xid-errors)."""
MOUNT_ERRNOS = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.ENODEV,
        errno.ENXIO,
        errno.ENOTCONN,
        errno.EREMOTEIO,
        errno.EHOSTDOWN,
        errno.EROFS,
    }
)
"""Error numbers of a disk or mount that has gone away; an absent file (ENOENT) is the run's own error."""


def fault_of(error: BaseException) -> Fault:
    """Classifies an error of a rank by its type and messages, and by those of its causes."""
    if isinstance(error, MachineFault):
        return "machine"
    texts = [message_of(each).lower() for each in chain(error)]
    # Before MACHINE_ERROR_WORDS: these messages are CUDA errors too, and the run would meet them on any machine.
    if any(words in text for text in texts for words in RUN_ERROR_WORDS):
        return "run"
    if any(isinstance(each, OSError) and each.errno in MOUNT_ERRNOS for each in chain(error)):
        return "machine"
    runtime = [message_of(each).lower() for each in chain(error) if isinstance(each, RuntimeError | OSError)]
    if any(words in text for text in runtime for words in MACHINE_ERROR_WORDS):
        return "machine"
    echo = isinstance(error, RuntimeError) and any(words in texts[0] for words in ECHO_WORDS)
    return "echo" if echo or any(_comes_from_ray(each) for each in chain(error)) else "run"


def is_card_full(error: BaseException) -> bool:
    """Tells whether an error of a rank says that its GPU is out of memory; on a shared GPU a neighbour may have it."""
    return any(is_of_full_card(each) for each in chain(error))


def _comes_from_ray(error: BaseException) -> bool:
    """Tells whether Ray could not reach a process or a node; errors that a task itself raised do not count.

    Classes are compared by name, because jobs and events are described without an import of Ray.
    """
    bases = {base.__name__ for base in type(error).__mro__ if base.__module__ == "ray.exceptions"}
    return "RayError" in bases and "RayTaskError" not in bases
