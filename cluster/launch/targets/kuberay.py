"""Launch target KubeRay: a RayJob that trains a sweep on a cluster of its own, or a RayCluster that stays."""

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, field_validator

from cluster.launch.config import Block, ClusterConfig
from cluster.launch.job import ON_HEAD, RESOURCES, LaunchJob, ray_version
from cluster.launch.kubernetes import (
    OWNER,
    NeededObject,
    PodJson,
    check_objects,
    merge_pod,
    patch_problems,
    submit_manifest,
)
from cluster.runtime.options import login_name
from cluster.runtime.resources import GROUP_GB

LEAST_GB, MOST_GB = 8, 64
"""Minimum and maximum GB of RAM of a head; slots for which it has no room live on the nodes that train."""
LEAST_CPUS, MOST_CPUS, SLOTS_A_CPU = 2, 16, 16
"""Minimum and maximum CPUs of a head, and slots per CPU; driver and Ray's own processes take two CPUs."""
RAY_SHARE = 0.7
"""Fraction of a pod's memory that Ray offers."""
JOB_LABEL = "cse-search/job"
"""Label of every pod with the name of its launch, by which a PodMonitor finds it."""
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
"""Pattern of a name and of a label's value in Kubernetes."""
CONTAINERS = {"head": "ray-head", "workers": "ray-worker"}
"""Role of a pod -> name of its container as in KubeRay's examples, by which a patch finds it."""
STAYS = True


class Toleration(Block):
    """Kubernetes toleration of a node's taint, with Kubernetes' own keys."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class Pods(Block):
    """Settings of the pods of the head, or of the nodes that train."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)
    shm_gb: Annotated[int, Field(ge=1)] | None = None
    """GB of /dev/shm, which count as memory when written; None for KubeRay's own, as large as the pod's memory."""
    ephemeral_gb: Annotated[int, Field(ge=1)] | None = None
    """GB of the node's disk that the pod requests and may fill."""
    pod: dict[str, object] = Field(default_factory=dict)
    """Strategic merge patch of the pod."""


class HeadPods(Pods):
    cpus: Annotated[int, Field(ge=1)] | None = None
    """CPUs of the head; None for as many as its slots take."""
    memory_gb: Annotated[int, Field(ge=1)] | None = None


class Redis(Block):
    """Redis that keeps the head's state, so that a new head pod finds it."""

    address: str
    secret: str | None = None
    """Name of the secret whose key `password` is Redis' password."""


class Settings(Block):
    """Block `kuberay` of cluster.yaml: where pods run and what they mount."""

    image: str
    """Image of the pods, built from cluster/launch/Dockerfile."""
    claim: str
    """Persistent volume claim (ReadWriteMany) that every pod mounts."""
    mount: str = "/shared"
    """Path at which the claim is mounted; storage, ledger and data lie under it."""
    secret: str | None = None
    """Name of the secret whose key `auth_token` is the Ray token (KubeRay 1.6); None for a token that KubeRay makes."""
    ledger_secret: str | None = None
    """Name of the secret whose key `password` is the ledger's PostgreSQL password."""
    secrets: dict[str, str] = Field(default_factory=dict)
    """Environment variable -> SECRET/KEY, such as a tracker's key."""
    namespace: str = "default"
    image_pull_secrets: list[str] = Field(default_factory=list)
    service_account: str | None = None
    priority_class: str | None = None
    queue: str | None = None
    """Local queue of Kueue, which decides when the pods start."""
    queue_priority: str | None = None
    suspend: bool = False
    """True if the object is made without pods, until somebody sets `suspend` to false."""
    redis: Redis | None = None
    head: HeadPods = Field(default_factory=HeadPods)
    workers: Pods = Field(default_factory=Pods)

    @field_validator("queue", "queue_priority")
    @classmethod
    def _check_queue(cls, queue: str | None) -> str | None:
        if queue is not None and not OBJECT_NAME.fullmatch(queue):
            advice = "give lower-case letters, digits, - and ., at most 63"
            raise ValueError(f"no name of a queue: kuberay.queue={queue}; {advice}")
        return queue

    @field_validator("secrets")
    @classmethod
    def _check_secrets(cls, secrets: dict[str, str]) -> dict[str, str]:
        for name, place in secrets.items():
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or not re.fullmatch("[^/]+/[^/]+", place):
                raise ValueError(f"no secret: kuberay.secrets.{name}={place}; write VARIABLE: SECRET/KEY")
        return secrets


