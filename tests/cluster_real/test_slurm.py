"""Slurm for real: two nodes, requeued and cancelled jobs, an array, containers and modules."""

import json
import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
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
nodes: {nodes}
cpus: {cpus}
{more}
slurm: {{python: {python}, time: "10", {slurm}}}
"""
LONG = (("train.examples: 128", "train.examples: 16000"), ("train.evaluations: 2", "train.evaluations: 1000"))
"""Changes of conftest's space: runs of half a minute with a point each 16 examples."""


def describe_cluster(folder: Path, keys: str = "", more: str = "", cpus: int = 2, nodes: int = 1) -> None:
    """Writes cluster.yaml."""
    text = CLUSTER.format(folder=folder, python=sys.executable, slurm=keys, more=more, cpus=cpus, nodes=nodes)
    (folder / "cluster.yaml").write_text(text, encoding="utf8")


def launch(slurm: Slurm, keys: str, *words: str, more: str = "", cpus: int = 2) -> str:
    """What `cse launch` says of the space `tiny.yaml`."""
    describe_cluster(slurm.processes.folder, keys, more, cpus)
    return slurm.run("cse", "launch", "slurm", "tiny.yaml", "--workers", "1", *words)


TINY = ("method=simcse", "train.learning_rate=1e-4", "train.encoder=words-l1-h64", "train.examples=128")


def log_of(slurm: Slurm) -> str:
    return "\n".join(path.read_text() for path in slurm.processes.folder.glob("tiny-*.out"))


def test_a_job_of_two_nodes_finishes_a_sweep(slurm: Slurm) -> None:
    folder = slurm.processes.folder
    describe_cluster(folder, more="gpus: 0", cpus=1, nodes=2)
    settings = [word for pair in TINY for word in ("--set", pair)]
    said = slurm.run("cse", "launch", "slurm", "demo", *settings, "--seeds", "2", "--workers", "2")
    assert said.startswith(f"Submitted batch job {slurm.first_job}; its log: {folder}/tiny-")
    listed = folder / "results" / "prometheus"
    wait_until(lambda: list(listed.glob("*.json")), 300, f"what Prometheus reads: {log_of(slurm)}")
    (group,) = json.loads(next(listed.glob("*.json")).read_text(encoding="utf8"))
    assert len(group["targets"]) >= 2, "both nodes, and Ray's dashboard"
    with urllib.request.urlopen(f"http://{group['targets'][0]}/metrics", timeout=20) as answer:
        assert b"ray_node_disk_utilization_percentage" in answer.read()
    wait_until(lambda: slurm.run("squeue", "-h") == "", 500, "the end of the job")
    assert not list(listed.iterdir()), "nothing to read any more"
    log = log_of(slurm)
    assert "2 done, 0 failed" in log, log
    ledger = Ledger.open(folder / "results" / "ledger.db", create=False)
    assert [run.state for run in ledger.runs()] == ["done", "done"]
    ledger.close()
    assert not slurm.scratch(), "each node removes its scratch folder"


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


APPTAINER = """#!/bin/bash
echo "$*" >>{folder}/entered
while [[ $1 != cse.sif ]]; do shift; done
exec "${{@:2}}"
"""
HEADER = Path("/usr/include/slurm/spank.h")
LINE = "container: {{runtime: {runtime}, image: {image}, mounts: [/scratch]}}"


def finish(slurm: Slurm, keys: str) -> str:
    """The job's output, after its two runs."""
    folder = slurm.processes.folder
    assert launch(slurm, keys, cpus=1).startswith(f"Submitted batch job {slurm.first_job}; its log: ")
    wait_until(lambda: slurm.run("squeue", "-h") == "", 300, "the end of the job")
    (file,) = folder.glob("tiny-*.out")
    log = file.read_text()
    ledger = Ledger.open(folder / "results" / "ledger.db", create=False)
    assert [row.state for row in ledger.runs()] == ["done", "done"], log
    ledger.close()
    return log


def test_apptainer_stands_before_every_python(slurm: Slurm) -> None:
    folder = slurm.processes.folder
    (folder / "apptainer").write_text(APPTAINER.format(folder=folder), encoding="utf8")
    (folder / "apptainer").chmod(0o755)
    slurm.environment["PATH"] = f"{folder}:{slurm.processes.environment['PATH']}"
    finish(slurm, LINE.format(runtime="apptainer", image="cse.sif"))
    entered = [line for line in (folder / "entered").read_text().splitlines() if line.startswith("exec ")]
    mounts = f"{folder}/results:{folder}/results,/scratch:/scratch,/tmp:/tmp"
    assert {line.partition(sys.executable)[0] for line in entered} == {f"exec --bind {mounts} cse.sif "}
    called = [" ".join(line.partition(sys.executable)[2].split()[:2]) for line in entered]
    waiting = "-m cluster.launch.wait_for_nodes"
    asked = ["-c import", "-m ray.scripts.scripts", waiting, waiting, "-m cluster.launch.files"]
    assert sorted(called) == sorted(asked)


def test_pyxis_gets_its_options_with_every_step_behind_a_module(slurm: Slurm, needs: Callable[..., None]) -> None:
    needs("environment-modules gcc", "modulecmd", "gcc")
    if not HEADER.exists():
        pytest.skip("no slurm/spank.h: apt-get install libslurm-dev")
    folder = slurm.processes.folder
    source = Path(__file__).with_name("spank.c")
    built = slurm.processes.run("gcc", "-shared", "-fPIC", "-o", str(folder / "pyxis.so"), str(source))
    assert built.returncode == 0, built.stderr
    (folder / "slurm" / "plugstack.conf").write_text(f"required {folder}/pyxis.so {folder}/entered\n", encoding="utf8")
    (folder / "modules").mkdir()
    (folder / "modules" / "cuda").write_text("#%Module1.0\nputs stderr {module cuda is there}\n", encoding="utf8")
    slurm.environment["MODULEPATH"] = str(folder / "modules")
    log = finish(slurm, f"modules: [cuda], {LINE.format(runtime='pyxis', image='registry#cse:1')}")
    mounts = f"{folder}/results:{folder}/results,/scratch:/scratch,/tmp:/tmp"
    entered = Counter((folder / "entered").read_text().splitlines())
    # The ports, the head, two waits for nodes, and the driver, each once or more often, as this Slurm asks a plug-in.
    assert entered.keys() == {"registry#cse:1", mounts} and {count % 5 for count in entered.values()} == {0}
    assert log.startswith("module cuda is there")
