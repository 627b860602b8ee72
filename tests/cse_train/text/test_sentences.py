import gzip
from pathlib import Path

import pytest

from cse_train.fields import ConfigError
from cse_train.text import files
from cse_train.text.tables import read_sentences


def test_every_line_is_a_sentence_blank_ones_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one \r\n\n  drei ü\nlast".encode())
    assert list(read_sentences(tmp_path / "a.txt")) == ["one", "", "drei ü", "last"]


def test_columns_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"a, b"\n2\n3,c\n', encoding="utf8")
    (tmp_path / "one.tsv").write_text("anything\nx\ny\n", encoding="utf8")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf8") as file:
        file.write('{"text": "a", "title": "T"}\n{"text": " b "}\n')
    assert list(read_sentences(tmp_path / "a.csv", "text")) == ["a, b", "", "c"]
    assert list(read_sentences(tmp_path / "one.tsv")) == ["x", "y"]
    assert list(read_sentences(tmp_path / "b.jsonl.gz")) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "column", "told"),
    [
        ("a.csv", b"id,text\n1,a\n", None, "which column: file=.* has id, text; give --column NAME"),
        ("a.csv", b"id,text\n1,a\n", "txt", "unknown column: column=txt of .*; did you mean text?"),
        ("a.txt", b"a\n", "text", "no columns: column=text of .*plain text"),
        ("a.jsonl", b'{"text": "a"}\n{"text": 3}\n', None, "wrong row: .* line 2 is not"),
        ("a.jsonl", b"a\n", None, "wrong row: .* line 1 is not"),
        ("a.txt", b"\xff\xfe\n", None, "not UTF-8: "),
        ("a.txt.gz", b"no gzip", None, "truncated data: "),
    ],
)
def test_mistakes_are_one_line(name: str, content: bytes, column: str | None, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{told.replace('?', '[?]')}") as error:
        list(read_sentences(tmp_path / name, column))
    assert len(error.value.problems) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no such file: file="):
        next(read_sentences(tmp_path / "a.txt"))


def test_chunks_are_bounded_in_rows_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_CHARACTERS", 10)
    assert list(files.chunks(["a"] * 4 + ["b" * 12, "c"], 3)) == [["a"] * 3, ["a", "b" * 12], ["c"]]
    assert list(files.chunks([], 3)) == []
