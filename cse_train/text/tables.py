"""Reader of files with named columns: CSV, TSV, JSON lines, Parquet, and Hugging Face data sets, saved or from the hub.

Reading is strict: a row that lacks a field, or has one too many, is an error.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from huggingface_hub import constants

from cse_train.fields import ConfigError, Json, nearest
from cse_train.reading import reading, require_size
from cse_train.text.files import (
    file_hash,
    header_of,
    is_delimited,
    join_hash,
    open_text,
    read_delimited,
    read_json_lines,
    require_header,
    whole_text,
)
from cse_train.user_files import HUB_PREFIX, UserFile, ending

LARGEST_TABLE = 20 * 2**30
"""Most bytes that a Parquet file may have."""
TABLE_BATCH = 4096
"""Rows of a Parquet file held in memory at once."""
KEYS_SEEN = 1000
"""Number of JSON objects whose keys are read to list the columns that a JSON-lines file does not use."""
SAVED_FOLDER = "a folder of datasets.save_to_disk"

Fields = tuple[str, list[Any]]
"""Place of a row for messages, such as `line 7`, and the row's values in the order of the columns asked for."""


@dataclass(frozen=True)
class TextTable:
    """A file with named columns, opened but not read: only the names are known."""

    place: str
    columns: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[Fields]]
    """Starts a pass over the named columns, row by row, None where a value is absent. Raises ConfigError, one line."""
    delimited: bool = False
    """True where the column names are the first line of a CSV or TSV, which may be a row of data by mistake."""

    def require_names(self) -> None:
        """Raises ConfigError where the first line looks like a row of data (`require_header`)."""
        if self.delimited:
            rows = (values for _, values in self.read(self.columns))
            require_header(self.columns, rows, Path(self.place))


def open_table(file: UserFile) -> TextTable:
    """Opens the table in a user's file. ConfigError, one line: absent, empty, not UTF-8, or an unknown format."""
    if file.path is None:
        name, _, split = file.file.removeprefix(HUB_PREFIX).partition(":")
        chosen_split = file.split or split or "train"
        return _open_data_set(file, lambda: load_hub_split(name, chosen_split, f"file={file.file}"))
    require_there(file)
    suffix = ending(file.path.name)
    if file.path.is_dir():
        return _open_data_set(file, lambda: _load_saved(file))
    if is_delimited(file.path):
        return _open_delimited(file.path, file.quotes)
    if suffix == ".jsonl":
        return _open_json_lines(file.path)
    if suffix == ".parquet":
        return _open_parquet(file.path)
    raise ConfigError([f"no table: file={file.path}; give .csv, .tsv, .jsonl, .parquet or {SAVED_FOLDER}"])


def require_there(file: UserFile) -> None:
    """Raises ConfigError for a user's file that is missing or has no bytes."""
    if file.path is None:
        return
    if not file.path.exists():
        raise ConfigError([f"missing file: {file.name} needs {file.path}; put it there, or correct `file:`"])
    if file.path.is_file() and file.path.stat().st_size == 0:
        raise ConfigError([f"empty file: {file.path} of {file.name} has no row; give another file"])


