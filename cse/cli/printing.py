"""What reaches a terminal: no control characters, no endless lines, no endless lists."""

import contextlib
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


COLOUR = re.compile("(\x1b\\[(?:[0-2]|1;3[1-6]|3[1-6])m)")
"""Bold, dim and the six colours, which our own tables have. Nothing is hidden, moved or answered by them."""


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


class PlainStream:
    """A text stream that writes everything plain but for colours, and is the stream itself otherwise."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escape_styled(text) if "\x1b" in text else plain(text))
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Everything that is printed within it is plain but for colours."""
    with contextlib.redirect_stdout(PlainStream(sys.stdout)):
        yield
