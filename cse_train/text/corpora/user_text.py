"""The user's own training text: sentences, pairs, labelled pairs or triplets, found by the names of their columns."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from cse_train.fields import ConfigError, nearest
from cse_train.text.corpora.delimited import is_delimited
from cse_train.text.corpora.files import (
    LABELLED_COLUMNS,
    PAIR_COLUMNS,
    Row,
    Source,
    file_source,
    join_hash,
    read_label,
)
from cse_train.text.corpora.lines import open_text
from cse_train.text.corpora.survey import Survey, leave_out_duplicates, leave_out_empty, survey_source
from cse_train.text.corpora.tables import (
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
    filled = replace(whole, rows=lambda: leave_out_empty(whole)) if skips else whole
    rows = (lambda: leave_out_duplicates(filled)) if file.deduplicate else filled.rows
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
        return replace(source, rows=lambda: _lines(path)) if lenient else source
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


def _lines(path: Path) -> Iterator[Row]:
    """Yields every line of a plain-text file as a row, blank lines too."""
    with open_text(path) as lines:
        yield from ((line.strip(),) for line in lines)


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
