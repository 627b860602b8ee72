"""What `--train-file` stands for: the text or the pairs of a space, read as `corpus: {file: ...}` reads it."""

from pathlib import Path

import pytest

from cse.cli.options import data_paths
from cse_train.data_paths import DataPaths
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import file_source
from cse_train.text.files import Row
from cse_train.user_files import UserFile

PAIRS = "sent0,sent1\na,b\nc,d\n"
FILES: dict[str, tuple[str, tuple[str, ...], list[Row]]] = {
    "p.csv": (PAIRS, ("sent0", "sent1"), [("a", "b"), ("c", "d")]),
    "P.TSV": (PAIRS.replace(",", "\t"), ("sent0", "sent1"), [("a", "b"), ("c", "d")]),
    "t.csv": ("sent0,sent1,hard_neg\na,b,c\n", ("sent0", "sent1", "hard_neg"), [("a", "b", "c")]),
    "l.tsv": ("sent0\tsent1\tlabel\na\tb\tneutral\n", ("sent0", "sent1", "label"), [("a", "b", "neutral")]),
    "id.csv": ("id,sent0,sent1\n1,a,b\n", ("sent0", "sent1"), [("a", "b")]),
    "named.csv": ("anchor,positive\na,b\n", ("sent0", "sent1"), [("a", "b")]),
    "p.jsonl": ('{"query": "a", "answer": "b"}\n', ("sent0", "sent1"), [("a", "b")]),
    "s.csv": ("text\na river\n", ("text",), [("a river",)]),
    "body.csv": ("id,body\n1,a river\n", ("text",), [("a river",)]),
    "s.txt": ("a river\n", ("text",), [("a river",)]),
}


@pytest.mark.parametrize("name", FILES)
def test_pairs_triplets_and_text_are_what_a_corpus_of_a_space_is(name: str, tmp_path: Path) -> None:
    content, columns, rows = FILES[name]
    (tmp_path / name).write_text(content, encoding="utf8")
    paths = data_paths(None, tmp_path / name, None)
    for corpus in ("file", "wiki", *(["nli"] if len(columns) > 1 else [])):
        source = open_source(corpus, paths)
        assert (source.columns, list(source.rows())) == (columns, rows)
    mine = open_source("x", DataPaths(files=(UserFile(name="x", file=str(tmp_path / name), role="corpus"),)))
    assert (mine.columns, list(mine.rows())) == (columns, rows)


@pytest.mark.parametrize("name", ["p.csv", "P.TSV", "t.csv", "l.tsv", "named.csv", "s.csv", "s.txt"])
def test_what_was_read_by_its_places_keeps_its_hash(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name][0], encoding="utf8")
    before = file_source("file", tmp_path / name).content_hash
    assert open_source("file", data_paths(None, tmp_path / name, None)).content_hash == before


def test_columns_of_names_that_say_nothing_are_read_by_their_places(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("one,two\na,b\n", encoding="utf8")
    assert list(open_source("nli", data_paths(None, tmp_path / "x.csv", None)).rows()) == [("a", "b")]


def test_pairs_leave_the_text_of_a_data_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "data/wiki").mkdir(parents=True)
    (tmp_path / "data/wiki/wiki_sentences.txt.gz").write_bytes(b"")
    (tmp_path / "p.csv").write_text(PAIRS, encoding="utf8")
    paths = data_paths(tmp_path / "data", tmp_path / "p.csv", None)
    assert paths.corpus("wiki") is None and paths.wiki == tmp_path / "data/wiki/wiki_sentences.txt.gz"
    assert open_source("nli", paths).columns == ("sent0", "sent1")
