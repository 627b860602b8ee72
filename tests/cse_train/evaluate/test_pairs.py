"""Pairs with ratings or labels: files of our own, and forty tables as people publish them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate import pairs as module
from cse_train.evaluate.dev import dev_evaluator
from cse_train.evaluate.pairs import load_pairs, split_of
from cse_train.evaluate.suites.registry import set_hash
from cse_train.evaluate.user_sets import open_user_file, read_ratings
from cse_train.fields import ConfigError
from cse_train.user_files import UserFile

COUNTS = {
    "sts_train": 5749,
    "sts_dev": 1500,
    "sts_test": 1379,
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "sickr_dev": 500,
    "sickr_test": 4927,
}


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf8")


def sts_b(folder: Path, count: int) -> DataPaths:
    rows = [f'genre\tfile\tyear\t{i:04}\t{i % 6}.0\ta "quoted  text {i}\tb {i}\tsource\tlicence' for i in range(count)]
    write(folder / "STS" / "STSBenchmark" / "sts-dev.csv", rows)
    return DataPaths(senteval=folder)


def message(error: pytest.ExceptionInfo[ConfigError]) -> str:
    assert len(error.value.problems) == 1
    return error.value.problems[0]


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_real_sets_have_the_published_counts(name: str, count: int, data_dir: Path) -> None:
    found = load_pairs(name, DataPaths.from_folder(data_dir))
    assert len(found) == len(found.left) == len(found.right) == count
    assert np.isfinite(found.gold).all() and found.gold.min() >= 0 and found.gold.max() <= 5


def test_real_sts_b_is_sentevals_lower_cased_text(data_dir: Path) -> None:
    found = load_pairs("sts_dev", DataPaths.from_folder(data_dir))
    assert (found.left[0], found.gold[0]) == ("a man with a hard hat is dancing .", 5.0)


def test_quotes_are_text_and_extra_columns_are_ignored(tmp_path: Path) -> None:
    found = load_pairs("sts_dev", sts_b(tmp_path, 1500))
    assert (found.left[3], found.right[3], found.gold[3]) == ('a "quoted text 3', "b 3", 3.0)


def test_truncated_file_tells_both_counts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_pairs("sts_dev", sts_b(tmp_path, 1312))
    path = tmp_path / "STS" / "STSBenchmark" / "sts-dev.csv"
    assert message(error) == f"truncated data: sts_dev: 1500 pairs expected, 1312 found in {path}; fetch it again"


def test_last_line_cut_in_its_middle_is_counted_as_missing(tmp_path: Path) -> None:
    paths = sts_b(tmp_path, 1500)
    path = tmp_path / "STS" / "STSBenchmark" / "sts-dev.csv"
    path.write_text(path.read_text()[:-60])
    with pytest.raises(ConfigError, match="1500 pairs expected, 1499 found"):
        load_pairs("sts_dev", paths)


def test_too_many_pairs_are_refused_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^unexpected data: sts_dev: 1500 pairs expected, 1501 found"):
        load_pairs("sts_dev", sts_b(tmp_path, 1501))


def test_year_drops_blank_grades_and_keeps_line_and_grade_together(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(module.STS_YEARS, "sts15", {"one": 2, "two": 1})
    folder = tmp_path / "STS" / "STS15-en-test"
    write(folder / "STS.input.one.txt", ["a\tb", "never\tscored", "c\td\textra", "unused\ttail"])
    write(folder / "STS.gs.one.txt", ["1", "", "3.5"])
    write(folder / "STS.input.two.txt", ["e\tf"])
    write(folder / "STS.gs.two.txt", ["2"])
    found = load_pairs("sts15", DataPaths(senteval=tmp_path))
    assert list(zip(found.left, found.right, found.gold, strict=True)) == [
        ("a", "b", 1),
        ("c", "d", 3.5),
        ("e", "f", 2),
    ]
    write(folder / "STS.input.one.txt", ["a\tb", "never\tscored"])
    with pytest.raises(
        ConfigError, match=r"^truncated data: sts15 one: 2 pairs expected, 1 found in .*STS.input.one.txt"
    ):
        load_pairs("sts15", DataPaths(senteval=tmp_path))


def test_missing_and_unknown_sets_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^missing data: sts_dev needs senteval/downstream; give --data DIR"):
        load_pairs("sts_dev", DataPaths())
    with pytest.raises(ConfigError, match=r"^missing data: sickr_test needs .*SICK_test_annotated.txt"):
        load_pairs("sickr_test", DataPaths(senteval=tmp_path))
    with pytest.raises(ConfigError, match=r"^unknown suite: suite=sts_dve; did you mean sts_dev"):
        load_pairs("sts_dve", DataPaths())
    with pytest.raises(ConfigError, match=r"^wrong count: suite=generated_dev:x"):
        load_pairs("generated_dev:x", DataPaths())


def test_generated_set() -> None:
    found = load_pairs("generated_dev", DataPaths())
    assert len(found) >= 500 and set(found.gold) == {0, 1, 2, 3, 4, 5}
    few = load_pairs("generated_dev:16", DataPaths())
    assert (len(few), few.left) == (16, found.left[:16])
    assert few.content_hash != found.content_hash == load_pairs("generated_dev", DataPaths()).content_hash


def test_hash_sees_texts_and_grades(tmp_path: Path) -> None:
    first = load_pairs("sts_dev", sts_b(tmp_path, 1500)).content_hash
    path = tmp_path / "STS" / "STSBenchmark" / "sts-dev.csv"
    path.write_text(path.read_text().replace("\t5.0\t", "\t4.9\t", 1))
    assert load_pairs("sts_dev", DataPaths(senteval=tmp_path)).content_hash != first


def test_hub_benchmark_counts_are_asserted(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"sentence1": "A", "sentence2": "B", "score": 2.5}
    asked = []

    def fake(name: str, split: str, setting: str) -> list[dict]:
        asked.append((name, split))
        return [row] * 1499 + [row | {"score": 5.0}]

    monkeypatch.setattr(module, "load_hub_split", fake)
    found = load_pairs("mteb/stsbenchmark-sts", DataPaths())
    assert (len(found), found.left[0], found.gold[0]) == (1500, "A", 2.5)
    with pytest.raises(ConfigError, match="1379 pairs expected, 1500 found"):
        load_pairs("hf:mteb/stsbenchmark-sts:test", DataPaths())
    assert asked == [("mteb/stsbenchmark-sts", "validation"), ("mteb/stsbenchmark-sts", "test")]
    with pytest.raises(ConfigError, match=r"^unknown split: .*did you mean validation"):
        load_pairs("mteb/stsbenchmark-sts:validatoin", DataPaths())


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("sts_dev", "dev"),
        ("sts_train", "train"),
        ("sts12", "test"),
        ("sickr_test", "test"),
        ("generated_dev:16", "dev"),
        ("mteb/stsbenchmark-sts", "dev"),
        ("mteb/stsbenchmark-sts:test", "test"),
    ],
)
def test_split_of_a_name(name: str, split: str) -> None:
    assert split_of(name) == split


COUNT = 30
LEFT, RIGHT = [f"a river {n}" for n in range(COUNT)], [f"an old bridge {n}" for n in range(COUNT)]
CLASSES = "classes or ratings: "
STS, NLI = ("sentence1", "sentence2"), ("premise", "hypothesis")
Columns = Mapping[str, Sequence[Any]]


def pairs(names: tuple[str, str], **columns: Sequence[Any]) -> Columns:
    return {
        names[0]: LEFT,
        names[1]: RIGHT,
        **{name: [values[n % len(values)] for n in range(COUNT)] for name, values in columns.items()},
    }


def single(name: str, **columns: Sequence[Any]) -> Columns:
    return {name: LEFT, **{key: [values[n % len(values)] for n in range(COUNT)] for key, values in columns.items()}}


TABLES: dict[str, tuple[Columns, str]] = {
    "STS-B, 0 to 5 by fifths": (pairs(STS, score=[0.0, 1.2, 2.4, 3.8, 5.0]), "score"),
    "STS-B of GLUE": (pairs(STS, idx=range(COUNT), label=[0.0, 1.2, 2.5, 3.8, 5.0]), "label"),
    "STS-B, 0 to 1": (pairs(STS, score=[0.0, 0.25, 0.76, 1.0]), "score"),
    "halves": (pairs(STS, score=[0, 0.5, 1]), "score"),
    "whole scores 0 to 5": (pairs(STS, score=range(6)), "score"),
    "whole ratings 1 to 5": (pairs(("text1", "text2"), rating=range(1, 6)), "rating"),
    "whole floats 1 to 5": (pairs(("text1", "text2"), rating=[1.0, 2.0, 3.0, 4.0, 5.0]), "rating"),
    "Likert, 1 to 4": (pairs(("left", "right"), similarity=[1, 2, 3, 4]), "similarity"),
    "Likert, -2 to 2": (pairs(STS, rating=[-2, -1, 0, 1, 2]), "rating"),
    "three similarities": (pairs(STS, similarity=[0, 1, 2]), "similarity"),
    "cosines": (pairs(STS, similarity=[-1.0, -0.2, 0.4, 1.0]), "similarity"),
    "percents": (pairs(STS, score=["0", "25", "80", "100"]), "score"),
    "SICK with its judgement": (
        pairs(
            ("sentence_A", "sentence_B"),
            relatedness_score=[1.0, 2.6, 4.9],
            entailment_judgment=["ENTAILMENT", "NEUTRAL", "CONTRADICTION"],
        ),
        "relatedness_score",
    ),
    "SICK with whole labels": (
        pairs(("sentence_A", "sentence_B"), label=[0, 1, 2], relatedness_score=[4.9, 2.6, 1.0]),
        "relatedness_score",
    ),
    "similarity beside distance": (pairs(STS, distance=[1.0, 0.5, 0.1], similarity=[0.0, 0.5, 0.9]), "similarity"),
    "distance alone": (pairs(STS, distance=[1.0, 0.5, 0.1]), "missing column: "),
    "labels of five": (pairs(STS, label=range(6)), CLASSES),
    "QQP": (pairs(("question1", "question2"), is_duplicate=[0, 1]), "missing column: "),
    "QQP of GLUE": (pairs(("question1", "question2"), label=[0, 1]), CLASSES),
    "MRPC": (pairs(STS, label=["1", "0"]), CLASSES),
    "PAWS": (pairs(STS, id=range(COUNT), label=[0, 1]), CLASSES),
    "PAWS with Booleans": (pairs(STS, label=[True, False]), "not a number: "),
    "RTE, where 0 is entailment": (pairs(STS, label=[0, 1]), CLASSES),
    "pairs with a score of 0 or 1": (pairs(STS, score=[0.0, 1.0]), CLASSES),
    "NLI in whole numbers": (pairs(NLI, label=[0, 1, 2]), CLASSES),
    "NLI with -1 for no gold": (pairs(NLI, label=[0, 2, 1, -1]), CLASSES),
    "NLI in floats": (pairs(NLI, label=[0.0, 1.0, 2.0]), CLASSES),
    "NLI in digits": (pairs(NLI, label=["0", "1", "2"]), CLASSES),
    "NLI of two classes": (pairs(NLI, label=[0, 2]), CLASSES),
    "NLI in a column score": (pairs(NLI, score=[0, 0.5, 1]), CLASSES),
    "NLI with -1 in a column similarity": (pairs(STS, similarity=[-1, 0, 1, 2]), CLASSES),
    "NLI of sentence1, sentence2, gold": (pairs(STS, gold=[0, 1, 2]), CLASSES),
    "NLI of text_a, text_b": (pairs(("text_a", "text_b"), label=[0, 1, 2]), CLASSES),
    "four stances": (pairs(("text1", "text2"), label=[0, 1, 2, 3]), CLASSES),
    "174 connectives": (pairs(STS, label=range(COUNT)), CLASSES),
    "NLI in words": (pairs(NLI, label=["entailment", "neutral", "contradiction"]), "not a number: "),
    "NLI in capitals": (pairs(NLI, label=["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]), "not a number: "),
    "NLI in letters": (pairs(NLI, label=["e", "n", "c"]), "not a number: "),
    "SNLI": (pairs(STS, gold_label=["entailment", "-", "neutral"], pairID=["1", "2"]), "missing column: "),
    "MNLI": (
        pairs(STS, genre=["fiction", "travel"], label1=["neutral"], gold_label=["entailment", "neutral"]),
        "missing column: ",
    ),
    "QNLI": ({"question": LEFT, "sentence": RIGHT, "label": [n % 2 for n in range(COUNT)]}, "classes of pairs: "),
    "topics": (single("text", label=["river", "bridge"]), "labels"),
    "topics in whole numbers": (single("sentence", label=[0, 1]), "labels"),
    "answers": (pairs(("question", "answer"), label=[0, 1]), "retrieval"),
}
"""Description of a table -> its columns, and the expected outcome: rating column, kind, or the refusal's beginning."""


