"""The RayJob that `cse launch kuberay` makes, in an empty environment that is installed as the image is."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from analysis.ledger import Ledger
from cluster.launch.job import ON_HEAD
from cluster.launch.targets import kuberay
from cse_train import checkpoint
from tests import image
from tests.cluster_real.head import Head
from tests.cluster_real.processes import Processes, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
LONG = (("train.examples: 128", "train.examples: 16000"), ("train.evaluations: 2", "train.evaluations: 1000"))
"""Changes of conftest's space: runs of half a minute, with a state each 16 examples."""
FAR = 3200
"""Examples after which the cluster is killed; a run that began again would be far below."""


def saved_examples(folder: Path) -> dict[str, int]:
    """Signature and attempt -> how far the newest state is."""
    states = {path.parent: checkpoint.load_last(path.parent) for path in folder.glob("stored/runs/*/attempt-*/last")}
    points = {path: state["points"] for path, state in states.items() if state}
    return {f"{path.parent.name} {path.name}": int(made[-1]["examples"]) for path, made in points.items() if made}


def test_an_empty_environment_installed_as_the_image_trains_the_rayjob_and_resumes_after_a_kill(
    processes: Processes, free_port: Callable[[], int], folder: Path
) -> None:
    copied = image.copied(folder / "opt")
    programs, packages = image.empty(folder / "venv", with_pip=True)
    assert not list(packages.glob("torch*"))
    (programs / "pip").exists() or (programs / "pip").symlink_to(programs / "pip3")
    index = os.environ.get("TORCH_INDEX") or "https://pypi.org/simple"
    environment = image.environment(programs, folder) | {"TORCH_INDEX": index}
    for line in image.installs():
        done = subprocess.run(
            ["bash", "-c", line], cwd=copied, env=environment, capture_output=True, text=True, timeout=1200
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    shutil.rmtree(copied)

    for old, new in LONG:
        space = (folder / "tiny.yaml").read_text(encoding="utf8")
        assert old in space
        (folder / "tiny.yaml").write_text(space.replace(old, new), encoding="utf8")
    job = image.job("run", folder / "tiny.yaml", "--save-minutes", "0")
    settings = kuberay.Settings(image="made as above", claim="shared", mount=str(folder))
    rayjob = yaml.safe_load(kuberay.render(job, settings))

    def submit() -> Head:
        """As KubeRay does, from a pod of its own, to a head pod that is new."""
        head = Head(processes, free_port)
        head.start(environment["PATH"])
        ray = ("ray", "job", "submit", "--no-wait", "--submission-id", "one", "--address", head.address)
        words = ("--entrypoint-resources", ON_HEAD, "--", *shlex.split(rayjob["spec"]["entrypoint"]))
        sent = processes.run(*ray, *words, env={"PATH": environment["PATH"], "PYTHONPATH": ""})
        assert sent.returncode == 0, sent.stdout + sent.stderr
        return head

    submit()
    wait_until(lambda: max(saved_examples(folder).values(), default=0) > FAR, 600, "states")
    processes.kill()
    (folder / "head.log").rename(folder / "killed.log")
    before = saved_examples(folder)
    head = submit()
    again: dict[str, int] = {}

    def has_begun() -> bool:
        again.update({run: examples for run, examples in saved_examples(folder).items() if run not in before})
        return bool(again)

    wait_until(has_begun, 400, "a second attempt")
    ((run, examples),) = list(again.items())[:1]
    assert examples >= before[run.replace("attempt-2", "attempt-1")], (before, again)
    assert "2 done, 0 failed" in head.log("one")
    ledger = Ledger.open(folder / "stored" / "ledger.db", create=False)
    assert {(row.state, row.attempt) for row in ledger.runs()} == {("done", 2)}
    ledger.close()
