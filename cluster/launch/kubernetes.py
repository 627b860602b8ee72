"""Kubernetes objects: makes them through kubectl, checks that those which a job names exist, and patches pods."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.launch.job import CLIENT_TIMEOUT_SECONDS, send
from cluster.runtime.options import login_name
from cse_train.fields import ConfigError, nearest

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


KUBE_KINDS = {
    "claim": "persistentvolumeclaims",
    "queue": "localqueues.kueue.x-k8s.io",
    "queue priority": "workloadpriorityclasses.kueue.x-k8s.io",
    "priority class": "priorityclasses.scheduling.k8s.io",
    "service account": "serviceaccounts",
    "secret": "secrets",
}
"""Kind of object as users call it -> resource name for kubectl."""
KUEUE_KINDS = ("queue", "queue priority")
CLUSTER_WIDE_KINDS = ("queue priority", "priority class")
SHARED_MODE = "ReadWriteMany"


@dataclass(frozen=True)
class NeededObject:
    """A Kubernetes object that `key` of cluster.yaml names; `kind` is a key of KUBE_KINDS."""

    key: str
    kind: str
    name: str


def check_objects(needed: Sequence[NeededObject], namespace: str) -> None:
    """Raises ConfigError for absent objects, for which pods would wait for ever, and for claims of one node.

    What this user may not look up, or kubectl does not answer in time, is not checked.
    """
    lines = [line for each in needed for line in _problems(each, namespace)]
    if lines:
        raise ConfigError(lines)


def _problems(needed: NeededObject, namespace: str) -> Iterator[str]:
    setting = f"{needed.key}={needed.name}"
    answer = _ask(needed.kind, namespace, needed.name, "--ignore-not-found")
    if answer is None:
        return
    if answer.returncode:
        if needed.kind in KUEUE_KINDS and "the server doesn't have a resource type" in answer.stderr:
            yield f"no Kueue: {setting}; the cluster has none: leave it out"
        return
    if not answer.stdout.strip():
        place = "" if needed.kind in CLUSTER_WIDE_KINDS else f" in namespace {namespace}"
        every, advice = _ask(needed.kind, namespace), "make it, or correct the name"
        if every is not None and not every.returncode:
            names = sorted(line.partition("/")[2] for line in every.stdout.split())
            advice = f"there are: {', '.join(names)}" if names else "there is none"
        yield f"no such {needed.kind}: {setting}{place}; {advice}"
    elif needed.kind == "claim" and SHARED_MODE not in answer.stdout:
        advice = f"pods on several nodes share it: make one with {SHARED_MODE}"
        yield f"a claim of one node: {setting} is {answer.stdout.strip()}; {advice}"


def _ask(kind: str, namespace: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Runs `kubectl get` for names or access modes, so that no secret's content is read; None without an answer."""
    form = "jsonpath={.spec.accessModes}" if kind == "claim" and words else "name"
    command = ["kubectl", "get", KUBE_KINDS[kind], *words, "--namespace", namespace, "--output", form]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None


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
            # The entries of `before` stay first: KubeRay starts Ray in a pod's first container.
            name = MERGE_KEYS[key]
            entries = {entry.get(name): entry for entry in before or []}
            for entry in value:
                entries[entry.get(name)] = merge_pod(entries.get(entry.get(name), {}), entry)
            merged[key] = list(entries.values())
        else:
            merged[key] = value
    return merged


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
