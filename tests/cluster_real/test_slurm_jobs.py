"""Slurm for real: a job that is requeued before its limit, off a node that drains; one that is cancelled; an array."""

import re
import sys
from pathlib import Path

import psutil
import pytest

from analysis.ledger import Ledger, LedgerError, RunRow
from cse_train import checkpoint
from tests.cluster_real.postgres import PASSWORD, USER, Postgres
from tests.cluster_real.processes import wait_until
from tests.cluster_real.slurm import CANCEL_S, Slurm

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CLUSTER = """version: 1
name: tiny
storage: {folder}/results
nodes: 1
cpus: {cpus}
{more}
slurm: {{python: {python}, time: "10", {slurm}}}
"""
LONG = (("train.examples: 128", "train.examples: 16000"), ("train.evaluations: 2", "train.evaluations: 1000"))
"""Changes of conftest's space: runs of half a minute with a point each 16 examples."""


def launch(slurm: Slurm, keys: str, *words: str, more: str = "", cpus: int = 2) -> str:
    """What `cse launch` says of the space `tiny.yaml`."""
    folder = slurm.processes.folder
    text = CLUSTER.format(folder=folder, python=sys.executable, slurm=keys, more=more, cpus=cpus)
    (folder / "cluster.yaml").write_text(text, encoding="utf8")
    return slurm.run("cse", "launch", "slurm", "tiny.yaml", "--workers", "1", *words)


def make_long(folder: Path) -> None:
    space = (folder / "tiny.yaml").read_text(encoding="utf8")
    for old, new in LONG:
        assert old in space
        space = space.replace(old, new)
    (folder / "tiny.yaml").write_text(space, encoding="utf8")


def rows(folder: Path) -> list[RunRow]:
    """None before the driver has made its ledger, whose file is there a moment before its tables."""
    try:
        ledger = Ledger.open(folder / "results" / "ledger.db", create=False)
    except LedgerError:
        return []
    found = list(ledger.runs())
    ledger.close()
    return found


def points(folder: Path) -> list[int]:
    """Examples of the points of all runs."""
    ledger = Ledger.open(folder / "results" / "ledger.db", create=False)
    found = [point.examples for row in ledger.runs() for point in ledger.curve(row.signature)]
    ledger.close()
    return found


def wait_for_points(slurm: Slurm, job: int) -> None:
    """Until the first run has ten."""
    folder = slurm.processes.folder
    wait_until(lambda: rows(folder) and len(points(folder)) > 10, 240, f"points of job {job}: {said(slurm)}")


def said(slurm: Slurm) -> str:
    return "\n".join(path.read_text() for path in sorted(slurm.processes.folder.glob("tiny-*.out")))


def saved_examples(folder: Path) -> int:
    """How far the state is that a run would go on from."""
    (last,) = folder.glob("results/runs/*/attempt-*/last")
    state = checkpoint.load_last(last.parent)
    assert state is not None
    return int(state["points"][-1]["examples"])


