"""Training that notes what its own process took of its card; what other processes take there counts for nothing."""

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
"""`train`, as a sweep's options name it."""
NOTE = "card_peak.json"


@dataclass(frozen=True)
class CardPeak:
    """Bytes of a card: most that torch held there at once, and the whole; of a MIG instance, its own."""

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
    """As `cse_train.training.loop.train`; rank 0 leaves a note in the folder where it has a card."""
    outcome = loop.train(run, paths, folder, report, resume_from, signature, save_minutes)
    if distributed.has_card() and distributed.rank() == 0:
        card = torch.cuda.get_device_properties(torch.cuda.current_device())
        peak = CardPeak(torch.cuda.max_memory_reserved(), card.total_memory)
        (folder / NOTE).write_text(json.dumps(asdict(peak)), encoding="utf8")
    return outcome


def read_peak(folder: Path) -> CardPeak | None:
    """The note in a run's folder; None where it was trained without a card."""
    file = folder / NOTE
    return CardPeak(**json.loads(file.read_text(encoding="utf8"))) if file.is_file() else None
