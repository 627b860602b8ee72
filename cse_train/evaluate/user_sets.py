"""Dev and test sets in files of the user's own: what kind of set a file holds, and how each kind is read.

A retrieval set may also lie in three files: documents, queries, and judgements that join them by their IDs. The layout
is BEIR's (https://github.com/beir-cellar/beir): `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`; each may have
any table format that is read here, and lie in the folder or in a subfolder of its name, such as NanoBEIR's
`corpus/NanoMSMARCO-00000-of-00001.parquet`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cse_train.evaluate.correlation import constant
from cse_train.fields import ConfigError, nearest
from cse_train.text.tables import Fields, TextTable, name_columns, open_table, text_of
from cse_train.user_files import PACKED_SUFFIX, TABLE_SUFFIXES, Kind, UserFile

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

    kind: Kind
    table: TextTable
    columns: Mapping[str, str]
    """Column that is read, such as `sentence1` -> name of that column in the file."""


def open_user_file(file: UserFile) -> Opened:
    """Opens a user's set; its kind comes from `kind:`, from the columns given, or from the usual names. ConfigError."""
    if is_three_files(file):
        if file.columns or file.kind not in (None, "retrieval"):
            setting = f"columns={file.named}" if file.columns else f"kind={file.kind}"
            line = f"not of three files: {setting} of {file.name}, whose corpus, queries and qrels lie in {file.file}"
            raise ConfigError([f"{line}; leave it out"])
        return Opened("retrieval", _open_three_files(file), dict(zip(JOINED_COLUMNS, JOINED_COLUMNS, strict=True)))
    table = open_table(file)
    kind = file.kind or _kind(file, table)
    wrong = [name for name in file.named if name not in USUAL_COLUMNS[kind]]
    if wrong:
        raise ConfigError(
            [f"unknown column: columns.{name} of {file.name}; {nearest(name, USUAL_COLUMNS[kind])}" for name in wrong]
        )
    columns = name_columns(table, file.named, _usual(kind, table), _set_names(kind))
    _require_distinct(file, columns)
    if kind == "labels" and file.kind is None and "text" not in file.named:
        # A class may be that of two texts together, such as a question and a sentence.
        pair = [name for name in table.columns if name == columns["text"] or name.lower() in SENTENCE_COLUMNS]
        if len(pair) > 1:
            line = f"classes of pairs: {table.place} has {', '.join(pair)} beside {columns['label']}"
            raise ConfigError([f"{line}; give columns: {{text: NAME}} if the class is that of one text"])
    return Opened(kind, table, columns)


def _require_distinct(file: UserFile, columns: Mapping[str, str]) -> None:
    """Raises ConfigError for one column that is taken for two things, such as both texts of a pair."""
    names = dict[str, str]()
    for name, column in columns.items():
        if column in names:
            both = f"columns.{names[column]}={column} and columns.{name}={column} of {file.name}"
            raise ConfigError([f"one column twice: {both}; name a column for each"])
        names[column] = name


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
    give = "; ".join(f"for {kind} {', '.join(_set_names(kind))}" for kind in fitting)
    raise ConfigError([f"missing column: {table.place} has {have}; say which is which by columns: {give}"])


def _set_names(kind: Kind) -> list[str]:
    """Returns the columns that a set of a kind must have."""
    return [name for name in USUAL_COLUMNS[kind] if name not in OPTIONAL_COLUMNS]


def _usual(kind: Kind, table: TextTable) -> Mapping[str, tuple[str, ...]]:
    """Returns the usual column names of a kind; for pairs, only the names of one pair that the table has."""
    if kind != "ratings":
        return USUAL_COLUMNS[kind]
    have = {name.lower() for name in table.columns}
    pair = next((pair for pair in USUAL_PAIRS if have >= set(pair)), None)
    return {**USUAL_COLUMNS[kind], "sentence1": pair[:1], "sentence2": pair[1:]} if pair else USUAL_COLUMNS[kind]


LEAST_PAIRS = 3
"""Least pairs of a set: fewer can only be ranked in one way or its reverse."""
MOST_CLASSES = 3
"""Most distinct whole numbers that may be classes of pairs: NLI has two or three, numbered differently by each set."""
NO_CLASS = -1
"""Label in Hugging Face data sets of a pair on whose class the annotators disagree."""
CLASS_NAMES = re.compile(r"label|gold|class|judge?ment|entail|target|verdict")
"""Column names that suggest classes in place of ratings."""
RATING_NAMES = re.compile(r"rating|similar|related|duplicate|paraphrase")
"""Column names that suggest ratings of similarity."""
DISTANCE_NAMES = re.compile(r"distan|dissimilar|unrelated|diverge|differen")
"""Column names that suggest distances: the higher the number, the farther apart are the texts."""
Rated = tuple[str, str, float]
"""Left text, right text and rating of a pair."""


