"""Format and reader of bundles, the files of `cse bundle`, which are checked as those of a stranger.

A bundle is compressed JSON Lines. The first line is the header: `format`, `version`, how many records of each kind
follow, and the SHA-256 of all bytes after this line. Every other line is a record in canonical JSON. A bundle is read
as a stream: the whole file is checked before its first record, and its size is limited.
"""

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.ledger import schema
from analysis.ledger.exchange.columns import RECORD_KINDS, Record, place, problem

BUNDLE_FORMAT = "cse-search bundle"
BUNDLE_VERSION = 1
HEADER_NAMES = {"format", "version", "counts", "sha256"}
LARGEST_UNPACKED = 10**9
"""Largest size in bytes of an unpacked bundle: some ten thousand runs with their pairs."""
LONGEST_RECORD = 64 * 10**6
"""Largest size of one line in bytes."""
BYTES_AT_ONCE = 2**20
"""Bytes that are hashed at once. Reading by line would be as slow for each line of a file of empty lines."""
SMALL_BUNDLE, RATIO = 16 * 10**6, 200
"""Bytes to which every file may unpack, and the ratio of unpacked to packed size allowed beyond; 10 to 30 is usual."""
DEEPEST = 40
"""Largest nesting of lists and objects: this project's records have 6, and Python's recursion is limited."""
REFETCH_ADVICE = "fetch it again, or have it made again"


class BundleError(ValueError):
    """Bundle that cannot be imported or written; the message is one line with the rule, `name=value` and what to do."""


@dataclass(frozen=True)
class Header:
    """Number of records and checksum that a bundle states in its first line."""

    counts: Mapping[str, int]
    """Kind of record -> number of records."""
    sha256: str
    """Checksum of all bytes after the header's line."""


class Bundle:
    """Bundle whose checksum and number of records were verified. Raises BundleError in one line, or OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = self._check()

    def records(self) -> Iterator[Record]:
        """Yields each record in order. Raises BundleError, with the line, for a record that a ledger cannot take."""
        previous_key: tuple[Any, ...] = ()
        for number, line in enumerate(self._read(LONGEST_RECORD + 1, lines=True), start=1):
            if number == 1:
                continue
            record = self._parse(number, line)
            if fault := problem(record):
                raise BundleError(f"wrong record: file={self.path} line={number} {fault}; {REFETCH_ADVICE}")
            key = place(record)
            if previous_key >= key:
                raise BundleError(
                    f"wrong record: file={self.path} line={number} does not ascend by its key; {REFETCH_ADVICE}"
                )
            previous_key = key
            yield record

    def _check(self) -> Header:
        parts = self._read(BYTES_AT_ONCE)
        first = next(parts, b"")
        try:
            content = json.loads(first)
        except (ValueError, RecursionError) as error:
            raise BundleError(f"no bundle: file={self.path} has no header; cse bundle writes one") from error
        header = self._read_header(content)
        digest, count, end = hashlib.sha256(), 0, b"\n"
        for part in parts:
            digest.update(part)
            count += part.count(b"\n")
            end = part
        count += not end.endswith(b"\n")  # a last line without an end of line is a record too
        if digest.hexdigest() != header.sha256:
            raise BundleError(
                f"damaged bundle: file={self.path} sha256={digest.hexdigest()[:12]}…, "
                f"its header says {header.sha256[:12]}…; {REFETCH_ADVICE}"
            )
        expected_count = sum(header.counts.values())
        if count != expected_count:
            raise BundleError(
                f"damaged bundle: file={self.path} records={count}, its header says {expected_count}; {REFETCH_ADVICE}"
            )
        return header

    def _read_header(self, content: Any) -> Header:
        """Returns the header from a parsed first line. Raises BundleError for other files and other versions."""
        if not isinstance(content, dict) or content.get("format") != BUNDLE_FORMAT:
            raise BundleError(
                f"no bundle: file={self.path} does not begin with a bundle's header; cse bundle writes one"
            )
        if content.get("version") != BUNDLE_VERSION:
            raise BundleError(
                f"bundle version: version={content.get('version')!r} of file={self.path}, this cse-search reads "
                f"{BUNDLE_VERSION}; use the cse-search that wrote it, or a newer one"
            )
        counts, digest = content.get("counts"), content.get("sha256")
        if content.keys() != HEADER_NAMES or not (
            isinstance(counts, dict)
            and isinstance(digest, str)
            and all(kind in RECORD_KINDS and isinstance(count, int) for kind, count in counts.items())
        ):
            raise BundleError(
                f"broken header: file={self.path} needs {', '.join(sorted(HEADER_NAMES))}; have it made again"
            )
        return Header(counts, digest)

    def _read(self, size: int, *, lines: bool = False) -> Iterator[bytes]:
        """Yields the first line, then lines or blocks of a size. Raises BundleError for too many unpacked bytes."""
        remaining = limit = min(LARGEST_UNPACKED, max(SMALL_BUNDLE, RATIO * self.path.stat().st_size))
        try:
            with gzip.open(self.path, "rb") as file:
                part = file.readline(LONGEST_RECORD + 1)
                while part:
                    remaining -= len(part)
                    if len(part) > LONGEST_RECORD or remaining < 0:
                        raise BundleError(
                            f"bundle too large: file={self.path} unpacks to more than {limit:,} bytes, or a line of it "
                            f"to more than {LONGEST_RECORD:,}; bundle fewer sweeps"
                        )
                    yield part
                    part = file.readline(size) if lines else file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            # Nothing was read yet: the file is no gzip file at all, and not a damaged one.
            if remaining == limit and isinstance(error, gzip.BadGzipFile):
                raise BundleError(f"no bundle: file={self.path} is no gzip file; cse bundle writes one") from error
            raise BundleError(f"damaged bundle: file={self.path} ends early or is broken; {REFETCH_ADVICE}") from error

    def _parse(self, number: int, line: bytes) -> Any:
        try:
            record = json.loads(line, parse_constant=_refuse, parse_float=_finite)
            if _is_deeper(record, DEEPEST):
                raise _Wrong(f"is nested more than {DEEPEST} deep")
            if b"\\u" in line:  # an escape may stand for half a character, which no database takes
                schema.dumps(record).encode()
        except (ValueError, RecursionError) as error:
            fault = str(error) if isinstance(error, _Wrong) else "is no JSON"
            raise BundleError(f"wrong record: file={self.path} line={number} {fault}; {REFETCH_ADVICE}") from error
        return record


def _is_deeper(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value
    inner = (item for item in items if isinstance(item, dict | list)) if isinstance(value, dict | list) else ()
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


class _Wrong(ValueError):
    """JSON value that no ledger takes: a number that is not finite, or lists nested too deep."""


def _refuse(text: str) -> Any:
    raise _Wrong(f"has the number {text}, which is not finite")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)