def problems(cluster: ClusterConfig, settings: Settings) -> list[str]:
    """Returns one line per problem: no memory limit, paths outside the volume, wrong patches, lost containers."""
    lines = [] if cluster.memory_gb else ["missing value: memory_gb=; KubeRay gives each pod so much"]
    paths = {"storage": cluster.storage, "data": cluster.data}
    lines += [
        f"not on the volume: {name}={path}; pods share only kuberay.mount={settings.mount}"
        for name, path in paths.items()
        if path and not Path(path).is_relative_to(settings.mount)
    ]
    for name, pods in (("head", settings.head), ("workers", settings.workers)):
        lines += patch_problems(f"kuberay.{name}.pod", pods.pod)
    return lines or _losses(cluster, settings)


def _losses(cluster: ClusterConfig, settings: Settings) -> list[str]:
    """Returns one line for each pod from whose spec a patch removes the container or volume that it needs."""
    spec = cluster_spec(LaunchJob(cluster), settings)
    groups = {"head": spec["headGroupSpec"], "workers": spec["workerGroupSpecs"][0]}
    lines = []
    for name, group in groups.items():
        pod = group["template"].get("spec", {})
        first = (pod.get("containers") or [{}])[0]
        mounts = {mount["name"] for mount in first.get("volumeMounts", ())}
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        parts = {
            f"the container {CONTAINERS[name]}": first.get("name") == CONTAINERS[name] and bool(first.get("image")),
            "the volume shared": "shared" in mounts & volumes,
        }
        removed = [part for part, is_there in parts.items() if not is_there]
        advice = "leave that out of the patch"
        lines += [
            f"a pod without what it needs: kuberay.{name}.pod takes {part} away; {advice}" for part in removed[:1]
        ]
    return lines


def render(job: LaunchJob, settings: Settings) -> str:
    """Renders a RayJob, or a RayCluster where no sweep is named; a leading comment lists the requested resources."""
    labels = {"kueue.x-k8s.io/queue-name": settings.queue, "kueue.x-k8s.io/priority-class": settings.queue_priority}
    metadata = {
        "name": job.name,
        "namespace": settings.namespace,
        "labels": {JOB_LABEL: job.name} | {key: value for key, value in labels.items() if value},
        "annotations": {OWNER: login_name()},
    }
    cluster = cluster_spec(job, settings)
    suspend = {"suspend": True} if settings.suspend else {}
    kind, spec = ("RayJob", _job(job, cluster)) if job.command else ("RayCluster", cluster)
    manifest = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": suspend | spec}
    return _describe(job, settings) + yaml.safe_dump(manifest, sort_keys=False, width=10_000)


def _describe(job: LaunchJob, settings: Settings) -> str:
    config = job.config
    cpus = config.nodes * config.cpus + head_cpus(config, settings)
    memory = config.nodes * (config.memory_gb or 0) + head_gb(config, settings)
    gpus = f"{config.nodes * config.gpus} GPUs, " if config.gpus else ""
    request = f"# {job.name} asks for {config.nodes + 1} pods with {gpus}{cpus} CPUs and {memory} GB of memory"
    ends = f"; it ends after {' or '.join(job.limits)}" if job.limits else ""
    return f"{request}{ends}.\n"


def submit(job: LaunchJob, settings: Settings) -> str:
    text = render(job, settings)
    check_objects(_needed(settings), settings.namespace)
    kind = "rayjob" if job.command else "raycluster"
    return submit_manifest(text, kind, job.name, settings.namespace)


def _needed(settings: Settings) -> list[NeededObject]:
    objects = [
        ("claim", "claim", settings.claim),
        ("queue", "queue", settings.queue),
        ("queue_priority", "queue priority", settings.queue_priority),
        ("priority_class", "priority class", settings.priority_class),
        ("service_account", "service account", settings.service_account),
        ("secret", "secret", settings.secret),
        ("ledger_secret", "secret", settings.ledger_secret),
        ("redis.secret", "secret", settings.redis and settings.redis.secret),
        *(("image_pull_secrets", "secret", name) for name in settings.image_pull_secrets),
        *((f"secrets.{name}", "secret", place.split("/")[0]) for name, place in settings.secrets.items()),
    ]
    return [NeededObject(f"kuberay.{key}", kind, name) for key, kind, name in objects if name]


