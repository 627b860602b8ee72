"""The texts of an evaluation set as a training corpus, without grades: "target" in BERT-flow and BERT-whitening.

SentEval's files as published: STS12-16 are their scored pairs; STS-B and SICK-R are train, dev and test together (Li et
al. 2020, released --use_full_for_training; Su et al. 2021, released eng/eval.py).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from cse_train.fields import ConfigError, nearest

TARGET_SPLITS = {
    "sts_test": ("STS/STSBenchmark", ("sts-train.csv", "sts-dev.csv", "sts-test.csv"), (5, 6)),
    "sickr_test": ("SICK", ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"), (1, 2)),
}
"""Name of an evaluation set -> its folder in SentEval, its files, and the columns of its two texts."""
YEARS = ("sts12", "sts13", "sts14", "sts15", "sts16")
PAIR_HEADER = "pair_ID"
PAIRS_PREFIX, GRADES_PREFIX = "STS.input.", "STS.gs."
Pair = tuple[str, str]


def target_files(name: str, senteval: Path | None) -> list[Path]:
    """Returns the files with an evaluation set's texts, in a fixed order. ConfigError: unknown set or missing files."""
    if name not in (*YEARS, *TARGET_SPLITS):
        hint = nearest(f"target:{name}", [f"target:{each}" for each in (*YEARS, *TARGET_SPLITS)])
        raise ConfigError([f"unknown corpus: train.corpus=target:{name}; {hint}"])
    message = f"missing data: train.corpus=target:{name} needs"
    if senteval is None:
        raise ConfigError([f"{message} senteval/downstream; give --data DIR or --senteval DIR, or cse data get sts"])
    if name in YEARS:
        files = _list_year(senteval / "STS" / f"{name.upper()}-en-test")
    else:
        folder, splits, _ = TARGET_SPLITS[name]
        files = [senteval / folder / split for split in splits]
    absent = [file for file in files if not file.is_file()]
    if absent:
        raise ConfigError([f"{message} {absent[0]}; cse data get sts, or give --senteval DIR"])
    return files


def target_rows(name: str, files: list[Path]) -> Iterator[Pair]:
    """Yields the two texts of each pair of an evaluation set. ConfigError for a file that is not UTF-8."""
    if name in YEARS:
        for pairs, grades in zip(files[::2], files[1::2], strict=True):
            scored = (line for line, grade in zip(_lines(pairs), _lines(grades), strict=False) if grade.strip())
            yield from _texts(scored, (0, 1))
    else:
        for file in files:
            yield from _texts(
                (line for line in _lines(file) if not line.startswith(PAIR_HEADER)), TARGET_SPLITS[name][2]
            )


def _list_year(folder: Path) -> list[Path]:
    """Returns, for each subset of an STS year, its file of pairs and then its file of grades."""
    subsets = [file.name.removeprefix(PAIRS_PREFIX) for file in sorted(folder.glob(f"{PAIRS_PREFIX}*.txt"))] or [
        "*.txt"
    ]
    return [folder / f"{kind}{subset}" for subset in subsets for kind in (PAIRS_PREFIX, GRADES_PREFIX)]


def _texts(lines: Iterable[str], columns: tuple[int, int]) -> Iterator[Pair]:
    """Yields the texts of tab-separated pairs, with single blanks between words; a line cut short gives no pair."""
    for fields in (line.split("\t") for line in lines):
        if len(fields) > max(columns):
            left, right = (" ".join(fields[column].split()) for column in columns)
            yield left, right


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError([f"not UTF-8: {file} ({error.reason}); fetch it again"]) from error
