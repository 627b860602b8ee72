"""Reader of the lines of a user's text file: UTF-8, plain or packed by gzip, with a bound on the length of a line."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from cse_train.fields import ConfigError
from cse_train.reading import reading
from cse_train.user_files import PACKED_SUFFIX

LINE_CHARACTERS = 10_000_000
"""Most characters that one line of a text file may have."""


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """Opens a text file, plain or .gz, as an iterator of its lines with their ends, without a byte order mark.

    Raises ConfigError, one line, for truncated data, for text that is not UTF-8 and for a line that is too long.
    """
    opened: Any = gzip.open if path.name.lower().endswith(PACKED_SUFFIX) else open
    try:
        with (
            reading("truncated data", path, "fetch it again", (EOFError, gzip.BadGzipFile, zlib.error)),
            opened(path, "rt", encoding="utf-8-sig", newline="") as lines,
        ):
            yield _lines(lines, path)
    except UnicodeDecodeError as error:
        raise ConfigError([f"not UTF-8: {path} ({error.reason}); convert it, for example with iconv"]) from error


def _lines(lines: TextIO, path: Path) -> Iterator[str]:
    """Yields lines of at most LINE_CHARACTERS characters: a small packed file can hold one that fills the memory."""
    while line := lines.readline(LINE_CHARACTERS + 1):
        if len(line) > LINE_CHARACTERS:
            raise ConfigError([f"line too long: {path} has one of more than {LINE_CHARACTERS} characters; break it up"])
        yield line
