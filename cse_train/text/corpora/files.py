"""A corpus as rows of strings, and readers of the files that hold one: text, CSV, TSV and JSON lines, also as .gz."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

from cse_train.fields import ConfigError
from cse_train.text.corpora.delimited import DELIMITERS, is_delimited, read_delimited, require_header
from cse_train.text.corpora.lines import open_text
from cse_train.user_files import ending

Row = tuple[str, ...]
Text = TypeVar("Text", str, Row)
PAIR_COLUMNS = ("sent0", "sent1", "hard_neg")
"""Column names of pairs and triplets, by position (SimCSE train.py:386-398)."""
LABELLED_COLUMNS = ("sent0", "sent1", "label")
"""Column names of premise, hypothesis and one of NLI_LABELS; a header says so by calling its third column `label`."""
NLI_LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"
"""Label that SNLI gives to a pair on which its annotators disagree; such a pair is left out, as the NLI task does."""
TEXTS_ALONE = "columns: {sent0: NAME, sent1: NAME}"
"""Setting that messages suggest to users who want only the two texts of labelled pairs."""
CHUNK_CHARACTERS = 1_000_000
"""Characters after which `chunks` ends a chunk, whatever its number of rows."""


@dataclass(frozen=True)
class Source:
    """A corpus: `rows()` starts a new pass over it, in file order, one string per column."""

    name: str
    columns: tuple[str, ...]
    content_hash: str
    """Hash of the corpus's text and of how it is read; where the file lies does not count."""
    rows: Callable[[], Iterator[Row]]


def file_source(corpus: str, path: Path, *, named: bool = False) -> Source:
    """Opens a corpus file: plain text as one column; .csv and .tsv, which have a header, as 1 to 3 columns by position.

    .jsonl has one JSON object a line, whose field `text` is the only column. Raises ConfigError for a table without a
    header; `named` True skips that check, because a person has named the columns.
    """
    suffix, digest = ending(path.name), file_hash(path)
    if suffix == ".jsonl":
        return Source(corpus, ("text",), join_hash("jsonl", digest), lambda: _json_rows(path))
    if not is_delimited(path):
        return Source(corpus, ("text",), join_hash("text", digest), lambda: _text_rows(path))
    columns = _csv_columns(path)
    if not named:
        rows = (fields for _, fields in read_delimited(path))
        require_header(next(rows), rows, path)
    kind = f"csv{DELIMITERS[suffix][0]}{','.join(columns)}"
    return Source(corpus, columns, join_hash(kind, digest), lambda: _csv_rows(path, columns))


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


def _text_rows(path: Path) -> Iterator[Row]:
    with open_text(path) as lines:
        for line in lines:
            if text := line.strip():
                yield (text,)


def _json_rows(path: Path) -> Iterator[Row]:
    """Yields the text of each JSON line; a text keeps its words and loses its line breaks, as plain text has none."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            text = _text_field(line)
            if text is None:
                reason = f"line {number} is not a JSON object with words in its text field"
                raise ConfigError([f"wrong row: {path} {reason}; correct or remove the line"])
            yield (text,)


def _text_field(line: str) -> str | None:
    try:
        text = " ".join(json.loads(line)["text"].split())
        return text if text and whole_text(text) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _csv_columns(path: Path) -> tuple[str, ...]:
    _, names = next(read_delimited(path), (0, []))
    header = [name.strip() for name in names]
    if not 1 <= len(header) <= 3:
        raise ConfigError(
            [f"wrong header: {path} has {len(header)} columns; give 1, 2 or 3 ({','.join(PAIR_COLUMNS)})"]
        )
    if header[2:] == ["label"]:
        return LABELLED_COLUMNS
    return ("text",) if len(header) == 1 else PAIR_COLUMNS[: len(header)]


def _csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yields the rows of a CSV; absent and empty fields are one blank, as SimCSE's None -> " " (train.py:412-426)."""
    width, labelled = len(columns), columns == LABELLED_COLUMNS
    for number, fields in islice(read_delimited(path), 1, None):
        if len(fields) > width:
            widths = f"line {number} has {len(fields)} fields, the header {width}"
            raise ConfigError([f"wrong row: {path} {widths}; quote fields that hold the delimiter"])
        row = tuple(field or " " for field in (*fields, *[""] * (width - len(fields))))
        label = read_label(row[-1], path, number) if fields and labelled else None
        if label:
            yield (*row[:-1], label)
        elif fields and not labelled:
            yield row


def read_label(value: str, path: Path, line: int) -> str | None:
    """Returns the NLI label of a pair in lower case; None for NO_LABEL. Raises ConfigError for any other value, also
    for numbers: 0 is entailment in some sets and contradiction in others."""
    label = value.strip().lower()
    if label not in (*NLI_LABELS, NO_LABEL):
        reason = f"line {line} has label={value[:40]}"
        give = f"give {', '.join(NLI_LABELS)}, or {NO_LABEL} for none"
        raise ConfigError([f"wrong row: {path} {reason}; {give}, or name the texts alone: {TEXTS_ALONE}"])
    return label if label != NO_LABEL else None
