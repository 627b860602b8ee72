"""Slurm for real: the batch file of `cse launch slurm` forms a Ray cluster of two nodes and finishes two runs."""

import json
import sys
import urllib.request

import pytest

from analysis.ledger import Ledger
from tests.cluster_real.processes import wait_until
from tests.cluster_real.slurm import Slurm

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CLUSTER = """version: 1
name: tiny
storage: {folder}/results
nodes: 2
cpus: 1
gpus: 0
slurm: {{python: {python}, time: "10"}}
"""
TINY = ("method=simcse", "train.learning_rate=1e-4", "train.encoder=wiki-l1-h64", "train.examples=128")


def log_of(slurm: Slurm) -> str:
    return "\n".join(path.read_text() for path in slurm.processes.folder.glob("tiny-*.out"))


def test_a_job_of_two_nodes_finishes_a_sweep(slurm: Slurm) -> None:
    folder = slurm.processes.folder
    (folder / "cluster.yaml").write_text(CLUSTER.format(folder=folder, python=sys.executable), encoding="utf8")
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