def written(table: str, folder: Path, form: str) -> UserFile:
    frame, path = pd.DataFrame(TABLES[table][0]), folder / f"set{form}"
    if form == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")), encoding="utf8")
    elif form == ".parquet":
        frame.to_parquet(path)
    elif form:
        frame.to_csv(path, index=False, sep="\t" if form == ".tsv" else ",")
    else:
        datasets.Dataset.from_dict({name: list(values) for name, values in frame.items()}).save_to_disk(str(path))
    return UserFile(name="set", file=str(path), role="dev")


@pytest.mark.parametrize("form", [".csv", ".tsv", ".jsonl", ".parquet", ""])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_read_as_what_it_is_or_asked_about(table: str, form: str, tmp_path: Path) -> None:
    file, (_, told) = written(table, tmp_path, form), TABLES[table]
    if told.endswith(": "):
        with pytest.raises(ConfigError) as raised:
            set_hash("set", DataPaths(files=(file,)))
        (line,) = raised.value.problems
        assert line.startswith(told) and "; " in line and "\n" not in line
        return
    opened = open_user_file(file)
    assert set_hash("set", DataPaths(files=(file,)))
    assert opened.kind == told if told in ("labels", "retrieval") else opened.columns["rating"] == told


@pytest.mark.parametrize("table", [name for name, (_, told) in TABLES.items() if told == CLASSES])
def test_numbers_that_are_asked_about_are_ratings_where_that_is_said(table: str, tmp_path: Path) -> None:
    file = written(table, tmp_path, ".jsonl")
    columns, _ = TABLES[table]
    values = [float(value) for value in list(columns.values())[-1]]
    assert [rating for _, _, rating in read_ratings(replace(file, kind="ratings"))] == values


