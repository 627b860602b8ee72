"""The data between driver, slot and worker group: jobs, settings, events, results. Imports neither Ray nor torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypedDict

from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cluster.slots.fault import Fault
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import Scalar
from cse_train.plugins.registry import Plugin
from cse_train.plugins.snapshot import Code
from cse_train.results import Outcome, Point, Score
from cse_train.training.saver import SAVE_MINUTES


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to train or score, where, and how; made by the driver and pickled to the ranks."""

    signature: str
    kind: Literal["train", "score"]
    """`score`: the run is finished and only its suites are wanted."""
    settings: Mapping[str, Scalar]
    """The run's dotted keys, its length counted in examples: the class of a plug-in's options would bring the user's
    libraries into slot and mailbox."""
    paths: DataPaths
    folder: Path
    previous: tuple[Path, ...] = ()
    """Folders of earlier attempts, newest first."""
    resume_from: Path | None = None
    """The folder whose checkpoint the ranks continue; the slot sets it."""
    suites: tuple[str, ...] = ()
    function: str
    """`module:name` of what trains."""
    scorer: str
    """`module:name` of what scores."""
    gated: bool
    """Whether the ranks wait for the scheduler's decision after each report."""
    threads: int
    save_minutes: float = SAVE_MINUTES
    gpus: float = 0
    """Of each rank; a part of a card is shared with other runs."""
    code: Code = field(default_factory=dict)
    """Of the plug-ins that the job uses, as the driver has them."""
    leaves_traces: bool = True
    """Whether that code runs in the ranks' own processes."""
    inputs: Mapping[str, str | int] = field(default_factory=dict)
    """Content hashes of what the run reads, as it was planned."""
    input_check: str = "search_spaces.identity.signature:wrong_inputs"
    """`module:name` of what compares them with what lies here: (run, paths, inputs) -> setting -> line."""

    @cached_property
    def run(self) -> RunConfig:
        """The run of these settings, built where the ranks ask for it; its options are of the method's own class."""
        return parse_run(self.settings)

    @property
    def total_examples(self) -> int:
        """Examples of the whole run: whole batches, at least one."""
        return total_examples(self.settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Job":
        """Itself, because nothing in it changes; Tune copies a trial's configuration several times."""
        return self


def total_examples(settings: Mapping[str, Scalar]) -> int:
    """`Job.total_examples` of a run with these dotted keys."""
    examples, batch_size = settings["train.examples"], settings["train.batch_size"]
    assert isinstance(examples, int) and isinstance(batch_size, int), examples
    return max(1, examples // batch_size) * batch_size


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """What a worker group is made of; a job that needs another makes the slot build a new one."""

    options: SweepOptions
    digest: str
    """Of the driver's code, which every rank must run."""
    plugins: tuple[Plugin, ...] = ()
    """The user's own, in files that every node sees."""


@dataclass(frozen=True, kw_only=True)
class SlotSettings:
    """What a slot needs beside the job."""

    name: str
    group: GroupSettings
    quiet_s: float
    """Seconds without news after which `step` returns."""
    proven: bool = False
    """Runs have ended in order in this sweep, so that ranks that cannot begin are their machine's doing."""
    slowest_s: float = 0.0
    """Seconds of the slowest finished run of the sweep; 0 where none has finished."""


class TrialConfig(TypedDict):
    """What a Tune trial is configured with."""

    job: Job
    slot: SlotSettings


class GivenBack(StrEnum):
    """Why a slot gives a job back that has no end."""

    RESTING = "resting"
    """The slot is in quarantine."""
    REFUSED = "refused"
    """The sweep cannot go on."""
    CROWDED = "crowded"
    """The memory of a card that it shares was used up."""


IS_LAST: Final = "done"
"""Tune's name for whether no other result of the trial comes."""


class SlotResult(TypedDict):
    """What a slot gives Tune, and the driver records; points and scores are those since the last result."""

    examples: int
    """Examples at the newest point that Tune may decide on; at the end, of the whole run."""
    best: float
    state: RunState | GivenBack
    """`lost`: to be tried elsewhere."""
    points: list[Point]
    scores: list[Score]
    reason: str
    outcome: Outcome | None
    """None where nothing was trained to an end."""
    lacking: Mapping[str, Scalar]
    """Settings that name an input for which the job failed: each run that has them would fail so."""
    retried: str
    """Why the job began again; empty where it did not."""
    waits_for: str
    """What the job needs and the cluster does not have now, or its dev point that is long in coming; else empty."""
    done: bool


@dataclass(frozen=True)
class PointEvent:
    """Rank 0 reports its dev point number `index`."""

    index: int
    point: Point


@dataclass(frozen=True)
class ScoreEvent:
    """One score of the run's best checkpoint."""

    score: Score


@dataclass(frozen=True, kw_only=True)
class ErrorEvent:
    """What a rank raised, in one line; its traceback is in the rank's log."""

    cause: Fault | Literal["setup"]
    """`setup`: this rank cannot serve any job."""
    reason: str
    card_full: bool = False
    """Whether a card's memory was used up."""
    rank: int = 0
    inputs: Mapping[str, Scalar] = field(default_factory=dict)
    """Settings that name an input which is absent or another: each run that has them would fail so."""


@dataclass(frozen=True)
class DoneEvent:
    """Every rank has finished the job."""

    outcome: Outcome | None
    """Without its points; None of a job that only scored."""


Event = PointEvent | ScoreEvent | ErrorEvent | DoneEvent


class Group(Protocol):
    """Runs one job at a time and reports events; made as `Group(recycle_after, name)`."""

    def submit(self, settings: GroupSettings, job: Job) -> int:
        """Begin a job and return its number."""

    def events(self, timeout_s: float) -> list[Event]:
        """What happened since the last call; waits up to `timeout_s` for something."""

    def proceed(self, number: int, index: int) -> None:
        """Let the ranks of a gated job go on after report `index`."""

    def stop(self, number: int) -> None:
        """End the current job early."""

    def lost(self) -> str | None:
        """Why there is no group any more; None while there is one, or while it waits for room."""

    def waits_for(self) -> str:
        """What the group needs that the cluster does not have now; empty where it has."""

    def has_ranks(self) -> bool:
        """Whether ranks have begun to serve: a group may wait for room before."""

    def node_lost(self) -> bool:
        """Whether a part of the group was on a node that the cluster no longer has."""

    def abort(self) -> None:
        """End the group now."""

    def close(self) -> None:
        """End the group in order."""
