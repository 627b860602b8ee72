"""KubeRay manifests: a RayJob that trains a sweep on a cluster of its own, or a RayCluster that stays."""

import math
import shlex
from pathlib import Path
from typing import Any

import yaml

from cluster.launch.config import Block, ClusterConfig
from cluster.launch.job import ON_HEAD, RESOURCES, LaunchJob, ray_version, send
from cluster.runtime.resources import GROUP_GB

Json = dict[str, Any]
LEAST_GB, MOST_GB = 8, 64
"""RAM of a head. Slots live there where it has room for all, else on the nodes that train too."""
RAY_SHARE = 0.7
"""Part of a pod's memory that Ray offers."""
STAYS = True


class Settings(Block):
    """Where pods run and what they mount."""

    image: str
    """Built from cluster/launch/Dockerfile."""
    claim: str
    """Persistent volume claim (ReadWriteMany) that every pod mounts."""
    mount: str = "/shared"
    """Where; storage, ledger and data lie under it."""
    secret: str = "ray-token"
    """Secret whose key `auth_token` is the cluster's token."""
    ledger_secret: str | None = None
    """Secret whose key `password` is the ledger's PostgreSQL password."""
    namespace: str = "default"


def problems(cluster: ClusterConfig, settings: Settings) -> list[str]:
    """A pod has a limit of memory and sees nothing but its volume."""
    lines = [] if cluster.memory_gb else ["missing value: memory_gb=; KubeRay gives each pod so much"]
    paths = {"storage": cluster.storage, "data": cluster.data}
    return lines + [
        f"not on the volume: {name}={path}; pods share only kuberay.mount={settings.mount}"
        for name, path in paths.items()
        if path and not Path(path).is_relative_to(settings.mount)
    ]


def render(job: LaunchJob, settings: Settings) -> str:
    """A RayJob; a RayCluster where no sweep is named."""
    metadata = {"name": job.name, "namespace": settings.namespace}
    kind, spec = ("RayJob", _job(job, settings)) if job.command else ("RayCluster", cluster_spec(job, settings))
    return yaml.safe_dump(
        {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}, sort_keys=False, width=10_000
    )


def submit(job: LaunchJob, settings: Settings) -> str:
    """Through kubectl, to the cluster of its context."""
    apply = ["kubectl", "apply", "--filename", "-"]
    return send(render(job, settings), apply, "install kubectl and choose a context")


def _job(job: LaunchJob, settings: Settings) -> Json:
    """A lost head is replaced once, and the same command resumes from the ledger."""
    return {
        "entrypoint": shlex.join(job.argv("python", "auto")),
        "entrypointResources": ON_HEAD,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 600,
        "backoffLimit": 1,
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},
        "rayClusterSpec": cluster_spec(job, settings),
    }


def cluster_spec(job: LaunchJob, settings: Settings) -> Json:
    """A head that drives and does not train, and a group of nodes that do."""
    config = job.config
    group = "gpu" if config.gpus else "cpu"
    workers = {"cpu": str(config.cpus), "memory": f"{config.memory_gb}Gi"}
    if config.gpus:
        workers["nvidia.com/gpu"] = str(config.gpus)
    head = {"cpu": "2", "memory": f"{head_gb(config)}Gi"}
    start = {"resources": shlex.quote(RESOURCES), "disable-usage-stats": "true"}
    return {
        "rayVersion": ray_version(),
        "authOptions": {"mode": "token", "secretName": settings.secret},
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {**start, "num-cpus": "0", "dashboard-host": "0.0.0.0"},
            "template": _pod("ray-head", head, settings),
        },
        "workerGroupSpecs": [
            {
                "groupName": group,
                "replicas": config.nodes,
                "minReplicas": config.nodes,
                "maxReplicas": config.nodes,
                "rayStartParams": start,
                "template": _pod("ray-worker", workers, settings),
            }
        ],
    }


def head_gb(config: ClusterConfig) -> int:
    """RAM of the head for a slot on each card, or on each CPU where there are no cards."""
    slots = config.nodes * (config.gpus or config.cpus)
    return min(MOST_GB, max(LEAST_GB, math.ceil(2 + slots * GROUP_GB / RAY_SHARE)))


def _pod(name: str, resources: Json, settings: Settings) -> Json:
    container = {
        "name": name,
        "image": settings.image,
        "env": _environment(settings),
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "shared", "mountPath": settings.mount}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Json = {
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": settings.claim}}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
    }
    if "nvidia.com/gpu" in resources:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {"spec": spec}


def _environment(settings: Settings) -> list[Json]:
    secrets = [("RAY_AUTH_TOKEN", settings.secret, "auth_token")]
    if settings.ledger_secret:
        secrets.append(("PGPASSWORD", settings.ledger_secret, "password"))
    return [{"name": "RAY_AUTH_MODE", "value": "token"}] + [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}} for name, secret, key in secrets
    ]
