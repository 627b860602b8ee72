"""Header of a bundle: its first line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.bundles.errors import BundleError
from analysis.ledger.exchange.columns import RECORD_KINDS

BUNDLE_FORMAT = "cse-search bundle"
BUNDLE_VERSION = 1
HEADER_NAMES = {"format", "version", "counts", "sha256"}


@dataclass(frozen=True)
class Header:
    """Number of records and checksum that a bundle states in its first line."""

    counts: Mapping[str, int]
    """Kind of record -> number of records."""
    sha256: str
    """Checksum of all bytes after the header's line."""


def read_header(path: Path, content: Any) -> Header:
    """Returns the header from a parsed first line. Raises BundleError for other files and other versions."""
    if not isinstance(content, dict) or content.get("format") != BUNDLE_FORMAT:
        raise BundleError(f"no bundle: file={path} does not begin with a bundle's header; cse bundle writes one")
    if content.get("version") != BUNDLE_VERSION:
        raise BundleError(
            f"bundle version: version={content.get('version')!r} of file={path}, this cse-search reads "
            f"{BUNDLE_VERSION}; use the cse-search that wrote it, or a newer one"
        )
    if content.keys() == HEADER_NAMES and isinstance(content["counts"], dict) and isinstance(content["sha256"], str):
        counts = content["counts"]
        if all(kind in RECORD_KINDS and isinstance(count, int) for kind, count in counts.items()):
            return Header(counts, content["sha256"])
    raise BundleError(f"broken header: file={path} needs {', '.join(sorted(HEADER_NAMES))}; have it made again")
