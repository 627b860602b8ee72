"""How many steps a second two runs of one thread each make side by side, against one run alone.

Each run is a process of its own, as two slots are. In a round the first makes its steps alone and then both make as
many at once, or the other way round; a ratio is taken inside a round. By the wall clock it is what a user gets; other
work on the machine takes the second core from both, so the share of the cores that the two were given stands beside
it. By the CPU clock (twice the CPU time of a step alone, by that of a step beside the other) it is what caches, memory
and clock rate leave of the second core, whoever else wants it.

    python -m benchmarks.driver.throughput [--quick] [--sizes tiny,mini] [--data DIR]
"""

import argparse
import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.paired import Seconds, now
from benchmarks.step.ours import advance, our_session
from benchmarks.step.setting import DATA, SIZES, Size, encoder_folder, one_thread, sentences
from cse_train.numerics import fast_fp32, keep_freed_memory

STEPS = {"tiny": 40, "mini": 8}
BARS = {"tiny": 1.7, "mini": 1.6}


@dataclass(frozen=True)
class Round:
    """What one run took alone, and what two took at once: their wall time, and the CPU time of both."""

    alone: Seconds
    both: Seconds

    @property
    def by_wall(self) -> float:
        """Times as many steps a second."""
        return 2 * self.alone.wall / self.both.wall

    @property
    def by_cpu(self) -> float:
        """The same if both had had a core each."""
        return 4 * self.alone.cpu / self.both.cpu

    @property
    def received(self) -> float:
        """The share of two cores that the two were given."""
        return self.both.cpu / (2 * self.both.wall)


def run_steps(folder: Path, texts: list[str], batch: int, work: Path, orders: Connection) -> None:
    """A process that makes as many steps as it is told, again and again, until it is told 0; it tells its times."""
    one_thread()
    keep_freed_memory()
    session = our_session(folder, texts, batch, work)
    with fast_fp32():
        while count := orders.recv():
            begun = now()
            for _ in range(count):
                advance(session)
            orders.send(now().cpu - begun.cpu)


def seconds(slots: list[Connection], steps: int) -> Seconds:
    """Wall time in which every slot makes its steps, and their CPU time together."""
    begun = now()
    for slot in slots:
        slot.send(steps)
    cpu = sum(slot.recv() for slot in slots)
    return Seconds(cpu, now().wall - begun.wall)


@contextlib.contextmanager
def two_slots(size: Size, data: Path) -> Iterator[list[Connection]]:
    """Two processes ready to make steps; they end with the block."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as place:
        folder, texts = encoder_folder(size, Path(place) / "encoder"), sentences(4096, data)
        slots, processes = [], []
        for number in range(2):
            ours, theirs = context.Pipe()
            given = (folder, texts, size.batch, Path(place) / str(number), theirs)
            processes.append(context.Process(target=run_steps, args=given, daemon=True))
            processes[-1].start()
            slots.append(ours)
        try:
            yield slots
        finally:
            for slot, process in zip(slots, processes, strict=True):
                with contextlib.suppress(OSError):
                    slot.send(0)
                process.join(30)


def measure(size: Size, steps: int, rounds: int, data: Path) -> list[Round]:
    """Rounds of one size, the order reversed every time."""
    measured = []
    with two_slots(size, data) as slots:
        seconds(slots, 2 * steps)
        for number in range(rounds):
            took = {used: seconds(slots[:used], steps) for used in ((1, 2) if number % 2 else (2, 1))}
            measured.append(Round(took[1], took[2]))
    return measured


def row(name: str, rounds: list[Round]) -> str:
    """A line of Markdown; the bar is of the wall clock."""
    size = SIZES[name]
    wall, cpu = (np.quantile([getattr(pair, by) for pair in rounds], [0.5, 0.25, 0.75]) for by in ("by_wall", "by_cpu"))
    rate = STEPS[name] * size.batch / float(np.median([pair.alone.cpu for pair in rounds]))
    received = float(np.median([pair.received for pair in rounds]))
    held = "held" if wall[0] >= BARS[name] else "MISSED"
    shown = [f"{median:.2f} [{low:.2f}, {high:.2f}]" for median, low, high in (wall, cpu)]
    return f"| {size.name} | {rate:.0f} | {shown[0]} | {BARS[name]} | {held} | {shown[1]} | {received:.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="tiny,mini")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="three rounds of the smallest size")
    given = parser.parse_args()
    one_thread()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| size | alone, sentences per CPU s | two at once, wall | bar | | by CPU time | cores received |")
    print("|---" * 7 + "|")
    for name in ["tiny"] if given.quick else given.sizes.split(","):
        print(row(name, measure(SIZES[name], STEPS[name], 3 if given.quick else 9, given.data)), flush=True)


if __name__ == "__main__":
    main()
