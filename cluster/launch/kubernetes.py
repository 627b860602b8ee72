"""Kubernetes objects: makes them through kubectl, whose API server checks them, and patches pods."""

import json
from typing import Any

from cluster.launch.job import send
from cluster.runtime.options import login_name
from cse_train.fields import ConfigError

OWNER = "cse-search/owner"
"""Annotation with the name of the user who launched the object."""
ENDED_JOBS = ("Complete", "Failed", "ValidationFailed")
"""Values of KubeRay's JobDeploymentStatus at which nothing of the RayJob runs or will run."""
ADVICE = "install kubectl and choose a context"


def submit_manifest(text: str, kind: str, name: str, namespace: str) -> str:
    """Creates an object, or replaces a RayJob that has ended; another user's object is refused (ConfigError)."""
    place = ["--namespace", namespace]
    answer = send("", ["kubectl", "get", kind, name, *place, "--ignore-not-found", "--output", "json"], ADVICE)
    if not answer:
        return _say(send(text, ["kubectl", "create", "--save-config", "--filename", "-"], ADVICE), kind, name, place)
    existing = json.loads(answer)
    owner = existing["metadata"].get("annotations", {}).get(OWNER)
    if owner != login_name():
        owner_words = f"of {owner}" if owner else "that cse launch did not make"
        raise ConfigError([f"another user's {kind}: name={name} {owner_words}; give a name of your own, --name"])
    if kind == "raycluster":
        return _say(send(text, ["kubectl", "apply", "--filename", "-"], ADVICE), kind, name, place)
    state = existing.get("status", {}).get("jobDeploymentStatus") or "New"
    if state not in ENDED_JOBS and "deletionTimestamp" not in existing["metadata"]:
        return _say(f"{name} is there already: {state}; nothing was changed", kind, name, place)
    # The ledger has what the ended job trained; the same command goes on from there.
    send("", ["kubectl", "delete", kind, name, *place, "--wait"], ADVICE)
    creation = send(text, ["kubectl", "create", "--save-config", "--filename", "-"], ADVICE)
    return _say(f"{creation}; the one before ended: {state}", kind, name, place)


def _say(line: str, kind: str, name: str, place: list[str]) -> str:
    option = " ".join(place)
    if kind == "raycluster":
        return f"{line}; kubectl get raycluster {name} {option}"
    return f"{line}; its log: kubectl logs --follow job/{name} {option}; its end: kubectl delete rayjob {name} {option}"


PodJson = dict[str, Any]
"""A part of a Kubernetes object as JSON."""
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
}
"""Name of a list -> key by which Kubernetes' API merges its entries; every other list is replaced whole."""


def merge_pod(base: PodJson, patch: PodJson) -> PodJson:
    """Merges `patch` into `base`: mappings key by key, lists by the names of their entries; null removes a key."""
    merged = dict(base)
    for key, value in patch.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_pod(before if isinstance(before, dict) else {}, value)
        elif key in MERGE_KEYS and isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            # The entries of `before` stay first: KubeRay starts Ray in a pod's first container.
            name = MERGE_KEYS[key]
            entries = {entry.get(name): entry for entry in before or []}
            for entry in value:
                entries[entry.get(name)] = merge_pod(entries.get(entry.get(name), {}), entry)
            merged[key] = list(entries.values())
        else:
            merged[key] = value
    return merged
