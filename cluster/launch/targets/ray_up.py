"""The YAML of `ray up`: your own hosts, or machines on AWS."""

from typing import Any

import yaml

from cluster.launch.config import Block, ClusterConfig
from cluster.launch.job import RESOURCES, Job

Json = dict[str, Any]
TOKEN = "~/.ray/auth_token"
"""Ray's own place for the token; `ray up` copies the file by ssh, so the YAML does not hold it."""
AFTERWARDS = "printed, not started: save it and run `ray up FILE`, then cse launch ray-job"
START = f"RAY_AUTH_MODE=token ray start --disable-usage-stats --object-manager-port=8076 --resources='{RESOURCES}'"


class Settings(Block):
    """Hosts that `ray up` sets up: yours by `head_ip` and `worker_ips`, or machines on AWS by `instance_type`."""

    ssh_user: str
    image: str
    """Built from cluster/launch/Dockerfile; every host runs it in a container."""
    ssh_private_key: str | None = None
    head_ip: str | None = None
    worker_ips: str | None = None
    """Addresses with spaces between."""
    region: str | None = None
    instance_type: str | None = None


def problems(cluster: ClusterConfig, settings: Settings) -> list[str]:
    """Hosts come from one place: addresses, or a region with a type of machine."""
    if bool(settings.region) == bool(settings.head_ip):
        return ["which hosts: ray_up.head_ip= ray_up.region=; give head_ip and worker_ips, or region and instance_type"]
    if settings.region and not settings.instance_type:
        return ["missing value: ray_up.instance_type=; name one, such as g5.xlarge"]
    return []


def render(job: Job, settings: Settings) -> str:
    """A file that `ray up` takes. In its container `ray stop` ends no cluster of others."""
    config = job.config
    auth = {"ssh_user": settings.ssh_user, "ssh_private_key": settings.ssh_private_key}
    made: Json = {
        "cluster_name": config.name,
        "max_workers": _workers(job, settings),
        "provider": _provider(settings),
        "auth": {name: value for name, value in auth.items() if value},
        "docker": _docker(job, settings),
        "file_mounts": {TOKEN: TOKEN},
        "head_start_ray_commands": [
            "ray stop",
            f"{START} --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml",
        ],
        "worker_start_ray_commands": ["ray stop", f"{START} --address=$RAY_HEAD_IP:6379"],
    }
    if settings.region:
        made |= _machines(job, settings)
    else:
        made["min_workers"] = _workers(job, settings)
    return yaml.safe_dump(made, sort_keys=False, width=10_000)


def _workers(job: Job, settings: Settings) -> int:
    """The head trains too, so it is one of the nodes."""
    return job.config.nodes - 1 if settings.region else len((settings.worker_ips or "").split())


def _provider(settings: Settings) -> Json:
    if settings.region:
        return {"type": "aws", "region": settings.region}
    return {"type": "local", "head_ip": settings.head_ip, "worker_ips": (settings.worker_ips or "").split()}


def _docker(job: Job, settings: Settings) -> Json:
    """One container per host, on its network, with the shared folder and the GPUs."""
    options = ["--ulimit nofile=65536:65536", "--shm-size=1g", f"-v {job.config.storage}:{job.config.storage}"]
    if job.config.data:
        options.append(f"-v {job.config.data}:{job.config.data}:ro")
    if job.config.gpus:
        options.append("--gpus all")
    return {"image": settings.image, "container_name": "cse-ray", "pull_before_run": True, "run_options": options}


def _machines(job: Job, settings: Settings) -> Json:
    """A head on demand, and workers that AWS may take back: a sweep goes on from its checkpoints."""
    count = _workers(job, settings)
    head: Json = {"InstanceType": settings.instance_type}
    workers = head | {"InstanceMarketOptions": {"MarketType": "spot"}}
    return {
        "head_node_type": "head",
        "available_node_types": {
            "head": {"resources": {}, "node_config": head},
            "worker": {"resources": {}, "min_workers": count, "max_workers": count, "node_config": workers},
        },
    }
