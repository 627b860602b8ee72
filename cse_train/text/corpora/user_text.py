"""The user's own training text: sentences, pairs, labelled pairs or triplets, by the names of their columns."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from cse_train.fields import ConfigError, nearest
from cse_train.text.corpora.files import LABELLED_COLUMNS, PAIR_COLUMNS, Row, Source, file_source, has_label
from cse_train.text.corpora.tables import (
    FileState,
    TextTable,
    file_state,
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
"""What is wanted -> names under which files usually have it."""
TEXT_SHAPES = (("sent0", "sent1", "hard_neg"), ("sent0", "sent1", "label"), ("sent0", "sent1"), ("text",))
"""What a corpus may be, as columns; the first that a file has counts."""


def user_source(file: UserFile) -> Source:
    """The corpus in a user's file; one that `file_source` reads alike is read by it, and has its hash.

    Raises ConfigError, one line: no such file, no such column, columns that make no corpus.
    """
    require_there(file)
    if file.path is not None and not is_table(file):
        if file.columns:
            raise ConfigError([f"no columns: columns={file.named} of {file.path}, which is plain text; leave them out"])
        return file_source(file.name, file.path)
    table = open_table(file)
    columns = corpus_columns(file, table)
    if file.path is not None and _is_plain(file, table, columns):
        return file_source(file.name, file.path)
    digest = _hash(file, file_state(file), tuple(columns.values()))
    return Source(file.name, tuple(columns), digest, lambda: _rows(table, columns))


def is_table(file: UserFile) -> bool:
    """Whether it has columns: all but plain text has."""
    return file.path is None or ending(file.path.name) != PLAIN_SUFFIX


def corpus_columns(file: UserFile, table: TextTable) -> dict[str, str]:
    """text, or sent0 and sent1 with hard_neg or label where there is one -> the file's name of it."""
    unknown = [name for name in file.named if name not in USUAL_TEXT_COLUMNS]
    if unknown:
        raise ConfigError(
            [f"unknown column: columns.{name} of {file.name}; {nearest(name, USUAL_TEXT_COLUMNS)}" for name in unknown]
        )
    said = file.named
    if said:  # what is said is all that is read
        shape = next((shape for shape in TEXT_SHAPES if set(shape) == set(said)), None)
        if shape is None:
            valid = "text; sent0 and sent1; and hard_neg or label beside these"
            raise ConfigError([f"no corpus: columns={', '.join(said)} of {file.name}; give {valid}"])
        named = name_columns(table, said, {}, shape)
        return {name: named[name] for name in shape}
    usual = name_columns(table, {}, USUAL_TEXT_COLUMNS, ())
    if len(table.columns) == 1:
        return {"text": table.columns[0]}
    shape = next((shape for shape in TEXT_SHAPES if set(shape) <= set(usual)), None)
    if shape is None:
        name_columns(table, {}, {}, ("text",))
        raise AssertionError(table)
    return {name: usual[name] for name in shape}


def _is_plain(file: UserFile, table: TextTable, columns: dict[str, str]) -> bool:
    """Whether the readers of `--train-file` read the same from it."""
    assert file.path is not None
    if not file.path.is_file() or not file.quotes or ending(file.path.name) == ".parquet":
        return False
    shipped = (PAIR_COLUMNS[:2], PAIR_COLUMNS, LABELLED_COLUMNS)
    if ending(file.path.name) == ".jsonl":
        return columns == {"text": "text"}
    alike = all(name == column for name, column in columns.items())
    return len(table.columns) == 1 or (alike and table.columns in shipped and tuple(columns) == table.columns)


def _rows(table: TextTable, columns: dict[str, str]) -> Iterator[Row]:
    """A text keeps its words and loses its line breaks; a pair without a label is left out."""
    for where, values in table.read(list(columns.values())):
        given = dict(zip(columns, values, strict=True))
        if "label" in given:
            label = given["label"] if given["label"] is not None else "-"
            if not has_label(str(label), Path(table.place), int(where.split()[-1])):
                continue
        yield tuple(
            str(value) if name == "label" else text_of(value, table.place, where, columns[name])
            for name, value in given.items()
        )


@lru_cache(maxsize=64)
def _hash(file: UserFile, _state: FileState, columns: tuple[str, ...]) -> str:
    return table_hash(file, columns)
