"""Slurm for real: a sweep whose Python runs in a container, and behind `module load`."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from tests.cluster_real.processes import wait_until
from tests.cluster_real.slurm import Slurm
from tests.cluster_real.test_slurm_jobs import launch

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

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
