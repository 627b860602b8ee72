"""SentEval's tasks with a trained layer, in its layout and its order, and what the protocols that score them share.

Every line count is checked. Sources: SentEval binary.py, mrpc.py, probing.py, sick.py, sst.py, trec.py (loadFile and
the sort at the head of run). Needs no torch.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import clean, read_lines, require_count, require_grades, senteval_root
from cse_train.evaluate.user_sets import read_labels
from cse_train.fields import ConfigError, nearest
from cse_train.text.files import texts_hash
from cse_train.text.tables import FileState, file_state
from cse_train.user_files import UserFile

TREC_CLASSES = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
SICK_CLASSES = {"CONTRADICTION": 0, "NEUTRAL": 1, "ENTAILMENT": 2}
BINARY = {
    "mr": (("MR/rt-polarity.pos", 5331), ("MR/rt-polarity.neg", 5331)),
    "cr": (("CR/custrev.pos", 2407), ("CR/custrev.neg", 1368)),
    "subj": (("SUBJ/subj.objective", 5000), ("SUBJ/subj.subjective", 5000)),
    "mpqa": (("MPQA/mpqa.pos", 3312), ("MPQA/mpqa.neg", 7294)),
}
"""Task -> files of class 1 and of class 0 with their number of lines; blank lines count (4 in CR, 3 in MPQA)."""
SICK = {
    "train": ("SICK/SICK_train.txt", 4500),
    "dev": ("SICK/SICK_trial.txt", 500),
    "test": ("SICK/SICK_test_annotated.txt", 4927),
}
"""Split of SICK -> its file and its number of examples."""
TASK_SPLITS = {
    "sst2": {
        "train": ("SST/binary/sentiment-train", 67349),
        "dev": ("SST/binary/sentiment-dev", 872),
        "test": ("SST/binary/sentiment-test", 1821),
    },
    "trec": {"train": ("TREC/train_5500.label", 5452), "test": ("TREC/TREC_10.label", 500)},
    "mrpc": {"train": ("MRPC/msr_paraphrase_train.txt", 4076), "test": ("MRPC/msr_paraphrase_test.txt", 1725)},
    "sst5": {
        "train": ("SST/fine/sentiment-train", 8544),
        "dev": ("SST/fine/sentiment-dev", 1101),
        "test": ("SST/fine/sentiment-test", 2210),
    },
    "sick_entailment": SICK,
    "sick_relatedness": SICK,
    "stsb_relatedness": {
        "train": ("STS/STSBenchmark/sts-train.csv", 5749),
        "dev": ("STS/STSBenchmark/sts-dev.csv", 1500),
        "test": ("STS/STSBenchmark/sts-test.csv", 1379),
    },
}
"""Task -> official split -> its file and its number of examples."""
TASKS_WITH_HEADER = ("mrpc", "sick_entailment", "sick_relatedness")
"""Tasks whose files begin with a header line, which is no example."""
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
"""The seven transfer tasks of the papers' tables, in their order."""
MORE_TASKS = ("sst5", "sick_entailment", "sick_relatedness", "stsb_relatedness")
"""Tasks that DeCLUTR's tables add to TASKS."""
GRADED = ("sick_relatedness", "stsb_relatedness")
"""Tasks whose labels are human grades of similarity, not classes."""
CLASSES = {"trec": len(TREC_CLASSES), "sst5": 5, "sick_entailment": len(SICK_CLASSES), **dict.fromkeys(GRADED, 0)}
"""Number of classes of tasks that do not have two; 0 for graded tasks."""
PROBING = {
    "sentlen": "sentence_length.txt",
    "wc": "word_content.txt",
    "treedepth": "tree_depth.txt",
    "topconst": "top_constituents.txt",
    "bshift": "bigram_shift.txt",
    "tense": "past_present.txt",
    "subjnum": "subj_number.txt",
    "objnum": "obj_number.txt",
    "somo": "odd_man_out.txt",
    "coordinv": "coordination_inversion.txt",
}
"""Probing task, in the order of DeCLUTR's table S4 -> its file in `probing`, a sibling folder of `downstream`."""
PROBING_COUNTS = {"train": 100_000, "dev": 10_000, "test": 10_000}
PROBING_SPLITS = {"tr": "train", "va": "dev", "te": "test"}
"""Mark of a split in the files of probing tasks -> split."""
EVERY_TASK = (*TASKS, *MORE_TASKS, *PROBING)
LATIN_1 = {*BINARY, "trec"}
"""Tasks whose files are Latin-1 and not UTF-8."""
Example = tuple[tuple[str, ...], float]


@dataclass(frozen=True)
class Split:
    """Labelled texts; `texts` holds one tuple per side: one side for sentences, two for pairs."""

    texts: tuple[tuple[str, ...], ...]
    labels: np.ndarray
    """Labels of the examples: int64 classes counted from 0, or float64 grades."""


