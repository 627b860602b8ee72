"""What takes a minute or more on real Ray: idleness, recycling, exactness over a slot's life, memory, signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from analysis.ledger import Ledger
from cluster.plan.plan import PlannedRun
from cluster.runtime.code_version import code_digest
from cluster.runtime.options import AshaOptions, SweepOptions
from cluster.slots.group_api import DoneEvent, ErrorEvent
from cluster.slots.worker_group import WorkerGroup
from cluster.sweep.run_sweep import run_sweep
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.training.loop import train
from tests.cluster.jobs import group_settings, job
from tests.cluster.sick_slots import FAILS, SLOTS
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HERE = Path(__file__).resolve().parents[1]


def settings_in(folder, **changes):
    return group_settings(code_digest(), **({"workers": 2, "timeout_s": 120, "storage": folder} | changes))


def job_in(folder: Path, behaviour, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps({"": behaviour}))
    return job(**({"folder": folder, "paths": DataPaths(train_file=folder / "script.json")} | changes))


def event_of(group, kind: type, seconds: float):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for event in group.events(1.0):
            if isinstance(event, (kind, ErrorEvent)):
                return event
        assert group.lost() is None, group.lost()
    raise AssertionError(f"no {kind.__name__} in {seconds} s")


@pytest.fixture
def group(ray_cluster):
    made = WorkerGroup(recycle_after=200)
    yield made
    made.close()


def test_a_group_idle_for_three_times_the_timeout_serves_the_next_job(group, tmp_path):
    settings = settings_in(tmp_path, timeout_s=10)
    group.submit(settings, job_in(tmp_path / "a", {}))
    assert isinstance(event_of(group, DoneEvent, 300), DoneEvent)
    pids = {facts.pid for facts in group.ranks().values()}
    time.sleep(30)
    group.submit(settings, job_in(tmp_path / "b", {}))
    ended = event_of(group, DoneEvent, 60)
    assert isinstance(ended, DoneEvent), ended
    assert {facts.pid for facts in group.ranks().values()} == pids


def test_a_raise_on_rank_1_while_rank_0_is_in_all_reduce_is_known_and_both_end(group, tmp_path):
    settings = settings_in(tmp_path)
    group.submit(settings, job_in(tmp_path / "a", {}))
    event_of(group, DoneEvent, 300)
    pids = [facts.pid for facts in group.ranks().values()]
    group.submit(settings, job_in(tmp_path / "b", {"raise_on": 1, "at": 2}))
    event = event_of(group, ErrorEvent, 30)
    group.abort()
    wait_for(lambda: not any(map(psutil.pid_exists, pids)), 20)
    assert event.rank == 1 and event.reason.startswith("KeyError: 'the real error' (stub_training.py:")


def test_a_group_is_replaced_after_its_share_of_jobs_and_when_the_world_size_changes(ray_cluster, tmp_path):
    group, seen = WorkerGroup(recycle_after=2), []
    for index, workers in enumerate((1, 1, 1, 2)):
        group.submit(settings_in(tmp_path, workers=workers), job_in(tmp_path / str(index), {}))
        assert isinstance(event_of(group, DoneEvent, 300), DoneEvent)
        seen.append({facts.pid for facts in group.ranks().values()})
    group.close()
    assert seen[0] == seen[1] and not seen[1] & seen[2] and not seen[2] & seen[3]
    assert [len(pids) for pids in seen] == [1, 1, 1, 2]


def test_a_rank_that_dies_every_time_fails_its_run_alone(ray_cluster, sweeper, tmp_path):
    swept = sweeper(tmp_path, {"0": {"kill_on": 0, "always": True}}, [0, 1], max_concurrent=1, max_retries=1)
    (failure,) = swept.outcome.failures
    assert failure.signature == "signature0" and failure.reason.startswith("workers lost 2 times: rank 0 is gone")
    assert swept.row(1).state == "done"


def test_a_sick_slot_of_four_fails_no_run_rests_by_name_and_is_tried_again(ray_cluster, sweeper, tmp_path):
    swept = sweeper(
        tmp_path, {}, list(range(40)), cpus_per_worker=0.5, max_concurrent=SLOTS, group="sick_slots:SickGroup"
    )
    assert (swept.outcome.done, swept.outcome.failures) == (40, ())
    kinds = Counter(event.kind for _, event in swept.events)
    reasons = {event.kind: event.reason for _, event in swept.events}
    assert len(list(tmp_path.glob("fail-*"))) == FAILS
    assert kinds["requeued"] == 3 and kinds["failed"] == 0
    assert "machine failed 3 times: RuntimeError: CUDA error: uncorrectable ECC" in reasons["requeued"]
    assert kinds["resting"] >= 1 and "slot 2 of s quarantined after 3 different runs" in reasons["resting"]
    slots = Counter(swept.ledger.curve(f"signature{seed}")[-1].metrics["slot"] for seed in range(40))
    assert set(slots) == set(range(1, SLOTS + 1))  # the second did runs after its rests


def test_isolation_by_trial_gives_the_same_results(ray_cluster, sweeper, tmp_path):
    swept = sweeper(tmp_path, {"1": {"raise_on": 1}}, [0, 1], workers=2, isolation="trial")
    assert [swept.row(seed).state for seed in (0, 1)] == ["done", "failed"]
    assert swept.row(0).best == 10.0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_bit_identical_as_the_first_and_as_the_50th_of_a_slot(ray_cluster, tmp_path, workers):
    """After other methods and shapes, a stopped, a failed and a diverged run; alone, equal to a run outside Ray."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"6": {"score": 1000.0}, "7": {"raise_on": workers - 1}, "8": {"diverge_on": 0}}))
    paths = DataPaths(train_file=small_corpus(tmp_path), documents=script, cache=tmp_path / "cache")
    runs = [real_run(0, "simcse", 3, batch=16)]
    runs += [stub_run(6, examples=192), real_run(50, "esimcse", 5, batch=48), stub_run(7), stub_run(8)]
    runs += [real_run(i, ("simcse", "esimcse")[i % 2], 10 + i, batch=8 + 8 * (i % 3)) for i in range(1, 45)]
    runs.append(real_run(99, "simcse", 3, batch=16))
    # Only the run of 192 real examples reaches the rung, where the stub's 1000 points are the bar.
    asha = AshaOptions(grace_examples=144, max_examples=192)
    options = SweepOptions(
        storage=tmp_path / "runs", workers=workers, max_concurrent=1, asha=asha, function="stub_training:mixed"
    )
    outcome = run_sweep(runs, tmp_path / "l.db", paths, options)
    assert (len(runs), outcome.done, outcome.stopped, outcome.failed) == (50, 47, 1, 2), outcome.failures
    ledger = Ledger.open(tmp_path / "l.db")
    assert ledger.run("run50").state == "stopped" and len(ledger.curve("run50")) == 3
    first, last = (strip(ledger.curve(name)) for name in ("run0", "run99"))
    assert first == last and len(first) == 4
    if workers == 1:
        points = train(parse_run(runs[0].run.flat()), paths, tmp_path / "alone", lambda point: False).points
        assert [(p.examples, p.best, p.metrics) for p in points] == first


