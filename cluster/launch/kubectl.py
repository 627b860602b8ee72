"""Creates or replaces a RayJob or RayCluster through kubectl, and leaves other users' objects alone."""

import json

from cluster.launch.job import send
from cluster.runtime.options import login_name
from cse_train.fields import ConfigError

OWNER = "cse-search/owner"
"""Annotation with the name of the user who launched the object."""
ENDED_JOBS = ("Complete", "Failed", "ValidationFailed")
"""Values of KubeRay's JobDeploymentStatus at which nothing of the RayJob runs or will run."""
ADVICE = "install kubectl and choose a context"


def submit_manifest(text: str, kind: str, name: str, namespace: str) -> str:
    """Creates a RayJob or RayCluster, replaces a RayJob that has ended, and reports the state of one that runs.

    Raises ConfigError where another user has an object of this name, which is never changed.
    """
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
