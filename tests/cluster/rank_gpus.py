"""`cse_train.training.loop.train`, with a note of the GPU, if any, on which each rank of a run trained, and when."""

import json
import time
from pathlib import Path
from typing import Any

from cse_train.training import loop


def train(run: Any, paths: Any, folder: Path, report: Any, **how: Any) -> Any:
    import torch
    import torch.distributed as dist

    begun, note = time.time(), dict[str, Any](gpu=None)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    outcome = loop.train(run, paths, folder, report, **how)
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        note = {"gpu": str(gpu.uuid), "peak": torch.cuda.max_memory_allocated()}
    note |= {"backend": str(dist.get_backend_config()), "begun": begun, "ended": time.time()}
    (folder / f"gpu{dist.get_rank()}.json").write_text(json.dumps(note), encoding="utf8")
    return outcome
