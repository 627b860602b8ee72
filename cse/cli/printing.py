"""Output streams that keep control characters, endless lines and endless lists off the terminal."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST_LINE = 2_000
"""Maximum number of characters of one problem line, which may quote a user's file."""
LINES = 40
"""Maximum number of problem lines that are listed; the rest are counted."""
CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, changes of text direction and lone surrogates; not tab and not newline."""


COLOUR = re.compile("(\x1b\\[(?:[0124]|3[1-6])(?:;(?:[124]|3[1-6]))*m)")
"""ANSI codes for bold, dim, underlined and six colours, as cse-search's own tables use them. None of them hides or
moves text, or makes the terminal answer."""


def plain(text: str) -> str:
    """Replaces every control character in a text, newline and tab excepted."""
    return CONTROL_BUT_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_styled(text: str) -> str:
    """Replaces control characters as `plain` does, but keeps colour codes."""
    parts = COLOUR.split(text)
    return "".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


def problem_lines(lines: Sequence[str]) -> list[str]:
    """Returns problem lines for stderr: each plain and on one line; long ones lose their middle."""
    problems = [plain(" ".join(_cut(line).splitlines())) for line in lines[:LINES]]
    return [*problems, f"and {len(lines) - LINES} more"] if len(lines) > LINES else problems


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE * 3 // 4]} ... {line[-LONGEST_LINE // 4 :]}"


class LastingStream:
    """Text stream that drops output once its reader is gone, so that a sweep goes on after `| head`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._until_closed():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._until_closed():
            self._stream.flush()

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _until_closed(self) -> Iterator[None]:
        """Redirects the stream to the null device if writing raises BrokenPipeError."""
        try:
            yield
        except BrokenPipeError:
            _lead_nowhere(self._stream.fileno())


class PlainStream(LastingStream):
    """Text stream that replaces control characters except colour codes, and drops output once its reader is gone."""

    def write(self, text: str) -> int:
        super().write(escape_styled(text) if "\x1b" in text else plain(text))
        return len(text)


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == number:  # the closed stream's own number was free, and children must inherit it
        os.set_inheritable(number, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Makes stdout plain, and both output streams survive a closed pipe, within the block.

    A stream that the caller closed (`>&-`) is replaced by the null device: otherwise the next file opened, such as a
    ledger, would get its file descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _lead_nowhere(number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf8", closefd=False))
    # What Rich moves on the screen passes through stderr; its texts are plain before.
    with contextlib.redirect_stdout(PlainStream(sys.stdout)), contextlib.redirect_stderr(LastingStream(sys.stderr)):
        try:
            yield
        finally:
            sys.stdout.flush()
