"""What a caller of `run_sweep` gives and gets: options, events, outcome. Plain data; imports no Ray."""

import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cse_train.training.saver import SAVE_MINUTES

Isolation = Literal["slot", "trial"]


def login_name() -> str:
    """Whose process this is: LOGNAME or USER, else the name of its user, or that one's number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@dataclass(frozen=True, kw_only=True)
class AshaOptions:
    """Successive halving on the best dev score so far, rungs counted in training examples."""

    grace_examples: int
    """Examples that every run may train before it can be stopped."""
    max_examples: int
    """Examples of a full run: the top of the ladder."""
    reduction_factor: float = 3.0
    """Of this many runs at a rung, one goes on."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Where and how widely a sweep runs; nothing here changes a result."""

    storage: Path
    """Folder of runs, checkpoints and logs, seen by every node."""
    workers: int = 1
    """Data-parallel ranks of one run."""
    cpus_per_worker: float = 1
    """CPUs of one rank; torch gets as many threads."""
    gpus_per_worker: float = 0
    """GPUs of one rank; a fraction only where a run has one rank."""
    accelerator_type: str | None = None
    """The kind of GPU that ranks train on, by Ray's name, such as A100; None for any."""
    max_concurrent: int | None = None
    """Runs at once; None for as many as fit."""
    user: str = field(default_factory=login_name)
    """Whose runs these are."""
    user_slots: int | None = None
    """Runs at once of all drivers of this user and ledger; None for any number."""
    priority: int = 1
    """Where users want more than a cluster holds, one at 3 gets three times what one at 1 gets."""
    isolation: Isolation = "slot"
    """`slot`: long-lived worker groups that take run after run, a new one after a run of a plug-in's; `trial`: a new
    group for each run."""
    address: str | None = None
    """A running Ray cluster; None starts one here."""
    recycle_after: int = 200
    """Runs that one worker group serves before it is replaced."""
    timeout_s: float = 120
    """Seconds that a collective waits for a rank before the group counts as broken."""
    max_retries: int = 2
    """Times that a slot continues a run from its checkpoint after lost workers, lost nodes or an error of the machine,
    each counted since the run's last dev point; then another slot tries."""
    wait_for_nodes_s: float = 3600
    """Seconds that a run waits while no node has room for its ranks."""
    save_minutes: float = SAVE_MINUTES
    """From one write of a run's state to the next at least; 0 for one at every dev evaluation, for which the run
    waits. A kill loses what was trained since the last; whoever ends a sweep in order loses nothing."""
    retry_failed: bool = False
    """Train again what failed twice for one reason."""
    keep_top: int | None = None
    """Best runs of each sweep that keep their checkpoints; None for all. Models with scores always stay."""
    disk_quota: int | None = None
    """Bytes that runs may take before checkpoints go, worst runs first; None for any number."""
    asha: AshaOptions | None = None
    """Early stopping; None trains every run to its end."""
    function: str = "cse_train.training.loop:train"
    """`module:name` of what trains a run; tests put a stub here."""
    scorer: str = "cse_train.evaluate.score:score_checkpoint"
    """`module:name` of what scores a best checkpoint."""
    reader: str = "cse_train.training.finished:read_finished"
    """`module:name` of what reads a finished run's checkpoints in the driver, which has no torch before that."""
    group: str = "cluster.slots.worker_group:WorkerGroup"
    """`module:name` of a slot's worker group (`cluster.slots.group_api`); a simulation puts a cheaper one here."""

    @property
    def gpus_per_run(self) -> float:
        """GPUs that one run takes."""
        return self.workers * self.gpus_per_worker
