"""What a job needs of its namespace, looked up before it is made: without one of them its pods would wait for ever."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cluster.launch.job import CLIENT_LIMIT_S
from cse_train.fields import ConfigError

KUBE_KINDS = {
    "claim": "persistentvolumeclaims",
    "queue": "localqueues.kueue.x-k8s.io",
    "queue priority": "workloadpriorityclasses.kueue.x-k8s.io",
    "priority class": "priorityclasses.scheduling.k8s.io",
    "service account": "serviceaccounts",
    "secret": "secrets",
}
"""What a person calls it -> what kubectl does."""
OF_KUEUE = ("queue", "queue priority")
OF_NO_NAMESPACE = ("queue priority", "priority class")
SHARED_MODE = "ReadWriteMany"


@dataclass(frozen=True)
class NeededObject:
    """An object that `key` of cluster.yaml names; `kind` is one of KUBE_KINDS."""

    key: str
    kind: str
    name: str


def check_objects(needed: Sequence[NeededObject], namespace: str) -> None:
    """ConfigError, a line for each, for what is not in the namespace, and for a claim that pods cannot share.

    What this user may not look up, or kubectl does not answer in time, is left to the cluster.
    """
    lines = [line for each in needed for line in _problems(each, namespace)]
    if lines:
        raise ConfigError(lines)


def _problems(needed: NeededObject, namespace: str) -> Iterator[str]:
    given = f"{needed.key}={needed.name}"
    done = _ask(needed.kind, namespace, needed.name, "--ignore-not-found")
    if done is None:
        return
    if done.returncode:
        if needed.kind in OF_KUEUE and "the server doesn't have a resource type" in done.stderr:
            yield f"no Kueue: {given}; the cluster has none: leave it out"
        return
    if not done.stdout.strip():
        where = "" if needed.kind in OF_NO_NAMESPACE else f" in namespace {namespace}"
        yield f"no such {needed.kind}: {given}{where}; {_list_names(needed.kind, namespace)}"
    elif needed.kind == "claim" and SHARED_MODE not in done.stdout:
        advice = f"pods on several nodes share it: make one with {SHARED_MODE}"
        yield f"a claim of one node: {given} is {done.stdout.strip()}; {advice}"


def _list_names(kind: str, namespace: str) -> str:
    done = _ask(kind, namespace)
    if done is None or done.returncode:
        return "make it, or correct the name"
    names = sorted(line.partition("/")[2] for line in done.stdout.split())
    return f"there are: {', '.join(names)}" if names else "there is none"


def _ask(kind: str, namespace: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    """`kubectl get`: names, of one claim how it may be mounted; None where there is no kubectl, or no answer.

    Never the objects themselves: of secrets nobody here needs the content.
    """
    form = "jsonpath={.spec.accessModes}" if kind == "claim" and words else "name"
    command = ["kubectl", "get", KUBE_KINDS[kind], *words, "--namespace", namespace, "--output", form]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
