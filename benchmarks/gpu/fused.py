"""Runs of SimCSE as one batched model (`benchmarks.fused`) against the same runs one after the other in one process.

A turn is a few steps and one wait for the card; turns in rounds, ratios by the wall clock inside a round. The gain is K
times a single step over a step of K fused runs: training alone, since dev evaluations are not fused. What one of them
takes is an item of its own, and what all of that is for a whole run stands in the last lines.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.fused.runs import FusedRuns
from benchmarks.gpu.results import Call, Done, called, wait
from benchmarks.gpu.small_runs import SENTENCES, settings
from benchmarks.made_text import written
from benchmarks.paired import Step, interleaved, median_ms, ratio
from benchmarks.step.gpu import Setting, launches, turn
from cse_train.config import parse_run, steps_in
from cse_train.data_paths import DataPaths
from cse_train.evaluate.embedding import evaluating
from cse_train.training.loop import Session

KINDS = ((8, "fp32"), (32, "fp32"), (32, "bf16"), (128, "bf16"))
QUICK_KINDS = ((3, "fp32"), (2, "bf16"))
SECONDS = 25.0
"""Of one item's rounds, at most."""
EVALUATIONS, STEPS = 20, 400
"""Of a run at profile wiki_small."""


def runs(count: int, precision: str, quick: bool) -> list[Any]:
    """A row's seeds at four rates and two temperatures."""
    rates, temperatures = (1e-4, 3e-4, 5e-4, 1e-3), (0.05, 0.1)
    return [
        parse_run(
            settings(
                quick,
                train_seed=number // 8,
                train_learning_rate=rates[number % 4],
                method_temperature=temperatures[number // 4 % 2],
                train_precision=precision,
            )
        )
        for number in range(count)
    ]


def alone(run: Any, paths: DataPaths, folder: Path) -> tuple[Session, Callable[[], object]]:
    """A session and its step, of a run that begins again at its end."""
    session = Session.open(run, paths, folder)
    session.model.train()

    def step() -> None:
        session.update()
        session.step = (session.step + 1) % steps_in(run.train)

    return session, step


def circling(fused: FusedRuns) -> Callable[[], object]:
    """A step of runs that begin again at their end."""

    def step() -> None:
        fused.update()
        fused.step %= steps_in(fused.runs[0].train)

    return step


def fused_step(count: int, precision: str, call: Call, setting: Setting, paths: DataPaths) -> Done:
    """So many runs in one step against one run's step."""
    import torch

    listed = runs(count, precision, call.quick)
    with tempfile.TemporaryDirectory() as folder:
        _, single = alone(listed[0], paths, Path(folder))
        fused = FusedRuns(listed, paths)
        steps = {"alone": single, "fused": circling(fused)}
        turns: dict[str, Step] = {who: turn(step, setting) for who, step in steps.items()}
        times = interleaved(turns, setting.rounds, setting.seconds, warm=setting.warm)
        launched = {who: launches(step, setting) for who, step in steps.items()}
    share = ratio(times["alone"], times["fused"], "wall")
    figures = {
        "runs": count,
        "alone_ms": median_ms(times["alone"], "wall"),
        "fused_ms": median_ms(times["fused"], "wall"),
        "gain": count * share.median,
    }
    memory = torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_available() else 0.0
    cells = [str(count), precision, f"{figures['alone_ms']:.2f}", f"{figures['fused_ms']:.2f}"]
    cells.append(f"{figures['gain']:.2f} [{count * share.low:.2f}, {count * share.high:.2f}]")
    cells += [f"{launched['alone']:.0f}", f"{launched['fused']:.0f}", f"{memory:.1f}"]
    return [f"| {' | '.join(cells)} |"], figures


def evaluation(call: Call, paths: DataPaths) -> Done:
    """Seconds of a dev evaluation of one run."""
    with tempfile.TemporaryDirectory() as folder:
        session, _ = alone(runs(1, "fp32", call.quick)[0], paths, Path(folder))
        took = []
        for _ in range(4):
            begun = time.perf_counter()
            with evaluating(session.model):
                session.evaluator(session.model.encode, session.device)  # type: ignore[operator]
            wait()
            took.append(time.perf_counter() - begun)
    seconds = min(took[1:])
    return [f"A dev evaluation of one run takes {1e3 * seconds:.1f} ms."], {"seconds": seconds}


def whole_runs(call: Call) -> Done:
    """What a run costs by its steps and evaluations, checkpoints left out: computed from the items before."""
    items = call.results.items
    seconds = items["evaluation"]["figures"]["seconds"] * EVALUATIONS
    lines = [f"A run of {STEPS} steps and {EVALUATIONS} evaluations, by these figures and without its checkpoints:", ""]
    for item in items.values():
        if "gain" in item["figures"]:
            of = item["figures"]
            single = STEPS * of["alone_ms"] / 1e3 + seconds
            fused = STEPS * of["fused_ms"] / 1e3 / of["runs"] + seconds
            lines.append(
                f"- {single:.2f} s alone, {fused:.2f} s of {of['runs']} fused: {single / fused:.2f} times as fast."
            )
    return lines, {}


def main() -> None:
    call = called(__doc__)
    import torch

    setting = Setting("cuda" if torch.cuda.is_available() else "cpu", 10, 9, 2, SECONDS)
    if call.quick:
        setting = Setting(setting.device, 2, 2, 1)
    call.results.lines = ["| runs | precision | alone ms | fused ms | gain | launches alone | fused | GiB |"]
    call.results.lines += ["|--:|---|--:|--:|--:|--:|--:|--:|"]
    with tempfile.TemporaryDirectory() as name:
        text = written(Path(name) / "text.txt", 512 if call.quick else SENTENCES)
        paths = DataPaths(train_file=text, cache=Path(name) / "cache")
        for count, precision in QUICK_KINDS if call.quick else KINDS:
            title = f"{count} runs, {precision}"
            call.results.do(title, partial(fused_step, count, precision, call, setting, paths))
        call.results.do("evaluation", partial(evaluation, call, paths))
        call.results.do("whole runs", partial(whole_runs, call))


if __name__ == "__main__":
    main()
