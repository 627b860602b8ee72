"""Writes a bundle: ledger records as compressed JSON Lines, which `cse import` reads.

The first line is the header: `format`, `version`, how many records of each kind follow, and the SHA-256 of all bytes
after this line. Every other line is a record in canonical JSON. Equal rows give equal bytes.
"""

import gzip
import hashlib
from collections import Counter
from pathlib import Path

from analysis.bundles.errors import BundleError
from analysis.bundles.header import BUNDLE_FORMAT, BUNDLE_VERSION
from analysis.ledger import schema
from analysis.ledger.exchange.columns import problem
from cse.bundles.contents import Contents
from cse_train.files import replace_file

SUFFIX = ".jsonl.gz"


def write(path: Path, contents: Contents) -> None:
    """Writes the bundle atomically. Raises BundleError for an edited row, which no ledger would accept."""
    body = []
    for record in contents.records:
        if defect := problem(record):
            raise BundleError(f"ledger row: {defect} (kind={record['kind']}); cse doctor --repair --yes takes it out")
        body.append(f"{schema.dumps(record)}\n".encode())
    digest = hashlib.sha256(b"".join(body)).hexdigest()
    counts = Counter(str(record["kind"]) for record in contents.records)
    header = {"format": BUNDLE_FORMAT, "version": BUNDLE_VERSION, "counts": counts, "sha256": digest}

    def pack(temporary: Path) -> None:
        # No name and no time in gzip's header: equal contents give equal bytes.
        with temporary.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.writelines([f"{schema.dumps(header)}\n".encode(), *body])

    replace_file(path, pack)
