"""Tables of text: one rule for CSV and TSV, which first line is a header, and seventy kinds as people write them."""

import codecs
import csv
import gzip
import io
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import load_judgements
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import set_hash
from cse_train.evaluate.tasks import load_task
from cse_train.fields import ConfigError
from cse_train.methods import config_class, list_methods
from cse_train.methods.base import load_method
from cse_train.text.corpora import wrong_columns
from cse_train.text.file_corpora import (
    LABELLED_COLUMNS,
    PAIR_COLUMNS,
    file_source,
    reads_by_name,
    survey_file,
    survey_source,
    user_source,
)
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


PAIRS = (("The stone is paper 0", "A market was near"), ("The cloud is river 1", "A garden was near"))
ROWS: dict[str, Sequence[Sequence[str]]] = {
    "sentences of five words": [(left,) for left, _ in PAIRS],
    "short sentences": [("A dog sleeps.",), ("Who reads?",)],
    "sentences of another script": [("\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",), ("\u4f60\u597d\u3002",)],
    "short texts of equal words": [("a river 1",), ("a river 2",), ("a bridge 1",)],
    "a text that comes again": [("river", "a"), ("bridge", "b"), ("river", "c")],
    "pairs": PAIRS,
    "rated pairs": [(*pair, str(n / 2)) for n, pair in enumerate(PAIRS)],
    "duplicates": [("old river", "wide bridge", str(n)) for n in range(2)],
    "rated pairs with a number": [(str(n), *pair, "0.5") for n, pair in enumerate(PAIRS)],
    "triplets": [(*pair, "No river was there") for pair in PAIRS],
}
FORMS = [*itertools.product((".csv", ".tsv"), (csv.QUOTE_ALL, csv.QUOTE_MINIMAL), (b"", codecs.BOM_UTF8))]


def write(path: Path, rows: Sequence[Sequence[str]], quotes: int = csv.QUOTE_MINIMAL, mark: bytes = b"") -> Path:
    text = io.StringIO()
    delimiter = "\t" if path.suffix == ".tsv" else ","
    csv.writer(text, delimiter=delimiter, quoting=quotes).writerows(rows)  # type: ignore[arg-type]
    path.write_bytes(mark + text.getvalue().encode())
    return path


def corpus(path: Path, **columns: str) -> UserFile:
    return UserFile(name="mine", file=str(path), role="corpus", columns=tuple(columns.items()))


@pytest.mark.parametrize(("suffix", "quotes", "mark"), FORMS)
@pytest.mark.parametrize("rows", ROWS)
def test_a_table_without_a_header_is_no_corpus_and_no_set(
    rows: str, suffix: str, quotes: int, mark: bytes, tmp_path: Path
) -> None:
    path = write(tmp_path / f"m{suffix}", ROWS[rows], quotes, mark)
    dev = DataPaths(files=(UserFile(name="mine", file=str(path), role="dev"),))
    width = len(ROWS[rows][0])
    readers = (lambda: user_source(corpus(path)), lambda: set_hash("mine", dev), lambda: file_source("file", path))
    for read in readers[: 2 if width > 3 else 3]:
        with pytest.raises(ConfigError, match=r"^no header: .* begins with a row, such as ") as raised:
            read()
        assert f"names of {'its column' if width == 1 else f'its {width} columns'} in front" in str(raised.value)


