"""A dispatcher of a list of runs without slots: a test says when one starts, reports and ends."""

from pathlib import Path
from typing import Any

from analysis.ledger import Ledger
from cluster.plan.plan import PlannedRun
from cluster.plan.run_source import ListSource
from cluster.runtime.options import SweepOptions
from cluster.sweep.dispatcher import Dispatcher
from cluster.sweep.events import SweepEvent
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from tests.cluster.jobs import slot_result
from tests.run_values import outcome_of, point_of


def wanted(seed: int) -> PlannedRun:
    run = parse_run({"method": "simcse", "train.seed": seed, "train.examples": 128})
    return PlannedRun(f"signature{seed}", run, {}, {}, seed, "s")


class Driver:
    """A dispatcher with its own claims on a shared ledger, and its events."""

    def __init__(
        self, folder: Path, seeds: list[Any], owner: str, suites=(), lease=60.0, file="ledger.db", **options: Any
    ) -> None:
        self.events: list[SweepEvent] = []
        self.ledger = Ledger.open(folder / file, lease=lease, storage=folder)
        self.observed: list[tuple[Any, ...]] = []
        source = ListSource([seed if isinstance(seed, PlannedRun) else wanted(seed) for seed in seeds])
        source.observe = lambda planned, *what: self.observed.append((planned.seed, *what))  # type: ignore[method-assign]
        self.source = source
        self.dispatcher = Dispatcher(
            source,
            self.ledger,
            DataPaths(),
            SweepOptions(storage=folder, **options),
            owner,
            {"s": suites},
            self.events.append,
        )
        self.recorder = self.dispatcher.recorder

    def start(self):
        claimed = self.dispatcher.next_run()
        if claimed:
            claimed.folder.mkdir(parents=True, exist_ok=True)
            self.recorder.started(claimed)
        return claimed

    def train(self, claimed, **changes: Any) -> None:
        (claimed.folder / "best").mkdir(parents=True)
        point = point_of(128, 60.0, step=2, metrics={"loss": 1.0}, best_examples=64)
        self.recorder.progressed(claimed, slot_result(points=[point]))
        outcome = outcome_of(examples=128, best=60.0, best_examples=64, seconds=1.5)
        self.recorder.ended(claimed, slot_result(state="done", outcome=outcome, **changes))

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]