FileState = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds of a file or folder, as a key of caches."""


def file_state(file: UserFile) -> FileState:
    """Returns the size and the modification time (the newest of a folder's files) of a user's file: cached results hold
    as long as both stay."""
    if file.path is None:
        return (0, 0)
    parts = [file.path] if file.path.is_file() else [part for part in file.path.rglob("*") if part.is_file()]
    return sum(part.stat().st_size for part in parts), max((part.stat().st_mtime_ns for part in parts), default=0)


def table_hash(file: UserFile, columns: Sequence[str]) -> str:
    """Returns the hash of the given columns as training text: of a file's bytes and format, or of a data set's texts.

    The file's name does not count, and for data sets neither does the format.
    """
    if file.path is not None and file.path.is_file():
        suffix = ending(file.path.name)[1:]
        return join_hash("table", suffix, str(file.quotes), *columns, file_hash(file.path))
    texts = (str(value) for _, values in open_table(file).read(columns) for value in values)
    return join_hash("data set", str(len(columns)), *(f"{len(text)} {text}" for text in texts))


def name_columns(
    table: TextTable, requested: Mapping[str, str], usual: Mapping[str, Sequence[str]], needed: Sequence[str]
) -> dict[str, str]:
    """Returns wanted name -> the table's column for it: the `requested` one, else the first of the `usual` that exists.

    Usual names match in upper and lower case. Raises ConfigError for a requested column that does not exist, and for a
    needed one that is neither requested nor usual.
    """
    lines = [
        f"unknown column: columns.{key}={name} of {table.place}; {nearest(name, table.columns)}"
        for key, name in requested.items()
        if name not in table.columns
    ]
    by_lower = {name.lower(): name for name in reversed(table.columns)}
    assigned = set(requested.values())
    chosen = dict(requested)
    for key in (name for name in usual if name not in requested):
        match = next((by_lower[name] for name in usual[key] if name in by_lower and by_lower[name] not in assigned), "")
        if match:
            chosen[key] = match
            assigned.add(match)
    absent = [key for key in needed if key not in chosen]
    if absent and not lines:
        table.require_names()
        give = ", ".join(f"{key}: NAME" for key in absent)
        have = ", ".join(table.columns)
        lines = [f"missing column: {table.place} has {have}; say which is which by columns: {{{give}}}"]
    if lines:
        raise ConfigError(lines)
    return chosen


def list_unread(file: UserFile, table: TextTable, used: Iterable[str]) -> list[str]:
    """Returns the columns of a table that are not in `used`; of JSON lines, keys of the first KEYS_SEEN objects."""
    names = dict.fromkeys(table.columns)
    if file.path is not None and file.path.is_file() and ending(file.path.name) == ".jsonl":
        names |= {key: None for _, row in islice(_objects(file.path), KEYS_SEEN) for key in row}
    return [name for name in names if name not in set(used)]


def is_blank(value: Any) -> bool:
    """Returns whether a value is absent, or a text without words."""
    return value is None or (isinstance(value, str) and not value.strip())


def text_of(value: Any, place: str, where: str, column: str) -> str:
    """Returns a table's value as text without line breaks. ConfigError where it is absent, no text, or has no word."""
    if value is not None and not isinstance(value, str):
        kind = type(value).__name__
        raise ConfigError(
            [f"not text: {place}, {where}: {column} is a {kind}; name another column, or correct the row"]
        )
    text = " ".join((value or "").split())
    if not whole_text(text):
        line = f"half a letter: {place}, {where}: {column} has one half of a surrogate pair"
        raise ConfigError([f"{line}, which is no text; correct or remove the row"])
    if not text:
        raise ConfigError([f"empty sentence: {place}, {where}: {column} has no word; correct or remove the row"])
    return text


def _open_delimited(path: Path, quotes: bool) -> TextTable:
    _, names = next(read_delimited(path, quotes=quotes), (0, []))
    columns = tuple(header_of(names, path))

    def read(names: Sequence[str]) -> Iterator[Fields]:
        places = [columns.index(name) for name in names]
        rows = read_delimited(path, quotes=quotes)
        next(rows, None)
        for number, fields in rows:
            if fields and len(fields) != len(columns):
                widths = f"line {number} has {len(fields)} fields, the header {len(columns)}"
                give = "correct the line, or quote fields that hold the delimiter"
                raise ConfigError([f"wrong row: {path}, {widths}; {give}"])
            if fields:
                yield f"line {number}", [fields[place] or None for place in places]

    return TextTable(str(path), columns, read, delimited=True)


def _open_json_lines(path: Path) -> TextTable:
    first = next(_objects(path), None)
    if first is None:
        raise ConfigError([f"empty file: {path} has no row; give another file"])
    columns = tuple(first[1])

    def read(names: Sequence[str]) -> Iterator[Fields]:
        for where, row in _objects(path):
            yield where, [row.get(name) for name in names]

    return TextTable(str(path), columns, read)


def _objects(path: Path) -> Iterator[tuple[str, Json]]:
    for number, line, row in read_json_lines(path):
        if line and not isinstance(row, dict):
            raise ConfigError([f"wrong row: {path}, line {number} is no JSON object; correct or remove the line"])
        if line:
            yield f"line {number}", row


def _open_parquet(path: Path) -> TextTable:
    require_size(path, LARGEST_TABLE, "divide it")
    from pyarrow import parquet  # type: ignore[import-untyped]  # comes with datasets; half a second to import

    with reading("unreadable file", path, "write it again as Parquet"):
        columns = tuple(parquet.ParquetFile(path).schema_arrow.names)

    def read(names: Sequence[str]) -> Iterator[Fields]:
        number = 0
        with reading("unreadable file", path, "write it again as Parquet"):
            for batch in parquet.ParquetFile(path).iter_batches(TABLE_BATCH, columns=list(names)):
                for values in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                    number += 1
                    yield f"row {number}", list(values)

    return TextTable(str(path), columns, read)


def _open_data_set(file: UserFile, load: Callable[[], Any]) -> TextTable:
    with reading("unreadable data set", file.file, "write it again with save_to_disk"):
        data = load()
        # The file is mapped: a process that follows a damaged offset ends there without a word.
        data.data.table.validate(full=True)
        columns = tuple(data.column_names)
        words = {name: kind.names for name, kind in data.features.items() if hasattr(kind, "names")}

    def read(names: Sequence[str]) -> Iterator[Fields]:
        with reading("unreadable data set", file.file, "write it again with save_to_disk"):
            for number, row in enumerate(data.select_columns(list(names)), 1):
                yield f"row {number}", [_word(row[name], words.get(name)) for name in names]

    return TextTable(file.file, columns, read)


def _word(value: Any, words: Sequence[str] | None) -> Any:
    """Returns a Hugging Face class label as its name, None for -1; other values stay as they are."""
    if words is None or not isinstance(value, int):
        return value
    return words[value] if 0 <= value < len(words) else None


def _load_saved(file: UserFile) -> Any:
    """Loads a folder of `save_to_disk`; of several splits, the one that the user's file names."""
    import datasets  # a second to import, and rarely needed

    with reading("unreadable data set", file.file, f"give {SAVED_FOLDER}"):
        data = datasets.load_from_disk(file.file)
    if not isinstance(data, datasets.DatasetDict):
        return data
    if file.split is None and len(data) == 1:
        return next(iter(data.values()))
    if file.split not in data:
        hint = nearest(file.split, data) if file.split else f"give `split:`, one of {', '.join(data)}"
        raise ConfigError([f"which split: file={file.file} split={file.split}; {hint}"])
    return data[file.split]


HUB_WAIT_SECONDS = 3.0
"""Seconds for which the hub's first answer is awaited."""


def load_hub_split(name: str, split: str, setting: str) -> Any:
    """Loads one split of a hub data set. A failure is a one-line ConfigError that names `setting`, a `key=value`."""
    import datasets  # a second to import, and rarely needed

    if hub_is_away() and not Path(name).exists():  # else it asks again and again, and says so each time
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        return datasets.load_dataset(name, split=split)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        line = f"unreadable data set: {setting}, split {split} ({reason}); check the name, the split and HF_HUB_OFFLINE"
        raise ConfigError([line]) from error


_alone: ContextVar[bool] = ContextVar("_alone", default=False)


@contextlib.contextmanager
def hub_left_alone() -> Iterator[None]:
    """Inside this block no request goes to the hub: `hub_is_away` is True, and only the local cache counts."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def hub_is_away() -> bool:
    """Returns whether only the hub's local cache can be used: offline mode, no answer, or within `hub_left_alone`."""
    return _alone.get() or _is_away()


@functools.cache
def _is_away() -> bool:
    """Asks the hub once per process, for at most HUB_WAIT_SECONDS seconds, and returns whether it gave no answer."""
    if constants.HF_HUB_OFFLINE:
        return True
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=HUB_WAIT_SECONDS).close()
    except HTTPError:
        return False
    except (OSError, ValueError):
        return True
    return False


