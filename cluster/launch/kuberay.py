"""KubeRay manifests: a RayJob that trains a sweep on a cluster of its own, or a RayCluster that stays."""

import shlex
from typing import Any

import yaml

from cluster.launch.config import KubeRay
from cluster.launch.job import HEAD, RESOURCES, Job, ray_version

Json = dict[str, Any]
HEAD_GB = 8


def render(job: Job, part: KubeRay) -> str:
    """A RayJob; a RayCluster where no sweep is named."""
    metadata = {"name": job.config.name, "namespace": part.namespace}
    kind, spec = ("RayJob", _job(job, part)) if job.command else ("RayCluster", cluster_spec(job, part))
    return yaml.safe_dump(
        {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}, sort_keys=False, width=10_000
    )


def _job(job: Job, part: KubeRay) -> Json:
    """A lost head is replaced once, and the same command resumes from the ledger."""
    return {
        "entrypoint": shlex.join(job.argv("python", "auto")),
        "entrypointResources": HEAD,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 600,
        "backoffLimit": 1,
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},
        "rayClusterSpec": cluster_spec(job, part),
    }


def cluster_spec(job: Job, part: KubeRay) -> Json:
    """A head that drives and does not train, and a group of nodes that do."""
    config = job.config
    group = "gpu" if config.gpus else "cpu"
    workers = {"cpu": str(config.cpus), "memory": f"{config.memory_gb}Gi"}
    if config.gpus:
        workers["nvidia.com/gpu"] = str(config.gpus)
    head = {"cpu": "2", "memory": f"{HEAD_GB}Gi"}
    start = {"resources": shlex.quote(RESOURCES), "disable-usage-stats": "true"}
    return {
        "rayVersion": ray_version(),
        "authOptions": {"mode": "token", "secretName": part.secret},
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {**start, "num-cpus": "0", "dashboard-host": "0.0.0.0"},
            "template": _pod("ray-head", head, part),
        },
        "workerGroupSpecs": [
            {
                "groupName": group,
                "replicas": config.nodes,
                "minReplicas": config.nodes,
                "maxReplicas": config.nodes,
                "rayStartParams": start,
                "template": _pod("ray-worker", workers, part),
            }
        ],
    }


def _pod(name: str, resources: Json, part: KubeRay) -> Json:
    container = {
        "name": name,
        "image": part.image,
        "env": _environment(part),
        "resources": {"limits": resources, "requests": resources},
        "volumeMounts": [{"name": "shared", "mountPath": part.mount}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Json = {
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": part.claim}}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
    }
    if "nvidia.com/gpu" in resources:
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {"spec": spec}


def _environment(part: KubeRay) -> list[Json]:
    secrets = [("RAY_AUTH_TOKEN", part.secret, "auth_token")]
    if part.ledger_secret:
        secrets.append(("PGPASSWORD", part.ledger_secret, "password"))
    return [{"name": "RAY_AUTH_MODE", "value": "token"}] + [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}} for name, secret, key in secrets
    ]
