"""Train function of a rank: takes jobs from the mailbox, runs them, and posts events.

Ranks talk to the mailbox alone.
"""

import contextlib
import ctypes
import dataclasses
import errno
import gc
import os
import pkgutil
import platform
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import torch

from analysis.run_folder import RunFolder
from cluster.runtime.code_version import OUR_PACKAGES, digest_problem
from cluster.runtime.resources import describe_mig
from cluster.slots.fault import fault_of, is_card_full
from cluster.slots.group_api import ErrorEvent, Job, ScoreEvent
from cluster.slots.mailbox import RankFacts
from cluster.slots.process_state import job_log, limit_card_memory, process_settings
from cse_train.fields import ConfigError, Scalar
from cse_train.plugins import registry
from cse_train.plugins.faults import LIBRARY_PATHS
from cse_train.plugins.registry import Plugin
from cse_train.plugins.snapshot import code_problem
from cse_train.reading import WholeReason, first_line, is_out_of_memory, message_of
from cse_train.results import Outcome, Point, Score
from cse_train.training.saver import save_open

WORKER_GRACE_SECONDS = 2.0
END_SIGNALS: SimpleQueue[int] = SimpleQueue()
"""Queue of signals that asked this process to end.

A SimpleQueue, because a signal handler may put into it whatever it has interrupted.
"""


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

    `config`: mailbox, generation, the driver's code digest and plug-ins, and GPUs of a rank.
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
        problem=digest_problem(config["digest"]) or _plugin_problem(config["plugins"]) or _card_problem(config["gpus"]),
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


def _plugin_problem(plugins: tuple[Plugin, ...]) -> str | None:
    """Registers the user's plug-ins in this process; returns one line where they cannot be loaded, else None."""
    try:
        registry.adopt(plugins)
    except ConfigError as error:
        return f"{'; '.join(error.problems)} (on {platform.node()})"
    return None


def _card_problem(gpus: float) -> str | None:
    """Returns one line where a fraction of a MIG instance was asked for, else None.

    Ray does not tell a driver of MIG.
    """
    name = torch.cuda.get_device_name() if 0 < gpus < 1 and torch.cuda.is_available() else ""
    return f"{describe_mig(gpus, name)} (on {platform.node()})" if " MIG " in name else None


class OtherCode(RuntimeError):
    """Raised where this process would run other code of a plug-in than the driver; the message names the plug-in."""


class WrongInputs(ConfigError):
    """Raised where an input of a run is absent or differs from the plan."""

    def __init__(self, lines: Mapping[str, str], settings: Mapping[str, Scalar]) -> None:
        super().__init__(dict.fromkeys(lines.values()))
        self.settings = {name: settings[name] for name in lines}


def serve_job(channel: Channel, number: int, job: Job) -> None:
    """Runs one job with its own log and process settings, and posts how it ended."""
    try:
        with job_log(RunFolder(job.folder).log(channel.rank)):
            try:
                limit_card_memory(job.gpus)
                with process_settings(job.threads, job.run.train.seed):
                    outcome = run_job(Reporter(channel, number), job)
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


class Reporter:
    """The `report` callback of the training loop, which posts dev points of one job."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel, self.number, self.index = channel, number, 0

    def __call__(self, point: Point) -> bool:
        """Posts a dev point; returns True when every rank stops at this report."""
        index, self.index = self.index, self.index + 1
        return bool(self.channel.call("report", self.number, self.channel.rank, index, point))


def run_job(reporter: Reporter, job: Job) -> Outcome | None:
    """Trains, unless the job only scores; then scores the best checkpoint of a finished run."""
    if problem := code_problem(job.code):
        raise OtherCode(problem)
    outcome = _train(reporter, job) if job.kind == "train" else None
    if not (outcome and outcome.stopped) and job.suites:
        _score(reporter, job)
    return outcome


def _train(reporter: Reporter, job: Job) -> Outcome:
    _check_inputs(job)
    train: Callable[..., Outcome] = pkgutil.resolve_name(job.function)
    settings = {"resume_from": job.resume_from, "signature": job.signature, "save_minutes": job.save_minutes}
    outcome = train(job.run, job.paths, job.folder, reporter, **settings)
    return dataclasses.replace(outcome, points=())


def _check_inputs(job: Job) -> None:
    """Raises WrongInputs unless the run's inputs have the hashes of its signature."""
    if job.inputs:
        wrong = pkgutil.resolve_name(job.input_check)(job.run, job.paths, job.inputs)
        if wrong:
            raise WrongInputs(wrong, job.settings)


