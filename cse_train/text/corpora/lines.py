"""The lines of a text file that people hand in: UTF-8, plain or packed, none of them endless."""

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
"""Of one line, at most."""


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """The file's lines with their ends, without the mark that spreadsheets put before UTF-8.

    What can be wrong with its bytes becomes one line for the user.
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
    """The lines, none longer than LINE_CHARACTERS: a small packed file can hold one that fills the memory."""
    while line := lines.readline(LINE_CHARACTERS + 1):
        if len(line) > LINE_CHARACTERS:
            raise ConfigError([f"line too long: {path} has one of more than {LINE_CHARACTERS} characters; break it up"])
        yield line
