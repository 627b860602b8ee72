"""Reads the rows of an exported table: .csv, .tsv or .json."""

import hashlib
import json
from pathlib import Path

from cse_train.fields import Json
from cse_train.text.corpora.delimited import header_of, read_delimited


def read_rows(path: Path) -> list[tuple[int, Json]]:
    """Returns rows by column name, each with its line number or, in a .json, its index from 1.

    Raises ValueError for a .json that is no list of runs, and for a line with more or fewer fields than the header.
    """
    if path.suffix == ".json":
        rows = json.loads(path.read_text(encoding="utf8"))
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("it is no list of runs")
        return list(enumerate(rows, start=1))
    lines = read_delimited(path)
    header = header_of(next(lines, (0, []))[1], path)
    table = [(number, fields) for number, fields in lines if fields]
    for number, fields in table:
        if len(fields) != len(header):
            raise ValueError(f"line {number} has {len(fields)} fields, the header {len(header)}")
    return [(number, dict(zip(header, fields, strict=True))) for number, fields in table]


def hash_file(source: str) -> str:
    """Returns the SHA-256 of a file; "" for a source that is no file, such as a folder or an address."""
    path = Path(source).expanduser()
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
