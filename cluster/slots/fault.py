"""Describes errors of a rank in one line, and tells those of the run from those of its machine."""

import errno
import os
import traceback
from collections.abc import Mapping

from cluster.runtime.code_version import OUR_PACKAGES
from cluster.slots.group_api import ErrorEvent, Fault
from cse_train.fields import ConfigError, Scalar
from cse_train.plugins.registry import LIBRARY_PATHS
from cse_train.reading import (
    MachineFault,
    WholeReason,
    chain,
    first_line,
    is_of_full_card,
    is_out_of_memory,
    message_of,
)

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


class OtherCode(RuntimeError):
    """Raised where this process would run other code of a plug-in than the driver; the message names the plug-in."""


class WrongInputs(ConfigError):
    """Raised where an input of a run is absent or differs from the plan."""

    def __init__(self, lines: Mapping[str, str], settings: Mapping[str, Scalar]) -> None:
        super().__init__(dict.fromkeys(lines.values()))
        self.settings = {name: settings[name] for name in lines}


def error_event(error: BaseException, rank: int = 0) -> ErrorEvent:
    """Describes an exception in one line, with its cause; the traceback is in the rank's log."""
    text = message_of(error).strip() or type(error).__name__
    if isinstance(error, OtherCode):
        return ErrorEvent(cause="setup", reason=text, rank=rank)
    inputs = error.settings if isinstance(error, WrongInputs) else {}
    reason, full = _one_line(error, text), any(is_of_full_card(each) for each in chain(error))
    return ErrorEvent(cause=fault_of(error), reason=reason, card_full=full, rank=rank, inputs=inputs)


def _one_line(error: BaseException, text: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full{f': path={error.filename}' if error.filename else ''}; free some space and run again"
    if is_out_of_memory(error):
        return f"out of memory: {first_line(error)}; lower train.batch_size, or give --max-concurrent fewer runs"
    first = "; ".join(line.strip() for line in text.splitlines() if line.strip())[:500]
    frames = places(error)
    own_message = isinstance(error, ValueError) and (not frames or _is_message(error))
    if own_message or isinstance(error, WholeReason) or type(error).__name__ == "Diverged":
        return first
    reason = first if type(error).__name__ == first else f"{type(error).__name__}: {first}"
    return f"{reason} ({', '.join(frames)})" if frames else reason


TRACEBACK_FRAMES = 3
"""Number of traceback frames that an error's reason names; the log has all."""


def places(error: BaseException) -> list[str]:
    """Returns `FILE:LINE in FUNCTION` of the last frames, outside of libraries if possible, innermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not any(part in frame.filename for part in LIBRARY_PATHS)] or list(frames)
    return [
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in reversed(users[-TRACEBACK_FRAMES:])
    ]


def _is_message(error: BaseException) -> bool:
    """Tells whether the error was raised by this project's code outside methods, with a message for a person."""
    if type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return True
    raised = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    return any(name.partition(".")[0] in OUR_PACKAGES and not name.startswith("cse_train.methods.") for name in raised)


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


def _comes_from_ray(error: BaseException) -> bool:
    """Tells whether Ray could not reach a process or a node; errors that a task itself raised do not count.

    Classes are compared by name, because jobs and events are described without an import of Ray.
    """
    bases = {base.__name__ for base in type(error).__mro__ if base.__module__ == "ray.exceptions"}
    return "RayError" in bases and "RayTaskError" not in bases