def test_columns_that_are_named_are_asked_about_as_usual_ones_are(tmp_path: Path) -> None:
    """A line on columns that are not found ends in `columns:`, and must not lead to a wrong score."""
    for table, column in (("NLI in whole numbers", "label"), ("QQP", "is_duplicate"), ("distance alone", "distance")):
        (tmp_path / column).mkdir()
        file = written(table, tmp_path / column, ".csv")
        first, second = list(TABLES[table][0])[:2]
        said = replace(file, columns=(("rating", column), ("sentence1", first), ("sentence2", second)))
        if column == "is_duplicate":
            assert len(read_ratings(said)) == COUNT
            continue
        with pytest.raises(ConfigError, match=r"^(classes|distances) or ratings: .*; give `kind: ratings` if texts"):
            read_ratings(said)


def test_classes_by_their_names_are_no_ratings(tmp_path: Path) -> None:
    for names in (["entailment", "neutral", "contradiction"], ["0", "1", "2"]):
        data = {"premise": LEFT, "hypothesis": RIGHT, "label": [n % 3 for n in range(COUNT)]}
        features = datasets.Features(
            {**{name: datasets.Value("string") for name in NLI}, "label": datasets.ClassLabel(names=names)}
        )
        folder = tmp_path / names[0]
        datasets.Dataset.from_dict(data, features=features).save_to_disk(str(folder))
        with pytest.raises(ConfigError, match="^(not a number|classes or ratings): "):
            read_ratings(UserFile(name="set", file=str(folder), role="dev"))


def test_no_checkpoint_is_picked_by_classes(tmp_path: Path) -> None:
    file = written("NLI in whole numbers", tmp_path, ".jsonl")
    with pytest.raises(ConfigError, match=r"^classes or ratings: label=0, 1, 2 of "):
        dev_evaluator("set", DataPaths(files=(file,)), None, 32)
