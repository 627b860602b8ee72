"""Training function of `cse doctor --probe`: trains as usual, and records the peak GPU memory of its process."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from cse_train import distributed
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.results import Outcome, Point
from cse_train.training import loop
from cse_train.training.saver import SAVE_MINUTES

TRAIN = "cse.doctor.card_peak:train"
"""Import path of `train`, in the form that a sweep's options take."""
NOTE = "card_peak.json"


@dataclass(frozen=True)
class CardPeak:
    """GPU memory in bytes: the most that torch reserved at once (`held`), and all of the GPU's or MIG instance's
    (`size`)."""

    held: int
    size: int


def train(
    run: RunConfig,
    paths: DataPaths,
    folder: Path,
    report: Callable[[Point], bool],
    resume_from: Path | None = None,
    signature: str | None = None,
    save_minutes: float = SAVE_MINUTES,
) -> Outcome:
    """Trains a run as `cse_train.training.loop.train` does; on a GPU, rank 0 then writes the peak memory to the run's
    folder."""
    outcome = loop.train(run, paths, folder, report, resume_from, signature, save_minutes)
    if distributed.has_card() and distributed.rank() == 0:
        card = torch.cuda.get_device_properties(torch.cuda.current_device())
        peak = CardPeak(torch.cuda.max_memory_reserved(), card.total_memory)
        (folder / NOTE).write_text(json.dumps(asdict(peak)), encoding="utf8")
    return outcome


def read_peak(folder: Path) -> CardPeak | None:
    """Returns the peak memory recorded in a run's folder; None for a run that was trained without a GPU."""
    file = folder / NOTE
    return CardPeak(**json.loads(file.read_text(encoding="utf8"))) if file.is_file() else None
