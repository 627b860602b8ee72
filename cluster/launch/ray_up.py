"""The YAML of `ray up`: your own hosts, or machines on AWS."""

from typing import Any

import yaml

from cluster.launch.config import RayUp
from cluster.launch.job import RESOURCES, Job

Json = dict[str, Any]
TOKEN = "~/.ray/auth_token"
"""Ray's own place for the token; `ray up` copies the file by ssh, so the YAML does not hold it."""
START = f"RAY_AUTH_MODE=token ray start --disable-usage-stats --object-manager-port=8076 --resources='{RESOURCES}'"


def render(job: Job, part: RayUp) -> str:
    """A file that `ray up` takes. In its container `ray stop` ends no cluster of others."""
    config = job.config
    auth = {"ssh_user": part.ssh_user, "ssh_private_key": part.ssh_private_key}
    made: Json = {
        "cluster_name": config.name,
        "max_workers": _workers(job, part),
        "provider": _provider(part),
        "auth": {name: value for name, value in auth.items() if value},
        "docker": _docker(job, part),
        "file_mounts": {TOKEN: TOKEN},
        "head_start_ray_commands": [
            "ray stop",
            f"{START} --head --port=6379 --autoscaling-config=~/ray_bootstrap_config.yaml",
        ],
        "worker_start_ray_commands": ["ray stop", f"{START} --address=$RAY_HEAD_IP:6379"],
    }
    if part.region:
        made |= _machines(job, part)
    else:
        made["min_workers"] = _workers(job, part)
    return yaml.safe_dump(made, sort_keys=False, width=10_000)


def _workers(job: Job, part: RayUp) -> int:
    """The head trains too, so it is one of the nodes."""
    return job.config.nodes - 1 if part.region else len((part.worker_ips or "").split())


def _provider(part: RayUp) -> Json:
    if part.region:
        return {"type": "aws", "region": part.region}
    return {"type": "local", "head_ip": part.head_ip, "worker_ips": (part.worker_ips or "").split()}


def _docker(job: Job, part: RayUp) -> Json:
    """One container per host, on its network, with the shared folder and the cards."""
    options = ["--ulimit nofile=65536:65536", "--shm-size=1g", f"-v {job.config.storage}:{job.config.storage}"]
    if job.config.data:
        options.append(f"-v {job.config.data}:{job.config.data}:ro")
    if job.config.gpus:
        options.append("--gpus all")
    return {"image": part.image, "container_name": "cse-ray", "pull_before_run": True, "run_options": options}


def _machines(job: Job, part: RayUp) -> Json:
    """A head on demand, and workers that AWS may take back: a sweep goes on from its checkpoints."""
    count = _workers(job, part)
    head: Json = {"InstanceType": part.instance_type}
    workers = head | {"InstanceMarketOptions": {"MarketType": "spot"}}
    return {
        "head_node_type": "head",
        "available_node_types": {
            "head": {"resources": {}, "node_config": head},
            "worker": {"resources": {}, "min_workers": count, "max_workers": count, "node_config": workers},
        },
    }