def read_ratings(file: UserFile) -> list[Rated]:
    """Reads pairs with their ratings, on whatever scale: only ranks count.

    ConfigError, one line: a set of another kind, a row without a text or a number, ratings that rank nothing, and
    numbers that may be classes or distances, unless `kind: ratings` states that higher means more similar.
    """
    open_file = open_user_file(file)
    if open_file.kind != "ratings":
        line = f"no ratings: {file.name} has {open_file.kind}, and rated pairs are wanted"
        raise ConfigError([f"{line}; give columns: {{sentence1: NAME, sentence2: NAME, rating: NAME}}"])
    place, names = open_file.table.place, [open_file.columns[name] for name in ("sentence1", "sentence2", "rating")]
    rated = [
        (
            text_of(left, place, where, names[0]),
            text_of(right, place, where, names[1]),
            number_of(rating, place, where, names[2]),
        )
        for where, (left, right, rating) in open_file.table.read(names)
    ]
    if len(rated) < LEAST_PAIRS:
        raise ConfigError([f"too few pairs: {place} has {len(rated)}; give at least {LEAST_PAIRS}"])
    if constant(np.array([rating for _, _, rating in rated])):
        line = f"constant ratings: {place} has {len(rated)} equal ones in {names[2]}"
        raise ConfigError([f"{line}, which rank nothing; name another column or give another file"])
    if all(left == right for left, right, _ in rated):
        line = f"equal texts: {names[0]} and {names[1]} of {place} are the same in all {len(rated)} pairs"
        raise ConfigError([f"{line}, and their cosines rank nothing; name another column or give another file"])
    if file.kind is None and (doubt := _doubt([rating for _, _, rating in rated], names)):
        say = "give `kind: ratings` if texts are nearer where it is higher, or a rating by columns: {rating: NAME}"
        raise ConfigError([f"{doubt} of {place}; {say}"])
    return rated


def _doubt(values: Sequence[float], names: Sequence[str]) -> str:
    """Returns why numbers may be no ratings, by their values and the columns' names; empty where they seem to be some.

    Classes are whole numbers, but 0 is entailment in some sets of NLI and contradiction in others.
    """
    left, right, column = (name.lower() for name in names)
    distinct = sorted(set(values))
    shown = ", ".join(f"{value:g}" for value in distinct[:5]) + (" ..." if len(distinct) > 5 else "")
    if DISTANCE_NAMES.search(column):
        return f"distances or ratings: {names[2]}={shown}"
    few, rated = len(distinct) <= MOST_CLASSES, RATING_NAMES.search(column)
    named = not rated and (few or CLASS_NAMES.search(column))
    coded = all(value.is_integer() for value in distinct) and (named or distinct[0] == NO_CLASS)
    inferred = few and ("premise" in left or "hypothes" in right)
    return f"classes or ratings: {names[2]}={shown}" if coded or inferred else ""


def number_of(value: Any, place: str, where: str, column: str) -> float:
    """Returns a table's value as a finite number. ConfigError where it is absent or no such number."""
    if value is None or value == "":
        raise ConfigError([f"missing number: {place}, {where}: {column} is empty; give a number or remove the row"])
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        shown = str(value)[:40]
        raise ConfigError([f"not a number: {place}, {where}: {column}={shown}; correct it, or name another column"])
    return number


LEAST_LABELLED = 12
"""Least sentences of each class: enough for ten folds, and for ten inner folds within nine tenths of them."""


def read_labels(file: UserFile) -> list[tuple[str, str]]:
    """Reads sentences with their classes. ConfigError: a row without text or class, too few classes or rows."""
    open_file = open_user_file(file)
    place, names = open_file.table.place, [open_file.columns[name] for name in ("text", "label")]
    labelled: list[tuple[str, str]] = []
    for where, (text, label) in open_file.table.read(names):
        sentence = text_of(text, place, where, names[0])
        if isinstance(label, float) and label.is_integer():
            label = int(label)  # readers of tables make floats of whole numbers where a column has an empty field
        if not isinstance(label, str | int | bool) or str(label).strip() == "":
            line = f"missing label: {place}, {where}: {names[1]} is no class; give one or remove the row"
            raise ConfigError([line])
        labelled.append((sentence, str(label).strip()))
    counts = Counter(label for _, label in labelled)
    if len(counts) < 2:
        raise ConfigError([f"constant labels: {place} has {len(counts)} class in {names[1]}; give two at least"])
    label, least = min(counts.items(), key=lambda item: item[1])
    if least < LEAST_LABELLED:
        message = f"too few sentences: {place} has {least} of {names[1]}={label[:40]}"
        raise ConfigError([f"{message}, and folds need {LEAST_LABELLED}; add some, or leave the class out"])
    return labelled


