"""Sweeps of stand-in runs (see stub_training.py) on the session's Ray cluster."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test runs believes that its process has no Ray, and does not end the session's."""
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.shutdown", lambda: None)


@dataclass
class Swept:
    """What a sweep of stand-ins gave."""

    outcome: Any
    ledger: Any
    folder: Path
    events: list[tuple[float, Any]] = field(default_factory=list)
    """Seconds since the start, event."""

    def of(self, seed: int, *kinds: str) -> list[tuple[float, Any]]:
        return [
            (at, e) for at, e in self.events if e.signature == f"signature{seed}" and (not kinds or e.kind in kinds)
        ]

    def row(self, seed: int) -> Any:
        return self.ledger.run(f"signature{seed}")

    def log(self, seed: int, rank: int) -> str:
        return Path(self.row(seed).folder, "logs", f"rank{rank}.log").read_text()


def planned(seed: int, **settings: Any) -> Any:
    from cse_train.config import parse_run

    flat = {"method": "simcse", "train.seed": seed, "train.examples": 128, "train.evaluations": 4} | settings
    return SimpleNamespace(
        signature=f"signature{seed}", run=parse_run(flat), identity={}, cell={"seed": seed}, seed=seed, sweep="s"
    )


def sweep_of(folder: Path, told: dict[str, Any], seeds: list[int], **options: Any) -> Swept:
    """Run seeds under a script: seed -> how its run behaves."""
    from analysis.ledger import Ledger
    from cluster.sweep import SweepOptions, run_sweep
    from cse_train.config import DataPaths

    (folder / "script.json").write_text(json.dumps(told))
    stub = {"function": "stub_training:train", "scorer": "stub_training:score"}
    events: list[tuple[float, Any]] = []
    begun = time.monotonic()
    outcome = run_sweep(
        [planned(seed) for seed in seeds],
        folder / "ledger.db",
        DataPaths(train_file=folder / "script.json"),
        SweepOptions(storage=folder / "runs", **(stub | options)),
        lambda event: events.append((time.monotonic() - begun, event)),
        {"s": ["a"]},
    )
    return Swept(outcome, Ledger.open(folder / "ledger.db"), folder, events)


@pytest.fixture(scope="module")
def sweeper() -> Callable[..., Swept]:
    return sweep_of