@pytest.mark.parametrize(
    "names",
    [
        *(("text",), ("any name",), ("sent0", "sent1", "hard_neg"), ("premise", "entails", "contradicts"), ("a", "b")),
        *(("Sentence 1", "Sentence 2"), ("left text", "right text", "other text"), ("\u53e5\u5b50",), ("No.", "text")),
    ],
)
def test_names_are_a_header(names: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", [names, *([f"the left river {n}"] * len(names) for n in range(3))])
    assert len(list(file_source("file", path).rows())) == 3


def test_a_name_that_looks_like_a_row_is_one_where_a_person_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", [("What did you like about the shop?",), ("a river",)])
    with pytest.raises(ConfigError, match="^no header: "):
        user_source(corpus(path))
    source = user_source(corpus(path, text="What did you like about the shop?"))
    assert list(source.rows()) == [("a river",)]


@pytest.mark.parametrize("values", [("3.82", "1"), ("0", "2"), ("1e-3", "nan"), ("neutral", "Entailment"), ("-", "")])
def test_numbers_and_labels_are_no_hard_negatives(values: tuple[str, str], tmp_path: Path) -> None:
    rows = [("first", "second", "third"), *((*pair, value) for pair, value in zip(PAIRS, values, strict=True))]
    path = write(tmp_path / "m.csv", rows)
    with pytest.raises(
        ConfigError, match=f"^no texts: train.corpus=file has numbers or labels .* hard_neg={values[0]}"
    ):
        survey_source(file_source("file", path))
    with pytest.raises(ConfigError, match="^no texts: train.corpus=mine .* hard_neg="):
        survey_file(corpus(path, sent0="first", sent1="second", hard_neg="third"))


def test_numbers_among_texts_and_empty_columns_are_texts(tmp_path: Path) -> None:
    for name, values in (("some", ("1984", "a river")), ("none", ("", ""))):
        rows = [PAIR_COLUMNS, *((*pair, value) for pair, value in zip(PAIRS, values, strict=True))]
        assert survey_source(file_source("file", write(tmp_path / f"{name}.csv", rows))).rows == 2


def test_labels_are_read_in_any_case_and_never_as_negatives(tmp_path: Path) -> None:
    rows = [("premise", "hypothesis", "gold_label"), (*PAIRS[0], "ENTAILMENT"), (*PAIRS[1], "Neutral"), ("a", "b", "-")]
    file = corpus(write(tmp_path / "m.csv", rows))
    assert reads_by_name(file) and user_source(file).columns == LABELLED_COLUMNS
    assert [row[2] for row in user_source(file).rows()] == ["entailment", "neutral"]


@pytest.mark.parametrize("label", ["0", "2", "0.0", "e", "yes"])
def test_a_label_that_is_no_word_of_nli_is_asked_about(label: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", [("premise", "hypothesis", "label"), (*PAIRS[0], label)])
    with pytest.raises(
        ConfigError, match=rf"has label={label}; give entailment, .*, or name the texts alone: columns: "
    ):
        list(user_source(corpus(path)).rows())
    assert list(user_source(corpus(path, sent0="premise", sent1="hypothesis")).rows()) == [PAIRS[0]]


def test_settings_say_the_columns_that_their_method_reads() -> None:
    for name in list_methods():
        said, config = config_class(name)().text_columns(), config_class(name)()
        assert load_method(name).columns(config) == (("text",) if said is None else said)


def test_labels_are_not_left_unread_where_every_pair_is_an_example() -> None:
    assert wrong_columns("nli", LABELLED_COLUMNS, "simcse", PAIR_COLUMNS[:2]).startswith(
        "labels unread: train.corpus=nli"
    )
    assert wrong_columns("nli", PAIR_COLUMNS, "simcse", PAIR_COLUMNS[:2]) == ""
    assert wrong_columns("nli", LABELLED_COLUMNS, "sbert", LABELLED_COLUMNS) == ""
    assert wrong_columns("nli", LABELLED_COLUMNS, "whitening", ()) == ""
    assert wrong_columns("nli", ("text",), "simcse", PAIR_COLUMNS).startswith(
        "wrong columns: train.corpus=nli has text; "
    )


TEXTS = ["the old bridge", "a river, wide; and deep", 'café "red"', "", "the old bridge", "naïve\ttabs"]
READ = ["the old bridge", "a river, wide; and deep", 'café "red"', "the old bridge", "naïve tabs"]
LONG = "word " * 40_000
SEPARATORS = {"commas": ",", "semicolons": ";", "tabs": "\t"}
ENDS = {"Unix": "\n", "Windows": "\r\n", "old Mac": "\r"}
QUOTES = {"all quoted": csv.QUOTE_ALL, "quoted as needed": csv.QUOTE_MINIMAL}
MARKS = {"no mark": "utf-8", "a mark": "utf-8-sig"}


def write_table(texts: list[str], separator: str = ",", end: str = "\n", quotes: int = csv.QUOTE_ALL) -> str:
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
    f"{by}, {end}, {how}, {mark}": (
        "a.csv",
        write_table(TEXTS, SEPARATORS[by], ENDS[end], QUOTES[how]).encode(MARKS[mark]),
    )
    for by, end, how, mark in itertools.product(SEPARATORS, ENDS, QUOTES, MARKS)
}
"""Thirty-six ways of a spreadsheet."""
OTHERS: dict[str, tuple[str, bytes]] = {
    "a .tsv": ("a.tsv", write_table(TEXTS, "\t").encode()),
    "packed": ("a.csv.gz", gzip.compress(write_table(TEXTS).encode())),
    "capitals": ("A.CSV", write_table(TEXTS).encode()),
    "no last line end": ("a.csv", write_table(TEXTS).rstrip("\n").encode()),
    "empty lines between rows": ("a.csv", write_table(TEXTS).replace("\n", "\n\n").encode()),
    "JSON lines": ("a.jsonl", json_lines(*({"body": text} for text in TEXTS))),
    "JSON lines with null": ("a.jsonl", json_lines(*({"body": text or None} for text in TEXTS))),
    "Parquet": ("a.parquet", parquet([*TEXTS])),
    "Parquet with null": ("a.parquet", parquet([text or None for text in TEXTS])),
    "lines": ("a.txt", "\n".join(text.replace("\t", " ") for text in TEXTS).encode()),
    "Windows' lines": ("a.txt", "\r\n".join(text.replace("\t", " ") for text in TEXTS).encode()),
}
REFUSED: dict[str, tuple[str, bytes, str]] = {
    "Latin-1": ("a.csv", write_table(TEXTS).encode("latin-1"), "not UTF-8: .*; convert it"),
    "Latin-1 lines": ("a.txt", "\n".join(READ).encode("latin-1"), "not UTF-8: .*; convert it"),
    "UTF-16": ("a.csv", write_table(TEXTS).encode("utf-16"), "not UTF-8: .*; convert it"),
    "UTF-16 without a mark": ("a.csv", write_table(TEXTS).encode("utf-16-le"), "not UTF-8: .*; convert it"),
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
    "cut packing": ("a.csv.gz", gzip.compress(write_table(TEXTS).encode())[:-9], "truncated data: .*; fetch it again"),
    "no packing": ("a.csv.gz", write_table(TEXTS).encode(), "truncated data: .*Not a gzipped file"),
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
    "11 million characters": ("a.csv", write_table(["w" * 11_000_000]).encode(), "line too long: .*; break it up"),
}


def table_corpus(path: Path) -> UserFile:
    return UserFile(name="mine", file=str(path), role="corpus", on_empty="skip")


@pytest.mark.parametrize("name", [*WRITTEN, *OTHERS])
def test_a_table_is_read_and_counted(name: str, tmp_path: Path) -> None:
    file, content = (WRITTEN | OTHERS)[name]
    (tmp_path / file).write_bytes(content)
    given = table_corpus(tmp_path / file)
    assert [row for (row,) in user_source(given).rows()] == READ
    counted = survey_file(given)
    assert (counted.rows, counted.empty, counted.first_empty, counted.duplicates) == (6, 1, 4, 1)


def test_a_field_of_200_kb_is_read_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(write_table(["a bridge", LONG, LONG]), encoding="utf8")
    counted = survey_file(table_corpus(tmp_path / "a.csv"))
    assert (counted.rows, counted.duplicates, counted.words[-1]) == (3, 1, 40_000)


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    file, content, line = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{line}") as caught:
        survey_file(table_corpus(tmp_path / file))
    assert len(caught.value.problems) == 1 and "\n" not in str(caught.value)
