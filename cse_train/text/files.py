"""Readers of text files that people bring, plain or packed as .gz: lines, CSV and TSV; hashes of files and texts.

One rule holds for corpora, evaluation sets and exports of other tools: fields lie between commas in .csv and between
tabs in .tsv; where the header of a .csv has no comma, the delimiter is the semicolon or the tab that it has. Blanks
before a field are no part of it, so quotes after `, ` enclose a field as quotes after `,` do.
"""

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO, TypeVar

from cse_train.fields import ConfigError
from cse_train.reading import reading
from cse_train.user_files import PACKED_SUFFIX, ending

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


def read_json_lines(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yields (number, line without blanks at its ends, value) of each line; the value is None where it is no JSON."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            yield number, line.strip(), value


DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
"""File ending -> delimiters that such a file may have, the usual one first."""
NAME_WORDS, NAME_CHARACTERS = 4, 60
"""Most words and most characters that the name of a column has; a longer first line is taken for a row of data."""
ROWS_COMPARED = 1000
"""Rows with which a first line is compared to tell a header from data."""
SENTENCE_END = re.compile(r"\s.*[.!?]$|[\u3002\uff01\uff1f]$", re.DOTALL)
"""Pattern of a sentence: several words that end in `.`, `!` or `?`, or any text that ends in a full-width one."""
csv.field_size_limit(LINE_CHARACTERS)  # of the whole process; Python's own 131,072 refuses long documents


def is_delimited(path: Path) -> bool:
    """Returns whether a file's ending is one of CSV or TSV, also packed as .gz."""
    return ending(path.name) in DELIMITERS


def read_delimited(path: Path, *, quotes: bool = True) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of the last line, fields) of each row of a CSV or TSV, header first; an empty line has no field.

    With `quotes` False, quotation marks are text. Raises ConfigError, one line, for a quote that is never closed, which
    takes the rows after it into its field, and for text behind a closing quote.
    """
    advice = "close the quotes, or give `quotes: false` where quotes are text"
    with open_text(path) as lines, reading("wrong row", path, advice, (csv.Error,)):
        first = next(lines, "")
        dialect: Any = {"strict": True} if quotes else {"quoting": csv.QUOTE_NONE}
        dialect |= {"skipinitialspace": True, "delimiter": _delimiter(path, first, quotes)}
        rows = csv.reader(chain([first], lines), **dialect)
        try:
            yield from ((rows.line_num, fields) for fields in rows)
        except csv.Error as error:
            if "unexpected end" not in str(error):
                raise
            raise ConfigError([f"wrong row: {path} ends within quotes; {advice}"]) from error


def header_of(names: list[str], path: Path) -> list[str]:
    """Returns the column names of a first row, without blanks around them. ConfigError for none, and for duplicates."""
    header = [name.strip() for name in names]
    twice = sorted({name for name in header if header.count(name) > 1})
    if not any(header):
        raise ConfigError([f"empty file: {path} has no header; its first line names the columns"])
    if twice:
        raise ConfigError([f"wrong header: {path} has {twice[0] or 'a column without a name'} twice; name each once"])
    return header


def require_header(names: Sequence[str], rows: Iterable[Sequence[str | None]], path: Path) -> None:
    """Raises ConfigError where the first line of a table looks like a row of data: one of its names is a number, a
    sentence, a value that its column has again, or several words that all occur in its column."""
    columns = [set[str]() for _ in names]
    for fields in islice(rows, ROWS_COMPARED):
        for column, field in zip(columns, fields, strict=False):
            column.add((field or "").strip())
    if first := next((name for name, column in zip(names, columns, strict=True) if _is_value(name, column)), None):
        line = f"no header: {path} begins with a row, such as {first[:40]}"
        count = "its column" if len(names) == 1 else f"its {len(names)} columns"
        raise ConfigError([f"{line}; put a line with the names of {count} in front"])


def is_number(text: str) -> bool:
    """Returns whether Python's `float` reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_value(name: str, column: set[str]) -> bool:
    """Returns whether a name in a first line is rather a value; `column` holds the values under it."""
    words = name.lower().split()
    if not words:
        return False
    if len(words) > NAME_WORDS or len(name) > NAME_CHARACTERS or SENTENCE_END.search(name) or is_number(name):
        return True
    return name in column or (
        len(words) > 1 and set(words) <= {word for text in column for word in text.lower().split()}
    )


def _delimiter(path: Path, header: str, quotes: bool) -> str:
    """Returns the first delimiter for the file's ending that divides the header; the usual one where none does."""
    quoting: Any = {} if quotes else {"quoting": csv.QUOTE_NONE}
    possible = DELIMITERS[ending(path.name)]
    parting = (d for d in possible if len(next(csv.reader([header], delimiter=d, **quoting), [])) > 1)
    return next(parting, possible[0])


Row = tuple[str, ...]
Text = TypeVar("Text", str, Row)
CHUNK_CHARACTERS = 1_000_000
"""Characters after which `chunks` ends a chunk, whatever its number of rows."""


def file_hash(path: Path) -> str:
    """Returns the sha256 of a file's bytes, cached as long as the file's identity, size and times stay the same."""
    return _file_hash(path, stamp(path))


Stamp = tuple[int, ...]
"""Device, inode, size, and times of modification and change of a file, as the key of its cached hash."""


def stamp(path: Path) -> Stamp:
    """Returns the identity, size and times of the file behind a path, symlinks followed; OSError for no file."""
    seen = path.stat()
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


@lru_cache(maxsize=64)
def _file_hash(path: Path, _stamp: Stamp) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def texts_hash(texts: Iterable[str]) -> str:
    """Returns the sha256 of strings in order; lengths count, so that two different lists never have equal input."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf8", "surrogatepass")
        # With the length in front, ["ab", "c"] and ["a", "bc"] differ.
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()


def join_hash(*parts: str) -> str:
    """Returns the sha256 of strings joined by line ends."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def whole_text(text: str) -> bool:
    """Returns whether a text has no lone surrogate, which JSON can write and no tokenizer can read."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def chunks(rows: Iterable[Text], most: int) -> Iterator[list[Text]]:
    """Yields lists of at most `most` texts, or rows of texts, and of about CHUNK_CHARACTERS characters."""
    chunk: list[Text] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(map(len, row))
        if len(chunk) == most or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
