"""What a rank of a slot's worker group does: pull a job, run it, post what happens. Ranks talk to the mailbox alone."""

import contextlib
import ctypes
import dataclasses
import errno
import gc
import os
import platform
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.runtime.code_version import digest_problem
from cluster.slots.group_api import named
from cluster.slots.process_state import job_log, process_settings
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths

ECHOES = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe", "processgroup")
"""Words in the message of an error that only tells that another rank is gone."""

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
    facts = {
        "pid": os.getpid(),
        "host": platform.node(),
        "node": ray.get_runtime_context().get_node_id(),
        "actor": ray.get_runtime_context().current_actor,
        "problem": digest_problem(config["digest"]),
    }
    channel.call("hello", rank, facts)
    done = 0
    while True:
        what, number, payload = channel.call("next_job", rank, done)
        if what == "leave":
            return
        if what == "job":
            serve_one(channel, number, payload)
            _collect(first=done == 0)
            done = number


def serve_one(channel: Channel, number: int, payload: dict[str, Any]) -> None:
    """Run one job under its own log and settings and tell the mailbox how it ended."""
    log = Path(payload["folder"], "logs", f"rank{channel.rank}.log")
    try:
        with job_log(log):
            try:
                with process_settings(payload["threads"], payload["seed"]):
                    outcome = run_job(Reporter(channel, number), payload)
            except BaseException:
                traceback.print_exc()
                raise
    except BaseException as error:
        channel.call("fail", number, channel.rank, describe(error))
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
    """`report` as the training loop calls it, and `post` for the rest."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel, self.number, self.index = channel, number, 0

    def __call__(self, point: Any) -> bool:
        """Post a dev point; True when every rank stops at this report."""
        index, self.index = self.index, self.index + 1
        return bool(self.channel.call("report", self.number, self.channel.rank, index, _plain(point)))

    def post(self, event: dict[str, Any]) -> None:
        self.channel.call("post", self.number, event)


def run_job(reporter: Reporter, payload: dict[str, Any]) -> dict[str, Any]:
    """Train, unless the job is to score alone; then score the best checkpoint of a finished run."""
    paths = _paths(payload["paths"])
    outcome: dict[str, Any] = {"state": "done"}
    if payload["kind"] == "train":
        outcome = _train(reporter, payload, paths)
    if outcome["state"] == "done" and payload["suites"]:
        _score(reporter, payload, paths)
    return outcome


def _train(reporter: Reporter, payload: dict[str, Any], paths: Any) -> dict[str, Any]:
    resume = payload["resume_from"]
    train = named(payload["function"])
    ended = train(
        parse_run(payload["config"]),
        paths,
        Path(payload["folder"]),
        reporter,
        resume_from=Path(resume) if resume else None,
    )
    return {k: v for k, v in _plain(ended).items() if k != "points"}


def _score(reporter: Reporter, payload: dict[str, Any], paths: Any) -> None:
    """Every rank scores, because the evaluator shares its batches among them; rank 0 posts."""
    folder = Path(payload["folder"])
    scores = named(payload["scorer"])(folder / "best", payload["suites"], paths, folder / "scores")
    if reporter.channel.rank == 0:
        for score in scores:
            reporter.post({"kind": "score", "score": score.record()})


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as plain data: `cause` (`echo` of a lost rank, or `error`), one line, and the traceback."""
    text = str(error).strip() or type(error).__name__
    cause = "echo" if isinstance(error, RuntimeError) and any(w in text.lower() for w in ECHOES) else "error"
    return {"cause": cause, "reason": _one_line(error, text), "traceback": traceback.format_exc()}


def _one_line(error: BaseException, text: str) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full: path={error.filename}; free some space and run again"
    first = "; ".join(line.strip() for line in text.splitlines() if line.strip())[:500]
    plain = isinstance(error, ValueError) or type(error).__name__ in ("Diverged", first)
    return first if plain else f"{type(error).__name__}: {first}"


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass, or an object with attributes, as nested plain data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value) if isinstance(value, dict) else dict(vars(value))


def _paths(given: dict[str, str | None]) -> Any:
    return DataPaths(**{k: Path(v) if v else None for k, v in given.items()})


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
