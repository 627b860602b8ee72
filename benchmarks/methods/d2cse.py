"""D2CSE's step, whose encoder is frozen, against the same step with all weights trained: time and memory.

Both are our own. The theoretical limit of the time is the quotient of their matrix products. Peak memory is what a
process of its own needs above what it has before its first step.
"""

import ctypes
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.methods.setting import RATE
from benchmarks.paired import interleaved, median_ms, ratio, timed
from benchmarks.step.ours import advance, our_session
from benchmarks.step.setting import Size, sentences
from benchmarks.step.turns import flagged, in_a_row, operations
from cse_train.training.optimiser import optimiser_of

TIME_BAR, MEMORY_BAR = 1.4, 0.6
WARM = 40
KINDS = {"frozen": False, "all weights": True}
"""Name -> whether the encoder trains too."""


def session_of(size: Size, whole: bool, work: Path, data: Path) -> Any:
    """D2CSE as it is, or with the encoder's weights trained like the prompts."""
    place = work / f"d2cse {'whole' if whole else 'frozen'}"
    changes = {"method": "d2cse", "train.learning_rate": RATE, "method.generator": str(work / "generator")}
    session = our_session(work / "encoder", sentences(1024, data), size.batch, place, changes)
    if whole:
        session.model.requires_grad_(True)
        session.optimiser = optimiser_of(session.model, session.run.train)
    return session


def first_losses(size: Size, work: Path, data: Path) -> float:
    """The difference of both kinds' losses on one batch, with the same dropout."""
    import torch

    losses = []
    for whole in KINDS.values():
        session = session_of(size, whole, work, data)
        torch.manual_seed(0)
        losses.append(session.model(session.batches[0]).loss.item())
    return abs(losses[0] - losses[1])


def peak_memory(size: Size, whole: bool, work: Path, data: Path, answer: Any) -> None:
    """In a process of its own: MB that three steps need above what is there before the first.

    A step of a small batch comes before: it loads the code.
    """
    import torch

    torch.set_num_threads(1)
    advance(session_of(replace(size, batch=4), whole, work, data))
    session = session_of(size, whole, work, data)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    step = flagged(timed(lambda: advance(session)))
    for _ in range(3):
        step()
    answer.put(resident("VmHWM") - before)


def resident(field: str) -> float:
    """MB of this process that Linux reports: VmRSS, those held now; VmHWM, the most since that mark was cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def megabytes(size: Size, work: Path, data: Path) -> dict[str, float]:
    """Peak memory of each kind."""
    context, peaks = multiprocessing.get_context("spawn"), {}
    for name, whole in KINDS.items():
        answer = context.Queue()
        process = context.Process(target=peak_memory, args=(size, whole, work, data, answer))
        process.start()
        peaks[name] = answer.get()
        process.join()
    return peaks


def against_all_weights(size: Size, rounds: int, turn: int, work: Path, data: Path) -> list[str]:
    """The rows of one size. Raises AssertionError when the first losses differ."""
    difference = first_losses(size, work, data)
    assert difference == 0, difference
    sessions = {name: session_of(size, whole, work, data) for name, whole in KINDS.items()}
    steps = {name: flagged(timed(lambda session=session: advance(session))) for name, session in sessions.items()}
    for step in steps.values():
        for _ in range(WARM // size.layers):
            step()
    times = interleaved({name: in_a_row(step, turn) for name, step in steps.items()}, rounds)
    times_ours = ratio(times["all weights"], times["frozen"])
    limit = operations(steps["all weights"]) / operations(steps["frozen"])
    needed = megabytes(size, work, data)
    share = needed["frozen"] / needed["all weights"]
    time_held, memory_held = (
        "held" if held else "MISSED" for held in (times_ours.median >= TIME_BAR, share <= MEMORY_BAR)
    )
    memory = f"peak memory, {needed['frozen']:.0f} of {needed['all weights']:.0f} MB"
    trained = times["all weights"]
    start = f"| d2cse | {size.name} |"
    return [
        f"{start} ours, frozen | {median_ms(times['frozen']):.0f} | 1 | | |",
        f"{start} ours, all weights trained | {median_ms(trained):.0f} | {times_ours} | {TIME_BAR} | {time_held} |",
        f"{start} limit: all matrix products by those of the frozen step | | {limit:.2f} | | |",
        f"{start} {memory} | | {share:.0%} | {MEMORY_BAR:.0%} | {memory_held} |",
        f"{start} first losses differ by | | {difference:g} | 0 | held |",
    ]
