"""What the Dockerfile copies is all that the RayJob's own entrypoint needs of ours."""

import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path

from setuptools import find_namespace_packages

from cluster.launch.targets import ray_job
from cluster.runtime.code_version import OUR_PACKAGES
from tests import image
from tests.cluster_real.conftest import SPACE


def test_the_project_the_image_and_a_ray_job_have_the_same_packages(tmp_path: Path) -> None:
    project = tomllib.loads((image.REPO / "pyproject.toml").read_text(encoding="utf8"))
    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {name.partition(".")[0] for name in find_namespace_packages(str(image.REPO), include=include)}
    assert packages == {path.name for path in image.copied(tmp_path).iterdir() if path.is_dir()}
    with ray_job.code_folder() as uploaded:
        assert packages == {path.name for path in uploaded.iterdir()} == set(OUR_PACKAGES)


def test_what_the_dockerfile_copies_plans_a_space_that_travels_with_the_job(tmp_path: Path) -> None:
    copied = image.copied(tmp_path / "opt")
    programs, packages = image.empty(tmp_path / "venv")
    # Other people's packages are those of the tests; ours are not, since a .pth file in them is not followed.
    (packages / "image.pth").write_text(f"{copied}\n{sysconfig.get_path('purelib')}\n", encoding="utf8")
    (tmp_path / "tiny.yaml").write_text(SPACE, encoding="utf8")
    entrypoint = shlex.join(image.job("plan", tmp_path / "tiny.yaml").argv("python", "auto")[:-2])
    done = subprocess.run(
        ["bash", "-c", entrypoint],
        env=image.environment(programs, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 runs" in done.stdout, done.stdout