def _score(reporter: Reporter, job: Job) -> None:
    """Scores the best checkpoint; every rank takes part, because the evaluator shares batches out, and rank 0 posts."""
    score: Callable[..., Sequence[Score]] = pkgutil.resolve_name(job.scorer)
    folder = RunFolder(job.folder)
    train = job.run.train  # names the encoder as the plan does: since the run was trained, it may have moved
    context = {"signature": job.signature, "encoder": train.encoder}
    scores = score(folder.best, job.suites, job.paths, folder.scores, **context)
    if reporter.channel.rank == 0:
        for each in scores:
            reporter.channel.call("post", reporter.number, ScoreEvent(dataclasses.replace(each, details={})))


def error_event(error: BaseException, rank: int = 0) -> ErrorEvent:
    """Describes an exception in one line, with its cause; the traceback is in the rank's log."""
    text = message_of(error).strip() or type(error).__name__
    if isinstance(error, OtherCode):
        return ErrorEvent(cause="setup", reason=text, rank=rank)
    inputs = error.settings if isinstance(error, WrongInputs) else {}
    reason, full = _one_line(error, text), is_card_full(error)
    return ErrorEvent(cause=fault_of(error), reason=reason, card_full=full, rank=rank, inputs=inputs)


def _one_line(error: BaseException, text: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full{f': path={error.filename}' if error.filename else ''}; free some space and run again"
    if is_out_of_memory(error):
        return f"out of memory: {first_line(error)}; lower train.batch_size, or give --max-concurrent fewer runs"
    first = "; ".join(line.strip() for line in text.splitlines() if line.strip())[:500]
    frames = places(error)
    own_message = isinstance(error, ValueError) and (not frames or _is_message(error))
    if own_message or isinstance(error, WholeReason) or type(error).__name__ == "Diverged":
        return first
    reason = first if type(error).__name__ == first else f"{type(error).__name__}: {first}"
    return f"{reason} ({', '.join(frames)})" if frames else reason


TRACEBACK_FRAMES = 3
"""Number of traceback frames that an error's reason names; the log has all."""


def places(error: BaseException) -> list[str]:
    """Returns `FILE:LINE in FUNCTION` of the last frames outside libraries, innermost first.

    Of all if none is outside.
    """
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not any(part in frame.filename for part in LIBRARY_PATHS)] or list(frames)
    return [
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in reversed(users[-TRACEBACK_FRAMES:])
    ]


def _is_message(error: BaseException) -> bool:
    """Tells whether the error was raised by this project's code outside methods, with a message for a person."""
    if type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return True
    raised = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    return any(name.partition(".")[0] in OUR_PACKAGES and not name.startswith("cse_train.methods.") for name in raised)


def _leave_when_aborted(channel: Channel) -> None:
    """Watches for the group's end in a thread of a rank, and ends the process when the group is aborted.

    Ends it also out of a collective, when its slot is gone or could not kill it, once handed-over checkpoints are
    written.
    """
    state = "open"
    while state == "open":
        try:
            state = channel.call("wait_end")
        except Exception:
            state = "aborted"
    if state == "aborted":
        _leave(channel)


def _leave_when_asked(channel: Channel) -> None:
    """Waits for SIGTERM in a thread of a rank, and then has the whole group save and end.

    All ranks, because the run's state may be held by another rank.
    """
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
