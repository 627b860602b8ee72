"""Data passed between driver, slot and worker group: jobs, settings, events, results. Imports neither Ray nor torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.fields import Scalar
from cse_train.plugins.registry import Plugin
from cse_train.plugins.snapshot import Code
from cse_train.results import Outcome, Point, Score
from cse_train.training.saver import SAVE_MINUTES

Fault = Literal["run", "machine", "echo"]
"""Cause of a rank's error; `echo`: it only says that another process is gone, a rank or the mailbox."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train or score, with its settings, inputs and folders; made by the driver and pickled to the ranks."""

    signature: str
    kind: Literal["train", "score"]
    """Kind of work: `train`, or `score` for a finished run that only lacks scores of its suites."""
    settings: Mapping[str, Scalar]
    """Settings by dotted key, as plain data: a plug-in's class would import the user's libraries into the slot."""
    paths: DataPaths
    folder: Path
    previous: tuple[Path, ...] = ()
    """Folders of earlier attempts at this run, newest first."""
    resume_from: Path | None = None
    """Folder of the attempt whose checkpoint the ranks resume, set by the slot; None to start anew."""
    suites: tuple[str, ...] = ()
    function: str
    scorer: str
    gated: bool
    """True if the ranks wait for the scheduler's decision after each report."""
    threads: int
    save_minutes: float = SAVE_MINUTES
    gpus: float = 0
    """GPUs of each rank; a fraction is shared with other runs."""
    code: Code = field(default_factory=dict)
    """Code of the plug-ins that the job uses, as the driver has it."""
    leaves_traces: bool = True
    """True if the plug-ins' code runs in the ranks' own processes, which then serve no further job."""
    inputs: Mapping[str, str | int] = field(default_factory=dict)
    """Content hashes of the run's inputs as of the plan; empty to check none."""
    input_check: str = "search_spaces.identity.signature:wrong_inputs"
    """`module:name` of the input check: (run, paths, inputs) -> {setting: problem}."""

    @cached_property
    def run(self) -> RunConfig:
        """Run configuration parsed from the settings on first use, which imports the class of the method's options."""
        return parse_run(self.settings)

    @property
    def total_examples(self) -> int:
        return total_examples(self.settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Job":
        """Returns the job itself, which is immutable; Tune copies a trial's configuration several times."""
        return self


def total_examples(settings: Mapping[str, Scalar]) -> int:
    """Returns the examples of a run with these dotted keys, rounded down to whole batches, at least one batch."""
    examples, batch_size = settings["train.examples"], settings["train.batch_size"]
    assert isinstance(examples, int) and isinstance(batch_size, int), examples
    return max(1, examples // batch_size) * batch_size


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Settings of a worker group; a job with other settings makes the slot build a new group."""

    options: SweepOptions
    digest: str
    """Digest of the driver's code, which every rank must run."""
    plugins: tuple[Plugin, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SlotSettings:
    """Settings of a slot that it receives with each job."""

    name: str
    group: GroupSettings
    quiet_s: float
    """Seconds without news after which `step` returns."""
    proven: bool = False
    """True if runs have ended in order in this sweep, so that ranks which cannot start are their machine's fault."""
    slowest_s: float = 0.0


class TrialConfig(TypedDict):
    job: Job
    slot: SlotSettings


class ReturnReason(StrEnum):
    """Reason why a slot returns a job that has not ended."""

    RESTING = "resting"
    """State of a job that a slot returns because the slot is in quarantine."""
    REFUSED = "refused"
    """State of a job whose ranks cannot serve any job, so that the sweep cannot go on."""
    CROWDED = "crowded"
    """State of a job returned because the memory of a shared GPU was used up."""


IS_LAST: Final = "done"
"""Key of a Tune result that says whether it is the trial's last."""


class SlotResult(TypedDict):
    """Result of a slot's `step` for Tune and the driver, with the points and scores since the last result."""

    examples: int
    """Examples at the newest point that Tune may decide on; in the last result, of the whole run."""
    best: float
    state: RunState | ReturnReason
    """State of the run, or why it is returned; `lost` runs are tried elsewhere."""
    points: list[Point]
    scores: list[Score]
    reason: str
    outcome: Outcome | None
    """Outcome of the training; None where nothing was trained to an end."""
    lacking: Mapping[str, Scalar]
    """Settings that name an absent or changed input; each run with these settings would fail likewise."""
    retried: str
    """Reason why the job began again since the last result; empty where it did not."""
    waits_for: str
    """Resources that the job waits for, or its overdue dev point, as a line for the user; else empty."""
    done: bool


@dataclass(frozen=True)
class PointEvent:
    index: int
    point: Point


@dataclass(frozen=True, kw_only=True)
class ErrorEvent:
    """Error of a rank in one line; its traceback is in the rank's log."""

    cause: Fault | Literal["setup"]
    """Cause of the error; `setup` means that the rank cannot serve any job."""
    reason: str
    card_full: bool = False
    rank: int = 0
    inputs: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class DoneEvent:
    outcome: Outcome | None
    """Outcome of the training, without its points; None for a job that only scored."""


Event = PointEvent | Score | ErrorEvent | DoneEvent
"""Event of a job: a point of the dev curve, a score of the run's best checkpoint, an error, or the end."""


class Group:
    """Worker group that runs one job at a time and reports events; made as `Group(recycle_after, name)`.

    What a subclass leaves out is that of a group without ranks, which is always up.
    """

    def submit(self, settings: GroupSettings, job: Job) -> int:
        """Begins a job on the worker group and returns the job's number."""
        raise NotImplementedError

    def events(self, timeout_s: float) -> list[Event]:
        """Returns the events since the last call; waits up to `timeout_s` for one."""
        raise NotImplementedError

    def proceed(self, number: int, index: int) -> None:
        """Lets the ranks of a gated job go on after report `index`."""

    def stop(self, number: int) -> None:
        """Ends the worker group's current job early."""

    def lost(self) -> str | None:
        """Returns why the group is gone; None while it lives, or while it waits for room."""
        return None

    def waits_for(self) -> str:
        """Returns which resources the group waits for, as a line for the user; empty where it waits for none."""
        return ""

    def has_ranks(self) -> bool:
        """Tells whether ranks have begun to serve; before that a group may wait for room."""
        return True

    def node_lost(self) -> bool:
        """Tells whether a part of the group was on a node that the cluster no longer has."""
        return False

    def abort(self) -> None:
        """Ends the worker group at once, even during a job."""

    def close(self) -> None:
        """Ends the worker group after its current job."""
