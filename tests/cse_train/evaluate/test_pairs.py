from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate import pairs as module
from cse_train.evaluate.pairs import load_pairs, split_of
from cse_train.fields import ConfigError

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
