"""Corpora in files: text, CSV, TSV, JSON lines and other tables, by position as papers' code reads them or by name.

The user's own training text is sentences, pairs, labelled pairs or triplets, found by the names of their columns.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from cse_train.fields import ConfigError, nearest
from cse_train.text.files import (
    DELIMITERS,
    Row,
    file_hash,
    is_delimited,
    is_number,
    join_hash,
    open_text,
    read_delimited,
    read_json_lines,
    require_header,
    whole_text,
)
from cse_train.text.tables import (
    FileState,
    TextTable,
    file_state,
    is_blank,
    name_columns,
    open_table,
    require_there,
    table_hash,
    text_of,
)
from cse_train.user_files import PLAIN_SUFFIX, UserFile, ending

PAIR_COLUMNS = ("sent0", "sent1", "hard_neg")
"""Column names of pairs and triplets, by position (SimCSE train.py:386-398)."""
LABELLED_COLUMNS = ("sent0", "sent1", "label")
"""Column names of premise, hypothesis and one of NLI_LABELS; a header says so by calling its third column `label`."""
NLI_LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"
"""Label that SNLI gives to a pair on which its annotators disagree; such a pair is left out, as the NLI task does."""
TEXTS_ALONE = "columns: {sent0: NAME, sent1: NAME}"
"""Setting that messages suggest to users who want only the two texts of labelled pairs."""


@dataclass(frozen=True)
class Source:
    """A corpus: `rows()` starts a new pass over it, in file order, one string per column."""

    name: str
    columns: tuple[str, ...]
    content_hash: str
    """Hash of the corpus's text and of how it is read; where the file lies does not count."""
    rows: Callable[[], Iterator[Row]]

    def texts(self, row: Row) -> Row:
        """Returns a row without its label, if the corpus has labels."""
        return row[:-1] if self.columns == LABELLED_COLUMNS else row


@dataclass(frozen=True)
class Survey:
    """Counts of a corpus's rows and words, before any row is left out."""

    rows: int
    empty: int
    """Number of rows with at least one text that has no word."""
    first_empty: int
    """Number, from 1, of the first row with an empty text; 0 for none."""
    duplicates: int
    """Number of rows that equal an earlier row; rows with an empty text do not count."""
    words: tuple[int, int, int]
    """Most words of a text among the shortest half, among the shortest 99 %, and of all; without empty rows."""


def file_source(corpus: str, path: Path, *, named: bool = False) -> Source:
    """Opens a corpus file: plain text as one column; .csv and .tsv, which have a header, as 1 to 3 columns by position.

    .jsonl has one JSON object a line, whose field `text` is the only column. Raises ConfigError for a table without a
    header; `named` True skips that check, because a person has named the columns.
    """
    suffix, digest = ending(path.name), file_hash(path)
    if suffix == ".jsonl":
        return Source(corpus, ("text",), join_hash("jsonl", digest), lambda: _json_rows(path))
    if not is_delimited(path):
        return Source(corpus, ("text",), join_hash("text", digest), lambda: filter(any, _text_rows(path)))
    rows = (fields for _, fields in read_delimited(path))
    names = next(rows, [])
    header = [name.strip() for name in names]
    if not 1 <= len(header) <= len(PAIR_COLUMNS):
        given = f"{len(header)} columns; give 1, 2 or 3 ({','.join(PAIR_COLUMNS)})"
        raise ConfigError([f"wrong header: {path} has {given}"])
    if not named:
        require_header(names, rows, path)
    texts = ("text",) if len(header) == 1 else PAIR_COLUMNS[: len(header)]
    columns = LABELLED_COLUMNS if header[2:] == ["label"] else texts
    kind = f"csv{DELIMITERS[suffix][0]}{','.join(columns)}"
    return Source(corpus, columns, join_hash(kind, digest), lambda: _csv_rows(path, columns))


def _text_rows(path: Path) -> Iterator[Row]:
    """Yields every line of a plain-text file as a row, blank lines too."""
    with open_text(path) as lines:
        yield from ((line.strip(),) for line in lines)


def _json_rows(path: Path) -> Iterator[Row]:
    """Yields the text of each JSON line; a text keeps its words and loses its line breaks, as plain text has none."""
    for number, _, row in read_json_lines(path):
        found = row.get("text") if isinstance(row, dict) else None
        text = " ".join(found.split()) if isinstance(found, str) else ""
        if not text or not whole_text(text):
            reason = f"line {number} is not a JSON object with words in its text field"
            raise ConfigError([f"wrong row: {path} {reason}; correct or remove the line"])
        yield (text,)


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