def small_corpus(folder: Path) -> Path:
    path = folder / "corpus.txt"
    path.write_text("\n".join(f"sentence number {i} of a small corpus of {i % 7} words" for i in range(200)))
    return path


def strip(curve):
    return [(point.examples, point.best, point.metrics) for point in curve]


def real_run(number: int, method: str, seed: int, batch: int) -> PlannedRun:
    settings = {
        "train.encoder": "words-l1-h64",
        "train.corpus": "file",
        "train.dev": "generated_dev:16",
        "train.examples": 4 * batch,
        "train.evaluations": 4,
        "train.batch_size": batch,
        "train.seed": seed,
    }
    return PlannedRun(f"run{number}", parse_run({"method": method} | settings), {}, {}, seed, "s")


def stub_run(seed: int, examples: int = 8) -> PlannedRun:
    settings = {"method": "simcse", "train.seed": seed, "train.examples": examples, "train.evaluations": 4}
    return PlannedRun(f"stub{seed}", parse_run(settings), {}, {}, seed, "s")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rank_grows_by_less_than_50_mb_over_200_runs(group, tmp_path, workers):
    settings = settings_in(tmp_path, workers=workers)
    run, sizes = real_run(0, "simcse", 0, 8).run, []
    paths = DataPaths(train_file=small_corpus(tmp_path), cache=tmp_path / "cache")
    for index in range(201):
        real = job_in(tmp_path / f"r{index}", {}, run=run, paths=paths, function="cse_train.training.loop:train")
        group.recycle_after = 1000
        group.submit(settings, real)
        assert isinstance(event_of(group, DoneEvent, 300), DoneEvent)
        sizes.append([rss_mb(facts.pid) for facts in group.ranks().values()])
        shutil.rmtree(real.folder)  # all of them together are 12 GB
    growth = [after - before for before, after in zip(sizes[0], sizes[200], strict=True)]
    print("MB after the first and after 200 more runs, by rank:", sizes[0], sizes[200])
    assert len(growth) == workers and max(growth) < 50, sizes[::20]


