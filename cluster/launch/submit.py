"""From a job to a rendered file for each kind of cluster, and to the client that takes it."""

import shutil
import subprocess
from enum import StrEnum
from pathlib import Path
from typing import Any

from cluster.launch import kuberay, ray_up, slurm
from cluster.launch import ray_job as launch_ray_job
from cluster.launch.config import ClusterConfig
from cluster.launch.job import Job
from cse_train.fields import ConfigError


class Kind(StrEnum):
    """Where a sweep goes."""

    ray_job = "ray-job"
    kuberay = "kuberay"
    slurm = "slurm"
    ray_up = "ray-up"


CLIENTS = {
    Kind.kuberay: (["kubectl", "apply", "--filename", "-"], "install kubectl and choose a context"),
    Kind.slurm: (["sbatch"], "run on a login node, or apt-get install slurm-client"),
}


def part_of(kind: Kind, config: ClusterConfig) -> Any:
    """The kind's own part of the file; ConfigError where it is absent or lacks what the kind needs."""
    part = getattr(config, kind.name)
    if part is None:
        raise ConfigError([f"missing part: {kind.name}=; cse launch {kind} needs it in cluster.yaml"])
    found = _problems(kind, part, config)
    if found:
        raise ConfigError(found)
    return part


def _problems(kind: Kind, part: Any, config: ClusterConfig) -> list[str]:
    if kind is Kind.kuberay:
        found = [] if config.memory_gb else ["missing value: memory_gb=; KubeRay gives each pod so much"]
        paths = {"storage": config.storage, "data": config.data}
        return found + [
            f"not on the volume: {name}={path}; pods share only kuberay.mount={part.mount}"
            for name, path in paths.items()
            if path and not Path(path).is_relative_to(part.mount)
        ]
    if kind is Kind.ray_up and bool(part.region) == bool(part.head_ip):
        return ["which hosts: ray_up.head_ip= ray_up.region=; give head_ip and worker_ips, or region and instance_type"]
    if kind is Kind.ray_up and part.region and not part.instance_type:
        return ["missing value: ray_up.instance_type=; name one, such as g5.xlarge"]
    return []


def rendered(kind: Kind, job: Job) -> str:
    """The file, or for a Ray job the line, that starts it."""
    part = part_of(kind, job.config)
    if kind is Kind.ray_job:
        return launch_ray_job.render(job, part)
    modules: dict[Kind, Any] = {Kind.kuberay: kuberay, Kind.slurm: slurm, Kind.ray_up: ray_up}
    return str(modules[kind].render(job, part))


def submitted(kind: Kind, job: Job) -> str:
    """Hand the job to the cluster's client; what that said. ConfigError where it is absent or refuses."""
    if kind is Kind.ray_job:
        part = part_of(kind, job.config)
        name = launch_ray_job.submit(job, part)
        return f"submitted {name}; ray job logs --follow {name} --address {part.address}"
    text = rendered(kind, job)
    command, advice = CLIENTS[kind]
    if shutil.which(command[0]) is None:
        raise ConfigError([f"no client: {command[0]} is not installed; {advice}, or give --dry-run and take the text"])
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError([f"{command[0]} refused: {reason}; --dry-run prints what it was given"])
    return done.stdout.strip()
