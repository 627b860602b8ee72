"""Graded sentence pairs: the STS family in SentEval's layout, the hub's STS benchmark, and the generated set.

Every count is checked, because a truncated download scores as well as a whole one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import constant
from cse_train.evaluate.user_sets import read_ratings
from cse_train.fields import ConfigError, nearest
from cse_train.reading import reading
from cse_train.text import generated
from cse_train.text.files import texts_hash
from cse_train.text.tables import FileState, file_state, load_hub_split
from cse_train.user_files import UserFile

HUB_DATA_SET = "mteb/stsbenchmark-sts"
HUB_COUNTS = {"train": 5749, "validation": 1500, "test": 1379}
"""Pairs in each split of the hub's STS benchmark."""
STS_B = {"sts_train": ("sts-train.csv", 5749), "sts_dev": ("sts-dev.csv", 1500), "sts_test": ("sts-test.csv", 1379)}
"""Name of each split of STS-B -> its file in SentEval and its number of pairs."""
SICK_R = {"sickr_dev": ("SICK_trial.txt", 500), "sickr_test": ("SICK_test_annotated.txt", 4927)}
"""Name of each split of SICK-R -> its file in SentEval and its number of pairs."""
STS_YEARS: dict[str, dict[str, int]] = {
    "sts12": {
        "MSRpar": 750,
        "MSRvid": 750,
        "SMTeuroparl": 459,
        "surprise.OnWN": 750,
        "surprise.SMTnews": 399,
    },
    "sts13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "sts14": {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "images": 750,
        "OnWN": 750,
        "tweet-news": 750,
    },
    "sts15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "sts16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}
"""STS year -> its subsets in SentEval's order -> number of scored pairs; STS13 lacks SMT, which is not free."""
SEVEN = (*STS_YEARS, "sts_test", "sickr_test")
"""The seven STS test sets of the papers' tables, in their order."""
GENERATED_PAIRS = 600
MOST_GENERATED = 100_000
LOWEST_RATING, HIGHEST_RATING = 0.0, 5.0
"""Range of the grades in the sets that ship; a user's own set may have any."""
GENERATED_SEED = 1
Graded = tuple[str, str, float]
"""Left text, right text and grade of a pair."""


@dataclass(frozen=True)
class Pairs:
    """A graded set: `left[i]` and `right[i]` are similar to degree `gold[i]`, 0-5 (SICK-R 1-5; a user's, any)."""

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    gold: np.ndarray
    """float64 [pairs]: human grade of each pair's similarity."""
    content_hash: str
    role: str | None = None
    """dev or test for a user's own set; None for a set that ships."""

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def split(self) -> str:
        """Split of the set: train, dev or test."""
        return self.role or split_of(self.name)


def suite_names() -> list[str]:
    """Returns all names that `load_pairs` knows, but for the variants `generated_dev:N` and splits of the hub's set."""
    return [*STS_B, *STS_YEARS, *SICK_R, "generated_dev", HUB_DATA_SET]


def set_name(name: str) -> str:
    """Returns a name without its variant, such as N of `generated_dev:N` or a split of the hub's set."""
    if _hub_split(name):
        return HUB_DATA_SET
    return "generated_dev" if name.startswith("generated_dev:") else name


def load_pairs(name: str, paths: DataPaths) -> Pairs:
    """Loads the graded set of that name (`generated_dev:N` makes N pairs), a user's own before any other.

    ConfigError, one line: unknown, missing, truncated, or without ratings.
    """
    if (file := paths.data_set(name)) is not None:
        return _read_user_file(file, file_state(file))
    if name.partition(":")[0] == "generated_dev":
        variant = name.partition(":")[2]
        if variant and not (variant.isdecimal() and variant.isascii() and 2 <= int(variant[:9]) <= MOST_GENERATED):
            raise ConfigError([f"wrong count: suite={name}; give generated_dev:N with N from 2 to {MOST_GENERATED}"])
        parts = generated.make_graded_pairs(int(variant or GENERATED_PAIRS), GENERATED_SEED)
        return _pairs(name, zip(*parts, strict=True))
    if _hub_split(name):
        return _read_hub(name, _hub_split(name))
    if name not in suite_names():
        raise ConfigError([f"unknown suite: suite={name}; {nearest(name, suite_names())}"])
    root = senteval_root(name, paths)
    if name in STS_YEARS:
        return _pairs(name, [pair for subset in STS_YEARS[name] for pair in _subset(name, subset, root)])
    lines, count = (STS_B | SICK_R)[name]
    path = root / ("STS/STSBenchmark" if name in STS_B else "SICK") / lines
    columns = (5, 6, 4) if name in STS_B else (1, 2, 3)
    rows = (line.split("\t") for line in read_lines(name, path))  # quotes are text
    chosen = (tuple(row[column] for column in columns) for row in rows if len(row) > max(columns))
    graded = [(clean(a), clean(b), float(gold)) for a, b, gold in chosen if _is_number(gold)]  # without the header
    require_count(name, len(graded), count, path)
    return _pairs(name, graded)


