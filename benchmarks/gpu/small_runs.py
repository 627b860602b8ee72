"""Runs as a sweep at small makes them, of made-up text: their settings, their inputs, and processes that share a card.

A process is given runs one by one through a queue and reports when each began and ended. The first run of a process, a
short one, is its own start: CUDA's context, kernels, the token cache.
"""

import multiprocessing
import os
import queue
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.made_text import written

SENTENCES = 25_600
SETTINGS: Mapping[str, Any] = {
    "method": "simcse",
    "train.encoder": "words-l4-h128",
    "train.corpus": "file",
    "train.dev": "generated_dev:1500",
    "train.max_seq_length": 32,
    "train.examples": 25_600,
    "train.batch_size": 64,
    "train.evaluations": 20,
    "train.learning_rate": 5e-4,
    "train.adamw": "torch",
}
"""Profile small's but for 20 evaluations at another rate, with text of ours for Wikipedia's and for STS-B's dev set, of
1,500 pairs."""
QUICK = {
    "train.encoder": "words-l1-h64",
    "train.examples": 128,
    "train.evaluations": 2,
    "train.dev": "generated_dev:40",
}
SHORT = {"train.examples": 1280, "train.evaluations": 1}
END = None
"""Message to a process, in place of a run, that it is to end."""
LOST = 120.0
"""Seconds without a word of any process after which they count as lost."""


def settings(quick: bool, **changes: Any) -> dict[str, Any]:
    """Returns the dotted settings of one run; `train_seed=1` sets train.seed."""
    dotted = {name.replace("_", ".", 1): value for name, value in changes.items()}
    return {**SETTINGS, **dotted, **(QUICK if quick else {})}


@dataclass(frozen=True)
class Ended:
    """A run that a process finished, by the clock that all processes share."""

    number: int
    begun: float
    ended: float
    memory: int
    """Most bytes of the card that the process held."""


class Processes:
    """Processes that train; `ready` waits until each has made its short run."""

    def __init__(self, count: int, folder: Path, text: Path, short: Mapping[str, Any]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.runs, self.reports = spawn.Queue(), spawn.Queue()
        threads = max(1, (os.cpu_count() or 1) // count)
        arguments = (self.runs, self.reports, folder, text, dict(short), threads)
        self.members = [spawn.Process(target=train_all, args=(n, *arguments), daemon=True) for n in range(count)]
        for member in self.members:
            member.start()

    def ready(self) -> None:
        for _ in self.members:
            self._next()

    def made(self, runs: Sequence[Mapping[str, Any]]) -> Iterator[Ended]:
        """Train these, numbered from 0, and give each as it ends."""
        for number, run in enumerate(runs):
            self.runs.put((number, dict(run)))
        for _ in runs:
            yield self._next()

    def _next(self) -> Ended:
        """Raises RuntimeError for what a process raised, and where one is gone."""
        begun = time.monotonic()
        while True:
            try:
                report = self.reports.get(timeout=1.0)
            except queue.Empty:
                dead = [member.exitcode for member in self.members if not member.is_alive()]
                if dead or time.monotonic() - begun > LOST:
                    raise RuntimeError(f"no word of the processes: exit codes {dead}") from None
                continue
            if isinstance(report, str):
                raise RuntimeError(report)
            return Ended(*report)

    def end(self) -> None:
        for _ in self.members:
            self.runs.put(END)
        for member in self.members:
            member.join(10)
            member.kill()
            member.join()


@contextmanager
def processes(count: int, quick: bool) -> Iterator[Processes]:
    """Starts `count` training processes for the block, and waits until each is ready."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = written(folder / "text.txt", 512 if quick else SENTENCES)
        members = Processes(count, folder, text, {**settings(quick), **({} if quick else SHORT)})
        try:
            members.ready()
            yield members
        finally:
            members.end()


def train_all(number: int, runs: Any, reports: Any, folder: Path, text: Path, short: dict, threads: int) -> None:
    """Trains each run that the queue gives, in a folder of its own, until END comes."""
    import torch

    from cse_train.config import parse_run
    from cse_train.data_paths import DataPaths
    from cse_train.training.loop import train

    torch.set_num_threads(threads)
    paths = DataPaths(train_file=text, cache=folder / "cache")
    given: Any = (-1, short)
    while given is not END:
        at, flat = given
        begun = time.monotonic()
        try:
            train(parse_run(flat), paths, folder / f"process{number}" / f"run{at}", lambda point: False)
        except Exception as error:
            reports.put(f"{type(error).__name__}: {error}")
            return
        memory = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0
        reports.put((at, begun, time.monotonic(), memory))
        given = runs.get()
