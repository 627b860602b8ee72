import asyncio
import errno
import json
import re
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from ray.exceptions import ActorUnavailableError, NodeDiedError, RayTaskError

from cluster.slots.fault import error_event, fault_of
from cluster.slots.group_api import DoneEvent, PointEvent
from cluster.slots.mailbox import Mailbox
from cluster.slots.worker import Channel, serve_job
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.fields import ConfigError
from cse_train.results import Outcome, Score
from search_spaces.identity.signature import identity
from tests.cluster.jobs import job, run_of


class Local(Channel):
    """A channel to a mailbox that lives on a loop of this process."""

    def call(self, method, *args):
        story = getattr(self.mailbox, method)(self.generation, *args)
        return asyncio.run_coroutine_threadsafe(story, self.loop).result(10)


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture
def one_job(loop, tmp_path, monkeypatch):
    """Run a job under a script (see stub_training) and give the events that the mailbox has then."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))

    def act(behaviour=None, **changes):
        script = tmp_path / "script.json"
        script.write_text(json.dumps({"": behaviour or {}}))
        run = run_of(seed=7, examples=100, evaluations=2)
        given = job(
            run=run, paths=DataPaths(train_file=script), folder=tmp_path / "run", **({"suites": ("a",)} | changes)
        )

        async def prepare(box):
            return await box.open(1), await box.submit(given)

        box = Mailbox()
        generation, number = asyncio.run_coroutine_threadsafe(prepare(box), loop).result(10)
        channel = Local(box, generation, 0)
        object.__setattr__(channel, "loop", loop)
        serve_job(channel, number, given)
        return asyncio.run_coroutine_threadsafe(box.take_events(0.1), loop).result(10)

    return act


def test_a_job_posts_its_points_its_scores_and_its_end(one_job, tmp_path):
    events = one_job()
    assert [type(event) for event in events] == [PointEvent, PointEvent, Score, DoneEvent]
    assert [event.point.examples for event in events[:2]] == [50, 100]
    assert events[2].column == "a"
    assert events[3].outcome == Outcome(False, 100, 17.0, 100, 0.1, ())
    assert (tmp_path / "run" / "logs" / "rank0.log").exists()


def test_a_job_goes_on_from_a_checkpoint_and_says_what_is_old(one_job, tmp_path):
    one_job({"raise_on": 0, "at": 1})
    events = one_job(resume_from=tmp_path / "run")
    assert [event.point.replayed for event in events if isinstance(event, PointEvent)] == [True, False]


def test_a_score_job_trains_nothing(one_job, tmp_path):
    (tmp_path / "run").mkdir()
    assert [type(event) for event in one_job(kind="score")] == [Score, DoneEvent]


def test_an_error_is_posted_with_one_line_and_leaves_its_traceback_in_the_log(one_job, tmp_path):
    *_, event = one_job({"raise_on": 0, "at": 1})
    assert event.cause == "run"
    assert re.match(r"KeyError: 'the real error' \(stub_training\.py:\d+ in \w+, .*worker\.py:\d+ in ", event.reason)
    assert "the real error" in (tmp_path / "run" / "logs" / "rank0.log").read_text()
    assert sys.stdout is not None and not sys.stdout.closed


def test_a_run_is_not_trained_on_an_input_that_is_not_what_was_planned(one_job, tmp_path):
    """An encoder of the same name, replaced meanwhile, would stand in the ledger under the hash of the other."""
    place = tmp_path / "enc"
    shutil.copytree(find_weights() / "words-l1-h64", place)
    settings = run_of().flat() | {"train.encoder": str(place), "train.corpus": "generated"}
    settings |= {"train.dev": "generated_dev:20"}
    planned = identity(parse_run(settings), DataPaths())
    *_, event = one_job(inputs=planned, settings=settings)
    assert isinstance(event, DoneEvent)
    shutil.copy(find_weights() / "words-l2-h128" / "model.safetensors", place)
    *_, event = one_job(inputs=planned, settings=settings)
    assert (event.cause, event.inputs) == ("run", {"train.encoder": str(place)})
    held = f"changed input: train.encoder={place} held encoder {planned['encoder'][:8]} when the run was planned, and"
    assert event.reason.startswith(held) and event.reason.endswith("; give the same command again")
    shutil.rmtree(place)
    *_, event = one_job(inputs=planned, settings=settings)
    assert event.reason.startswith(f"missing input: missing folder: train.encoder={place}; ")
    assert "test_worker" not in event.reason


METHOD = """
def loss(x):
    return x.reshape(3)


