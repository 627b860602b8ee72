"""One rule for CSV and TSV: a table says the same however it was written, to every reader of such files."""

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import load_judgements
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.tasks import load_task
from cse_train.fields import ConfigError
from cse_train.text.file_corpora import file_source, user_source
from cse_train.text.files import read_delimited
from cse_train.text.tables import read_sentences
from cse_train.user_files import UserFile, is_file_name, stem
from search_spaces.user_data import read_suites

Rows = list[list[str]]


def quoted(rows: Rows, delimiter: str = ",", end: str = "\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    return text.getvalue()


def as_needed(rows: Rows, delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def packed_parts(content: bytes) -> bytes:
    """As `cat a.gz b.gz` gives them."""
    half = len(content) // 2
    return gzip.compress(content[:half]) + gzip.compress(content[half:])


def spread(rows: Rows) -> str:
    """Blanks behind commas, and quotes behind blanks."""
    return quoted(rows).replace('","', '",  "')


WAYS: dict[str, tuple[str, Callable[[Rows], bytes]]] = {
    "blanks behind commas": ("a.csv", lambda rows: spread(rows).encode()),
    "Windows' line ends": ("a.csv", lambda rows: quoted(rows, end="\r\n").encode()),
    "a mark before the header": ("a.csv", lambda rows: quoted(rows).encode("utf-8-sig")),
    "a spreadsheet's semicolons": ("a.csv", lambda rows: quoted(rows, ";", "\r\n").encode("utf-8-sig")),
    "tabs in a .csv": ("a.csv", lambda rows: quoted(rows, "\t").encode()),
    "tabs": ("a.tsv", lambda rows: quoted(rows, "\t").encode()),
    "an old Mac's line ends": ("a.csv", lambda rows: quoted(rows, end="\r").encode()),
    "no line end after the last row": ("a.csv", lambda rows: quoted(rows).rstrip("\n").encode()),
    "blanks around the header": ("a.csv", lambda rows: quoted([[f" {n} " for n in rows[0]], *rows[1:]]).encode()),
    "quotes where a field needs them": ("a.csv", lambda rows: as_needed(rows).encode()),
    "a spreadsheet's tabs as needed": ("a.tsv", lambda rows: as_needed(rows, "\t").encode("utf-8-sig")),
    "two packed parts": ("a.csv.gz", lambda rows: packed_parts(quoted(rows).encode())),
    "capitals": ("A.TSV", lambda rows: quoted(rows, "\t").encode()),
    "packed": ("a.CSV.GZ", lambda rows: gzip.compress(spread(rows).encode("utf-8-sig"))),
}


def pairs_of(path: Path) -> object:
    found = load_pairs("x", DataPaths(files=(UserFile(name="x", file=str(path), role="test"),)))
    return found.left, found.right, found.gold.tolist(), found.content_hash


def labels_of(path: Path) -> object:
    return load_task("x", DataPaths(files=(UserFile(name="x", file=str(path), role="test"),))).content_hash


def judged_by(path: Path) -> object:
    return load_judgements(UserFile(name="x", file=str(path), role="test")).judged


def corpus_of(path: Path) -> object:
    mine = user_source(UserFile(name="x", file=str(path), role="corpus"))
    return mine.columns, list(mine.rows()), list(file_source("file", path).rows())


SENTENCES = ['a "red" river', "the old, old bridge; and more", "one", "two;", "three, four", "five"]
LABELLED = [[f"{text} {place}", ("wet", "dry")[place % 2]] for place in range(24) for text in SENTENCES[:2]]
KINDS: dict[str, tuple[Rows, Callable[[Path], object]]] = {
    "ratings": (
        [["sentence1", "sentence2", "score"], *([a, a[::-1], str(place)] for place, a in enumerate(SENTENCES))],
        pairs_of,
    ),
    "labels": (
        [["text", "label"], *LABELLED, *([text, ("dry", "wet")[n % 2]] for n, (text, _) in enumerate(LABELLED))],
        labels_of,
    ),
    "judgements": ([["query", "document", "relevance"], *([a, a + " it", "2"] for a in SENTENCES)], judged_by),
    "pairs": ([["sent0", "sent1"], *([a, a[::-1]] for a in SENTENCES)], corpus_of),
    "triplets": ([["sent0", "sent1", "hard_neg"], *([a, a[::-1], "no"] for a in SENTENCES)], corpus_of),
    "NLI": ([["sent0", "sent1", "label"], *([a, a[::-1], "neutral"] for a in SENTENCES)], corpus_of),
    "sentences": (
        [["id", "text"], *([str(n), a] for n, a in enumerate(SENTENCES))],
        lambda p: [*read_sentences(p, "text")],
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_reads_the_same_however_a_table_is_written(kind: str, way: str, tmp_path: Path) -> None:
    rows, read = KINDS[kind]
    (tmp_path / "plain.csv").write_text(quoted(rows), encoding="utf8")
    name, write = WAYS[way]
    (tmp_path / name).write_bytes(write(rows))
    assert read(tmp_path / name) == read(tmp_path / "plain.csv")


def test_blanks_within_quotes_are_text_and_those_before_a_field_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('one,  two\n" a ",  b\nc,\n', encoding="utf8")
    assert [fields for _, fields in read_delimited(tmp_path / "a.csv")] == [["one", "two"], [" a ", "b"], ["c", ""]]


@pytest.mark.parametrize("text", ['one,two\n"a" b,c\n', 'one, two\na, "b\nc,d\n'])
def test_quotes_that_are_not_a_fields_are_one_line_to_every_reader(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf8")
    for read in (lambda p: list(file_source("file", p).rows()), lambda p: [*read_sentences(p, "two")]):
        with pytest.raises(ConfigError, match="^wrong row: .*a.csv.*close the quotes, or give `quotes: false`"):
            read(tmp_path / "a.csv")


def test_a_semicolon_in_a_header_with_commas_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("one;half,two\na;b,c\n", encoding="utf8")
    assert [fields for _, fields in read_delimited(tmp_path / "a.csv")] == [["one;half", "two"], ["a;b", "c"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_of_200_kb_is_read(kind: str, tmp_path: Path) -> None:
    """Python's csv takes 131,072 characters, and its error said that a quote was open."""
    rows, read = KINDS[kind]
    text = max(rows[0].index(name) for name in rows[0] if name in ("sentence1", "text", "document", "sent0"))
    long = [*rows[:-1], [("river, " * 30_000 + cell) if at == text else cell for at, cell in enumerate(rows[-1])]]
    (tmp_path / "long.csv").write_text(quoted(long), encoding="utf8")
    (tmp_path / "long.tsv").write_text(quoted(long, "\t"), encoding="utf8")
    assert read(tmp_path / "long.csv") == read(tmp_path / "long.tsv")


@pytest.mark.parametrize("name", ["x.TSV", "x.Csv.GZ", "x.JSONL", "x.PARQUET", "x.TXT"])
def test_an_ending_in_capitals_is_that_ending(name: str, tmp_path: Path) -> None:
    assert is_file_name(name) and stem(f"/data/{name}") == "x"
    (tmp_path / name).write_bytes(b"")
    names, files = read_suites([name], tmp_path)
    assert names == ["x"] and [file.file for file in files] == [str(tmp_path / name)]


def test_a_suites_path_may_hold_commas_and_blanks(tmp_path: Path) -> None:
    for name in ("my, own set.tsv", "b.csv"):
        (tmp_path / name).write_text("", encoding="utf8")
    mine = str(tmp_path / "my, own set.tsv")
    for parts in (["my, own set.tsv"], [mine], ['"my, own set.tsv"'], ["{file: 'my, own set.tsv'}"]):
        names, files = read_suites(parts, tmp_path)
        assert (names, [file.file for file in files]) == (["my_own_set"], [mine])
        assert read_suites([files[0].text()], Path("/")) == (names, files)
    names, files = read_suites([f'sts_dev, "{mine}" ,b.csv'], tmp_path)
    assert names == ["sts_dev", "my_own_set", "b"] and files[0].file == mine


def test_empty_lines_are_no_rows_of_a_table(tmp_path: Path) -> None:
    for kind, (rows, read) in KINDS.items():
        if kind != "sentences":  # `cse embed` gives a row for each line
            (tmp_path / "a.csv").write_text(quoted(rows), encoding="utf8")
            (tmp_path / "b.csv").write_text(quoted(rows).replace("\n", "\n\n"), encoding="utf8")
            assert read(tmp_path / "a.csv") == read(tmp_path / "b.csv")
