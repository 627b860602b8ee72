"""Programs as users write them, each as the text of its file, and one call that runs one."""

import dataclasses
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.plugins import registry
from cse_train.plugins.snapshot import snapshot
from cse_train.plugins.trainer import Trainer, TrainerScore, name_of
from cse_train.results import Outcome, Point, Scalar
from cse_train.training.program import train

Stop = Callable[[Point], bool]
CALL = """
import pathlib, sys, types
import cse
given = dict(zip([word[2:] for word in sys.argv[1::2]], sys.argv[2::2]))
folder = pathlib.Path(given.pop("output_dir"))
train(types.SimpleNamespace(
    params={name: float(value) for name, value in given.items()}, seed=int(given["seed"]), report=cse.report,
    best_folder=cse.best_folder(), checkpoint_folder=folder, resume_from=folder if any(folder.iterdir()) else None,
))
"""
"""End of a script that calls its function `train` with what it was given."""


@dataclass
class Ran:
    """What a program's run gave."""

    outcome: Outcome
    points: list[Point] = field(default_factory=list)


def declare(folder: Path, text: str, parameters: Mapping[str, Scalar], **declared: Any) -> Trainer:
    """A trainer whose file holds the text."""
    folder.mkdir(exist_ok=True, parents=True)
    script = folder / "mine.py"
    script.write_text(textwrap.dedent(text))
    kinds = tuple((name, (type(value).__name__,)) for name, value in parameters.items())
    given = {"score": TrainerScore(name="score"), **declared}
    made = Trainer(
        "method", "", "mine", file=script, script=script, root=folder, parameters=kinds, **given
    )  # fmt: skip
    return dataclasses.replace(made, name=name_of(made))


def run_program(
    folder: Path,
    text: str,
    *,
    into: str = "attempt-1",
    resume_from: str | None = None,
    stop: Stop = lambda point: False,
    seed: int = 0,
    signature: str = "signature",
    parameters: Mapping[str, Scalar] | None = None,
    storage: Path | None = None,
    **declared: Any,
) -> Ran:
    """Run a program in a folder of its own; `stop` says after which point the scheduler ends it.

    `storage`: where the program is copied first, as a sweep does.
    """
    trainer = declare(folder, text, parameters or {}, **declared)
    registry.adopt([trainer])
    if storage is not None:
        registry.adopt(snapshot(storage))
    run = parse_run({"method": trainer.name, "train.seed": seed, **(parameters or {})})
    points: list[Point] = []

    def report(point: Point) -> bool:
        points.append(point)
        return stop(point)

    earlier = None if resume_from is None else folder / resume_from
    return Ran(train(run, DataPaths(), folder / into, report, earlier, signature), points)


def run_rank(rank: int, ranks: int, folder: Path, text: str, given: Mapping[str, Any]) -> None:
    """`run_program` on one of several ranks, each a process of its own."""
    os.environ |= {"MASTER_ADDR": "localhost", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    group = f"file://{folder / given['into']}-group"
    torch.distributed.init_process_group("gloo", init_method=group, rank=rank, world_size=ranks)
    run_program(folder, text, **given)
    torch.distributed.destroy_process_group()