def forward(x):
    raise ValueError("no such pooler") if x is None else loss(x)
"""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            np.zeros(2),
            "ValueError: cannot reshape array of size 2 into shape (3,) (mine.py:3 in loss, mine.py:7 in f",
        ),
        (None, "ValueError: no such pooler (mine.py:7 in forward"),
    ],
)
def test_an_error_in_a_users_method_says_where(given, reason):
    """`no such pooler` alone sent people through their whole code."""
    space = {"__name__": "cse_train.methods.mine"}
    exec(compile(METHOD, "/home/me/mine.py", "exec"), space)
    with pytest.raises(ValueError) as caught:
        space["forward"](given)
    assert error_event(caught.value).reason.startswith(reason)


def test_a_loss_that_is_no_number_is_told_as_it_was_said(one_job):
    *_, event = one_job({"diverge_on": 0})
    assert event.reason == "loss is nan after 8 examples; lower train.learning_rate"


class Speechless(RuntimeError):
    """An error of a library whose own text fails."""

    def __str__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("error", "cause", "reason"),
    [
        (ConfigError(["a: x=1", "b: y=2"]), "run", "a: x=1; b: y=2"),
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer"), "echo", "RuntimeError: [gloo"),
        (RuntimeError("mat1 and mat2"), "run", "RuntimeError: mat1 and mat2"),
        (OSError(errno.ENOSPC, "No space left", "/x/last"), "run", "disk full: path=/x/last; free some space"),
        (OSError(errno.ENOSPC, "No space left"), "run", "disk full; free some space"),
        (ZeroDivisionError(), "run", "ZeroDivisionError"),
        (Speechless(), "run", "Speechless"),
    ],
)
def test_errors_are_told_in_one_line_and_echoes_of_a_lost_rank_are_known(error, cause, reason):
    event = error_event(error, rank=1)
    assert (event.cause, event.rank) == (cause, 1)
    assert event.reason.startswith(reason) and "\n" not in event.reason


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), "machine"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "machine"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "machine"),
        (RuntimeError("No CUDA GPUs are available"), "machine"),
        (RuntimeError("NCCL error: unhandled cuda error, NCCL version 2.21.5; CUDA error: 719"), "machine"),
        (OSError(errno.EIO, "Input/output error", "/data/wiki.txt"), "machine"),
        (OSError(errno.ESTALE, "Stale file handle"), "machine"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), "run"),
        (RuntimeError("CUDA error: device-side assert triggered"), "run"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/data/wiki.txt"), "run"),
        (ValueError("a dev set called 'cuda error'"), "run"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "run"),
        (RuntimeError("[gloo] Connection closed by peer [127.0.0.1]"), "echo"),
        (RuntimeError("NCCL communicator was aborted on rank 1"), "echo"),
        (ActorUnavailableError("RpcError: recvmsg:Connection reset by peer rpc_code: 14", None), "echo"),
        (NodeDiedError("node lost"), "echo"),
        (RayTaskError("next_job", "Traceback", ValueError("a method's own")).as_instanceof_cause(), "run"),
    ],
)
def test_an_error_is_the_runs_the_machines_or_an_echo(error: Exception, fault: str) -> None:
    assert fault_of(error) == fault


def test_what_an_error_was_raised_from_counts_too() -> None:
    error = ValueError("cannot read the corpus")
    error.__cause__ = OSError(errno.ESTALE, "Stale file handle", "/data")
    assert fault_of(error) == "machine"


def test_an_error_that_is_its_own_context_ends() -> None:
    error = RuntimeError("a")
    error.__context__ = RuntimeError("b")
    error.__context__.__context__ = error
    assert fault_of(error) == "run"
