"""A bundle as a stream: checked as a whole before its first record is handed out, and never unpacked beyond a limit."""

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.bundles.errors import BundleError
from analysis.bundles.header import Header, read_header
from analysis.ledger import schema
from analysis.ledger.exchange.columns import Record, place, problem

LIMIT = 10**9
"""Bytes of an unpacked bundle: some ten thousand runs with their pairs."""
LINE = 64 * 10**6
"""Bytes of one line."""
AGAIN = "fetch it again, or have it made again"


class Bundle:
    """One file that was read once and is what its header says. BundleError in one line, OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = self._checked()

    def records(self) -> Iterator[Record]:
        """Each record that a ledger can take, in order; BundleError names the line of one that it cannot."""
        before: tuple[Any, ...] = ()
        for number, line in enumerate(self._lines(), start=1):
            if number == 1:
                continue
            record = self._parsed(number, line)
            if what := problem(record):
                raise BundleError(f"wrong record: file={self.path} line={number} {what}; {AGAIN}")
            after = place(record)
            if before >= after:
                raise BundleError(f"wrong record: file={self.path} line={number} does not ascend by its key; {AGAIN}")
            before = after
            yield record

    def _checked(self) -> Header:
        lines = self._lines()
        first = next(lines, b"")
        try:
            header = read_header(self.path, json.loads(first))
        except (ValueError, RecursionError) as error:
            if isinstance(error, BundleError):
                raise
            raise BundleError(f"no bundle: file={self.path} has no header; cse bundle writes one") from error
        digest, count = hashlib.sha256(), 0
        for line in lines:
            digest.update(line)
            count += 1
        if digest.hexdigest() != header.sha256:
            raise BundleError(
                f"damaged bundle: file={self.path} sha256={digest.hexdigest()[:12]}…, "
                f"its header says {header.sha256[:12]}…; {AGAIN}"
            )
        said = sum(header.counts.values())
        if count != said:
            raise BundleError(f"damaged bundle: file={self.path} records={count}, its header says {said}; {AGAIN}")
        return header

    def _lines(self) -> Iterator[bytes]:
        left = LIMIT
        try:
            with gzip.open(self.path, "rb") as file:
                while line := file.readline(LINE + 1):
                    left -= len(line)
                    if len(line) > LINE or left < 0:
                        raise BundleError(
                            f"bundle too large: file={self.path} unpacks to more than {LIMIT:,} bytes, or a line of it "
                            f"to more than {LINE:,}; bundle fewer sweeps"
                        )
                    yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if left == LIMIT and isinstance(error, gzip.BadGzipFile):
                raise BundleError(f"no bundle: file={self.path} is no gzip file; cse bundle writes one") from error
            raise BundleError(f"damaged bundle: file={self.path} ends early or is broken; {AGAIN}") from error

    def _parsed(self, number: int, line: bytes) -> Any:
        try:
            record = json.loads(line, parse_constant=_refused, parse_float=_finite)
            if b"\\u" in line:  # an escape may stand for half a character, which no database takes
                schema.dumps(record).encode()
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, _NotFinite) else "is no JSON"
            raise BundleError(f"wrong record: file={self.path} line={number} {what}; {AGAIN}") from error
        return record


class _NotFinite(ValueError):
    """A number that JSON does not have, or that overflows."""


def _refused(text: str) -> Any:
    raise _NotFinite(f"has the number {text}, which is not finite")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refused(text)
