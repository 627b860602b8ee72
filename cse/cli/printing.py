"""What reaches a terminal: no control characters, no endless lines, no endless lists."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST_LINE = 2_000
"""Characters of one problem, at most: a value in it may be a file's."""
LINES = 40
"""Problems that are listed; the others are counted."""
CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it, changes of direction, and halves of characters; not tab and new line."""


COLOUR = re.compile("(\x1b\\[(?:[0124]|3[1-6])(?:;(?:[124]|3[1-6]))*m)")
"""Bold, dim, underlined and the six colours, which our own tables have, alone and together. Nothing is hidden, moved or
answered by them."""


def plain(text: str) -> str:
    """The text as a terminal may have it."""
    return CONTROL_BUT_LINES.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_styled(text: str) -> str:
    """The same of a text that may be coloured."""
    parts = COLOUR.split(text)
    return "".join(part if place % 2 else plain(part) for place, part in enumerate(parts))


def problem_lines(lines: Sequence[str]) -> list[str]:
    """Lines for stderr: each plain and of one line; long ones lose their middle and keep place and remedy."""
    shown = [plain(" ".join(_cut(line).splitlines())) for line in lines[:LINES]]
    return [*shown, f"and {len(lines) - LINES} more"] if len(lines) > LINES else shown


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE * 3 // 4]} ... {line[-LONGEST_LINE // 4 :]}"


class LastingStream:
    """A text stream that drops what nobody reads any more, and is the stream itself otherwise."""

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
        """Once its reader is gone, as `head` after some lines, it leads nowhere: a sweep goes on to its end."""
        try:
            yield
        except BrokenPipeError:
            _lead_nowhere(self._stream.fileno())


class PlainStream(LastingStream):
    """The same, which writes everything plain but for colours."""

    def write(self, text: str) -> int:
        super().write(escape_styled(text) if "\x1b" in text else plain(text))
        return len(text)


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Everything that is printed within it is plain but for colours.

    A stream that the caller closed (`>&-`) leads nowhere: the next file to be opened, a ledger, would get its number.
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
