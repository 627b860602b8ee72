"""Finds the kind of a user's evaluation set (ratings, labels or retrieval) and the meaning of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from cse_train.evaluate.user_sets.three_files import JOINED_COLUMNS, is_three_files, open_three_files
from cse_train.fields import ConfigError, nearest
from cse_train.text.tables import TextTable, name_columns, open_table
from cse_train.user_files import Kind, UserFile

USUAL_PAIRS = (
    *(("sentence1", "sentence2"), ("sentence_1", "sentence_2"), ("sent0", "sent1"), ("sent1", "sent2")),
    *(("sentence_a", "sentence_b"), ("text1", "text2"), ("text_a", "text_b"), ("question1", "question2")),
    *(("premise", "hypothesis"), ("left", "right"), ("a", "b")),
)
"""Names under which files usually have the two texts of a pair."""
USUAL_COLUMNS: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "ratings": {
        "sentence1": tuple(first for first, _ in USUAL_PAIRS),
        "sentence2": tuple(second for _, second in USUAL_PAIRS),
        "rating": ("rating", "score", "similarity", "similarity_score", "relatedness_score", "gold", "grade", "label"),
    },
    "retrieval": {
        "query": ("query", "question"),
        "document": ("document", "passage", "answer", "doc"),
        "relevance": ("relevance", "judgement", "judgment", "grade", "score", "label"),
    },
    "labels": {
        "text": ("text", "sentence", "question", "query", "utterance", "content"),
        "label": ("label", "class", "category", "intent", "target"),
    },
}
"""Kind of set -> column that is read -> names under which files usually have it; the first kind that fits counts."""
SENTENCE_COLUMNS = {name for pair in USUAL_PAIRS for name in pair if len(name) > 1} | {
    *USUAL_COLUMNS["labels"]["text"],
    *USUAL_COLUMNS["retrieval"]["document"],
}
"""Names under which files usually have columns of sentences."""
OPTIONAL_COLUMNS = ("relevance",)
"""Columns that may be absent: without `relevance`, every row is a query and a document that answers it."""


@dataclass(frozen=True)
class Opened:
    """A user's file with its kind and the meaning of its columns."""

    file: UserFile
    kind: Kind
    table: TextTable
    columns: Mapping[str, str]
    """Column that is read, such as `sentence1` -> name of that column in the file."""


def open_user_file(file: UserFile) -> Opened:
    """Opens a user's set; its kind comes from `kind:`, from the columns given, or from the usual names. ConfigError."""
    if is_three_files(file):
        return _open_three_files(file)
    table = open_table(file)
    kind = file.kind or _kind(file, table)
    wrong = [name for name in file.named if name not in USUAL_COLUMNS[kind]]
    if wrong:
        raise ConfigError(
            [f"unknown column: columns.{name} of {file.name}; {nearest(name, USUAL_COLUMNS[kind])}" for name in wrong]
        )
    columns = name_columns(table, file.named, _usual(kind, table), set_names(kind))
    _require_distinct(file, columns)
    if kind == "labels" and file.kind is None and "text" not in file.named:
        _require_single(table, columns)
    return Opened(file, kind, table, columns)


def _open_three_files(file: UserFile) -> Opened:
    if file.columns or file.kind not in (None, "retrieval"):
        setting = f"columns={file.named}" if file.columns else f"kind={file.kind}"
        line = f"not of three files: {setting} of {file.name}, whose corpus, queries and qrels lie in {file.file}"
        raise ConfigError([f"{line}; leave it out"])
    return Opened(file, "retrieval", open_three_files(file), dict(zip(JOINED_COLUMNS, JOINED_COLUMNS, strict=True)))


def _require_distinct(file: UserFile, columns: Mapping[str, str]) -> None:
    """Raises ConfigError for one column that is taken for two things, such as both texts of a pair."""
    names = dict[str, str]()
    for name, column in columns.items():
        if column in names:
            both = f"columns.{names[column]}={column} and columns.{name}={column} of {file.name}"
            raise ConfigError([f"one column twice: {both}; name a column for each"])
        names[column] = name


def _require_single(table: TextTable, columns: Mapping[str, str]) -> None:
    """Raises ConfigError where a class may be one of two texts together, such as a question and a sentence."""
    pair = [name for name in table.columns if name == columns["text"] or name.lower() in SENTENCE_COLUMNS]
    if len(pair) > 1:
        line = f"classes of pairs: {table.place} has {', '.join(pair)} beside {columns['label']}"
        raise ConfigError([f"{line}; give columns: {{text: NAME}} if the class is that of one text"])


def _kind(file: UserFile, table: TextTable) -> Kind:
    fitting = [kind for kind in USUAL_COLUMNS if set(file.named) <= set(USUAL_COLUMNS[kind])]
    for kind in fitting:
        usual = _usual(kind, table)
        present = {*name_columns(table, {}, usual, ()), *file.named}
        if present >= set(usual) - set(OPTIONAL_COLUMNS):
            return kind
    if not fitting:
        every = dict.fromkeys(name for usual in USUAL_COLUMNS.values() for name in usual)
        lines = [
            f"unknown column: columns.{n} of {file.name}; {nearest(n, every)}" for n in file.named if n not in every
        ]
        mixed = f"mixed columns: columns={', '.join(file.named)} of {file.name} belong to several kinds of set"
        raise ConfigError(lines or [f"{mixed}; give those of one"])
    name_columns(table, file.named, {}, ())
    table.require_names()
    have = ", ".join(table.columns)
    give = "; ".join(f"for {kind} {', '.join(set_names(kind))}" for kind in fitting)
    raise ConfigError([f"missing column: {table.place} has {have}; say which is which by columns: {give}"])


def set_names(kind: Kind) -> list[str]:
    """Returns the columns that a set of a kind must have."""
    return [name for name in USUAL_COLUMNS[kind] if name not in OPTIONAL_COLUMNS]


def _usual(kind: Kind, table: TextTable) -> Mapping[str, tuple[str, ...]]:
    """Returns the usual column names of a kind; for pairs, only the names of one pair that the table has."""
    if kind != "ratings":
        return USUAL_COLUMNS[kind]
    have = {name.lower() for name in table.columns}
    pair = next((pair for pair in USUAL_PAIRS if have >= set(pair)), None)
    return {**USUAL_COLUMNS[kind], "sentence1": pair[:1], "sentence2": pair[1:]} if pair else USUAL_COLUMNS[kind]
