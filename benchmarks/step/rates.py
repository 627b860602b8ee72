"""What our lead over the peers would be on a processor that multiplies at another rate: a model of measured parts.

A step is matrix products, other tensor operations (which move memory), and the interpreter between them. The first two
are the profiler's sums over several steps, the third is what is left of the step as timed without a profiler. On a
processor whose products run at r times this one's rate, a step takes products / r + operations + interpreter. The model
is tried out: the same steps are measured again in a process whose products are held to AVX2, about half the rate of
AVX-512, and stand beside what the model says for that rate.

    python -m benchmarks.step.rates [--quick] [--sizes tiny,mini,base] [--data DIR]
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.paired import Step, interleaved, median_ms
from benchmarks.step.__main__ import GIVEN, OURS, PEERS, WARM, begun, contenders, gemm_rate
from benchmarks.step.setting import SIZES
from benchmarks.step.turns import TURN, in_a_row

FACTORS = (0.5, 1.0, 2.0)
"""Rates of the processors that are asked about, as multiples of this one's."""
PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear", "attention_for_cpu")
"""Ends of the names of operations that multiply matrices, backward ones and oneDNN's among them."""
HELD_TO_AVX2 = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
CHILD = "CSE_STEP_RATES_CHILD"
"""Set in the process whose products are held to AVX2: it prints its figures as JSON."""
ROUNDS = {"tiny": (12, 60), "mini": (8, 80), "base": (4, 120)}
QUICK = {"tiny": (2, 12), "mini": (1, 15), "base": (1, 10)}
PROFILED = {"tiny": 10, "mini": 5, "base": 2}
"""Steps under the profiler."""


@dataclass(frozen=True)
class Parts:
    """Milliseconds of one step."""

    products: float
    operations: float
    """Every other operation on tensors."""
    interpreter: float
    """What is left."""

    def at(self, factor: float) -> float:
        """Milliseconds where products run at so many times the rate."""
        return self.products / factor + self.operations + self.interpreter


def parts_of(step: Step, count: int, took: float) -> Parts:
    """The parts of a step of `took` milliseconds, by `count` steps under the profiler."""
    from torch import profiler
    from torch._C._profiler import _ExperimentalConfig

    everywhere = _ExperimentalConfig(profile_all_threads=True)  # a peer's loop runs in a thread of its own
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], experimental_config=everywhere) as profile:
        for _ in range(count):
            step()
    sums = {True: 0.0, False: 0.0}
    for event in profile.key_averages():
        sums[is_product(event.key)] += event.self_cpu_time_total / 1e3 / count
    return Parts(sums[True], sums[False], max(0.0, took - sums[True] - sums[False]))


def is_product(operation: str) -> bool:
    """Whether an operation of the profiler's multiplies matrices.

    >>> is_product("aten::addmm"), is_product("aten::gelu"), is_product("mkldnn::_linear_pointwise")
    (True, False, True)
    """
    name = operation.rpartition("::")[2].removesuffix("_pointwise").removesuffix("_backward")
    return name.endswith(PRODUCTS) and "::" in operation


def leads(parts: Mapping[str, Parts], factor: float) -> dict[str, float]:
    """Peer -> how many times our step it takes, as the model has it."""
    return {who: of.at(factor) / parts[OURS].at(factor) for who, of in parts.items() if who != OURS}


@dataclass(frozen=True)
class Measured:
    """One size in one process."""

    rate: float
    """GFLOP/s of a product of 1024 x 1024 matrices."""
    parts: dict[str, Parts]
    took: dict[str, float]
    """Milliseconds of a step, by contender."""

    @property
    def leads(self) -> dict[str, float]:
        """Peer -> how many times our step it takes."""
        return {who: took / self.took[OURS] for who, took in self.took.items() if who != OURS}


def measure(name: str, quick: bool, data: Path) -> Measured:
    """Interleaved turns of all contenders, then each of them under the profiler."""
    size, (rounds, seconds) = SIZES[name], (QUICK if quick else ROUNDS)[name]
    batch = 4 if quick and name == "base" else size.batch
    with contenders(size, batch, data) as steps:
        for _ in range(2 if quick else WARM[name]):
            steps[OURS]()
        turns = {who: in_a_row(step, TURN[name]) for who, step in steps.items()}
        times = interleaved(turns, rounds, seconds, warm=1)
        took = {who: median_ms(of) for who, of in times.items()}
        parts = {who: parts_of(step, 1 if quick else PROFILED[name], took[who]) for who, step in steps.items()}
        return Measured(gemm_rate() / 1e9, parts, took)


def apart(name: str, arguments: list[str], held: Mapping[str, str]) -> Measured:
    """What a process of its own measures of one size: a process keeps what it frees, and base needs 12 GB.

    `held`: environment variables that hold its products to another rate.
    """
    command = [sys.executable, "-m", "benchmarks.step.rates", *arguments, "--sizes", name]
    done = subprocess.run(command, env=os.environ | held | {CHILD: "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr or f"ended by signal {-done.returncode}: size={name}")
    read = json.loads(done.stdout.splitlines()[-1])
    parts = {who: Parts(**parts) for who, parts in read["parts"].items()}
    return Measured(read["rate"], parts, read["took"])


def rows(name: str, here: Measured, slow: Measured) -> list[str]:
    """The table's rows of one size."""
    predicted = [leads(here.parts, factor) for factor in FACTORS]
    slower, lines = leads(here.parts, slow.rate / here.rate), []
    for who, of in here.parts.items():
        key = who.removesuffix(GIVEN)
        label = PEERS.get(key, "ours") + (GIVEN if who.endswith(GIVEN) else "")
        cells = [SIZES[name].name, label, f"{here.took[who]:.1f}"]
        cells += [f"{part:.1f}" for part in (of.products, of.operations, of.interpreter)]
        columns = [here.leads, *predicted, slower, slow.leads]
        cells += ["1" if who == OURS else f"{column[who]:.2f}" for column in columns]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    given = begun(__doc__, ",".join(SIZES))
    if CHILD in os.environ:
        print(json.dumps(asdict(measure(given.sizes, given.quick, given.data))))
        return
    heads = [f"model, rate x {factor:g}" for factor in FACTORS]
    heads = ["size", "step", "CPU ms", "products", "operations", "interpreter", "times ours", *heads]
    print(f"| {' | '.join([*heads, 'model, AVX2', 'measured, AVX2'])} |")
    print("|---" * (len(heads) + 2) + "|")
    rates = []
    for name in given.sizes.split(","):
        here, slow = (apart(name, sys.argv[1:], held) for held in ({}, HELD_TO_AVX2))
        print("\n".join(rows(name, here, slow)), flush=True)
        rates.append(f"{SIZES[name].name} {here.rate:.0f} and {slow.rate:.0f}")
    print(f"\nGFLOP/s of one thread, here and held to AVX2: {', '.join(rates)}")


if __name__ == "__main__":
    main()
