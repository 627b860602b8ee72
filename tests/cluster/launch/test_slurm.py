"""`cse launch slurm`: each key where sbatch or srun reads it, mistakes in one line, and a second launch."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.launch.targets.slurm import TIME, count_seconds
from tests.commands import printed, refused

pytestmark = pytest.mark.usefixtures("somewhere")

CLUSTER: dict[str, Any] = {
    "version": 1,
    "name": "cse",
    "storage": "/shared/results",
    "ledger": "postgresql://cse@database/cse",
    "data": "/shared/data",
    "nodes": 2,
    "cpus": 8,
    "gpus": 4,
    "memory_gb": 64,
}
SLURM: dict[str, Any] = {
    "python": "/opt/venv/bin/python",
    "time": "2-00:00:00",
    "partition": "gpu",
    "account": "nlp",
    "qos": "long",
    "constraint": "a100|h100",
    "reservation": "course",
    "requeue": True,
    "drivers": 4,
    "modules": ["cuda/12.4", "python/3.11"],
    "options": {"exclude": "node7", "gres": "gpu:a100:4", "gpus-per-node": None, "exclusive": True},
}
APPTAINER = {"runtime": "apptainer", "image": "/shared/cse.sif", "mounts": ["/scratch", "/a:/b"]}
SHARED = "/shared/results:/shared/results,/shared/data:/shared/data"
PYXIS = {"runtime": "pyxis", "image": "registry.local#cse:0.1.0", "mounts": ["/scratch"]}


def script(capsys: pytest.CaptureFixture[str], **slurm: Any) -> str:
    """What `--dry-run` prints."""
    Path("cluster.yaml").write_text(yaml.safe_dump(CLUSTER | {"slurm": SLURM | slurm}), encoding="utf8")
    return printed(capsys, "launch", "slurm", "E7", "--name", "mine", "--budget", "50 runs", "--dry-run")


def options_of(text: str) -> dict[str, str]:
    return dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", text, re.MULTILINE))


def test_every_key_is_an_option_of_sbatch(capsys: pytest.CaptureFixture[str]) -> None:
    text = script(capsys)
    assert options_of(text) == {
        "job-name": "mine",
        "nodes": "2",
        "ntasks-per-node": "1",
        "cpus-per-task": "8",
        "mem": "64G",
        "time": "2-00:00:00",
        "partition": "gpu",
        "account": "nlp",
        "qos": "long",
        "constraint": "'a100|h100'",
        "reservation": "course",
        "array": "0-3",
        "requeue": "",
        "open-mode": "append",
        "signal": "B:USR1@120",
        "output": "mine-%A_%a.out",
        "exclude": "node7",
        "gres": "gpu:a100:4",
        "exclusive": "",
    }
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash -l", "a login shell knows module"
    assert lines[1] == (
        "# mine asks for 4 jobs, each of 2 nodes with 8 GPUs, 16 CPUs and 128 GB of memory, time limit 2-00:00:00, "
        "requeued at the limit until the sweep is done; it ends after 50 runs."
    )
    assert lines.index("module load cuda/12.4 python/3.11") < lines.index("set -euo pipefail")


def test_without_them_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    absent = dict.fromkeys(("time", "partition", "account", "qos", "constraint", "reservation"))
    text = script(capsys, **absent, requeue=False, drivers=1, modules=[], options={})
    asked = ["job-name", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "mem", "signal", "output"]
    assert list(options_of(text)) == asked and text.startswith("#!/bin/bash\n") and "module load" not in text


@pytest.mark.parametrize(
    ("container", "lines"),
    [
        (None, ["step=()", "inside=()"]),
        (
            APPTAINER,
            [
                f"mounts={SHARED},/scratch:/scratch,/a:/b,/tmp:/tmp",
                "step=()",
                'inside=(apptainer exec --nv --bind "$mounts" /shared/cse.sif)',
            ],
        ),
        (
            PYXIS,
            [
                f"mounts={SHARED},/scratch:/scratch,/tmp:/tmp",
                "step=(--container-image='registry.local#cse:0.1.0' --container-mounts=\"$mounts\")",
                "inside=()",
            ],
        ),
    ],
)
def test_python_runs_in_the_container(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, container: Any, lines: list[str]
) -> None:
    text = script(capsys, container=container)
    assert [line for line in text.splitlines() if line.startswith(("mounts=", "step=", "inside="))] == lines
    calls = [line for line in text.splitlines() if re.search(r'"\$python" -[mc]|"\$\{sweep', line)]
    assert len(calls) == 5 and all('"${here[@]}"' in line or '"${step[@]}" "${inside[@]}"' in line for line in calls)
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck: apt-get install shellcheck")
    (tmp_path / "job").write_text(text, encoding="utf8")
    done = subprocess.run(["shellcheck", "job"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("slurm", "told"),
    [
        ({"time": "24h"}, "cluster.yaml: no time limit: slurm.time=24h; write minutes, 24:00:00 or 2-00:00:00"),
        ({"time": 86400}, "cluster.yaml: wrong type: slurm.time=86400 is a int; give a valid string"),
        ({"time": "4:59"}, "cluster.yaml: too short: slurm.time=4:59; the sweep saves its state 120 s before the end"),
        ({"drivers": 0}, "cluster.yaml: out of range: slurm.drivers=0; give a number greater than or equal to 1"),
        ({"modules": ["cuda 12"]}, "cluster.yaml: no module: slurm.modules='cuda 12'; list names such as cuda/12.4"),
        ({"qos": "a\nb"}, "cluster.yaml: line break: slurm.qos=; write one line"),
        ({"requeue": "yes"}, "cluster.yaml: wrong type: slurm.requeue='yes' is a str; give a valid boolean"),
        ({"container": {"runtime": "docker", "image": "i"}}, "cluster.yaml: wrong type: slurm.container.runtime='dock"),
        ({"container": {"runtime": "pyxis"}}, "cluster.yaml: missing value: slurm.container.image=; give it"),
        ({"container": PYXIS | {"mounts": ["here"]}}, "relative path: slurm.container.mounts=here; give the absolute"),
        ({"options": {"qos": "long"}}, "not here: slurm.options.qos=long; it has a key of its own, or the script"),
        ({"options": {"signal": "TERM@9"}}, "not here: slurm.options.signal=TERM@9; it has a key of its own, or the"),
        ({"options": {"--mem": 0}}, "no option of sbatch: slurm.options.--mem=0; write its long name without --"),
        ({"options": {"comment": "a\nb"}}, "no option of sbatch: slurm.options.comment=a b; write its long name"),
        ({"qoss": "long"}, "cluster.yaml: unknown key: slurm.qoss=long; did you mean slurm.qos?"),
    ],
)
def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str], slurm: dict[str, Any], told: str) -> None:
    Path("cluster.yaml").write_text(yaml.safe_dump(CLUSTER | {"slurm": SLURM | slurm}), encoding="utf8")
    assert refused(capsys, "launch", "slurm", "E7", "--dry-run").startswith(f"cse: {told}")


@pytest.mark.parametrize("place", ["file", "command"])
def test_several_drivers_need_postgresql(capsys: pytest.CaptureFixture[str], place: str) -> None:
    cluster = CLUSTER | ({"ledger": "/shared/l.db"} if place == "file" else {})
    Path("cluster.yaml").write_text(yaml.safe_dump(cluster | {"slurm": SLURM}), encoding="utf8")
    more = [] if place == "file" else ["--ledger", "/shared/l.db"]
    line = refused(capsys, "launch", "slurm", "E7", *more, "--dry-run")
    assert line.startswith("cse: a file for several hosts: slurm.drivers=4, ledger=/shared/l.db; drivers share")


@pytest.mark.parametrize(
    ("limit", "seconds"), [("5", 300), ("5:30", 330), ("1:00:00", 3600), ("1-0", 86400), ("1-2:03", 93780)]
)
def test_times_are_read_as_slurm_reads_them(limit: str, seconds: int) -> None:
    parts = TIME.fullmatch(limit)
    assert parts is not None and count_seconds(parts) == seconds


SBATCH = f"""#!{sys.executable}
import pathlib, sys
queue = pathlib.Path(__file__).parent / "queue"
if pathlib.Path(__file__).name == "squeue":
    print(queue.read_text() if queue.exists() and "--name mine" in " ".join(sys.argv) else "", end="")
