"""What people hand in: whatever a library raises while it reads a file becomes one line with the file and a remedy."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_train.fields import ConfigError

REASON_CHARACTERS = 160
"""Characters of a library's message that stand in ours."""
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Escapes that a terminal would obey, ends of lines and paragraphs, changes of direction, and halves of characters."""

CARD_FULL = (
    "cuda out of memory",
    "hip out of memory",
    "cuda error: out of memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "cuda failure 'out of memory'",
    "cuda failure 2 'out of memory'",
)
"""Words of torch, CUDA, its libraries and NCCL where a card has no memory left, whoever took it."""


def plain_text(text: str) -> str:
    """A foreign text on one line, with a blank for what is no visible character."""
    return CONTROL.sub(" ", text)


def message_of(error: BaseException) -> str:
    """What an error says; nothing where its own code fails to say it."""
    try:
        return str(error)
    except Exception:
        return ""


def first_line(error: BaseException) -> str:
    """An error's message on one short line without control characters; its type where it says nothing."""
    lines = (plain_text(line).strip() for line in message_of(error)[:10_000].splitlines())
    text = next((line for line in lines if line), "") or type(error).__name__
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 3] + "..."


class WholeReason(Exception):
    """An error whose message is the whole reason: where it was raised says nothing more."""


class MachineFault(WholeReason, RuntimeError):
    """What stopped a run is its machine's doing, and another machine may do better."""


@contextmanager
def reading(what: str, place: object, remedy: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Within it, errors of `kinds` become ConfigError: `what: place (first line of the message); remedy`.

    ConfigError is let through, as are the system's own errors (no rights, no space), which name their file, and too
    little memory.
    """
    try:
        yield
    except ConfigError:
        raise
    except kinds as error:
        if not is_of_content(error):
            raise
        raise ConfigError([f"{what}: {place} ({first_line(error)}); {remedy}"]) from error


def is_of_content(error: BaseException) -> bool:
    """Whether an error comes from the file's content, and not from the machine: its disk, rights or memory."""
    of_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
    return not of_system and not is_out_of_memory(error)  # EINVAL: a damaged archive names a place before its begin


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is used up: Python's, that on a GPU, or torch's allocator's on the CPU."""
    named = {"MemoryError", "OutOfMemoryError"} & {kind.__name__ for kind in type(error).__mro__}
    return bool(named) or is_of_full_card(error) or "can't allocate memory" in message_of(error)


def is_of_full_card(error: BaseException) -> bool:
    """Whether an error says that a GPU has no memory left."""
    return isinstance(error, RuntimeError) and any(words in message_of(error).lower() for words in CARD_FULL)


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, each once."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def require_size(path: Path, most: int, remedy: str) -> None:
    """Raise ConfigError for a file of more than `most` bytes, which is read as a whole."""
    if path.is_file() and path.stat().st_size > most:
        raise ConfigError([f"too large: {path} has {path.stat().st_size} bytes, {most} at most; {remedy}"])
