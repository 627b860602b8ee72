"""`cse_train.training.loop.train`, with a note of the GPU on which each rank of a run trained, and when."""

import json
import time
from pathlib import Path
from typing import Any

from cse_train.training import loop


def train(
    run: Any, paths: Any, folder: Path, report: Any, resume_from: Path | None = None, signature: str | None = None
) -> Any:
    import torch
    import torch.distributed as dist

    begun = time.time()
    torch.cuda.reset_peak_memory_stats()
    outcome = loop.train(run, paths, folder, report, resume_from=resume_from, signature=signature)
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    note = {"gpu": str(gpu.uuid), "backend": str(dist.get_backend_config()), "begun": begun, "ended": time.time()}
    peak = torch.cuda.max_memory_allocated()
    (folder / f"gpu{dist.get_rank()}.json").write_text(json.dumps(note | {"peak": peak}), encoding="utf8")
    return outcome