def rss_mb(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20


DRIVER = """
import sys
import time
from pathlib import Path
sys.path.insert(0, {here!r})
import importlib.util
spec = importlib.util.spec_from_file_location("sweeps", Path({here!r}).parent / "conftest.py")
sweeps = importlib.util.module_from_spec(spec); sys.modules["sweeps"] = sweeps; spec.loader.exec_module(sweeps)
folder = Path(sys.argv[1])
swept = sweeps.sweep_of(folder, {behaviour!r}, [0, 1, 2], max_concurrent=1)
for at, e in swept.events:
    print(f"{{at:6.2f}} {{e.kind}} {{e.signature}} {{e.examples}}", flush=True)
print(swept.outcome, flush=True)
time.sleep({rest_s})
sys.exit(130 if swept.outcome.interrupted else 0)
"""


def driver(folder: Path, behaviour, rest_s: float = 0.0) -> subprocess.Popen[str]:
    """A process with a Ray cluster of its own, which needs so many seconds more when its sweep has ended."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    code = DRIVER.format(here=str(HERE), behaviour=behaviour, rest_s=rest_s)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_everything_and_the_same_call_goes_on(tmp_path, number):
    slow = driver(tmp_path, {"": {"pause": 1.0}}, rest_s=4.0)  # Ray's own handler would abort it after 3 s
    ledger = Ledger.open(tmp_path / "ledger.db")
    wait_for(lambda: len(ledger.curve("signature0")) >= 2, 300)
    slow.send_signal(number)
    wait_for(lambda: not ledger.runs(states=["claimed", "running"]), 60)
    said, _ = slow.communicate(timeout=60)
    assert slow.returncode == 130, said
    points = len(ledger.curve("signature0"))
    assert ledger.run("signature0").state == "lost" and points < 4

    again = driver(tmp_path, {})
    said, _ = again.communicate(timeout=400)
    assert again.returncode == 0, said
    assert {row.state for row in ledger.runs()} == {"done"} and len(ledger.runs()) == 3
    assert len(ledger.curve("signature0")) == 4 and ledger.run("signature0").attempt == 2
    first = next(line for line in said.splitlines() if " point signature0" in line)
    assert first.split()[-1] == "32", "stored points are told again"
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.3, 2.0])
def test_a_signal_while_ray_starts_ends_the_sweep_in_order(tmp_path, number, after_s):
    starting = driver(tmp_path, {}, rest_s=4.0)
    wait_for(lambda: (tmp_path / "ledger.db").exists(), 60)
    ledger = Ledger.open(tmp_path / "ledger.db")
    wait_for(lambda: ledger.runs(states=["claimed"]), 60)
    time.sleep(after_s)
    rays = psutil.Process(starting.pid).children(recursive=True)
    starting.send_signal(number)
    said, _ = starting.communicate(timeout=120)
    assert starting.returncode == 130 and "Traceback" not in said, said
    assert ledger.run("signature0").state == "lost", "given back before it began"
    assert not psutil.wait_procs(rays, timeout=30)[1], "no process of Ray is left"


def test_two_drivers_at_once_train_every_run_exactly_once(tmp_path):
    both = [driver(tmp_path, {"": {"pause": 0.5}}) for _ in range(2)]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(said)
    rows = Ledger.open(tmp_path / "ledger.db").runs()
    assert [(row.state, row.attempt) for row in rows] == [("done", 1)] * 3
    assert sum(text.count(" started ") for text in said) == 3
