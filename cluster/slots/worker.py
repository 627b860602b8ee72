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
from dataclasses import dataclass
from typing import Any

from cluster.runtime.code_version import digest_problem
from cluster.slots.group_api import ErrorEvent, Job, Plain, ScoreEvent
from cluster.slots.mailbox import RankFacts
from cluster.slots.process_state import job_log, process_settings

ECHOES = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe", "processgroup")
"""Words in the message of an error that only says that another rank is gone."""

GRACE_S = 2.0


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
    """The Train function: jobs until the group ends. `config` holds mailbox, generation and the driver's digest."""
    import ray
    import ray.train

    rank = ray.train.get_context().get_world_rank()
    channel = Channel(config["mailbox"], config["generation"], rank)
    threading.Thread(target=_leave_when_aborted, args=(channel,), daemon=True).start()
    context = ray.get_runtime_context()
    facts = RankFacts(
        pid=os.getpid(),
        host=platform.node(),
        node=context.get_node_id(),
        actor=context.current_actor,
        problem=digest_problem(config["digest"]),
    )
    channel.call("hello", rank, facts)
    done = 0
    while True:
        what, number, job = channel.call("next_job", rank, done)
        if what == "leave":
            return
        if what == "job":
            serve_job(channel, number, job)
            _collect(first=done == 0)
            done = number


def serve_job(channel: Channel, number: int, job: Job) -> None:
    """Run one job under its own log and settings and post how it ended."""
    try:
        with job_log(job.folder / "logs" / f"rank{channel.rank}.log"):
            try:
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
    """Free a job's cycles and give freed pages back to the system (glibc keeps them: 14 MB a run at L4 H128).

    What the first job left (imports, mostly) is set aside, else each look at it costs 0.3 s.
    """
    gc.collect()
    if first:
        gc.freeze()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class Reporter:
    """`report` as the training loop calls it."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel, self.number, self.index = channel, number, 0

    def __call__(self, point: Any) -> bool:
        """Post a dev point; True when every rank stops at this report."""
        index, self.index = self.index, self.index + 1
        return bool(self.channel.call("report", self.number, self.channel.rank, index, dataclasses.asdict(point)))


def run_job(reporter: Reporter, job: Job) -> Plain:
    """Train, unless the job is to score alone; then score the best checkpoint of a finished run."""
    outcome: Plain = {"state": "done"}
    if job.kind == "train":
        train = pkgutil.resolve_name(job.function)
        ended = train(job.run, job.paths, job.folder, reporter, resume_from=job.resume_from)
        outcome = {k: v for k, v in dataclasses.asdict(ended).items() if k != "points"}
    if outcome["state"] == "done" and job.suites:
        _score(reporter, job)
    return outcome


def _score(reporter: Reporter, job: Job) -> None:
    """Every rank scores, because the evaluator shares its batches among them; rank 0 posts."""
    scores = pkgutil.resolve_name(job.scorer)(job.folder / "best", job.suites, job.paths, job.folder / "scores")
    if reporter.channel.rank == 0:
        for score in scores:
            reporter.channel.call("post", reporter.number, ScoreEvent(score.record()))


def error_event(error: BaseException, rank: int = 0) -> ErrorEvent:
    """An exception in one line, and whether it is a mere echo of a lost rank; its traceback is in the rank's log."""
    text = str(error).strip() or type(error).__name__
    echo = isinstance(error, RuntimeError) and any(words in text.lower() for words in ECHOES)
    return ErrorEvent(cause="echo" if echo else "error", reason=_one_line(error, text), rank=rank)


def _one_line(error: BaseException, text: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full: path={error.filename}; free some space and run again"
    first = "; ".join(line.strip() for line in text.splitlines() if line.strip())[:500]
    plain = isinstance(error, ValueError) or type(error).__name__ in ("Diverged", first)
    return first if plain else f"{type(error).__name__}: {first}"


def _leave_when_aborted(channel: Channel) -> None:
    """Watcher of one rank: ends the process, also out of a collective, when its slot is gone or could not kill it."""
    ended = "open"
    while ended == "open":
        try:
            ended = channel.call("wait_end")
        except Exception:
            ended = "aborted"
    if ended == "aborted":
        time.sleep(GRACE_S)
        os._exit(1)
