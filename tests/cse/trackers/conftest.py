"""A ledger whose runs a test moves on, as a sweep does, with the events that trackers hear."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Claim, Ledger
from cluster.sweep.events import EventKind, SweepEvent
from cse.trackers.tools import TrackedRun, Tracker
from cse.trackers.tracking import Tracking
from tests.run_values import point_of, score_of

CONFIG = {"train.seed": 0, "train.dev": "sts_dev", "train.learning_rate": 3e-5, "train.corpus": "generated"}
LABEL = "learning_rate=3e-05 seed 0"


class Kept:
    """A tracker that keeps what it is sent."""

    def __init__(self) -> None:
        self.runs: list[TrackedRun] = []
        self.closed = False

    def send(self, run: TrackedRun) -> None:
        self.runs.append(run)

    def close(self) -> None:
        self.closed = True

    def of(self, signature: str) -> list[TrackedRun]:
        return [run for run in self.runs if run.signature == signature]


class Raising(Kept):
    def send(self, run: TrackedRun) -> None:
        super().send(run)
        raise OSError("no route to host\nsecond line")


class Hanging(Kept):
    def __init__(self) -> None:
        super().__init__()
        self.begun, self.free = threading.Event(), threading.Event()

    def send(self, run: TrackedRun) -> None:
        super().send(run)
        self.begun.set()
        self.free.wait(120)


class TrackedSweep:
    """Runs of the sweep `E7`: `begin`, `point`, `end`; each tells the trackers as a sweep would."""

    config = CONFIG

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, str(folder / "ledger.db")
        self.ledger = Ledger.open(self.url)
        self.sweeps: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.claims: dict[str, Claim] = {}
        self.tracking: Tracking | None = None

    def under(self, trackers: Mapping[str, Tracker]) -> Tracking:
        self.tracking = Tracking(self.url, self.sweeps, self.labels, trackers)
        return self.tracking

    def tell(self, kind: EventKind, signature: str, **facts: Any) -> None:
        if self.tracking is not None:
            self.tracking(SweepEvent(kind=kind, signature=signature, **facts))

    def begin(self, signature: str) -> None:
        self.sweeps[signature], self.labels[signature] = "E7", LABEL
        about = {"method": "esimcse", "seed": 0, "owner": "me", "identity": {}, "provenance": {}}
        claim = self.ledger.claim(signature, CONFIG, **about)  # type: ignore[arg-type]
        assert claim is not None
        self.claims[signature] = claim
        self.ledger.running(claim, self.folder / signature)
        self.tell("started", signature, state="running")

    def point(self, signature: str, examples: int, score: float) -> None:
        metrics = {"sts_dev": score, "loss": 10.0 / examples, "undefined": None}
        point = point_of(examples, score, step=examples // 10, metrics=metrics)
        self.ledger.add_points(self.claims[signature], [point])
        self.tell("point", signature, state="running", examples=examples, best=score)

    def end(self, signature: str, state: Any, best: float | None, *, reason: str | None = None) -> None:
        values = {"examples": 200, "best": best, "best_examples": 200, "seconds": 2.0, "folder": None}
        self.ledger.finish(self.claims[signature], state, reason=reason, **values)
        if state == "done":
            self.ledger.add_score(signature, score_of("sts_test", 71.5, {"data_hash": "d"}))
            self.tell("scored", signature, state="done", best=71.5, reason="sts_test")
        self.tell(state, signature, state=state, best=best, reason=reason or "")

    def whole(self) -> None:
        """One run that is retried and done, one that is stopped, one that fails, and one that was reused."""
        for signature in ("a" * 24, "b" * 24, "c" * 24):
            self.begin(signature)
            self.point(signature, 100, 60.0)
        self.tell("retried", "a" * 24, reason="worker lost")
        self.point("a" * 24, 200, 62.5)
        self.end("a" * 24, "done", 62.5)
        self.end("b" * 24, "stopped", 60.0)
        self.end("c" * 24, "failed", None, reason="NaN loss")
        self.tell("reused", "d" * 24, state="done")


@pytest.fixture
def tracked(tmp_path: Path) -> TrackedSweep:
    return TrackedSweep(tmp_path)
