"""Worker group of one slot: a Ray Train run that lives as long as jobs keep coming, and its mailbox."""

import os
import re
import threading
import time
import uuid
from typing import Any

import ray

from cluster.runtime.join import start_here
from cluster.runtime.options import SweepOptions
from cluster.runtime.ray_internals import CALLBACKS, NO_ROOM
from cluster.runtime.resources import KIND_PREFIX, PART_OF_KIND, WORKER_GB, cluster_nodes, memory_bytes, slots_that_fit
from cluster.slots.group_api import Event, Group, GroupSettings, Job
from cluster.slots.mailbox import Mailbox, RankFacts
from cluster.slots.worker import serve
from cse_train.fields import ConfigError

GROUP_CLOSE_SECONDS = 5.0
STOP_SECONDS = 60.0
SAVE_SECONDS, SAVE_POLL_SECONDS = 60.0, 1.0
"""Seconds that ranks get to save before they are killed, and seconds between two checks of their saves."""
TRAIN_CALLBACKS = ("cluster.slots.train_callbacks.LeftoverRoom", "cluster.slots.train_callbacks.SavesFirst")
"""Ray Train callbacks that every training run of this project has."""


class _Life:
    def __init__(self, generation: int, settings: GroupSettings, name: str) -> None:
        self.generation, self.settings, self.name = generation, settings, name
        self.error: BaseException | None = None
        self.served = 0
        self.outside = False
        """True if code from outside this project has run in the group's processes."""
        self.thread: threading.Thread | None = None
        self.nodes = _alive_nodes()

    def start(self, mailbox: Any) -> None:
        self.error = None
        self.thread = threading.Thread(target=self._fit, args=(mailbox,), daemon=True)
        self.thread.start()

    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def take(self, job: Job) -> None:
        self.served += 1
        self.outside = self.outside or (bool(job.code) and job.leaves_traces)

    def _fit(self, mailbox: Any) -> None:
        try:
            self._trainer(mailbox).fit()
        except BaseException as error:
            self.error = error

    def _trainer(self, mailbox: Any) -> Any:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        add_callbacks()
        options, gpus = self.settings.options, self.settings.options.gpus_per_worker
        per_worker = {"CPU": options.cpus_per_worker, "memory": memory_bytes(WORKER_GB)} | (
            {"GPU": gpus} if gpus else {}
        )
        if options.accelerator_type:
            per_worker[f"{KIND_PREFIX}{options.accelerator_type}"] = PART_OF_KIND
        # A group that does not fit is retried for ever unless the controller's own failures are limited too.
        failures = FailureConfig(max_failures=0, controller_failure_limit=0, max_preemption_failures=0)
        return TorchTrainer(
            serve,
            train_loop_config={
                "mailbox": mailbox,
                "generation": self.generation,
                "digest": self.settings.digest,
                "plugins": self.settings.plugins,
                "gpus": gpus,
            },
            torch_config=TorchConfig(backend=backend(gpus), timeout_s=int(options.timeout_s)),
            scaling_config=ScalingConfig(
                num_workers=options.workers, use_gpu=bool(gpus), resources_per_worker=per_worker
            ),
            run_config=RunConfig(
                name=f"{self.name}-{uuid.uuid4().hex[:8]}",
                storage_path=str(options.storage / "ray" / "train"),
                failure_config=failures,
            ),
        )


def add_callbacks() -> None:
    """Puts TRAIN_CALLBACKS before all other Ray Train callbacks of this process: one of Ray's own is what fails."""
    names = os.environ.get(CALLBACKS, "").split(",")
    callbacks = [name for name in names if name.strip() and name not in TRAIN_CALLBACKS]
    os.environ[CALLBACKS] = ",".join([*TRAIN_CALLBACKS, *callbacks])


def backend(gpus: float) -> str:
    """Returns torch's process group backend: gloo, or with GPUs NCCL and gloo for tensors in main memory."""
    return "cpu:gloo,cuda:nccl" if gpus else "gloo"


