"""A first line that is a row is no header, and a column of numbers or of labels is no text."""

import codecs
import csv
import io
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import set_hash
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
from cse_train.user_files import UserFile

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