@dataclass(frozen=True)
class Task:
    """A task with its data; the splits are `all`, or `train` and `test`, or `train`, `dev` and `test`."""

    name: str
    classes: int
    """Number of classes; 0 where labels are grades."""
    splits: dict[str, Split]
    content_hash: str


def load_task(name: str, paths: DataPaths) -> Task:
    """Loads the task of that name, a user's own before any other. ConfigError: unknown, missing or unreadable."""
    if (file := paths.data_set(name)) is not None:
        return _read_user_file(file, file_state(file))
    if name not in EVERY_TASK:
        raise ConfigError([f"unknown task: tasks={name}; {nearest(name, EVERY_TASK)}"])
    root = senteval_root(name, paths)
    if name in PROBING:
        return _probing(name, root.parent / "probing" / PROBING[name])
    if name in BINARY:
        named = zip((1, 0), BINARY[name], strict=True)  # positive lines first, as SentEval adds them
        lines = [(label, line) for label, (file, count) in named for line in _lines(name, root / file, count)]
        splits = {"all": _sort([((clean(line),), label) for label, line in lines])}
    else:
        splits = {split: _official(name, root / file, count) for split, (file, count) in TASK_SPLITS[name].items()}
        for split in splits.values() if name in GRADED else ():
            require_grades(name, split.labels.tolist())
    return Task(name, CLASSES.get(name, 2), splits, _hash(splits))


@lru_cache(maxsize=16)
def _read_user_file(file: UserFile, _state: FileState) -> Task:
    """Loads a user's labelled sentences as one split, like MR; classes are numbered in the order of their names."""
    labelled = read_labels(file)
    numbers = {label: number for number, label in enumerate(sorted({label for _, label in labelled}))}
    splits = {"all": _sort([((text,), numbers[label]) for text, label in labelled])}
    return Task(file.name, len(numbers), splits, _hash(splits))


def _probing(name: str, path: Path) -> Task:
    """Loads a probing task from lines `split, class, ..., sentence`; classes are numbered by name."""
    lines = [line.rstrip() for line in _lines(name, path, sum(PROBING_COUNTS.values()))]
    classes = sorted({line.split("\t")[1] for line in lines if line.startswith("tr\t")})
    numbers = {label: number for number, label in enumerate(classes)}

    examples: dict[str, list[Example]] = {split: [] for split in PROBING_COUNTS}
    for at, line in enumerate(lines, start=1):
        with _readable(line, f"{path}:{at}"):
            mark, label, *_, text = line.split("\t")
            examples[PROBING_SPLITS[mark]].append(((clean(text),), numbers[label]))
    for split, expected in PROBING_COUNTS.items():
        require_count(f"{name} {split}", len(examples[split]), expected, path, "lines")
    splits = {split: _sort(part) for split, part in examples.items()}
    return Task(name, len(classes), splits, _hash(splits))


def _official(name: str, path: Path, count: int) -> Split:
    """Loads one official split of a task."""
    header = int(name in TASKS_WITH_HEADER)
    lines = _lines(name, path, count + header)[header:]
    return _sort([_parse(name, line, f"{path}:{at}") for at, line in enumerate(lines, start=1 + header)])


BINARY_LABELS = {"0": 0, "1": 1}
TAB_SEPARATED: Mapping[str, tuple[int, tuple[int, ...], int, Mapping[str, int] | None]] = {
    "sst2": (2, (0,), 1, BINARY_LABELS),
    "mrpc": (5, (3, 4), 0, BINARY_LABELS),
    "sick_entailment": (5, (1, 2), 4, SICK_CLASSES),
    "sick_relatedness": (5, (1, 2), 3, None),
    "stsb_relatedness": (7, (5, 6), 4, None),
}
"""Task -> columns of its lines, those of its texts, that of its label, and classes (None: grades). Quotes are text."""


def _parse(name: str, line: str, where: str) -> Example:
    """Parses a line of a task's files. ConfigError for one that has other columns or an unknown label."""
    with _readable(line, where):
        if name == "trec":  # `CLASS:subclass question`; the subclass is dropped
            coarse, _, rest = line.strip().partition(":")
            return (clean(rest.split(" ", 1)[1]),), TREC_CLASSES[coarse]
        if name == "sst5":
            grade, text = line.strip().split(" ", 1)
            return (clean(text),), ("0", "1", "2", "3", "4").index(grade)
        count, texts, at, classes = TAB_SEPARATED[name]
        fields = line.strip().split("\t")
        if len(fields) < count or (len(fields) > count and name != "stsb_relatedness"):
            raise ValueError("other columns")  # only some lines of STS-B have more
        label = float(fields[at]) if classes is None else classes[fields[at]]
        return tuple(clean(fields[column]) for column in texts), label


