"""Seventy kinds of tables, as people write them: each is read right, its rows and equal rows counted, or refused in one
line by the survey that comes before any run."""

import csv
import gzip
import io
import itertools
import json
from pathlib import Path

import pandas as pd
import pytest

from cse_train.fields import ConfigError
from cse_train.text.file_corpora import survey_file, user_source
from cse_train.user_files import UserFile

TEXTS = ["the old bridge", "a river, wide; and deep", 'café "red"', "", "the old bridge", "naïve\ttabs"]
READ = ["the old bridge", "a river, wide; and deep", 'café "red"', "the old bridge", "naïve tabs"]
LONG = "word " * 40_000
SEPARATORS = {"commas": ",", "semicolons": ";", "tabs": "\t"}
ENDS = {"Unix": "\n", "Windows": "\r\n", "old Mac": "\r"}
QUOTES = {"all quoted": csv.QUOTE_ALL, "quoted as needed": csv.QUOTE_MINIMAL}
MARKS = {"no mark": "utf-8", "a mark": "utf-8-sig"}


def write(texts: list[str], separator: str = ",", end: str = "\n", quotes: int = csv.QUOTE_ALL) -> str:
    text = io.StringIO()
    rows = [["id", "body"], *([str(at), body] for at, body in enumerate(texts))]
    csv.writer(text, delimiter=separator, lineterminator=end, quoting=quotes).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


def parquet(texts: list[str | None]) -> bytes:
    made = io.BytesIO()
    pd.DataFrame({"body": texts}).to_parquet(made)
    return made.getvalue()


def json_lines(*values: object) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


WRITTEN: dict[str, tuple[str, bytes]] = {
    f"{by}, {end}, {how}, {mark}": ("a.csv", write(TEXTS, SEPARATORS[by], ENDS[end], QUOTES[how]).encode(MARKS[mark]))
    for by, end, how, mark in itertools.product(SEPARATORS, ENDS, QUOTES, MARKS)
}
"""Thirty-six ways of a spreadsheet."""
OTHERS: dict[str, tuple[str, bytes]] = {
    "a .tsv": ("a.tsv", write(TEXTS, "\t").encode()),
    "packed": ("a.csv.gz", gzip.compress(write(TEXTS).encode())),
    "capitals": ("A.CSV", write(TEXTS).encode()),
    "no last line end": ("a.csv", write(TEXTS).rstrip("\n").encode()),
    "empty lines between rows": ("a.csv", write(TEXTS).replace("\n", "\n\n").encode()),
    "JSON lines": ("a.jsonl", json_lines(*({"body": text} for text in TEXTS))),
    "JSON lines with null": ("a.jsonl", json_lines(*({"body": text or None} for text in TEXTS))),
    "Parquet": ("a.parquet", parquet([*TEXTS])),
    "Parquet with null": ("a.parquet", parquet([text or None for text in TEXTS])),
    "lines": ("a.txt", "\n".join(text.replace("\t", " ") for text in TEXTS).encode()),
    "Windows' lines": ("a.txt", "\r\n".join(text.replace("\t", " ") for text in TEXTS).encode()),
}
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "Latin-1": ("a.csv", write(TEXTS).encode("latin-1"), "not UTF-8: .*; convert it"),
    "Latin-1 lines": ("a.txt", "\n".join(READ).encode("latin-1"), "not UTF-8: .*; convert it"),
    "UTF-16": ("a.csv", write(TEXTS).encode("utf-16"), "not UTF-8: .*; convert it"),
    "UTF-16 without a mark": ("a.csv", write(TEXTS).encode("utf-16-le"), "not UTF-8: .*; convert it"),
    "a list for a text": ("a.jsonl", json_lines({"body": ["a"]}), "not text: .*, line 1: body is a list; name another"),
    "nothing": ("a.csv", b"", "empty file: .* has no row; give another file"),
    "a header alone": ("a.csv", b"id,body\n", "empty data: .* has no row with text"),
    "empty rows alone": ("a.csv", b"id,body\n1,\n2,\n", "empty data: .* has no row with text"),
    "a field too many": (
        "a.csv",
        b"id,body\n1,a bridge\n2,b,c\n",
        "wrong row: .*, line 3 has 3 fields, the header 2; correct",
    ),
    "a field too few": (
        "a.csv",
        b"id,body\n1,a bridge\n2\n",
        "wrong row: .*, line 3 has 1 fields, the header 2; correct",
    ),
    "a quote that never ends": (
        "a.csv",
        b'id,body\n1,"a bridge\n2,b\n',
        "wrong row: .* ends within quotes; close the quotes, or give `quotes: false`",
    ),
    "two columns of one name": ("a.csv", b"body,body\na,b\n", "wrong header: .* has body twice; name each once"),
    "no column of texts": ("a.csv", b"id,subject\n1,a bridge\n", "missing column: .* has id, subject; say which"),
    "cut packing": ("a.csv.gz", gzip.compress(write(TEXTS).encode())[:-9], "truncated data: .*; fetch it again"),
    "no packing": ("a.csv.gz", write(TEXTS).encode(), "truncated data: .*Not a gzipped file"),
    "broken JSON": ("a.jsonl", b'{"body": "a"}\n{"body": \n', "wrong row: .*, line 2 is no JSON object; correct"),
    "JSON arrays": ("a.jsonl", json_lines(["a"], ["b"]), "wrong row: .*, line 1 is no JSON object; correct"),
    "numbers for texts": (
        "a.jsonl",
        json_lines({"body": 1}, {"body": 2}),
        "not text: .*, line 1: body is a int; name another",
    ),
    "cut Parquet": ("a.parquet", parquet([*TEXTS])[:-20], "unreadable file: .*; write it again as Parquet"),
    "a spreadsheet's own format": ("a.xlsx", b"PK\3\4", "no table: .*a.xlsx; give .csv, "),
    "one JSON array": ("a.json", b'[{"body": "a"}]', "no table: .*a.json; give .csv, "),
    "11 million characters": ("a.csv", write(["w" * 11_000_000]).encode(), "line too long: .*; break it up"),
}


def corpus(path: Path) -> UserFile:
    return UserFile(name="mine", file=str(path), role="corpus", on_empty="skip")


@pytest.mark.parametrize("name", [*WRITTEN, *OTHERS])
def test_a_table_is_read_and_counted(name: str, tmp_path: Path) -> None:
    file, content = (WRITTEN | OTHERS)[name]
    (tmp_path / file).write_bytes(content)
    given = corpus(tmp_path / file)
    assert [row for (row,) in user_source(given).rows()] == READ
    counted = survey_file(given)
    assert (counted.rows, counted.empty, counted.first_empty, counted.duplicates) == (6, 1, 4, 1)


def test_a_field_of_200_kb_is_read_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(write(["a bridge", LONG, LONG]), encoding="utf8")
    counted = survey_file(corpus(tmp_path / "a.csv"))
    assert (counted.rows, counted.duplicates, counted.words[-1]) == (3, 1, 40_000)


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file, content, line = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{line}") as caught:
        survey_file(corpus(tmp_path / file))
    assert len(caught.value.problems) == 1 and "\n" not in str(caught.value)
