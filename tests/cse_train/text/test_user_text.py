"""A user's own training text: one content in every format, columns by name, and the readers of before untouched."""

import csv
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import datasets
import pandas as pd
import pytest

from cse_train.data_paths import DataPaths
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source, rows_of
from cse_train.text.file_corpora import Survey, file_source, survey_file, user_source
from cse_train.text.files import Row
from cse_train.text.tables import open_table
from cse_train.user_files import UserFile

ROWS = [
    {"id": 1, "Body": "the river is old", "other": "it is by the bridge", "gold": "entailment"},
    {"id": 2, "Body": "a \"quoted\" word, and a comma", "other": "no bridge", "gold": "contradiction"},
    {"id": 3, "Body": "caf\u00e9 by the\tmarket", "other": "two\nlines", "gold": "neutral"},
]  # fmt: skip
COLUMNS = list(ROWS[0])


def delimited(path: Path, delimiter: str) -> None:
    with path.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(ROWS)


def packed_lines(path: Path) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))


def with_mark(path: Path) -> None:
    delimited(path, ",")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def split_folder(path: Path) -> None:
    table = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"train": table, "test": table.select([0])}).save_to_disk(str(path))


FORMATS: dict[str, Callable[[Path], None]] = {
    "a.csv": lambda path: delimited(path, ","),
    "a.tsv": lambda path: delimited(path, "\t"),
    "a.jsonl.gz": packed_lines,
    "marked.csv": with_mark,
    "a.parquet": lambda path: pd.DataFrame(ROWS).to_parquet(path),
    "folder": lambda path: datasets.Dataset.from_list(ROWS).save_to_disk(str(path)),
    "splits": split_folder,
}


def corpus(path: Path, **columns: str) -> UserFile:
    split = "train" if path.name == "splits" else None
    return UserFile(name="mine", file=str(path), role="corpus", columns=tuple(sorted(columns.items())), split=split)


