"""One SimCSE training step: ours against SimCSE in the HF Trainer and in sentence-transformers' trainer.

Equal batches of real sentences (at most 32 tokens), equal sizes with random weights, dropout 0.1, one thread, fp32. A
step is everything between two optimiser updates: drawing the batch, collating, both passes, clipping, AdamW, schedule.
Each peer runs twice: as its library multiplies by default, and given the oneDNN flag that our step uses. All are given
`keep_freed_memory`, a setting of the process. Ours makes WARM steps before the first round: its batches differ in
shape, and oneDNN compiles each shape once in a run.

    python -m benchmarks.step [--quick] [--sizes tiny,mini,base] [--data DIR]
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.paired import Step, SteppedLoop, Times, interleaved, median_ms, ratio, timed
from benchmarks.step.ours import advance, our_session
from benchmarks.step.peers import sentence_transformers_loop, simcse_in_trainer
from benchmarks.step.setting import DATA, SIZES, Size, encoder_folder, one_thread, sentences
from benchmarks.step.turns import TURN, flagged, in_a_row, operations
from cse_train.numerics import keep_freed_memory

PEERS = {"hf": "SimCSE in the HF Trainer", "st": "sentence-transformers' trainer"}
GIVEN = " + flag"
OURS = "ours"
FULL = {"tiny": (20, 120), "mini": (12, 160), "base": (7, 240)}
QUICK = {"tiny": (3, 12), "mini": (2, 15), "base": (1, 10)}
"""Rounds, and the seconds after which no further round begins."""
WARM = {"tiny": 80, "mini": 40, "base": 10}
QUICK_WARM = {"tiny": 40, "mini": 6, "base": 1}
"""Steps of ours before the first round."""


@contextlib.contextmanager
def contenders(size: Size, batch: int, data: Path) -> Iterator[dict[str, Step]]:
    """Our step, both peers' and both given the flag; each with weights and a loop of its own."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        work = Path(name)
        folder, texts = encoder_folder(size, work / "encoder"), sentences(4096, data)
        session = our_session(folder, texts, batch, work)
        steps = {OURS: flagged(timed(lambda: advance(session)))}
        for key, made in (("hf", simcse_in_trainer), ("st", sentence_transformers_loop)):
            for suffix in ("", GIVEN):
                loop = stack.enter_context(SteppedLoop(made(folder, texts, batch, work / f"{key}{suffix}")))
                steps[key + suffix] = flagged(loop) if suffix else loop
        yield steps


def gemm_rate(seconds: float = 1.0) -> float:
    """Operations a second of an fp32 product of 1024 x 1024 matrices, with the flag: what one thread can do at best."""
    import torch

    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best, until = float("inf"), time.perf_counter() + seconds
    step = flagged(timed(lambda: torch.mm(left, right)))
    while time.perf_counter() < until:
        best = min(best, step().cpu)
    return 2 * 1024**3 / best


def rows(size: Size, batch: int, times: Times, shares: dict[str, float]) -> list[str]:
    """The table's rows of one size."""
    lines = []
    for name, of in times.items():
        key = name.removesuffix(GIVEN)
        who = PEERS.get(key, "ours (flag)") + (GIVEN if name.endswith(GIVEN) else "")
        cells = [size.name, str(batch), who, f"{median_ms(of):.1f}", f"{median_ms(of, 'wall'):.1f}"]
        if name == OURS:
            cells += ["1", "1", "", ""]
        else:
            by_cpu, by_wall = ratio(of, times[OURS]), ratio(of, times[OURS], "wall")
            bar = size.bar_given if name.endswith(GIVEN) else size.bar
            cells += [str(by_cpu), f"{by_wall.median:.2f}", f"{bar:g}", "held" if by_cpu.median >= bar else "MISSED"]
        cells.append(f"{shares[name]:.0%}" if name in shares else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def measure(
    size: Size, batch: int, rounds: int, seconds: float, warm: int, turn: int, data: Path, rate: float
) -> list[str]:
    """Measures one size in interleaved rounds; returns lines with each contender's share of the GEMM rate."""
    with contenders(size, batch, data) as steps:
        for _ in range(warm):
            steps[OURS]()
        turns = {who: in_a_row(step, turn) for who, step in steps.items()}
        times = interleaved(turns, rounds, seconds, warm=2 if batch == size.batch else 1)
        work = {OURS: operations(steps[OURS])}
    shares = {name: count / (median_ms(times[name]) / 1e3) / rate for name, count in work.items()}
    return rows(size, batch, times, shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="few rounds, base with batch 4: under a minute")
    given = parser.parse_args()
    one_thread()
    keep_freed_memory()
    rate = gemm_rate()
    print(f"measured GEMM rate: {rate / 1e9:.0f} GFLOP/s on one thread\n")
    print("| size | batch | step | CPU ms | wall ms | times ours (CPU) | (wall) | bar | | of the GEMM rate |")
    print("|---" * 10 + "|")
    for name in given.sizes.split(","):
        batch = 4 if given.quick and name == "base" else SIZES[name].batch
        count, seconds = (QUICK if given.quick else FULL)[name]
        warm = (QUICK_WARM if given.quick else WARM)[name]
        for line in measure(SIZES[name], batch, count, seconds, warm, TURN[name], given.data, rate):
            print(line, flush=True)
    print("\nTimes ours: median over rounds [quartiles]. The share counts the operations that our step needs.")


if __name__ == "__main__":
    main()
