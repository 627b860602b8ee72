"""Whose an error is: the run's, which would fail anywhere, or the machine's, where another machine does better."""

import errno
from typing import Literal

from cse_train.reading import MachineFault, chain, is_of_full_card, message_of

Fault = Literal["run", "machine", "echo"]
"""`echo`: the error only says that another process is gone: a rank, or the mailbox of the ranks."""

ECHOES = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe", "processgroup")
"""Words in the message of an echo."""
OF_THE_RUN = ("tried to allocate", "device-side assert")
"""Words of CUDA errors that the run would meet on any card: it takes too much memory, or an index is out of range."""
OF_THE_MACHINE = (
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
"""Words in the message of an error of a card, its driver or a mount (https://docs.nvidia.com/deploy/xid-errors)."""
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
"""What a disk or a mount that has gone away answers; a file that is not there (ENOENT) is the run's."""


def fault_of(error: BaseException) -> Fault:
    """Whose an error of a rank is, by the error and by what it was raised from."""
    if isinstance(error, MachineFault):
        return "machine"
    texts = [message_of(each).lower() for each in chain(error)]
    if any(words in text for text in texts for words in OF_THE_RUN):
        return "run"
    if any(isinstance(each, OSError) and each.errno in MOUNT_ERRNOS for each in chain(error)):
        return "machine"
    runtime = [message_of(each).lower() for each in chain(error) if isinstance(each, RuntimeError | OSError)]
    if any(words in text for text in runtime for words in OF_THE_MACHINE):
        return "machine"
    echo = isinstance(error, RuntimeError) and any(words in texts[0] for words in ECHOES)
    return "echo" if echo or any(_comes_from_ray(each) for each in chain(error)) else "run"


def is_card_full(error: BaseException) -> bool:
    """Whether an error of a rank says that its card has no memory left: on a shared card a neighbour may have it."""
    return any(is_of_full_card(each) for each in chain(error))


def _comes_from_ray(error: BaseException) -> bool:
    """Whether Ray could not reach a process or a node; an error that a task raised is not Ray's own.

    By name, because jobs and events are described without an import of Ray.
    """
    bases = {base.__name__ for base in type(error).__mro__ if base.__module__ == "ray.exceptions"}
    return "RayError" in bases and "RayTaskError" not in bases