def rows(file: UserFile) -> list[Row]:
    return list(user_source(file).rows())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_sentences_pairs_and_labelled_pairs(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FORMATS[name](path)
    bodies = [" ".join(str(row["Body"]).split()) for row in ROWS]
    others = [" ".join(str(row["other"]).split()) for row in ROWS]
    labels = [row["gold"] for row in ROWS]
    assert rows(corpus(path, text="Body")) == [(body,) for body in bodies]
    assert rows(corpus(path)) == [(body,) for body in bodies]  # body is a usual name, whatever its case
    pairs = corpus(path, sent0="Body", sent1="other")
    assert rows(pairs) == list(zip(bodies, others, strict=True)) and user_source(pairs).columns == ("sent0", "sent1")
    labelled = corpus(path, sent0="Body", sent1="other", label="gold")
    assert rows(labelled) == list(zip(bodies, others, labels, strict=True))
    hard = corpus(path, sent0="other", sent1="Body", hard_neg="gold")
    assert user_source(hard).columns == ("sent0", "sent1", "hard_neg") and len(rows(hard)) == 3


def test_classes_of_a_data_set_are_read_by_their_names(tmp_path: Path) -> None:
    classes = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    kinds = datasets.Features({"premise": datasets.Value("string"), "hypothesis": datasets.Value("string")})
    table = datasets.Dataset.from_dict(
        {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [2, -1, 0]},
        features=datasets.Features({**kinds, "label": classes}),
    )
    table.save_to_disk(str(tmp_path / "nli"))
    assert rows(corpus(tmp_path / "nli")) == [("a", "d", "contradiction"), ("c", "f", "entailment")]


def test_a_folder_of_several_splits_asks_which(tmp_path: Path) -> None:
    split_folder(tmp_path / "d")
    for split, told in ((None, "give `split:`, one of train, test"), ("tran", "did you mean train?")):
        with pytest.raises(ConfigError) as raised:
            open_table(UserFile(name="d", file=str(tmp_path / "d"), role="corpus", split=split))
        assert told in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "a river\n\na bridge\n"),
        ("a.csv", "text\na river\n"),
        ("b.csv", "any name\na river\n"),
        ("c.csv", "sent0,sent1,hard_neg\na,b,c\n"),
        ("d.tsv", "sent0\tsent1\tlabel\na\tb\tneutral\n"),
        ("e.jsonl", '{"text": "a river", "id": 3}\n'),
    ],
)
def test_what_the_readers_of_before_read_has_their_hash(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf8")
    before, now = file_source("file", path), user_source(corpus(path))
    assert (now.content_hash, now.columns, list(now.rows())) == (
        before.content_hash,
        before.columns,
        list(before.rows()),
    )
    files = DataPaths(files=(corpus(path),))
    assert open_source("mine", files).content_hash == before.content_hash
    assert rows_of("mine", files) == len(list(before.rows()))


def test_the_hash_is_of_content_and_columns_and_not_of_the_path(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        delimited(tmp_path / folder / f"{folder}.csv", ",")
    first, second = (user_source(corpus(tmp_path / f / f"{f}.csv", text="Body")) for f in ("one", "two"))
    assert first.content_hash == second.content_hash
    assert user_source(corpus(tmp_path / "one/one.csv", text="other")).content_hash != first.content_hash
    (tmp_path / "two/two.csv").write_text("id,Body,other,gold\n1,a,b,c\n", encoding="utf8")
    assert user_source(corpus(tmp_path / "two/two.csv", text="Body")).content_hash != first.content_hash


def test_a_data_set_of_the_hub_is_read_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, split: str, setting: str) -> datasets.Dataset:
        asked.append((name, split, setting))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr("cse_train.text.tables.load_hub_split", load)
    file = UserFile(name="hub", file="hf:me/texts", role="corpus", split="dev")
    assert len(rows(file)) == 3 and set(asked) == {("me/texts", "dev", "file=hf:me/texts")}


TICKETS = ["the old stone", "", "a river by the bridge", "the old stone", "  ", "a lamp", "the old stone"]
EMPTY_KINDS: dict[str, Callable[[Path], None]] = {
    "t.csv": lambda path: pd.DataFrame({"id": range(7), "body": TICKETS}).to_csv(path, index=False),
    "t.tsv.gz": lambda path: pd.DataFrame({"id": range(7), "body": TICKETS}).to_csv(path, index=False, sep="\t"),
    "plain.csv": lambda path: pd.DataFrame({"body": [f" {t}" if t else '""' for t in TICKETS]}).to_csv(
        path, index=False, quoting=csv.QUOTE_NONE, sep="\t"
    ),
    "t.jsonl": lambda path: pd.DataFrame({"text": TICKETS}).to_json(path, orient="records", lines=True),
    "null.jsonl": lambda path: path.write_text(
        "".join(json.dumps({"body": text if text.strip() else None}) + "\n" for text in TICKETS), encoding="utf8"
    ) and None,
    "t.parquet": lambda path: pd.DataFrame({"body": [t if t.strip() else None for t in TICKETS]}).to_parquet(path),
    "t.txt": lambda path: path.write_text("\n".join(TICKETS) + "\n", encoding="utf8") and None,
    "folder": lambda path: datasets.Dataset.from_dict({"body": TICKETS}).save_to_disk(str(path)),
}  # fmt: skip
"""Every kind of file with seven rows, two of them without a word and two that equal the first."""


@pytest.mark.parametrize("name", EMPTY_KINDS)
def test_empty_and_equal_rows_are_counted_and_left_out_where_that_is_asked_for(name: str, tmp_path: Path) -> None:
    EMPTY_KINDS[name](tmp_path / name)
    given = corpus(tmp_path / name)
    skipping = replace(given, on_empty="skip")
    assert survey_file(skipping) == Survey(7, empty=2, first_empty=2, duplicates=2, words=(3, 5, 5))
    assert rows(skipping) == [(text,) for text in TICKETS if text.strip()]
    assert rows(replace(skipping, deduplicate=True)) == [("the old stone",), ("a river by the bridge",), ("a lamp",)]
    with pytest.raises(ConfigError, match=r"^empty rows: .* has 2 of 7 without words, the first is row 2; leave them"):
        survey_file(replace(given, on_empty="refuse"))
    hashes = {user_source(file).content_hash for file in (given, skipping, replace(given, deduplicate=True))}
    assert len(hashes) == 3 and user_source(replace(given, on_empty="refuse")).columns == ("text",)


def test_rows_without_words_are_refused_where_nothing_is_said_but_for_those_that_the_readers_of_before_took(
    tmp_path: Path,
) -> None:
    for name, write in EMPTY_KINDS.items():
        write(tmp_path / name)
        if name in ("plain.csv", "t.txt"):
            assert survey_file(corpus(tmp_path / name)).empty == 2
            assert len(rows(corpus(tmp_path / name))) == (7 if name == "plain.csv" else 5)
        else:
            with pytest.raises(ConfigError, match="^empty rows: "):
                survey_file(corpus(tmp_path / name))


def test_a_pair_is_empty_where_one_text_is_and_equal_where_both_and_the_label_are(tmp_path: Path) -> None:
    lines = ["sent0,sent1,label", "a,b,neutral", "a,b,entailment", "a,,neutral", "a,b,neutral", "c,d,-", ",,-"]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n", encoding="utf8")
    file = replace(corpus(tmp_path / "p.csv"), on_empty="skip", deduplicate=True)
    assert survey_file(file) == Survey(4, empty=1, first_empty=3, duplicates=1, words=(1, 1, 1))
    assert rows(file) == [("a", "b", "neutral"), ("a", "b", "entailment")]


def test_a_corpus_without_a_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text('id,text\n1,\n2,""\n', encoding="utf8")
    with pytest.raises(ConfigError, match="^empty data: .*e.csv has no row with text"):
        survey_file(replace(corpus(tmp_path / "e.csv"), on_empty="skip"))


COUNTED = """
import re, sys
from pathlib import Path
from dataclasses import replace
from cse_train.text.file_corpora import survey_file, user_source
from cse_train.user_files import UserFile
status = Path("/proc/self/status")  # of this process alone, where ru_maxrss begins with its parent's
most = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) // 1024
file, before = UserFile(name="m", file=sys.argv[1], role="corpus", on_empty="skip"), most()
counted = survey_file(file)
surveyed = most() - before
kept = sum(1 for _ in user_source(replace(file, deduplicate=True)).rows())
print(counted.rows, counted.empty, counted.duplicates, kept, surveyed, most() - before)
"""


@pytest.mark.slow
def test_a_million_rows_are_counted_in_bounded_memory(tmp_path: Path) -> None:
    """About 10 s of a slow core; 60 MB, and 60 more while equal rows are left out."""
    last = ""
    with (tmp_path / "m.csv").open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "body"])
        for number in range(1_000_000):
            text = "" if number % 12 == 0 else last if number % 5 == 0 else f"the river {number} by the old bridge"
            writer.writerow([number, text])
            last = text or last
    words = [sys.executable, "-c", COUNTED, str(tmp_path / "m.csv")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[4], timeout=600)
    rows, empty, equal, kept, surveyed, most = map(int, done.stdout.split())
    assert (rows, empty, kept) == (1_000_000, 83_334, 1_000_000 - 83_334 - equal)
    assert equal == sum(number % 5 == 0 and number % 12 != 0 for number in range(1_000_000))
    assert surveyed < 120 and most < 250, (surveyed, most)
