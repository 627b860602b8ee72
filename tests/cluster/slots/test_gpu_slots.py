"""Two trials at once through Ray Train: on one GPU (`python -m pytest -m gpu -s tests/cluster/slots`), and without."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from analysis.ledger import Ledger
from cluster.plan.plan import PlannedRun
from cluster.runtime.options import SweepOptions
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths


def planned(seed: int, examples: int) -> PlannedRun:
    settings = {
        "method": "simcse",
        "train.encoder": "words-l1-h64",
        "train.corpus": "generated",
        "train.dev": "generated_dev:40",
        "train.examples": examples,
        "train.batch_size": 64,
        "train.evaluations": 2,
        "train.seed": seed,
    }
    return PlannedRun(signature=f"signature{seed}", run=parse_run(settings), identity={}, cell={}, seed=seed, sweep="s")


def swept(folder: Path, runs: int, examples: int, **options: Any) -> list[dict[str, Any]]:
    """What each run noted of its rank; every run is done, and its curve is whole."""
    wanted = [planned(seed, examples) for seed in range(runs)]
    asked = SweepOptions(storage=folder / "runs", max_concurrent=2, function="rank_gpus:train", **options)
    outcome = run_sweep(wanted, folder / "ledger.db", DataPaths(), asked)
    assert (outcome.done, outcome.failures) == (runs, ())
    ledger = Ledger.open(folder / "ledger.db")
    assert all(ledger.curve(run.signature)[-1].examples == examples for run in wanted)
    ledger.close()
    notes = [json.loads(file.read_text()) for file in (folder / "runs").glob("runs/*/final*/gpu0.json")]
    assert len(notes) == runs
    print(f"\n{runs} runs of {examples} examples, two at once at most: {outcome.seconds:.0f} s")
    return notes


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: run on a GPU machine")
def test_two_trials_share_a_card(ray_cluster: None, tmp_path: Path) -> None:
    """As `cse run … --workers 1 --gpus-per-worker 0.5 --max-concurrent 2`."""
    notes = swept(tmp_path, 4, 64_000, gpus_per_worker=0.5)
    assert len({note["gpu"] for note in notes}) == 1
    assert all("cuda:nccl" in note["backend"] and note["peak"] > 10**6 for note in notes), notes
    assert together(notes) == 2, "two at once, never more"


@pytest.mark.slow
def test_what_the_test_of_a_card_does_runs_without_one(ray_cluster: None, tmp_path: Path) -> None:
    notes = swept(tmp_path, 2, 128)
    assert all(note["gpu"] is None and "gloo" in note["backend"] for note in notes), notes
    assert 1 <= together(notes) <= 2


def together(notes: list[dict[str, Any]]) -> int:
    """Most runs that trained at one moment."""
    return max(sum(note["begun"] <= other["begun"] < note["ended"] for note in notes) for other in notes)
