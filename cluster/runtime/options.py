"""Options of `run_sweep`, as plain data; importing this module imports no Ray."""

import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cse_train.training.saver import SAVE_MINUTES

Isolation = Literal["slot", "trial"]


def login_name() -> str:
    """Returns the name of this process's user: LOGNAME or USER, else the account's name, else the user ID."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@dataclass(frozen=True, kw_only=True)
class AshaOptions:
    """Options of successive halving (ASHA) on the best dev score so far, with rungs counted in training examples."""

    grace_examples: int
    """Examples that every run may train before it can be stopped."""
    max_examples: int
    """Examples of a full run, at which the top rung lies."""
    reduction_factor: float = 3.0
    """Reduction factor of ASHA: one of this many runs at a rung goes on."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Resources, storage and fault tolerance of a sweep; no option here changes a run's result."""

    storage: Path
    """Folder of runs, checkpoints and logs, seen by every node."""
    workers: int = 1
    """Number of data-parallel ranks of one run."""
    cpus_per_worker: float = 1
    """Number of CPUs of one rank, and of torch's threads in it."""
    gpus_per_worker: float = 0
    """Number of GPUs of one rank; a fraction only where a run has one rank."""
    accelerator_type: str | None = None
    """Ray's name of the kind of GPU that ranks train on, such as A100; None for any kind."""
    max_concurrent: int | None = None
    """Maximum number of runs at once; None for as many as fit."""
    user: str = field(default_factory=login_name)
    """Name of the user who owns the runs, by which drivers share a cluster."""
    user_slots: int | None = None
    """Maximum number of runs at once over all drivers of this user and ledger; None for any number."""
    priority: int = 1
    """Weight in fair sharing of a full cluster: priority 3 gets three times the runs of priority 1."""
    isolation: Isolation = "slot"
    """`slot`: warm worker groups take run after run, and end after one of a plug-in; `trial`: a group for each run."""
    address: str | None = None
    """Address (HOST:PORT or auto) of a running Ray cluster to join; None starts one on this machine."""
    recycle_after: int = 200
    """Number of runs that one worker group serves before it is replaced."""
    timeout_s: float = 120
    """Seconds that a collective waits for a rank before the group counts as broken."""
    max_retries: int = 2
    """Times, for each cause, that a slot continues a lost run since its last dev point; then another slot tries."""
    wait_for_nodes_s: float = 3600
    """Seconds that a run waits while no node has room for its ranks."""
    save_minutes: float = SAVE_MINUTES
    """Least minutes between two writes of a run's state, which a kill loses; 0 writes at every dev evaluation."""
    retry_failed: bool = False
    """True if runs that failed twice for the same reason are trained again."""
    keep_top: int | None = None
    """Number of best runs per sweep that keep their checkpoints; None for all. Models with scores are always kept."""
    disk_quota: int | None = None
    """Bytes that runs may take before checkpoints are deleted, worst runs first; None for any number."""
    asha: AshaOptions | None = None
    """Options of early stopping by ASHA; None trains every run to its end."""
    function: str = "cse_train.training.loop:train"
    """`module:name` of the function that trains a run; tests replace it by a stub."""
    scorer: str = "cse_train.evaluate.score:score_checkpoint"
    """`module:name` of the function that scores a best checkpoint."""
    reader: str = "cse_train.checkpoint:read_finished"
    """`module:name` of the driver's reader of finished checkpoints, imported late because it needs torch."""
    group: str = "cluster.slots.worker_group:WorkerGroup"
    """`module:name` of a slot's worker group class (`cluster.slots.group_api`); simulations put a cheaper one here."""

    @property
    def gpus_per_run(self) -> float:
        """Number of GPUs that one run takes."""
        return self.workers * self.gpus_per_worker