def test_a_job_is_requeued_before_its_limit_and_goes_on_elsewhere(slurm: Slurm) -> None:
    folder, job = slurm.processes.folder, slurm.first_job
    make_long(folder)
    assert launch(slurm, "requeue: true", "--max-concurrent", "1").startswith(f"Submitted batch job {job}; its log: ")
    again = launch(slurm, "requeue: true", "--max-concurrent", "1")
    assert re.fullmatch(rf"tiny-tiny-\w+ is there already: {job} [A-Z]+; nothing was changed", again)
    wait_for_points(slurm, job)
    slurm.run("scontrol", "update", f"nodename={slurm.run('squeue', '-h', '-o', '%N')}", "state=drain", "reason=test")
    slurm.run("scancel", "--batch", "--signal=USR1", str(job))  # what --signal=B:USR1@120 sends
    wait_until(lambda: slurm.run("squeue", "-h", "-o", "%T") == "PENDING", 40, "the job in the queue again")
    log = said(slurm)
    assert "cse: interrupted; finished runs are kept, the same command continues" in log
    assert f"cse: the time is over and the state is saved; job {job} goes back into the queue" in log
    assert not slurm.scratch() and not [row for row in rows(folder) if row.live]
    assert saved_examples(folder) >= max(points(folder))

    slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")  # Slurm waits for two minutes
    wait_until(lambda: slurm.run("squeue", "-h", "-o", "%N") == "n2", 60, "a start on the other node")
    wait_until(lambda: slurm.run("squeue", "-h") == "", 300, "the end of the job")
    assert "2 done, 0 failed" in said(slurm), said(slurm)
    assert sorted((row.state, row.attempt) for row in rows(folder)) == [("done", 1), ("done", 2)]
    shown = slurm.run("scontrol", "show", "job", str(job))
    assert "Restarts=1" in shown and "JobState=COMPLETED" in shown and "ExitCode=0:0" in shown


def test_a_cancelled_job_saves_gives_back_and_leaves_nothing(slurm: Slurm) -> None:
    """Slurm sends SIGTERM to every process of the job at once, Ray's too, and kills what is left after 30 s."""
    folder, job = slurm.processes.folder, slurm.first_job
    make_long(folder)
    launch(slurm, "requeue: true", "--max-concurrent", "1")
    wait_for_points(slurm, job)
    slurm.run("scancel", str(job))
    wait_until(lambda: slurm.run("squeue", "-h") == "", CANCEL_S, "the end of a cancelled job")
    assert not [row for row in rows(folder) if row.live] and not slurm.scratch()
    assert saved_examples(folder) >= max(points(folder))
    assert "goes back into the queue" not in said(slurm)


def test_the_logs_of_a_lost_head_are_kept_and_named(slurm: Slurm) -> None:
    folder, job = slurm.processes.folder, slurm.first_job
    make_long(folder)
    launch(slurm, "requeue: false", "--max-concurrent", "1")
    wait_for_points(slurm, job)
    (head,) = (each for each in psutil.process_iter(["name", "cmdline"]) if is_head(each, job))
    head.kill()
    wait_until(lambda: slurm.run("squeue", "-h") == "", 400, f"the end of a job without a head: {said(slurm)}")
    kept = folder / "results" / "ray-logs" / str(job)
    assert f"cse: Ray's logs: {kept}" in said(slurm), said(slurm)
    assert (kept / "gcs_server.out").exists() and not slurm.scratch()
    ledger = str(folder / "results" / "ledger.db")
    wait_until(lambda: f"Ray's logs: {kept}" in slurm.run("cse", "status", "--ledger", ledger), 120, "the line")


def is_head(process: psutil.Process, job: int) -> bool:
    """Whether it is the GCS of a job's Ray."""
    return process.info["name"] == "gcs_server" and f"/tmp/ray-{job}-" in " ".join(process.info["cmdline"])


def test_an_array_of_drivers_spends_one_budget_on_one_ledger(slurm: Slurm, server: Postgres) -> None:
    url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
    slurm.environment["PGPASSWORD"] = PASSWORD
    words = ("--seeds", "30", "--budget", "12 runs", "--max-concurrent", "1")
    launch(slurm, "drivers: 4", *words, more=f"ledger: {url}", cpus=1)
    wait_until(lambda: slurm.run("squeue", "-h") == "", 600, "the end of the array")
    assert len(list(slurm.processes.folder.glob("tiny-*_[0-3].out"))) == 4
    ledger = Ledger.open(server.url, create=False)
    done = ledger.runs()
    ledger.close()
    assert {(row.state, row.attempt) for row in done} == {("done", 1)}, said(slurm)
    # Drivers that look at the same moment may each begin one run too many.
    assert 12 <= len(done) <= 15 and len({row.owner for row in done}) > 1
