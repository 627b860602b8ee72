"""A group that is ended saves what its run made since the last write; on real Ray, with the real loop."""

import os
import signal
import time
from pathlib import Path

import pytest

from cluster.runtime.code_version import code_digest
from cluster.slots.group_api import ErrorEvent, PointEvent
from cluster.slots.worker_group import WorkerGroup
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from tests.cluster.jobs import group_settings, job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
POINTS = 8
"""After which the group is ended, long before five minutes are over; the run has a thousand."""


@pytest.fixture(params=[1, 2])
def trained(request, ray_cluster, tmp_path: Path):
    """A group, of one rank or two, whose run has made so many points, and the examples of the newest."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"a line of the river number {n} in winter" for n in range(64)), encoding="utf8")
    settings = {"method": "simcse", "train.encoder": "words-l1-h64", "train.corpus": "file", "train.batch_size": 8}
    settings |= {"train.dev": "generated_dev:20", "train.examples": 16_000, "train.evaluations": 1000}
    given = job(
        run=parse_run(settings),
        paths=DataPaths(train_file=text, cache=tmp_path / "cache"),
        folder=tmp_path / "run",
        function="cse_train.training.loop:train",
    )
    group = WorkerGroup(recycle_after=200)
    group.submit(group_settings(code_digest(), workers=request.param, timeout_s=120, storage=tmp_path), given)
    examples, until = 0, time.monotonic() + 400
    while examples < POINTS * 16:
        assert time.monotonic() < until
        for event in group.events(1.0):
            assert not isinstance(event, ErrorEvent), event
            examples = event.point.examples if isinstance(event, PointEvent) else examples
    yield group, examples, tmp_path / "run"
    group.close()


def examples_of(folder: Path) -> int:
    state = checkpoint.load_last(folder)
    return state["points"][-1]["examples"] if state else 0


def test_a_group_that_is_aborted_saves_its_newest_point_first(trained) -> None:
    group, seen, folder = trained
    assert examples_of(folder) < seen, "else it shows nothing"
    begun = time.monotonic()
    group.abort()
    assert examples_of(folder) >= seen and time.monotonic() - begun < 20


def test_a_rank_that_gets_sigterm_alone_saves_first_and_so_do_the_others(trained) -> None:
    """As on a machine that is taken back: the state is rank 0's, and the last rank is asked."""
    group, seen, folder = trained
    assert examples_of(folder) < seen, "else it shows nothing"
    ranks = group.ranks()
    os.kill(ranks[max(ranks)].pid, signal.SIGTERM)
    until = time.monotonic() + 60
    while not group.lost():
        assert time.monotonic() < until
        time.sleep(0.1)
    assert examples_of(folder) >= seen