USUAL_TEXT_COLUMNS = {
    "sent0": ("sent0", "sentence1", "sentence_1", "anchor", "premise", "query", "question", "text1"),
    "sent1": ("sent1", "sentence2", "sentence_2", "positive", "hypothesis", "answer", "text2"),
    "hard_neg": ("hard_neg", "hard_negative", "negative"),
    "label": ("label", "gold_label"),
    "text": ("text", "sentence", "sent", "content", "body", "document"),
}
"""Name of a column in training -> names under which users' files usually have that column."""
TEXT_SHAPES = (("sent0", "sent1", "hard_neg"), ("sent0", "sent1", "label"), ("sent0", "sent1"), ("text",))
"""Sets of columns that make a corpus; the first set that a file has is the one that is read."""


def user_source(file: UserFile) -> Source:
    """Opens the corpus in a user's file; one that `file_source` reads equally is opened by it, to keep its hash.

    `on_empty: skip` and `deduplicate` leave rows out, and are part of the hash where they are set. Raises ConfigError,
    one line: no such file, no such column, columns that make no corpus.
    """
    skips = file.on_empty == "skip"
    whole = _open(file, lenient=skips)
    filled = whole
    if skips:
        filled = replace(whole, rows=lambda: (row for row in whole.rows() if all(map(str.split, whole.texts(row)))))
    rows = (lambda: _leave_out_duplicates(filled)) if file.deduplicate else filled.rows
    flags = [*(["on_empty: skip"] if skips else []), *(["deduplicate: true"] if file.deduplicate else [])]
    return replace(
        whole, rows=rows, content_hash=join_hash(*flags, whole.content_hash) if flags else whole.content_hash
    )


def survey_file(file: UserFile) -> Survey:
    """Returns the counts of a user's corpus, cached as long as its file stays unchanged.

    Raises ConfigError, one line, for all that `user_source` or its rows would refuse, and for a corpus without a row.
    """
    require_there(file)
    return _survey(file, file_state(file))


@lru_cache(maxsize=16)
def _survey(file: UserFile, _state: FileState) -> Survey:
    counted = survey_source(_open(file, lenient=True))
    refuses = file.on_empty == "refuse" or (file.on_empty is None and is_table(file) and not keeps_blanks(file))
    if counted.empty and refuses:
        message = f"empty rows: {file.file} has {counted.empty} of {counted.rows} without words, the first is row"
        leave = f"{{file: {Path(file.file).name}, on_empty: skip}}"
        raise ConfigError([f"{message} {counted.first_empty}; leave them out by {leave}, or correct them"])
    if counted.rows == counted.empty:
        raise ConfigError([f"empty data: {file.file} has no row with text; give another file"])
    return counted


def keeps_blanks(file: UserFile) -> bool:
    """Returns whether training reads a file's rows without words as blanks, as SimCSE's release does with its CSV."""
    if file.path is None or not is_delimited(file.path):
        return False
    table = open_table(file)
    return _is_plain(file, table, corpus_columns(file, table))


def _open(file: UserFile, *, lenient: bool) -> Source:
    """Opens the whole corpus, before rows are left out; if `lenient`, rows without words are empty texts, no error."""
    require_there(file)
    if file.path is not None and not is_table(file):
        if file.columns:
            raise ConfigError([f"no columns: columns={file.named} of {file.path}, which is plain text; leave them out"])
        source = file_source(file.name, file.path)
        path = file.path
        return replace(source, rows=lambda: _text_rows(path)) if lenient else source
    table = open_table(file)
    columns = corpus_columns(file, table)
    if file.path is not None and _is_plain(file, table, columns) and not (lenient and not is_delimited(file.path)):
        return file_source(file.name, file.path, named=bool(file.columns))
    digest = _hash(file, file_state(file), tuple(columns.values()))
    return Source(file.name, tuple(columns), digest, lambda: _rows(table, columns, lenient))


def reads_by_name(file: UserFile) -> bool:
    """Returns whether a file of `--train-file` is read by its column names. Read by position instead: a CSV or TSV
    whose columns have no known names, and one whose columns are in the order of SimCSE's files."""
    if file.columns or file.path is None or not is_delimited(file.path):
        return True
    table = open_table(file)
    try:
        columns = corpus_columns(file, table)
    except ConfigError:
        return False
    misplaced_label = columns.get("label", "label") != "label"  # by its place it would be a hard negative
    return misplaced_label or tuple(columns.values()) != table.columns or _is_plain(file, table, columns)


def is_table(file: UserFile) -> bool:
    """Returns whether a user's file has columns: every format but plain text has."""
    return file.path is None or ending(file.path.name) != PLAIN_SUFFIX


