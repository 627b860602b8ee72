"""The seven transfer tasks in SentEval's layout, every line count asserted, in SentEval's order.

Sources: SentEval binary.py, mrpc.py, sst.py, trec.py (loadFile and the sort at the head of run).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import clean, read_lines, require_count, senteval_root
from cse_train.fields import ConfigError, nearest
from cse_train.text.sources import texts_hash

TREC_CLASSES = {"ABBR": 0, "DESC": 1, "ENTY": 2, "HUM": 3, "LOC": 4, "NUM": 5}
BINARY = {
    "mr": (("MR/rt-polarity.pos", 5331), ("MR/rt-polarity.neg", 5331)),
    "cr": (("CR/custrev.pos", 2407), ("CR/custrev.neg", 1368)),
    "subj": (("SUBJ/subj.objective", 5000), ("SUBJ/subj.subjective", 5000)),
    "mpqa": (("MPQA/mpqa.pos", 3312), ("MPQA/mpqa.neg", 7294)),
}
"""Files of class 1 and class 0 with their lines. Blank lines count and stay: 4 in CR, 3 in MPQA (T26)."""
SPLITS = {
    "sst2": {
        "train": ("SST/binary/sentiment-train", 67349),
        "dev": ("SST/binary/sentiment-dev", 872),
        "test": ("SST/binary/sentiment-test", 1821),
    },
    "trec": {"train": ("TREC/train_5500.label", 5452), "test": ("TREC/TREC_10.label", 500)},
    "mrpc": {"train": ("MRPC/msr_paraphrase_train.txt", 4076), "test": ("MRPC/msr_paraphrase_test.txt", 1725)},
}
"""Files of the official splits with their examples; MRPC's have one line more, the header."""
TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
"""In the order of the papers' tables."""
LATIN_1 = {*BINARY, "trec"}
Example = tuple[tuple[str, ...], int]


@dataclass(frozen=True)
class Split:
    """Labelled texts; `texts` holds one tuple per side: one side for sentences, two for MRPC's pairs."""

    texts: tuple[tuple[str, ...], ...]
    labels: np.ndarray
    """int64 [examples], counted from 0."""


@dataclass(frozen=True)
class Task:
    """One task: its splits are `all`, or `train` and `test`, or `train`, `dev` and `test`."""

    name: str
    classes: int
    splits: dict[str, Split]
    content_hash: str


def load_task(name: str, paths: DataPaths) -> Task:
    """The task of that name. ConfigError, one line: unknown, missing, truncated or unreadable."""
    if name not in TASKS:
        raise ConfigError([f"unknown task: tasks={name}; {nearest(name, TASKS)}"])
    root = senteval_root(name, paths)
    if name in BINARY:
        splits = {"all": _binary(name, root)}
    else:
        splits = {split: _official(name, root / file, count) for split, (file, count) in SPLITS[name].items()}
    return Task(name, len(TREC_CLASSES) if name == "trec" else 2, splits, _hash(splits))


def _binary(name: str, root: Path) -> Split:
    """Positive lines before negative ones, as SentEval adds them."""
    examples: list[Example] = []
    for label, (file, count) in zip((1, 0), BINARY[name], strict=True):
        examples += [((clean(line),), label) for line in _lines(name, root / file, count)]
    return _sorted(examples)


def _official(name: str, path: Path, count: int) -> Split:
    """One official split of SST-2, TREC or MRPC."""
    header = int(name == "mrpc")
    lines = _lines(name, path, count + header)[header:]
    parse = {"sst2": _sst2, "trec": _trec, "mrpc": _mrpc}[name]
    return _sorted([_parsed(parse, line, f"{path}:{at}") for at, line in enumerate(lines, start=1 + header)])


def _sst2(line: str) -> Example:
    text, label = line.strip().split("\t")
    return (clean(text),), ("0", "1").index(label)


def _trec(line: str) -> Example:
    """`CLASS:subclass question`; the subclass is dropped."""
    coarse, _, rest = line.strip().partition(":")
    return (clean(rest.split(" ", 1)[1]),), TREC_CLASSES[coarse]


def _mrpc(line: str) -> Example:
    label, _, _, left, right = line.strip().split("\t")
    return (clean(left), clean(right)), ("0", "1").index(label)


def _parsed(parse: Callable[[str], Example], line: str, where: str) -> Example:
    try:
        return parse(line)
    except (ValueError, KeyError, IndexError) as error:
        raise ConfigError([f"unreadable line: {where}: {line.strip()[:60]!r}; fetch the file again"]) from error


def _sorted(examples: list[Example]) -> Split:
    """By the number of tokens of each side, then the label, ties in file order: folds depend on this order."""
    examples = sorted(examples, key=lambda example: (*map(_length, example[0]), example[1]))
    sides = zip(*(sides for sides, _ in examples), strict=True)
    return Split(tuple(sides), np.array([label for _, label in examples]))


def _length(text: str) -> int:
    return len(text.split())


def _lines(name: str, path: Path, count: int) -> list[str]:
    """The file's lines, blank ones too; Latin-1 or UTF-8 by task (SentEval binary.py:34, trec.py:37)."""
    lines = read_lines(name, path, f" of {count} lines", "latin-1" if name in LATIN_1 else "utf8")
    require_count(name, len(lines), count, path, "lines")
    return lines


def _hash(splits: dict[str, Split]) -> str:
    def parts() -> Iterable[str]:
        for name, split in splits.items():
            yield name
            for side in split.texts:
                yield from side
            yield from map(str, split.labels)

    return texts_hash(parts())