def _job(job: LaunchJob, cluster: PodJson) -> PodJson:
    """Returns the spec of a RayJob; a lost head is replaced once, and the same command resumes from the ledger."""
    return {
        "entrypoint": shlex.join(job.argv("python", "auto")),
        "entrypointResources": ON_HEAD,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 600,
        "backoffLimit": 1,
        "submissionMode": "K8sJobMode",
        "submitterConfig": {"backoffLimit": 0},
        "rayClusterSpec": cluster,
    }


def cluster_spec(job: LaunchJob, settings: Settings) -> PodJson:
    """Returns the spec of a RayCluster: a head that drives and does not train, and a group of nodes that train."""
    config = job.config
    group = "gpu" if config.gpus else "cpu"
    workers = {"cpu": str(config.cpus), "memory": f"{config.memory_gb}Gi"}
    if config.gpus:
        workers["nvidia.com/gpu"] = str(config.gpus)
    head = {"cpu": str(head_cpus(config, settings)), "memory": f"{head_gb(config, settings)}Gi"}
    start = {"resources": shlex.quote(RESOURCES), "disable-usage-stats": "true"}
    spec: PodJson = {
        "rayVersion": ray_version(),
        "authOptions": {"mode": "token"} | ({"secretName": settings.secret} if settings.secret else {}),
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {**start, "num-cpus": "0", "dashboard-host": "0.0.0.0"},
            "template": _pod(job.name, "head", head, settings, settings.head),
        },
        "workerGroupSpecs": [
            {
                "groupName": group,
                "replicas": config.nodes,
                "minReplicas": config.nodes,
                "maxReplicas": config.nodes,
                "rayStartParams": start,
                "template": _pod(job.name, "workers", workers, settings, settings.workers),
            }
        ],
    }
    if settings.redis:
        password = {"redisPassword": {"valueFrom": _secret(settings.redis.secret, "password")}}
        spec["gcsFaultToleranceOptions"] = {
            "redisAddress": settings.redis.address,
            **(password if settings.redis.secret else {}),
        }
    return spec


def _slots(config: ClusterConfig) -> int:
    return config.nodes * (config.gpus or config.cpus)


def head_gb(config: ClusterConfig, settings: Settings) -> int:
    return settings.head.memory_gb or min(MOST_GB, max(LEAST_GB, math.ceil(2 + _slots(config) * GROUP_GB / RAY_SHARE)))


def head_cpus(config: ClusterConfig, settings: Settings) -> int:
    return settings.head.cpus or min(MOST_CPUS, LEAST_CPUS + _slots(config) // SLOTS_A_CPU)


def _pod(name: str, role: str, resources: Mapping[str, str], settings: Settings, pods: Pods) -> PodJson:
    amounts = dict(resources) | ({"ephemeral-storage": f"{pods.ephemeral_gb}Gi"} if pods.ephemeral_gb else {})
    container: PodJson = {
        "name": CONTAINERS[role],
        "image": settings.image,
        "env": _environment(settings),
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "shared", "mountPath": settings.mount}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: PodJson = {
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": settings.claim}}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
    }
    if pods.shm_gb:
        container["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
        spec["volumes"].append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{pods.shm_gb}Gi"}})
    tolerations = [each.model_dump(exclude_none=True) for each in pods.tolerations]
    if "nvidia.com/gpu" in resources:
        tolerations.insert(0, {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    more = {
        "tolerations": tolerations,
        "nodeSelector": pods.node_selector,
        "imagePullSecrets": [{"name": secret} for secret in settings.image_pull_secrets],
        "serviceAccountName": settings.service_account,
        "priorityClassName": settings.priority_class,
    }
    spec |= {key: value for key, value in more.items() if value}
    return merge_pod({"metadata": {"labels": {JOB_LABEL: name}}, "spec": spec}, pods.pod)


def _environment(settings: Settings) -> list[PodJson]:
    """Returns the environment variables that hold secrets; KubeRay itself adds the token."""
    secrets = {"PGPASSWORD": f"{settings.ledger_secret}/password"} if settings.ledger_secret else {}
    places = {name: place.split("/") for name, place in (secrets | settings.secrets).items()}
    return [{"name": name, "valueFrom": _secret(*place)} for name, place in places.items()]


def _secret(name: str | None, key: str) -> PodJson:
    return {"secretKeyRef": {"name": name, "key": key}}