DOCUMENT_NAMES = ("corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "document_id", "pid")
QUERY_NAMES = ("query-id", "query_id", "qid")
TEXT_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "corpus": {
        "id": ("_id", "id", *DOCUMENT_NAMES),
        "text": ("text", "document", "passage", "contents", "content", "body"),
        "title": ("title",),
    },
    "queries": {"id": ("_id", "id", *QUERY_NAMES), "text": ("text", "query", "question")},
}
"""Name of a file (corpus, queries) -> column that is read -> names under which files usually have that column.

A title is put in front of its text.
"""
JUDGEMENT_NAMES = {
    "query": QUERY_NAMES,
    "document": DOCUMENT_NAMES,
    "relevance": ("score", "relevance", "judgement", "label"),
}
JUDGEMENTS = "qrels"
SHARD = re.compile(r"-\d{5}-of-\d{5}$")
"""Ending that the hub adds to a split's file name."""
JOINED_COLUMNS = ("query_id", "query", "document_id", "document", "relevance")
"""Columns of the table that joins the three files."""


def is_three_files(file: UserFile) -> bool:
    """Returns whether a user's file is a folder with tables of documents and of queries."""
    folder = file.path
    return folder is not None and folder.is_dir() and all(_list_tables(folder, part) for part in TEXT_NAMES)


def _open_three_files(file: UserFile) -> TextTable:
    """Opens the three files as one table of JOINED_COLUMNS: first every document, then every judgement with its texts.

    A judgement of a document that the corpus lacks has no document's text. ConfigError, one line: a file that is absent
    or lacks a column, and at a row an ID that occurs twice, or a query that has no text.
    """
    tables = {part: open_table(replace(file, file=str(_find_table(file, part)))) for part in (*TEXT_NAMES, JUDGEMENTS)}
    judgements = tables[JUDGEMENTS]
    named = name_columns(judgements, {}, JUDGEMENT_NAMES, ("query", "document"))

    def rows() -> Iterator[tuple[str, dict[str, object]]]:
        documents, queries = (_read_texts(tables[part], usual) for part, usual in TEXT_NAMES.items())
        for key, text in documents.items():
            yield f"document {key}", {"document_id": key, "document": text}
        for where, values in judgements.read(list(named.values())):
            row = dict(zip(named, values, strict=True))
            query, document = str(row["query"]), str(row["document"])
            if query not in queries:
                name = Path(tables["queries"].place).name
                line = f"unknown ID: {judgements.place}, {where}: {query[:40]} is not in {name}"
                raise ConfigError([f"{line}; correct or remove the row"])
            texts = {"query": queries[query], "document": documents.get(document)}
            joined = {"query_id": query, "document_id": document, **texts, "relevance": row.get("relevance", 1)}
            yield f"{judgements.place}, {where}", joined

    def read(names: Sequence[str]) -> Iterator[Fields]:
        return ((where, [row.get(name) for name in names]) for where, row in rows())

    return TextTable(str(file.path), JOINED_COLUMNS, read)


def _read_texts(table: TextTable, usual: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Returns ID -> text, with the title in front where there is one. ConfigError for a missing or repeated ID."""
    named = name_columns(table, {}, usual, ("id", "text"))
    texts = dict[str, str]()
    for where, values in table.read(list(named.values())):
        row = dict(zip(named, values, strict=True))
        key = str(row["id"])
        if row["id"] is None or key in texts:
            line = f"no ID: {table.place}, {where}" if row["id"] is None else f"ID twice: {table.place}, {where}: {key}"
            raise ConfigError([f"{line}; give each row one of its own"])
        title, text = row.get("title"), row["text"]
        if isinstance(title, str) and (text is None or isinstance(text, str)):
            text = f"{title} {text or ''}"
        texts[key] = text_of(text, table.place, where, named["text"])
    return texts


def _list_tables(folder: Path, name: str) -> list[Path]:
    """Returns the tables called `name`, of whatever format; where there is none, those in a subfolder called `name`."""
    endings = [end + packed for end in TABLE_SUFFIXES for packed in ("", PACKED_SUFFIX)]
    siblings = [path for path in folder.glob(f"{name}.*") if path.name.lower().removeprefix(name) in endings]
    children = [path for path in folder.glob(f"{name}/*") if path.name.lower().endswith(tuple(endings))]
    return sorted(siblings or children)


def _find_table(file: UserFile, name: str) -> Path:
    """Returns the table called `name`; of several in a subfolder, and of judgements in one, the table of the split."""
    assert file.path is not None
    folder, paths = file.path, _list_tables(file.path, name)
    is_split = bool(paths) and paths[0].parent != folder
    if is_split and (len(paths) > 1 or (name == JUDGEMENTS and file.split)):
        splits = [SHARD.sub("", path.name.partition(".")[0]) for path in paths]
        paths = [path for path, split in zip(paths, splits, strict=True) if split == file.split]
        if not paths:
            names = list(dict.fromkeys(splits))
            hint = nearest(file.split, names) if file.split else f"give `split:`, one of {', '.join(names)}"
            raise ConfigError([f"which split: file={file.file} split={file.split}; {hint}"])
    if len(paths) != 1:
        have = f"has {', '.join(path.name for path in paths)}" if paths else f"has no {name}"
        raise ConfigError([f"which {name}: {folder} {have}; give one, such as {name}.jsonl or {name}.tsv"])
    return paths[0]
