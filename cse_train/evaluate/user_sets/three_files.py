"""Reader of a retrieval set in three files: documents, queries, and judgements that join them by their IDs.

The layout is BEIR's (https://github.com/beir-cellar/beir): `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`; each
may have any table format that is read here, and lie in the folder or in a subfolder of its name, such as NanoBEIR's
`corpus/NanoMSMARCO-00000-of-00001.parquet`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cse_train.fields import ConfigError, nearest
from cse_train.text.tables import Fields, TextTable, name_columns, open_table, text_of
from cse_train.user_files import PACKED_SUFFIX, TABLE_SUFFIXES, UserFile

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


def open_three_files(file: UserFile) -> TextTable:
    """Opens the three files as one table of JOINED_COLUMNS: first every document, then every judgement with its texts.

    A judgement of a document that the corpus lacks has no document's text. ConfigError, one line: a file that is absent
    or lacks a column, and at a row an ID that occurs twice, or a query that has no text.
    """
    assert file.path is not None
    folder = file.path
    paths = {part: _find_table(file, part) for part in TEXT_NAMES}
    judgements = _open(file, _find_table(file, JUDGEMENTS))
    named = name_columns(judgements, {}, JUDGEMENT_NAMES, ("query", "document"))

    def read(names: Sequence[str]) -> Iterator[Fields]:
        documents, queries = (_read_texts(_open(file, paths[part]), TEXT_NAMES[part]) for part in TEXT_NAMES)
        for where, row in _rows(documents, queries, paths, judgements, named):
            yield where, [row.get(name) for name in names]

    return TextTable(str(folder), JOINED_COLUMNS, read)


def _rows(
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    paths: Mapping[str, Path],
    judgements: TextTable,
    named: Mapping[str, str],
) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, text in documents.items():
        yield f"document {key}", {"document_id": key, "document": text}
    for where, values in judgements.read(list(named.values())):
        row = dict(zip(named, values, strict=True))
        query, document = str(row["query"]), str(row["document"])
        if query not in queries:
            line = f"unknown ID: {judgements.place}, {where}: {query[:40]} is not in {paths['queries'].name}"
            raise ConfigError([f"{line}; correct or remove the row"])
        texts = {"query": queries[query], "document": documents.get(document)}
        joined = {"query_id": query, "document_id": document, **texts, "relevance": row.get("relevance", 1)}
        yield f"{judgements.place}, {where}", joined


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


def _open(file: UserFile, path: Path) -> TextTable:
    return open_table(replace(file, file=str(path)))


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
