"""What a rank of a slot's worker group does: pull a job, run it, post what happens. Ranks talk to the mailbox alone."""

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
from cluster.runtime.cards import describe_mig
from cluster.runtime.code_version import OUR_PACKAGES, digest_problem
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

WORKER_GRACE_S = 2.0
ASKED_TO_END: SimpleQueue[int] = SimpleQueue()
"""Gets the number of a signal that asks this process to end; a handler may put into it, whatever it has interrupted."""


@dataclass(frozen=True)
class Channel:
    """One rank's end of the mailbox."""

    mailbox: Any
    generation: int
    rank: int

    def call(self, method: str, *args: Any) -> Any:
        import ray

        return ray.get(getattr(self.mailbox, method).remote(self.generation, *args))


def serve(config: dict[str, Any]) -> None:
    """The Train function: jobs until the group ends. `config` holds mailbox, generation, GPUs of a rank, and the
    driver's digest and plug-ins."""
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
    done = 0
    pkgutil.resolve_name("torch._dynamo")  # the first optimiser imports it: 100,000 objects, to be set aside as well
    gc.freeze()
    while True:
        what, number, job = channel.call("next_job", done)
        if what == "leave":
            return
        if what == "job":
            serve_job(channel, number, job)
            _collect(first=done == 0)
            done = number


def _plugin_problem(plugins: tuple[Plugin, ...]) -> str | None:
    """Let jobs name the user's plug-ins; one line where this process cannot have them."""
    try:
        registry.adopt(plugins)
    except ConfigError as error:
        return f"{'; '.join(error.problems)} (on {platform.node()})"
    return None


def _card_problem(gpus: float) -> str | None:
    """One line where a part was asked for of what is a MIG instance; Ray does not tell a driver."""
    name = torch.cuda.get_device_name() if 0 < gpus < 1 and torch.cuda.is_available() else ""
    return f"{describe_mig(gpus, name)} (on {platform.node()})" if " MIG " in name else None


class OtherCode(RuntimeError):
    """This process would run other code of a plug-in than the driver; the message says which."""


class WrongInputs(ConfigError):
    """An input is absent, or is not what was planned."""

    def __init__(self, lines: Mapping[str, str], settings: Mapping[str, Scalar]) -> None:
        super().__init__(dict.fromkeys(lines.values()))
        self.settings = {name: settings[name] for name in lines}


def serve_job(channel: Channel, number: int, job: Job) -> None:
    """Run one job under its own log and settings and post how it ended."""
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
    """Free a job's cycles and give what is freed back: pages to the system (glibc keeps them: 14 MB a run at L4 H128),
    torch's cache of a card's memory to the card, where a neighbour may need it.

    What was imported before the first job and in it is set aside (`gc.freeze`), else each look at it costs 0.3 s, and
    1.3 s where eight groups look at once.
    """
    gc.collect()
    if first:
        gc.freeze()
    torch.cuda.empty_cache()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class Reporter:
    """`report` as the training loop calls it."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel, self.number, self.index = channel, number, 0

    def __call__(self, point: Point) -> bool:
        """Post a dev point; True when every rank stops at this report."""
        index, self.index = self.index, self.index + 1
        return bool(self.channel.call("report", self.number, self.channel.rank, index, point))


def run_job(reporter: Reporter, job: Job) -> Outcome | None:
    """Train, unless the job is to score alone; then score the best checkpoint of a finished run."""
    if problem := code_problem(job.code):
        raise OtherCode(problem)
    outcome = _train(reporter, job) if job.kind == "train" else None
    if not (outcome and outcome.stopped) and job.suites:
        _score(reporter, job)
    return outcome


def _train(reporter: Reporter, job: Job) -> Outcome:
    _check_inputs(job)
    train: Callable[..., Outcome] = pkgutil.resolve_name(job.function)
    how = {"resume_from": job.resume_from, "signature": job.signature, "save_minutes": job.save_minutes}
    ended = train(job.run, job.paths, job.folder, reporter, **how)
    return dataclasses.replace(ended, points=())


def _check_inputs(job: Job) -> None:
    """WrongInputs unless what the run reads is what its signature says."""
    if job.inputs:
        wrong = pkgutil.resolve_name(job.input_check)(job.run, job.paths, job.inputs)
        if wrong:
            raise WrongInputs(wrong, job.settings)


def _score(reporter: Reporter, job: Job) -> None:
    """Every rank scores, because the evaluator shares its batches among them; rank 0 posts."""
    score: Callable[..., Sequence[Score]] = pkgutil.resolve_name(job.scorer)
    folder = RunFolder(job.folder)
    train = job.run.train  # names the encoder as the plan does: since the run was trained, it may have moved
    given = {"signature": job.signature, "encoder": train.encoder}
    scores = score(folder.best, job.suites, job.paths, folder.scores, **given)
    if reporter.channel.rank == 0:
        for each in scores:
            reporter.channel.call("post", reporter.number, ScoreEvent(dataclasses.replace(each, details={})))


def error_event(error: BaseException, rank: int = 0) -> ErrorEvent:
    """An exception in one line, and whose it is; its traceback is in the rank's log."""
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
    ours = isinstance(error, ValueError) and (not frames or _is_message(error))
    if ours or isinstance(error, WholeReason) or type(error).__name__ == "Diverged":
        return first
    said = first if type(error).__name__ == first else f"{type(error).__name__}: {first}"
    return f"{said} ({', '.join(frames)})" if frames else said


TRACEBACK_FRAMES = 3
"""Places of an error that its reason names; the log has all."""


def places(error: BaseException) -> list[str]:
    """`FILE:LINE in FUNCTION` of the last frames outside libraries, the innermost first; of all if there are none."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not any(part in frame.filename for part in LIBRARY_PATHS)] or list(frames)
    return [
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in reversed(users[-TRACEBACK_FRAMES:])
    ]


def _is_message(error: BaseException) -> bool:
    """Whether our own code raised it, for a person to read: one of our errors, or from a module but a method's."""
    if type(error).__module__.partition(".")[0] in OUR_PACKAGES:
        return True
    raised = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    return any(name.partition(".")[0] in OUR_PACKAGES and not name.startswith("cse_train.methods.") for name in raised)


def _leave_when_aborted(channel: Channel) -> None:
    """Watcher of one rank: ends the process, also out of a collective, when its slot is gone or could not kill it.

    What the run has handed over is written before.
    """
    ended = "open"
    while ended == "open":
        try:
            ended = channel.call("wait_end")
        except Exception:
            ended = "aborted"
    if ended == "aborted":
        _leave(channel)


def _leave_when_asked(channel: Channel) -> None:
    """Watcher of one rank: at SIGTERM its whole group saves and ends, for the state may be another rank's."""
    ASKED_TO_END.get()
    with contextlib.suppress(Exception):
        channel.call("end", "aborted")
    _leave(channel)


def _leave(channel: Channel) -> None:
    """End the process when what its run handed over is written."""
    save_open()
    with contextlib.suppress(Exception):
        channel.call("saved", channel.rank)
    time.sleep(WORKER_GRACE_S)
    os._exit(1)