def _hub_split(name: str) -> str:
    """Returns the split that a name of the hub's STS benchmark asks for; empty for any other set."""
    rest = name.removeprefix("hf:")
    return (rest.removeprefix(HUB_DATA_SET).removeprefix(":") or "validation") if rest.startswith(HUB_DATA_SET) else ""


def split_of(name: str) -> str:
    """Returns the split that a set's name implies: train, dev or test."""
    stem = _hub_split(name).replace("validation", "dev") or name.partition(":")[0]
    return next((split for split in ("train", "dev") if stem.endswith(split)), "test")


def dev_problem(name: str) -> str | None:
    """Returns why a set may pick no checkpoint: it is a test set; None for any other set, and for an unknown name."""
    if set_name(name) not in suite_names() or split_of(name) != "test":
        return None
    valid = [other for other in suite_names() if split_of(other) == "dev"]
    return f"test set as dev: train.dev={name}; a checkpoint is picked on {', '.join(valid)}, evaluate: takes {name}"


def senteval_root(name: str, paths: DataPaths) -> Path:
    """Returns SentEval's folder, which the set or task `name` needs; ConfigError where it is not given."""
    if paths.senteval is None:
        lacks = f"missing data: {name} needs senteval/downstream"
        raise ConfigError([f"{lacks}; give --data DIR or --senteval DIR, or cse data get senteval"])
    return paths.senteval


def read_lines(name: str, path: Path, size: str = "", encoding: str = "utf8") -> list[str]:
    """Reads the lines of a file without their ends; only newlines end a line, unlike str.splitlines.

    ConfigError for a missing file, whose message says the expected `size` (" of 500 lines"), and for a wrong encoding.
    """
    if not path.is_file():
        raise ConfigError([f"missing data: {name} needs {path}{size}; cse data get senteval, or give --senteval DIR"])
    try:
        text = path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise ConfigError([f"not UTF-8: {path} ({error.reason}); fetch it again"]) from error
    return text.removesuffix("\n").split("\n") if text else []


def _subset(name: str, subset: str, root: Path) -> list[Graded]:
    """Reads one subset of an STS year; pairs without a gold score are dropped (SentEval sts.py:39-43)."""
    folder = root / "STS" / f"{name.upper()}-en-test"
    golds = read_lines(name, folder / f"STS.gs.{subset}.txt")
    path = folder / f"STS.input.{subset}.txt"
    rows = [
        (line.split("\t"), gold) for line, gold in zip(read_lines(name, path), golds, strict=False) if _is_number(gold)
    ]
    graded = [(clean(row[0]), clean(row[1]), float(gold)) for row, gold in rows if len(row) > 1]
    require_count(f"{name} {subset}", len(graded), STS_YEARS[name][subset], path)
    return graded


def clean(text: str) -> str:
    """Returns a text with single blanks between tokens, as SentEval's split and join leave it."""
    return " ".join(text.split())


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def require_count(name: str, count: int, expected: int, path: Path | str, unit: str = "pairs") -> None:
    """Raises ConfigError for a file that has fewer or more examples than the published one."""
    if count != expected:
        rule = "truncated data" if count < expected else "unexpected data"
        raise ConfigError([f"{rule}: {name}: {expected} {unit} expected, {count} found in {path}; fetch it again"])


def require_grades(name: str, gold: Sequence[float]) -> None:
    """Raises ConfigError for grades outside LOWEST_RATING to HIGHEST_RATING, and for equal ones, which rank nothing."""
    wrong = next((grade for grade in gold if not LOWEST_RATING <= grade <= HIGHEST_RATING), None)
    if wrong is not None:
        line = f"wrong grade: {name} has {wrong:g}, grades go from {LOWEST_RATING:g} to {HIGHEST_RATING:g}"
        raise ConfigError([f"{line}; fetch its data again"])
    if constant(np.array(gold)):
        raise ConfigError([f"constant grades: {name} has {len(gold)} equal ones, which rank nothing; fetch it again"])


def _read_hub(name: str, split: str) -> Pairs:
    if split not in HUB_COUNTS:
        raise ConfigError([f"unknown split: suite={name}; {nearest(split, HUB_COUNTS)}"])
    table = load_hub_split(HUB_DATA_SET, split, f"suite={name}")
    with reading("unreadable data set", HUB_DATA_SET, "fetch it again"):
        graded = [(str(row["sentence1"]), str(row["sentence2"]), float(row["score"])) for row in table]
    require_count(name, len(graded), HUB_COUNTS[split], HUB_DATA_SET)
    return _pairs(name, graded)


@lru_cache(maxsize=16)
def _read_user_file(file: UserFile, _state: FileState) -> Pairs:
    return replace(_join(file.name, read_ratings(file)), role=file.role)


def _pairs(name: str, graded: Iterable[Graded]) -> Pairs:
    pairs = _join(name, graded)
    require_grades(name, pairs.gold.tolist())
    return pairs


def _join(name: str, graded: Iterable[Graded]) -> Pairs:
    left, right, gold = zip(*graded, strict=True)
    content = texts_hash([*left, *right, *(repr(g) for g in gold)])
    return Pairs(name, left, right, np.array(gold, dtype=np.float64), content)