def corpus_columns(file: UserFile, table: TextTable) -> dict[str, str]:
    """Returns the corpus's columns -> the file's names: text, or sent0 and sent1 with hard_neg or label where present.

    Raises ConfigError for columns that make no corpus.
    """
    unknown = [name for name in file.named if name not in USUAL_TEXT_COLUMNS]
    if unknown:
        raise ConfigError(
            [f"unknown column: columns.{name} of {file.name}; {nearest(name, USUAL_TEXT_COLUMNS)}" for name in unknown]
        )
    requested = file.named
    if requested:  # what is said is all that is read
        shape = next((shape for shape in TEXT_SHAPES if set(shape) == set(requested)), None)
        if shape is None:
            valid = "text; sent0 and sent1; and hard_neg or label beside these"
            raise ConfigError([f"no corpus: columns={', '.join(requested)} of {file.name}; give {valid}"])
        named = name_columns(table, requested, {}, shape)
        return {name: named[name] for name in shape}
    usual = name_columns(table, {}, USUAL_TEXT_COLUMNS, ())
    if len(table.columns) == 1:
        table.require_names()
        return {"text": table.columns[0]}
    shape = next((shape for shape in TEXT_SHAPES if set(shape) <= set(usual)), None)
    if shape is None:
        name_columns(table, {}, {}, ("text",))
        raise AssertionError(table)
    return {name: usual[name] for name in shape}


def _is_plain(file: UserFile, table: TextTable, columns: dict[str, str]) -> bool:
    """Returns whether `file_source`, which reads `--train-file` by position, reads the file with an equal result."""
    assert file.path is not None
    if not file.path.is_file() or not file.quotes or file.on_empty or ending(file.path.name) == ".parquet":
        return False
    shipped = (PAIR_COLUMNS[:2], PAIR_COLUMNS, LABELLED_COLUMNS)
    if ending(file.path.name) == ".jsonl":
        return columns == {"text": "text"}
    same_names = all(name == column for name, column in columns.items())
    return len(table.columns) == 1 or (same_names and table.columns in shipped and tuple(columns) == table.columns)


def _rows(table: TextTable, columns: dict[str, str], lenient: bool) -> Iterator[Row]:
    """Yields the rows of a table as texts without line breaks; a pair without a label is left out."""
    names = [name for key, name in columns.items() if key != "label"]
    for where, values in table.read(list(columns.values())):
        raw_labels = ["-" if label is None else str(label) for label in values[len(names) :]]
        labels = [read_label(label, Path(table.place), int(where.split()[-1])) for label in raw_labels]
        if None in labels:
            continue
        texts = [
            "" if lenient and is_blank(value) else text_of(value, table.place, where, name)
            for name, value in zip(names, values, strict=False)
        ]
        yield (*texts, *filter(None, labels))


@lru_cache(maxsize=64)
def _hash(file: UserFile, _state: FileState, columns: tuple[str, ...]) -> str:
    return table_hash(file, columns)


def survey_source(source: Source) -> Survey:
    """Counts a corpus in one pass, with 8 bytes of memory for each row. Raises ConfigError as the rows do, and for a
    column that has numbers or labels in place of texts."""
    rows = empty = first_empty = 0
    hashes, lengths = array("q"), Counter[int]()
    coded: Sequence[int] = range(len(source.columns) - (source.columns == LABELLED_COLUMNS))
    codes = dict[int, str]()
    for rows, row in enumerate(source.rows(), 1):
        counts = [len(text.split()) for text in source.texts(row)]
        if coded:
            coded = [place for place in coded if _is_code(row[place].strip())]
            codes = {place: codes.get(place) or row[place].strip() for place in coded}
        if all(counts):
            # Python seeds the hash of strings anew in each process: these are compared within this pass only.
            hashes.append(hash(row))
            for count in counts:
                lengths[count] += 1
        else:
            empty, first_empty = empty + 1, first_empty or rows
    duplicates = len(hashes) - len(np.unique(np.frombuffer(hashes, dtype=np.int64)))
    if shown := next((f"{source.columns[place]}={text[:40]}" for place, text in codes.items() if text), None):
        line = f"no texts: train.corpus={source.name} has numbers or labels alone as {shown}"
        raise ConfigError([f"{line}; name the columns of texts, as columns: {{sent0: NAME, sent1: NAME}}"])
    sizes = sorted(lengths)
    upto = np.cumsum([lengths[size] for size in sizes])
    most = [sizes[int(np.searchsorted(upto, part * upto[-1]))] for part in (0.5, 0.99, 1)] if sizes else [0, 0, 0]
    return Survey(rows, empty, first_empty, duplicates, (most[0], most[1], most[2]))


def _is_code(text: str) -> bool:
    """Returns whether a value gives no sign of a column of texts: empty, a number, or a label of NLI."""
    return not text or is_number(text) or text.lower() in (*NLI_LABELS, NO_LABEL)


def _leave_out_duplicates(source: Source) -> Iterator[Row]:
    """Yields each distinct row of a corpus once, at its first place; 16 bytes per row are kept in memory."""
    seen = set[bytes]()
    for row in source.rows():
        # With its length before each text, two different rows never join to one string.
        joined = "\0".join(f"{len(text)} {text}" for text in row).encode("utf8", "surrogatepass")
        digest = hashlib.blake2b(joined, digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield row
