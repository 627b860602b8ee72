"""Reader of the sentences of a file, none left out, so that row i of an output is sentence i of the input."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cse_train.fields import ConfigError, nearest
from cse_train.text.corpora.delimited import header_of, is_delimited, read_delimited
from cse_train.text.corpora.files import whole_text
from cse_train.text.corpora.lines import open_text
from cse_train.user_files import ending


def read_sentences(path: Path, column: str | None = None) -> Iterator[str]:
    """Yields the lines of a text file (blank ones too), or a column of .csv, .tsv or .jsonl; each also as .gz.

    A table with several columns needs `column`; .jsonl is read by its field "text" where `column` is None. Raises
    ConfigError, one line, for a file that is missing, not UTF-8 or cut short, and an unknown column.
    """
    if not path.is_file():
        raise ConfigError([f"no such file: file={path}; give one sentence a line, .csv or .jsonl"])
    if ending(path.name) == ".jsonl":
        return _json_fields(path, column or "text")
    if is_delimited(path):
        return _table_column(path, column)
    if column is not None:
        raise ConfigError([f"no columns: column={column} of {path}, which is plain text; leave the column out"])
    return _plain_lines(path)


def _plain_lines(path: Path) -> Iterator[str]:
    with open_text(path) as lines:
        for line in lines:
            yield line.strip()


def _table_column(path: Path, column: str | None) -> Iterator[str]:
    rows = read_delimited(path)
    at = _position(path, header_of(next(rows, (0, []))[1], path), column)
    for _, row in rows:
        yield row[at].strip() if at < len(row) else ""


def _position(path: Path, header: Sequence[str], column: str | None) -> int:
    if column is None and len(header) == 1:
        return 0
    if column is None:
        raise ConfigError([f"which column: file={path} has {', '.join(header) or 'no header'}; give --column NAME"])
    if column not in header:
        raise ConfigError([f"unknown column: column={column} of {path}; {nearest(column, header)}"])
    return header.index(column)


def _json_fields(path: Path, field: str) -> Iterator[str]:
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = json.loads(line)[field]
            except (ValueError, KeyError, TypeError, RecursionError):
                text = None
            if not isinstance(text, str) or not whole_text(text):
                reason = f"line {number} is not a JSON object with a text in its field {field}"
                raise ConfigError([f"wrong row: {path} {reason}; correct it, or give --column NAME"])
            yield text.strip()
