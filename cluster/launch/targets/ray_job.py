"""Launch target that submits a sweep as a job of a running Ray cluster, with this project's five packages alone."""

import contextlib
import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.launch.config import Block
from cluster.launch.job import ON_HEAD, LaunchJob
from cluster.runtime.code_version import OUR_PACKAGES, package_folder
from cluster.runtime.ray_internals import version_of
from cse_train.fields import ConfigError

EXCLUDED = ("__pycache__", "*.pyc", ".*", "*.db")


class Settings(Block):
    """Block `ray_job` of cluster.yaml: the running Ray cluster to use."""

    address: str
    """URL of the cluster's dashboard, for example http://head:8265."""


def entrypoint(job: LaunchJob) -> str:
    return shlex.join(job.argv("python", "auto"))


def render(job: LaunchJob, settings: Settings) -> str:
    """Renders an equivalent `ray job submit` line for reading; `submit` sends the packages alone."""
    words = ["ray", "job", "submit", "--address", settings.address, "--entrypoint-resources", ON_HEAD]
    line = shlex.join([*words, "--working-dir", "CODE"])
    return f"{line} -- {entrypoint(job)}\n# CODE holds {', '.join(OUR_PACKAGES)} and nothing else\n"


@contextlib.contextmanager
def code_folder() -> Iterator[Path]:
    """Context manager that gives a temporary folder with a copy of the five packages as they are imported here."""
    with tempfile.TemporaryDirectory(prefix="cse-code-") as name:
        for package in OUR_PACKAGES:
            shutil.copytree(package_folder(package), Path(name, package), ignore=shutil.ignore_patterns(*EXCLUDED))
        yield Path(name)


def submit(job: LaunchJob, settings: Settings) -> str:
    """Submits the job and returns how to read its log; Ray finds the token."""
    import requests

    try:
        client = connect(settings.address)
        with code_folder() as code:
            name = client.submit_job(
                entrypoint=entrypoint(job),
                runtime_env={"working_dir": str(code)},
                entrypoint_resources=json.loads(ON_HEAD),
                metadata={"name": job.name},
            )
    except (RuntimeError, requests.RequestException) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0][:200]
        line = f"job refused: address={settings.address}: {reason}; look at the head's dashboard"
        raise ConfigError([line]) from error
    return f"submitted {name}; ray job logs --follow {name} --address {settings.address}"


def connect(address: str) -> Any:
    """Returns a job client of the cluster, which must run the Ray version that is installed here."""
    import requests
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    try:
        client = JobSubmissionClient(address)
    except AuthenticationError as error:
        line = f"token refused: address={address}; set RAY_AUTH_MODE=token and the cluster's RAY_AUTH_TOKEN"
        raise ConfigError([line]) from error
    except (ConnectionError, requests.RequestException, ValueError, RuntimeError) as error:
        line = f"no Ray dashboard: address={address}; give http://HEAD:8265 and see that it runs"
        raise ConfigError([line]) from error
    check_version(client)
    return client


def check_version(client: Any) -> None:
    import ray

    cluster_version = version_of(client)
    if cluster_version != ray.__version__:
        advice = f"install ray=={cluster_version} here, or what constraints.txt names there"
        raise ConfigError([f"Ray versions differ: here={ray.__version__} cluster={cluster_version}; {advice}"])