def read_sentences(path: Path, column: str | None = None) -> Iterator[str]:
    """Yields the lines of a text file (blank ones too), or a column of .csv, .tsv or .jsonl; each also as .gz.

    None is left out, so that row i of an output is sentence i of the input. A table with several columns needs
    `column`; .jsonl is read by its field "text" where `column` is None. Raises ConfigError, one line, for a file that
    is missing, not UTF-8 or cut short, and an unknown column.
    """
    if not path.is_file():
        raise ConfigError([f"no such file: file={path}; give one sentence a line, .csv or .jsonl"])
    if ending(path.name) == ".jsonl":
        yield from _json_fields(path, column or "text")
    elif is_delimited(path):
        rows = read_delimited(path)
        header = header_of(next(rows, (0, []))[1], path)
        if column is None and len(header) != 1:
            raise ConfigError([f"which column: file={path} has {', '.join(header) or 'no header'}; give --column NAME"])
        if column is not None and column not in header:
            raise ConfigError([f"unknown column: column={column} of {path}; {nearest(column, header)}"])
        at = 0 if column is None else header.index(column)
        yield from (row[at].strip() if at < len(row) else "" for _, row in rows)
    elif column is not None:
        raise ConfigError([f"no columns: column={column} of {path}, which is plain text; leave the column out"])
    else:
        with open_text(path) as lines:
            yield from (line.strip() for line in lines)


def _json_fields(path: Path, field: str) -> Iterator[str]:
    for number, _, row in read_json_lines(path):
        text = row.get(field) if isinstance(row, dict) else None
        if not isinstance(text, str) or not whole_text(text):
            reason = f"line {number} is not a JSON object with a text in its field {field}"
            raise ConfigError([f"wrong row: {path} {reason}; correct it, or give --column NAME"])
        yield text.strip()
