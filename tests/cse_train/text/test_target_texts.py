"""`target:NAME`: the texts of an evaluation set, without its grades."""

from pathlib import Path

import pytest

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source

PAIRS = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "sts_test": 5749 + 1500 + 1379,
    "sickr_test": 4500 + 500 + 4927,
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_scored_pair_of_the_published_files(name: str, data_dir: Path) -> None:
    paths = DataPaths.from_folder(data_dir)
    source = open_source(f"target:{name}", paths)
    rows = list(source.rows())
    assert source.columns == ("sent0", "sent1") and len(rows) == PAIRS[name]
    graded = load_pairs(name, paths)
    assert set(zip(graded.left, graded.right, strict=True)) <= set(rows)


def year(folder: Path, grades: str) -> DataPaths:
    files = folder / "STS" / "STS12-en-test"
    files.mkdir(parents=True)
    (files / "STS.input.a.txt").write_text("one  a\tone b\ntwo a\ttwo b\nthree a\tthree b\n")
    (files / "STS.gs.a.txt").write_text(grades)
    return DataPaths(senteval=folder)


def test_a_pair_without_a_grade_is_left_out_and_blanks_are_single(tmp_path: Path) -> None:
    source = open_source("target:sts12", year(tmp_path, "5.0\n\n1.2\n"))
    assert list(source.rows()) == [("one a", "one b"), ("three a", "three b")]


def test_the_hash_is_that_of_the_files(tmp_path: Path) -> None:
    hashes = {open_source("target:sts12", year(tmp_path / at, at)).content_hash for at in ("5\n", "4\n")}
    assert len(hashes) == 2


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "STS").mkdir()
    cases = [
        ("sts11", tmp_path, r"^unknown corpus: train.corpus=target:sts11; did you mean target:sts1\d\? \(or "),
        ("sts12", None, r"^missing data: train.corpus=target:sts12 needs senteval/downstream; give --data DIR or --se"),
        (
            "sts12",
            tmp_path,
            r"^missing data: train.corpus=target:sts12 needs .*STS12-en-test/STS.input.\*.txt; cse data get",
        ),
        ("sickr_test", tmp_path, r"^missing data: train.corpus=target:sickr_test needs .*SICK_train.txt; cse data get"),
    ]
    for name, senteval, line in cases:
        with pytest.raises(ConfigError, match=line):
            open_source(f"target:{name}", DataPaths(senteval=senteval))
