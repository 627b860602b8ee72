"""Checks that Kubernetes objects which a job names exist, before it is made: its pods would wait for them for ever."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cluster.launch.job import CLIENT_TIMEOUT_SECONDS
from cse_train.fields import ConfigError

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
    """Raises ConfigError, one line each, for objects absent from the namespace, and for a claim that pods cannot share.

    Objects that this user may not look up, or for which kubectl does not answer in time, are not checked.
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
        yield f"no such {needed.kind}: {setting}{place}; {_list_names(needed.kind, namespace)}"
    elif needed.kind == "claim" and SHARED_MODE not in answer.stdout:
        advice = f"pods on several nodes share it: make one with {SHARED_MODE}"
        yield f"a claim of one node: {setting} is {answer.stdout.strip()}; {advice}"


def _list_names(kind: str, namespace: str) -> str:
    answer = _ask(kind, namespace)
    if answer is None or answer.returncode:
        return "make it, or correct the name"
    names = sorted(line.partition("/")[2] for line in answer.stdout.split())
    return f"there are: {', '.join(names)}" if names else "there is none"


def _ask(kind: str, namespace: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Runs `kubectl get` for names, or a claim's access modes; returns None without kubectl or without an answer.

    Objects themselves are never read, so that no secret's content is fetched.
    """
    form = "jsonpath={.spec.accessModes}" if kind == "claim" and words else "name"
    command = ["kubectl", "get", KUBE_KINDS[kind], *words, "--namespace", namespace, "--output", form]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
