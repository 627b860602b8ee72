"""SentEval's folder with a few lines per task, the counts shrunk to match, and a model that needs no weights."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.data_paths import DataPaths
from cse_train.evaluate import tasks

WORDS = "good bad old new long short film plot".split()


@dataclass
class Counter:
    """Embeds a text as its word counts and a little of its hash; remembers how often it was asked."""

    name: str = "counter"
    pooler: str = "mean"
    max_length: int = 16
    content_hash: str = "weights"
    calls: list[int] = field(default_factory=list)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(len(texts))
        noise = [hashlib.sha256(text.encode()).digest()[0] / 255 for text in texts]
        counts = [[text.split().count(word) for word in WORDS] for text in texts]
        return np.column_stack([counts, noise]).astype(np.float32)


def write(path: Path, lines: list[str], encoding: str = "latin-1") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding=encoding)


def sentence(at: int, label: int) -> str:
    """A few words; the class shows in one of them."""
    return " ".join(WORDS[(at * 5 + j * j + j) % 8] for j in range(2 + at % 4)) + " " + WORDS[label % 8]


def official_lines(name: str, count: int) -> list[str]:
    if name == "sst2":
        return [f"{sentence(at, at % 2)} \t{at % 2}" for at in range(count)]
    if name == "trec":
        return [f"{list(tasks.TREC_CLASSES)[at % 6]}:sub {sentence(at, at % 6)} ?" for at in range(count)]
    if name == "sst5":
        return [f"{at % 5} {sentence(at, at % 5)}" for at in range(count)]
    if name == "stsb_relatedness":
        return [f"g\tf\ty\t{at}\t{at % 26 / 5}\t{sentence(at, at % 3)}\t{sentence(at + 1, 0)}" for at in range(count)]
    if name.startswith("sick"):
        ends = [f"{1 + at % 5}\t{list(tasks.SICK_CLASSES)[at % 3]}" for at in range(count)]
        rows = [f"{at}\t{sentence(at, at % 3)}\t{sentence(at + 1, 0)}\t{end}" for at, end in enumerate(ends)]
        return ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment", *rows]
    pairs = [f"{at % 2}\t1\t2\t{sentence(at, 0)}\t{sentence(at + at % 2, 0)}" for at in range(count)]
    return ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *pairs]


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataPaths:
    """Every task with 30 or 60 lines a file."""
    binary = {name: tuple((file, 30) for file, _ in files) for name, files in tasks.BINARY.items()}
    splits = {n: {s: (file, 60) for s, (file, _) in files.items()} for n, files in tasks.TASK_SPLITS.items()}
    monkeypatch.setattr(tasks, "BINARY", binary)
    monkeypatch.setattr(tasks, "TASK_SPLITS", splits)
    for files in binary.values():
        for label, (file, count) in zip((1, 0), files, strict=True):
            write(tmp_path / file, [sentence(at, 1 - label) for at in range(count)])
    for name, files in splits.items():
        for file, count in files.values():
            write(tmp_path / file, official_lines(name, count), "utf-8")
    return DataPaths(senteval=tmp_path)


@pytest.fixture
def seeded_apart() -> Iterator[None]:
    """The plain loop seeds globally; what comes after it must not notice."""
    state = np.random.get_state()
    with torch.random.fork_rng():
        yield
    np.random.set_state(state)
