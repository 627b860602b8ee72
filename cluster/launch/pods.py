"""Merges a user's change of a pod from `cluster.yaml` as `kubectl patch --type strategic` does, and checks it."""

from collections.abc import Iterable, Iterator
from typing import Any

from cse_train.fields import nearest

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
POD_KEYS = frozenset(("metadata", "spec"))
METADATA_KEYS = frozenset(("annotations", "labels"))
SPEC_KEYS = frozenset(
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks "
    "hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers "
    "nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims "
    "resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount "
    "serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations "
    "topologySpreadConstraints volumes".split()
)
CONTAINER_KEYS = frozenset(
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy "
    "resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices volumeMounts workingDir".split()
)
"""Fields of containers in Kubernetes 1.34; the API server checks what lies below them."""


def merge_pod(base: PodJson, patch: PodJson) -> PodJson:
    """Merges `patch` into `base`: mappings key by key, lists by the names of their entries; null removes a key."""
    merged = dict(base)
    for key, value in patch.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_pod(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            merged[key] = _merge_entries(before or [], value, MERGE_KEYS[key])
        else:
            merged[key] = value
    return merged


def _merge_entries(before: list[PodJson], patch: list[PodJson], name: str) -> list[PodJson]:
    """Merges two lists of named entries, those of `before` first: KubeRay starts Ray in a pod's first container."""
    entries = {entry.get(name): entry for entry in before}
    for entry in patch:
        entries[entry.get(name)] = merge_pod(entries.get(entry.get(name), {}), entry)
    return list(entries.values())


def patch_problems(name: str, patch: PodJson) -> list[str]:
    """Returns one line for every unknown key, every directive, and every merged list whose entries lack their name."""
    lines = [*_unknown(name, patch, POD_KEYS)]
    for key, valid in (("metadata", METADATA_KEYS), ("spec", SPEC_KEYS)):
        part = patch.get(key, {})
        if key in patch and not isinstance(part, dict):
            lines.append(f"wrong type: {name}.{key}={part!r} is a {type(part).__name__}; give a mapping")
        elif isinstance(part, dict):
            lines += _unknown(f"{name}.{key}", part, valid)
    if lines:
        return lines
    spec = patch.get("spec", {})
    lines += _wrong_entries(f"{name}.spec", spec)
    for key in ("containers", "initContainers"):
        for entry in [] if lines else spec.get(key) or []:
            place = f"{name}.spec.{key}.{entry['name']}"
            lines += [*_unknown(place, entry, CONTAINER_KEYS), *_wrong_entries(place, entry)]
    return lines


def _unknown(name: str, part: PodJson, valid: Iterable[str]) -> Iterator[str]:
    for key, value in part.items():
        if str(key).startswith("$"):
            yield f"a directive: {name}.{key}={value}; null takes a key away, and nothing takes an entry of a list"
        elif key not in valid:
            yield f"unknown key: {name}.{key}={value}; {nearest(str(key), valid)}"


def _wrong_entries(name: str, part: PodJson) -> Iterator[str]:
    """Yields the problems of lists that are merged by name, in a pod's spec or a container."""
    for key in part.keys() & MERGE_KEYS.keys():
        entries, entry_name = part[key], MERGE_KEYS[key]
        if entries is None:
            continue
        if not isinstance(entries, list):
            yield f"wrong type: {name}.{key}={entries!r} is a {type(entries).__name__}; give a list"
        elif any(not isinstance(entry, dict) or entry.get(entry_name) is None for entry in entries):
            yield f"no {entry_name}: {name}.{key}; each entry of the list has one, by which it is merged"
        elif any("$patch" in entry for entry in entries):
            yield f"a directive: {name}.{key}: $patch; null takes a key away, and nothing takes an entry of a list"