else:
    queue.write_text("7_[2-3] PENDING\\n7_0 RUNNING\\n")
    print("Submitted batch job 7")
"""


def test_a_job_that_waits_or_runs_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sbatch", "squeue"):
        (tmp_path / name).write_text(SBATCH, encoding="utf8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    script(capsys)

    def launch(name: str) -> str:
        return printed(capsys, "launch", "slurm", "E7", "--name", name)

    log = Path("mine-7_*.out").absolute()
    assert launch("mine") == f"Submitted batch job 7; its log: {log}; its end: scancel 7\n"
    assert launch("mine") == "mine is there already: 7_[2-3] PENDING, 7_0 RUNNING; nothing was changed\n"
    script(capsys, drivers=1, options={"output": "/logs/%j.txt"})
    assert launch("other") == "Submitted batch job 7; its log: /logs/7.txt; its end: scancel 7\n"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("sbatch: unrecognized option '--f=1'\nTry \"sbatch --help\"\n", "sbatch: unrecognized option '--f=1'; --dry"),
        (
            "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed\n",
            "sbatch: error: invalid partition specified: x; sbatch: error: Batch job submission failed; --dry-run",
        ),
        ("", "exit code 1; --dry-run prints what it was given"),
    ],
)
def test_what_sbatch_refuses_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, told: str
) -> None:
    (tmp_path / "answer").write_text(answer, encoding="utf8")
    for name, text in (("sbatch", "cat answer >&2; exit 1"), ("squeue", "true")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    script(capsys)
    assert refused(capsys, "launch", "slurm", "E7").startswith(f"cse: sbatch refused: {told}")
