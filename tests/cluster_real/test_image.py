"""The RayJob that `cse launch kuberay` makes, in an empty environment that is installed as the image is."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cluster.launch.job import ON_HEAD
from cluster.launch.targets import kuberay
from tests import image
from tests.cluster_real.head import Head
from tests.cluster_real.processes import Processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_an_empty_environment_installed_as_the_image_trains_the_rayjob(
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

    job = image.job("run", folder / "tiny.yaml")
    settings = kuberay.Settings(image="made as above", claim="shared", mount=str(folder))
    rayjob = yaml.safe_load(kuberay.render(job, settings))
    head = Head(processes, free_port)
    head.start(environment["PATH"])
    # KubeRay submits the entrypoint in this way, from a pod of its own.
    ray = ("ray", "job", "submit", "--no-wait", "--submission-id", "one", "--address", head.address)
    words = ("--entrypoint-resources", ON_HEAD, "--", *shlex.split(rayjob["spec"]["entrypoint"]))
    sent = processes.run(*ray, *words, env={"PATH": environment["PATH"], "PYTHONPATH": ""})
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "2 done, 0 failed" in head.log("one")
