"""What the ledger hands out: plain frozen rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt; it ends when the lease runs out and another owner takes the run over."""

    signature: str
    attempt: int
    owner: str
    previous_state: str | None = None
    """How the attempt before ended (stopped, failed, lost); None for a first attempt."""
    previous_folders: tuple[str, ...] = ()
    """Folders of all earlier attempts, the newest first: there a checkpoint is looked for.

    An attempt killed before its first checkpoint left none.
    """


@dataclass(frozen=True)
class RunRow:
    """One run as it stands; times in seconds since 1970 by the database's clock."""

    signature: str
    state: str
    attempt: int
    owner: str
    method: str
    seed: int
    config: dict[str, Any]
    identity: dict[str, Any]
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


@dataclass(frozen=True)
class HistoryRow:
    """One transition of one attempt."""

    signature: str
    attempt: int
    state: str
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
    protocol: dict[str, Any]
    protocol_hash: str
    cosines_file: str | None
    cosines_hash: str | None
    at: float


@dataclass(frozen=True)
class ProvenanceRow:
    """Where one attempt's numbers come from: commit, packages, host, hardware, data hashes, and what it cost."""

    signature: str
    attempt: int
    details: dict[str, Any]
    examples: int | None
    seconds: float | None
    at: float


@dataclass(frozen=True)
class SweepRow:
    """One sweep and how far its runs are: `states` counts them, `unclaimed` those that nobody has started."""

    id: str
    spec: dict[str, Any]
    created: float
    updated: float
    runs: int
    states: dict[str, int]


def sweeps_named(name: str, sweeps: Iterable[SweepRow]) -> list[SweepRow]:
    """The sweep of this name, else the sweeps of the space with this ID or file."""
    sweeps, file = list(sweeps), str(Path(name).resolve())
    exact = [sweep for sweep in sweeps if sweep.id == name]
    of_space = (s for s in sweeps if str(s.spec.get("space")).lower() == name.lower() or s.spec.get("file") == file)
    return exact or list(of_space)


@dataclass(frozen=True)
class SweepCell:
    """One (cell, seed) of a sweep and the run that answers it."""

    signature: str
    cell: dict[str, Any]
    seed: int
