"""What the ledger hands out: plain frozen rows."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.run_folder import RunFolder
from analysis.run_state import RunState, Standing
from analysis.sweep_spec import SweepSpec
from cse_train.results import Json, Protocol, Scalar, Settings

SEED = "train.seed"
ARITHMETIC = "train.precision"
"""The setting that may leave to the device in what a run is computed; its attempts' details say in what it was."""
SEED_TEXT = re.compile(rf'"{re.escape(SEED)}": ?(0|[1-9][0-9]*)(?=[,}}])')


def user_of(owner: str) -> str:
    """Whose driver an owner is, USER@HOST:PID:ID; empty where it does not say, as those of older programs."""
    return owner.rpartition("@")[0]


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt; it ends when the lease runs out and another owner takes the run over."""

    signature: str
    attempt: int
    owner: str
    previous_state: RunState | None = None
    """How the attempt before ended (stopped, failed, lost); None for a first attempt."""
    previous_folders: tuple[str, ...] = ()
    """Folders of all earlier attempts, the newest first: there a checkpoint is looked for.

    An attempt killed before its first checkpoint left none.
    """


@dataclass(frozen=True)
class RunRow:
    """One run as it stands; times in seconds since 1970 by the database's clock."""

    signature: str
    state: RunState
    attempt: int
    owner: str
    method: str
    seed: int
    config: Settings
    identity: Mapping[str, str | int]
    examples: int | None
    best: float | None
    best_examples: int | None
    seconds: float | None
    folder: str | None
    reason: str | None
    created: float
    updated: float
    live: bool
    """Claimed or running with a lease that still holds; False for a dead owner's run."""
    settings: str = field(default="", compare=False)
    """The text of `config` without the seed, the same for all seeds of a cell; empty for a row that was not read."""

    @property
    def user(self) -> str:
        """Whose driver trained it; empty where that is not known."""
        return user_of(self.owner)

    @property
    def files(self) -> RunFolder | None:
        """The folder of its newest attempt; None where it has none."""
        return RunFolder(Path(self.folder)) if self.folder else None


@dataclass(frozen=True)
class CurvePoint:
    """One stored point of a run's curve; None for what was no number, as a score of equal cosines or a lost loss."""

    examples: int
    step: int
    seconds: float | None
    metrics: Mapping[str, float | None]
    best: float | None
    best_examples: int | None


def read_metric(points: Iterable[CurvePoint], metric: Scalar) -> dict[int, float]:
    """Examples -> the metric at that point of a curve, where it was measured."""
    scores = ((point.examples, point.metrics.get(str(metric))) for point in points)
    return {examples: float(value) for examples, value in scores if value is not None}


class Objects:
    """JSON out of a ledger's texts: equal texts are read once and give one object, which is not to be changed."""

    def __init__(self) -> None:
        self._read: dict[str, Any] = {}
        self._configs: dict[str, Settings] = {}
        self._protocols: dict[str, Protocol] = {}

    def read(self, text: str) -> Any:
        """What the text says."""
        if text not in self._read:
            self._read[text] = json.loads(text)
        return self._read[text]

    def protocol(self, text: str) -> Protocol:
        """A score's protocol."""
        if text not in self._protocols:
            self._protocols[text] = Protocol.read(self.read(text))
        return self._protocols[text]

    def config(self, text: str) -> tuple[Any, str]:
        """A run's configuration and `RunRow.settings`; of texts that differ in the seed alone one is looked into."""
        parts = SEED_TEXT.split(text)
        if len(parts) != 3:
            return self.read(text), text
        settings, seed = f"{parts[0]}{parts[2]}", int(parts[1])
        if settings in self._configs:
            return {**self._configs[settings], SEED: seed}, settings
        config = json.loads(text)
        if not isinstance(config, dict) or config.get(SEED) != seed:
            return config, text
        self._configs[settings] = config
        return config, settings


@dataclass(frozen=True)
class HistoryRow:
    """One transition of one attempt."""

    signature: str
    attempt: int
    state: RunState
    owner: str
    at: float
    folder: str | None
    reason: str | None


@dataclass(frozen=True)
class ScoreRow:
    """One run's value on one suite under one protocol."""

    signature: str
    suite: str
    value: float | None
    protocol: Protocol
    protocol_hash: str
    cosines_file: str | None
    cosines_hash: str | None
    at: float


@dataclass(frozen=True)
class ProvenanceRow:
    """Where one attempt's numbers come from: commit, packages, host, hardware, data hashes, and what it cost."""

    signature: str
    attempt: int
    details: Json
    examples: int | None
    seconds: float | None
    at: float


@dataclass(frozen=True)
class SweepRow:
    """One sweep and how far its runs are: `states` counts them, `unclaimed` those that nobody has started."""

    id: str
    spec: SweepSpec
    created: float
    updated: float
    runs: int
    states: Mapping[Standing, int]


def sweeps_named(name: str, sweeps: Iterable[SweepRow]) -> list[SweepRow]:
    """The sweep of this name, else the sweeps of the space with this ID or file."""
    sweeps, file = list(sweeps), str(Path(name).resolve())
    exact = [sweep for sweep in sweeps if sweep.id == name]
    of_space = (s for s in sweeps if str(s.spec.space).lower() == name.lower() or s.spec.file == file)
    return exact or list(of_space)


@dataclass(frozen=True)
class SweepCell:
    """One (cell, seed) of a sweep and the run that answers it."""

    signature: str
    cell: Settings
    seed: int
