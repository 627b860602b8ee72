"""Train function of a rank: takes jobs from the mailbox, runs them, and posts events.

Ranks talk to the mailbox alone.
"""

import contextlib
import ctypes
import dataclasses
import gc
import itertools
import os
import pkgutil
import platform
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import torch

from analysis.run_folder import RunFolder
from cluster.runtime.code_version import digest_problem
from cluster.runtime.resources import describe_mig
from cluster.slots.fault import OtherCode, WrongInputs, error_event
from cluster.slots.group_api import Job
from cluster.slots.mailbox import RankFacts
from cluster.slots.process_state import job_log, limit_card_memory, process_settings
from cse_train.fields import ConfigError
from cse_train.plugins import registry
from cse_train.plugins.registry import Plugin
from cse_train.plugins.snapshot import code_problem
from cse_train.results import Outcome, Point, Score
from cse_train.training.saver import save_open

WORKER_GRACE_SECONDS = 2.0
END_SIGNALS: SimpleQueue[int] = SimpleQueue()
"""Signals that asked this process to end; a handler may put into a SimpleQueue whatever it has interrupted."""


@dataclass(frozen=True)
class Channel:
    """One rank's connection to the mailbox of its slot."""

    mailbox: Any
    generation: int
    rank: int

    def call(self, method: str, *args: Any) -> Any:
        import ray

        return ray.get(getattr(self.mailbox, method).remote(self.generation, *args))


def serve(config: dict[str, Any]) -> None:
    """Serves jobs until the group ends; the function that Ray Train runs in each rank.

    `config` is plain as far as it can be: a node with other code must get as far as saying so.
    """
    import ray
    import ray.train

    rank = ray.train.get_context().get_world_rank()
    channel = Channel(config["mailbox"], config["generation"], rank)
    for watch in (_leave_when_aborted, _leave_when_asked):
        threading.Thread(target=watch, args=(channel,), daemon=True).start()
    context = ray.get_runtime_context()
    facts = RankFacts(
        pid=os.getpid(),
        host=platform.node(),
        node=context.get_node_id(),
        actor=context.current_actor,
        problem=digest_problem(config["digest"]) or _setup_problem(config["plugins"], config["gpus"]),
    )
    channel.call("hello", rank, facts)
    last_number = 0
    pkgutil.resolve_name("torch._dynamo")  # the first optimiser imports it: 100,000 objects, to be set aside as well
    gc.freeze()
    while True:
        action, number, job = channel.call("next_job", last_number)
        if action == "leave":
            return
        if action == "job":
            serve_job(channel, number, job)
            _collect(first=last_number == 0)
            last_number = number


def _setup_problem(plugins: tuple[Plugin, ...], gpus: float) -> str | None:
    """Registers the user's plug-ins; returns one line where that fails, or the rank has a part of a MIG instance."""
    try:
        registry.adopt(plugins)
    except ConfigError as error:
        return f"{'; '.join(error.problems)} (on {platform.node()})"
    # Ray does not tell a driver of MIG.
    name = torch.cuda.get_device_name() if 0 < gpus < 1 and torch.cuda.is_available() else ""
    return f"{describe_mig(gpus, name)} (on {platform.node()})" if " MIG " in name else None


def serve_job(channel: Channel, number: int, job: Job) -> None:
    """Runs one job with its own log and process settings, and posts how it ended."""
    try:
        with job_log(RunFolder(job.folder).log(channel.rank)):
            try:
                limit_card_memory(job.gpus)
                with process_settings(job.threads, job.run.train.seed):
                    outcome = _run_job(channel, number, job)
            except BaseException:
                traceback.print_exc()
                raise
    except BaseException as error:
        channel.call("post", number, error_event(error, channel.rank))
        return
    channel.call("finish", number, channel.rank, outcome if channel.rank == 0 else None)


def _collect(first: bool) -> None:
    """Collects a job's reference cycles and returns freed memory to the system and the GPU.

    glibc keeps freed pages (14 MB a run with 4 layers of width 128), and torch keeps a cache of GPU memory that a
    neighbour may need. Objects imported before and in the first job are frozen (`gc.freeze`), else each collection
    costs 0.3 s, and 1.3 s where eight groups collect at once.
    """
    gc.collect()
    if first:
        gc.freeze()
    torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _run_job(channel: Channel, number: int, job: Job) -> Outcome | None:
    """Trains, unless the job only scores; then scores the best checkpoint of a finished run."""
    if problem := code_problem(job.code):
        raise OtherCode(problem)
    outcome, indices = None, itertools.count()

    def report(point: Point) -> bool:
        return bool(channel.call("report", number, channel.rank, next(indices), point))

    if job.kind == "train":
        if job.inputs and (wrong := pkgutil.resolve_name(job.input_check)(job.run, job.paths, job.inputs)):
            raise WrongInputs(wrong, job.settings)
        train: Callable[..., Outcome] = pkgutil.resolve_name(job.function)
        settings = {"resume_from": job.resume_from, "signature": job.signature, "save_minutes": job.save_minutes}
        outcome = dataclasses.replace(train(job.run, job.paths, job.folder, report, **settings), points=())
    if not (outcome and outcome.stopped) and job.suites:
        _score(channel, number, job)
    return outcome


def _score(channel: Channel, number: int, job: Job) -> None:
    """Scores the best checkpoint; every rank takes part, because the evaluator shares batches out, and rank 0 posts."""
    score: Callable[..., Sequence[Score]] = pkgutil.resolve_name(job.scorer)
    folder = RunFolder(job.folder)
    train = job.run.train  # names the encoder as the plan does: since the run was trained, it may have moved
    context = {"signature": job.signature, "encoder": train.encoder}
    scores = score(folder.best, job.suites, job.paths, folder.scores, **context)
    if channel.rank == 0:
        for each in scores:
            channel.call("post", number, dataclasses.replace(each, details={}))


def _leave_when_aborted(channel: Channel) -> None:
    """Ends the process when its group is aborted, also out of a collective or when the slot is gone."""
    state = "open"
    while state == "open":
        try:
            state = channel.call("wait_end")
        except Exception:
            state = "aborted"
    if state == "aborted":
        _leave(channel)


def _leave_when_asked(channel: Channel) -> None:
    """Has the whole group save and end at SIGTERM: the run's state may be held by another rank."""
    END_SIGNALS.get()
    with contextlib.suppress(Exception):
        channel.call("end", "aborted")
    _leave(channel)


def _leave(channel: Channel) -> None:
    """Ends the process once the checkpoints that its run handed over are written."""
    save_open()
    with contextlib.suppress(Exception):
        channel.call("saved", channel.rank)
    time.sleep(WORKER_GRACE_SECONDS)
    os._exit(1)
