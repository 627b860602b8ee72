"""Two trials at once on one GPU through Ray Train: `python -m pytest -m gpu -s tests/cluster/slots`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from analysis.ledger import Ledger
from cluster.runtime.options import SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: run on a GPU machine"),
]


def planned(seed: int) -> Any:
    settings = {
        "method": "simcse",
        "train.encoder": "wiki-l1-h64",
        "train.corpus": "generated",
        "train.dev": "generated_dev:40",
        "train.examples": 64_000,
        "train.batch_size": 64,
        "train.evaluations": 2,
        "train.seed": seed,
    }
    return SimpleNamespace(
        signature=f"signature{seed}", run=parse_run(settings), identity={}, cell={}, seed=seed, sweep="s"
    )


def test_two_trials_share_a_card(ray_cluster: None, tmp_path: Path) -> None:
    """As `cse run … --workers 1 --gpus-per-worker 0.5 --max-concurrent 2`."""
    runs = [planned(seed) for seed in range(4)]
    options = SweepOptions(storage=tmp_path / "runs", gpus_per_worker=0.5, max_concurrent=2, function="rank_gpus:train")
    outcome = run_sweep(runs, tmp_path / "ledger.db", DataPaths(), options)
    assert (outcome.done, outcome.failures) == (4, ())
    ledger = Ledger.open(tmp_path / "ledger.db")
    assert all(ledger.curve(run.signature)[-1]["examples"] == 64_000 for run in runs)
    ledger.close()
    notes = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("runs/*/final*/gpu0.json")]
    assert len(notes) == 4 and len({note["gpu"] for note in notes}) == 1
    assert all("cuda:nccl" in note["backend"] and note["peak"] > 10**6 for note in notes), notes
    assert together(notes) == 2, "two at once, never more"
    print(f"\n4 runs of 64,000 examples, two at once on one GPU: {outcome.seconds:.0f} s")


def together(notes: list[dict[str, Any]]) -> int:
    """Most runs that trained at one moment."""
    return max(sum(note["begun"] <= other["begun"] < note["ended"] for note in notes) for other in notes)
