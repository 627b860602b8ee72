"""Whole runs of SimCSE (L4 H128, B 64, 400 steps, 20 evaluations) in 1, 2, 4 and 8 processes at once.

Runs a second are those between the first begin and the last end, after every process has made a short run.
"""

from functools import partial

from benchmarks.gpu.results import Call, Done, called
from benchmarks.gpu.small_runs import processes, settings

COUNTS, QUICK_COUNTS = (1, 2, 4, 8), (1, 2)
EACH = 2
"""Runs of a process."""


def rate(count: int, call: Call) -> Done:
    """Runs a second of so many processes, against those of one."""
    runs = [settings(call.quick, train_seed=seed) for seed in range(EACH * count)]
    with processes(count, call.quick) as members:
        ended = list(members.made(runs))
    seconds = max(run.ended for run in ended) - min(run.begun for run in ended)
    figures = {"processes": count, "runs_a_second": len(runs) / seconds, "memory": max(run.memory for run in ended)}
    alone = call.results.items.get(name(1), {}).get("figures") or figures
    gain = figures["runs_a_second"] / alone["runs_a_second"]
    mean = sum(run.ended - run.begun for run in ended) / len(ended)
    cells = [str(count), f"{figures['runs_a_second']:.3f}", f"{gain:.2f}", f"{mean:.2f}"]
    cells.append(f"{figures['memory'] / 2**30:.2f}")
    return [f"| {' | '.join(cells)} |"], figures


def name(count: int) -> str:
    return f"{count} at once"


def main() -> None:
    call = called(__doc__)
    call.results.lines = ["Times one: runs a second of all processes together, against one process.", ""]
    call.results.lines += ["| processes | runs a second | times one | seconds a run | GiB a process |"]
    call.results.lines += ["|--:|--:|--:|--:|--:|"]
    for count in QUICK_COUNTS if call.quick else COUNTS:
        call.results.do(name(count), partial(rate, count, call))


if __name__ == "__main__":
    main()
