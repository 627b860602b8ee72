"""Turns errors of libraries that read a user's file into one line with the file and a remedy."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_train.fields import ConfigError

REASON_CHARACTERS = 160
"""Largest number of characters of a library's message that a message of cse-search repeats."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Pattern of control characters, line and paragraph ends, changes of text direction, and lone surrogates."""

CARD_FULL = (
    "cuda out of memory",
    "hip out of memory",
    "cuda error: out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cuda failure 'out of memory'",
    "cuda failure 2 'out of memory'",
)
"""Phrases of torch, CUDA, its libraries and NCCL for a GPU without free memory, whichever process took it."""


def plain_text(text: str) -> str:
    """Returns a text on one line, with a blank for each run of control characters."""
    return CONTROL.sub(" ", text)


def message_of(error: BaseException) -> str:
    """Returns an error's message; an empty text if the error's own code fails to give it."""
    try:
        return str(error)
    except Exception:
        return ""


def first_line(error: BaseException) -> str:
    """Returns an error's message as one short line without control characters; its type's name if it has no message."""
    lines = (plain_text(line).strip() for line in message_of(error)[:10_000].splitlines())
    text = next((line for line in lines if line), "") or type(error).__name__
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 3] + "..."


class WholeReason(Exception):
    """Error whose message is the whole reason: a report of it leaves out where it was raised."""


class MachineFault(WholeReason, RuntimeError):
    """A run was stopped by its machine; another machine may finish it."""


@contextmanager
def reading(rule: str, place: object, remedy: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Turns errors of `kinds` inside the block into ConfigError: `rule: place (first line of the message); remedy`.

    ConfigError passes through, as do the system's own errors (no rights, no space), which name their file, and errors
    of too little memory.
    """
    try:
        yield
    except ConfigError:
        raise
    except kinds as error:
        if not is_of_content(error):
            raise
        raise ConfigError([f"{rule}: {place} ({first_line(error)}); {remedy}"]) from error


def is_of_content(error: BaseException) -> bool:
    """Returns True if an error comes from a file's content, not from the machine: its disk, rights or memory."""
    of_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
    return not of_system and not is_out_of_memory(error)  # EINVAL: a damaged archive names a place before its begin


def is_out_of_memory(error: BaseException) -> bool:
    """Returns True if an error says that memory is used up: in Python, on a GPU, or in torch's allocator on the CPU."""
    kinds = {"MemoryError", "OutOfMemoryError"} & {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds) or is_of_full_card(error) or "can't allocate memory" in message_of(error)


def is_of_full_card(error: BaseException) -> bool:
    """Returns True if an error says that a GPU has no memory left."""
    return isinstance(error, RuntimeError) and any(words in message_of(error).lower() for words in CARD_FULL)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and its causes, each once."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def require_size(path: Path, limit: int, remedy: str) -> None:
    """Raises ConfigError if a file that is read as a whole has more than `limit` bytes."""
    if path.is_file() and path.stat().st_size > limit:
        raise ConfigError([f"too large: {path} has {path.stat().st_size} bytes, {limit} at most; {remedy}"])