@contextmanager
def _readable(line: str, where: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, IndexError) as error:
        raise ConfigError([f"unreadable line: {where}: {line.strip()[:60]!r}; fetch the file again"]) from error


def _sort(examples: list[Example]) -> Split:
    """Sorts examples by each side's number of tokens, then the label, ties in file order, as SentEval's folds need."""
    examples = sorted(examples, key=lambda example: (*(len(text.split()) for text in example[0]), example[1]))
    sides = zip(*(sides for sides, _ in examples), strict=True)
    return Split(tuple(sides), np.array([label for _, label in examples]))


def _lines(name: str, path: Path, count: int) -> list[str]:
    """Reads all lines of a task's file, also blank ones; Latin-1 or UTF-8 (SentEval binary.py:34, trec.py:37)."""
    lines = read_lines(name, path, f" of {count} lines", "latin-1" if name in LATIN_1 else "utf8")
    require_count(name, len(lines), count, path, "lines")
    return lines


def _hash(splits: Mapping[str, Split]) -> str:
    named = splits.items()
    return texts_hash(part for name, split in named for part in (name, *chain(*split.texts), *map(str, split.labels)))


SENTEVAL_SEED = 1111
"""Seed that SentEval uses for folds and fits."""


@dataclass(frozen=True, kw_only=True)
class ClassifierRecipe:
    """Training settings of one classifier, and the number of folds."""

    folds: int
    optimiser: Literal["adam", "rmsprop"]
    """Optimiser with torch's default learning rate: 1e-3 for adam, 1e-2 for rmsprop."""
    batch_size: int
    tenacity: int
    """Rounds without a better dev accuracy that are allowed in all; a better round does not reset the count."""
    epoch_size: int
    """Epochs in a round, after which the dev accuracy is computed."""


RECIPES = {
    "test": ClassifierRecipe(folds=10, optimiser="adam", batch_size=64, tenacity=5, epoch_size=4),
    "dev": ClassifierRecipe(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
}
"""Settings of SimCSE's modes `test` and `fasttest`/`dev` (evaluation.py:67-79), which later papers took over."""

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on, each in ascending order."""


@dataclass(frozen=True)
class Examples:
    """Features and labels of one split of a task."""

    features: np.ndarray
    """float32 [examples, width]: input of the classifier, made of frozen embeddings."""
    labels: np.ndarray
    """Labels of the examples: int64 classes counted from 0, or float64 grades."""


Splits = Mapping[str, Examples]
"""Splits of a task in order: `all`, or `train` and `test`, or `train`, `dev` and `test`."""


@dataclass(frozen=True)
class TransferOutcome:
    """Accuracies of a task in percent, rounded to two decimals as SentEval rounds them, and exact."""

    devacc: float
    accuracy: float
    exact_devacc: float
    exact_accuracy: float
    predicted: np.ndarray
    """Classes predicted for the test examples, int64; of a task without a test set, for each example by its fold."""


@dataclass(frozen=True)
class Relatedness:
    """Quality of a learned relatedness: correlations times 100, none of them rounded."""

    devpearson: float
    pearson: float
    spearman: float
    mse: float
    """Mean squared difference of grade and prediction."""
    predicted: np.ndarray
    """float64 [test pairs]: predicted grades, between 1 and 5."""


def scorer(protocol: str) -> Callable[..., Any]:
    """Returns the function of a protocol, `senteval`, `fast` or `relatedness`, imported on demand: it needs torch."""
    classifiers = importlib.import_module("cse_train.evaluate.classifiers")
    score: Callable[..., Any] = getattr(classifiers, f"score_{protocol}")
    return score


def round_percent(value: float | np.floating) -> float:
    """Rounds to two decimals, as SentEval does."""
    return round(float(value), 2)


def percent(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Returns the accuracy of predicted labels in percent."""
    return 100.0 * float((predicted == labels).mean())


def require_sklearn() -> None:
    """Raises ConfigError with the install command where scikit-learn is absent."""
    if importlib.util.find_spec("sklearn") is None:
        raise ConfigError(["missing package: suite=transfer needs scikit-learn; pip install 'cse-search[transfer]'"])


def stratify(labels: np.ndarray, count: int) -> list[Fold]:
    """Returns `count` shuffled folds with the classes' shares, random_state 1111: equal to SentEval's in every row."""
    from sklearn.model_selection import StratifiedKFold  # an extra, slow to import

    folds = StratifiedKFold(n_splits=count, shuffle=True, random_state=SENTEVAL_SEED)
    return list(folds.split(np.zeros((len(labels), 1)), labels))
