"""Frozen dataclasses for the rows that queries of the ledger return."""

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
"""Setting for the precision of training, which may leave the choice to the device; an attempt's details record it."""
SEED_TEXT = re.compile(rf'"{re.escape(SEED)}": ?(0|[1-9][0-9]*)(?=[,}}])')


def user_of(owner: str) -> str:
    """Returns USER of an owner USER@HOST:PID:ID; empty for owners of older versions, which lack it."""
    return owner.rpartition("@")[0]


@dataclass(frozen=True)
class Claim:
    """Right to run one attempt of a run; it ends when the lease runs out and another owner takes the run over."""

    signature: str
    attempt: int
    owner: str
    previous_state: RunState | None = None
    """State in which the attempt before ended (stopped, failed, lost); None for a first attempt."""
    previous_folders: tuple[str, ...] = ()
    """Folders of all earlier attempts, newest first, in which to look for a checkpoint.

    An attempt that was killed before its first checkpoint left none.
    """


@dataclass(frozen=True)
class RunRow:
    """One run in the ledger; times are in seconds since 1970 by the database's clock."""

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
    """True for a claimed or running run whose lease has not ended; False where the owner is gone."""
    settings: str = field(default="", compare=False)
    """Text of `config` without the seed, equal for all seeds of a cell; empty for a row that was not read from a
    ledger."""

    @property
    def user(self) -> str:
        """User whose driver trained the run; empty where unknown."""
        return user_of(self.owner)

    @property
    def files(self) -> RunFolder | None:
        """Folder of the run's newest attempt; None if it has none."""
        return RunFolder(Path(self.folder)) if self.folder else None


@dataclass(frozen=True)
class CurvePoint:
    """One stored point of a run's curve; None stands for a value that was no finite number, such as a diverged loss."""

    examples: int
    step: int
    seconds: float | None
    metrics: Mapping[str, float | None]
    best: float | None
    best_examples: int | None


def read_metric(points: Iterable[CurvePoint], metric: Scalar) -> dict[int, float]:
    """Returns examples -> value of a metric along a curve, at the points where it was measured."""
    scores = ((point.examples, point.metrics.get(str(metric))) for point in points)
    return {examples: float(value) for examples, value in scores if value is not None}


class Objects:
    """Cache that parses each JSON text of a ledger once and returns one shared object, not to be changed."""

    def __init__(self) -> None:
        self._read: dict[str, object] = {}
        self._configs: dict[str, Settings] = {}
        self._protocols: dict[str, Protocol] = {}

    def read(self, text: str) -> Any:
        """Returns the parsed value of a JSON text."""
        if text not in self._read:
            self._read[text] = json.loads(text)
        return self._read[text]

    def protocol(self, text: str) -> Protocol:
        """Returns the protocol of a score from its JSON text."""
        if text not in self._protocols:
            self._protocols[text] = Protocol.read(self.read(text))
        return self._protocols[text]

    def config(self, text: str) -> tuple[Any, str]:
        """Returns a run's configuration and `RunRow.settings`. Texts that differ only in the seed are parsed once."""
        parts = SEED_TEXT.split(text)
        if len(parts) != 3:  # no seed in the text, or several matches
            return self.read(text), text
        settings, seed = f"{parts[0]}{parts[2]}", int(parts[1])
        if settings in self._configs:
            return {**self._configs[settings], SEED: seed}, settings
        config = json.loads(text)
        if not isinstance(config, dict) or config.get(SEED) != seed:  # the match was not the setting itself
            return config, text
        self._configs[settings] = config
        return config, settings


@dataclass(frozen=True)
class HistoryRow:
    """One change of state of one attempt of a run."""

    signature: str
    attempt: int
    state: RunState
    owner: str
    at: float
    folder: str | None
    reason: str | None


@dataclass(frozen=True)
class ScoreRow:
    """Score of one run on one suite under one protocol."""

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
    """Origin of one attempt's numbers: commit, packages, host, hardware, data hashes, and its cost."""

    signature: str
    attempt: int
    details: Json
    examples: int | None
    seconds: float | None
    at: float


@dataclass(frozen=True)
class SweepRow:
    """One sweep with the number of its runs by state; `unclaimed` are runs that nobody has started."""

    id: str
    spec: SweepSpec
    created: float
    updated: float
    runs: int
    states: Mapping[Standing, int]


def sweeps_named(name: str, sweeps: Iterable[SweepRow]) -> list[SweepRow]:
    """Returns the sweep of a given name, or else all sweeps of the space with this ID or file."""
    sweeps, file = list(sweeps), str(Path(name).resolve())
    exact = [sweep for sweep in sweeps if sweep.id == name]
    of_space = (s for s in sweeps if str(s.spec.space).lower() == name.lower() or s.spec.file == file)
    return exact or list(of_space)


@dataclass(frozen=True)
class SweepCell:
    """One cell of a sweep (a value for each axis), a seed, and the signature of their run."""

    signature: str
    cell: Settings
    seed: int


@dataclass(frozen=True)
class Import:
    """Origin of an imported run, whose files lie on another machine."""

    signature: str
    file: str
    """File name of the bundle."""
    hash: str
    """Sha256 of the bundle, as its header states it."""
    host: str | None
    """Machine that trained the run; None if unknown."""
    folder: str | None
    """Folder of the run on the machine that trained it."""
    at: float
    """Time of the import, in seconds since 1970 by the database's clock."""

    def line(self) -> str:
        """Returns a sentence on where the run comes from and where its checkpoint lies."""
        checkpoint = RunFolder(Path(self.folder)).best if self.folder else None
        place_text = f"; its checkpoint lies at {self.host or 'unknown host'}:{checkpoint}" if checkpoint else ""
        return f"imported from {self.file} ({self.hash[:12]}){place_text}"
