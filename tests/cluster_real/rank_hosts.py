"""`cse_train.training.loop.train`, with a note of the host on which each rank of a run was."""

import platform
from pathlib import Path
from typing import Any

from cse_train.training import loop


def train(run: Any, paths: Any, folder: Path, report: Any, **how: Any) -> Any:
    import torch.distributed as dist

    notes = folder / "hosts"
    notes.mkdir(parents=True, exist_ok=True)
    (notes / f"rank{dist.get_rank()}").write_text(platform.node(), encoding="utf8")
    return loop.train(run, paths, folder, report, **how)
