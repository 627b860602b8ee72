"""One run under each way of drawing; a module of its own, which a process that is spawned can import."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import torch

from benchmarks.common_numbers.draws import by_counter, with_nested_edits
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import train
from search_spaces.profiles import load_profile

WAYS = ("today's streams", "masks by counter", "nested repetition", "both")
PROFILE = "tiny"


def score(way: str, rate: float, seed: int, data: str) -> float:
    """The best dev score of one run."""
    torch.set_num_threads(1)
    given = {"method": "esimcse", "method.dup_rate": rate, "train.seed": seed}
    run = parse_run({**load_profile(PROFILE).settings("esimcse"), **given})
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        if way in ("masks by counter", "both"):
            stack.enter_context(by_counter())
        if way in ("nested repetition", "both"):
            stack.enter_context(with_nested_edits())
        outcome = train(run, DataPaths.from_folder(Path(data)), Path(folder), lambda point: False)
    return float(outcome.best)