class WorkerGroup(Group):
    """Worker group that starts when a job needs it, and is replaced after errors, `recycle_after` jobs or new settings.

    A job that runs a plug-in's code is the last of its group: such code may leave anything in a process (a hook, a
    patched function, a flag of a library, a counter of its own), more than `process_settings` could ever restore, and
    the next run would have other numbers.
    """

    def __init__(self, recycle_after: int, name: str = "group") -> None:
        """Prepares a group without starting it; `name` titles its mailbox and names the folder of each Train run."""
        self.mailbox = start_here(Mailbox, f"mailbox of {name}", max_concurrency=1000)
        self.name = re.sub(r"[^\w.-]+", "-", name)[:60].strip(".-")
        self.recycle_after = recycle_after
        self.life: _Life | None = None
        self._waits_for, self._waits_since = "", 0.0

    def submit(self, settings: GroupSettings, job: Job) -> int:
        life = self.life
        spent = life and (life.settings != settings or life.served >= self.recycle_after or life.outside)
        if life and life.alive() and spent:
            self.close()
        life = self.life
        if life is None or not life.alive():
            generation = self._call("open", settings.options.workers)
            life = self.life = _Life(generation, settings, self.name)
            life.start(self.mailbox)
        life.take(job)
        return int(self._call("submit", job))

    def events(self, timeout_s: float) -> list[Event]:
        events: list[Event] = self._call("take_events", timeout_s)
        if events:
            self._waits_for = ""
        return events

    def proceed(self, number: int, index: int) -> None:
        self._call("proceed", number, index)

    def stop(self, number: int) -> None:
        """Ends the current job at its next report; aborts a group that does not end it in time."""
        if self.lost():
            return
        self._call("stop", number)
        if not self._call("idle", STOP_SECONDS):
            self.abort()

    def lost(self) -> str | None:
        """Returns why the group is gone; None while it lives, or waits for room within `wait_for_nodes_s`."""
        life = self.life
        if life is None:
            return "no worker group"
        if life.alive():
            return None
        if life.error is None:
            return "worker group ended"
        if type(_cause(life.error)).__name__ != NO_ROOM:
            return _reason(life.error)
        misfit, limit_s = _misfit(life.settings.options), life.settings.options.wait_for_nodes_s
        if misfit and not self._waits_for:
            self._waits_since = time.monotonic()
        self._waits_for = misfit
        if misfit and time.monotonic() - self._waits_since > limit_s:
            return f"{misfit} (waited {limit_s / 60:.0f} min)"
        life.start(self.mailbox)
        return None

    def waits_for(self) -> str:
        return self._waits_for

    def has_ranks(self) -> bool:
        return bool(self.ranks())

    def node_lost(self) -> bool:
        """Tells whether a node of the ranks, or before they are up one of the start, has left the cluster."""
        alive, ranks = _alive_nodes(), self.ranks().values()
        nodes = self.life.nodes if self.life and not ranks else frozenset(facts.node for facts in ranks)
        return not nodes <= alive

    def abort(self) -> None:
        """Ends every rank's process now, even in a collective, once what its run handed over is saved."""
        if self.life is None:
            return
        self._call("end", self.life.generation, "aborted")
        until = time.monotonic() + SAVE_SECONDS
        while self.life.alive() and time.monotonic() < until and not self._call("all_saved", SAVE_POLL_SECONDS):
            pass
        for facts in self.ranks().values():
            ray.kill(facts.actor)
        self.life = None

    def close(self, wait_s: float = GROUP_CLOSE_SECONDS) -> None:
        """Lets the ranks leave after their job, and aborts the group if they do not within `wait_s`."""
        life = self.life
        if life is None:
            return
        self._call("end", life.generation, "closed")
        assert life.thread is not None
        life.thread.join(wait_s)
        if life.alive():
            self.abort()
        self.life = None

    def ranks(self) -> dict[int, RankFacts]:
        return dict(self._call("ranks"))

    def _call(self, method: str, *args: Any) -> Any:
        return ray.get(getattr(self.mailbox, method).remote(*args))


def _alive_nodes() -> frozenset[str]:
    return frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])


def _misfit(options: SweepOptions) -> str:
    """Returns why not even one such group fits the living nodes; empty where it does once others end."""
    try:
        slots_that_fit(options, cluster_nodes())
    except ConfigError as error:
        return error.problems[0]
    return ""


def _cause(error: BaseException) -> BaseException:
    """Returns the failure that Ray Train's controller wraps, else the error itself."""
    inner = getattr(error, "controller_failure", None)
    return inner if isinstance(inner, BaseException) else error


def _reason(error: BaseException) -> str:
    error = _cause(error)
    ranks = getattr(error, "worker_failures", None)
    if ranks:
        return "; ".join(f"rank {rank} is gone ({type(ranks[rank]).__name__})" for rank in sorted(ranks))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
