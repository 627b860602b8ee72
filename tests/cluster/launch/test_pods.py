"""A patch of a pod: merged as kubectl merges it, and refused where it would leave no job."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster.launch.config import load, settings_of
from cluster.launch.job import LaunchJob
from cluster.launch.pods import CONTAINER_KEYS, METADATA_KEYS, SPEC_KEYS, PodJson, merge_pod
from cluster.launch.targets import kuberay
from tests.cluster.launch.test_launch import EXAMPLE

PATCH: PodJson = {
    "metadata": {"labels": {"env": "test"}},
    "spec": {
        "containers": [
            {
                "name": "ray-worker",
                "env": [{"name": "PGPASSWORD", "value": "x"}, {"name": "NCCL_DEBUG", "value": "INFO"}],
                "resources": {"limits": {"rdma/ib": "1"}},
                "volumeMounts": [{"name": "fast", "mountPath": "/scratch"}],
                "imagePullPolicy": "Always",
            },
            {"name": "log", "image": "fluent-bit"},
        ],
        "volumes": [{"name": "fast", "hostPath": {"path": "/nvme"}}],
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "hostNetwork": True,
        "securityContext": {"fsGroup": None},
    },
}


@pytest.fixture
def pod() -> PodJson:
    """Of a worker of the example."""
    config = load(EXAMPLE)
    spec = kuberay.cluster_spec(LaunchJob(config), settings_of("kuberay", config))
    template: PodJson = spec["workerGroupSpecs"][0]["template"]
    return template


def by_name(part: object) -> object:
    """Lists of named entries in one order."""
    if isinstance(part, dict):
        return {key: by_name(value) for key, value in part.items()}
    return (
        sorted(map(by_name, part), key=lambda entry: json.dumps(entry, sort_keys=True))
        if isinstance(part, list)
        else part
    )


def test_a_patch_is_merged_as_kubectl_merges_it(pod: PodJson, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl")
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod"} | pod), encoding="utf8")
    words = ["kubectl", "patch", "--local", "--filename", "pod.json", "--type", "strategic", "--output", "json"]
    done = subprocess.run([*words, "--patch", json.dumps(PATCH)], cwd=tmp_path, capture_output=True, text=True)
    there = json.loads(done.stdout)
    merged = merge_pod(pod, PATCH)
    assert by_name({key: there[key] for key in ("metadata", "spec")}) == by_name(merged)
    assert [container["name"] for container in merged["spec"]["containers"]] == ["ray-worker", "log"]
    assert pod["spec"]["containers"][0]["env"] != merged["spec"]["containers"][0]["env"]


def test_the_fields_are_those_of_the_custom_resource(data_dir: Path) -> None:
    crd = yaml.load((data_dir / "kuberay_rayjob_crd.yaml").read_text(encoding="utf8"), yaml.CSafeLoader)
    (version,) = (each for each in crd["spec"]["versions"] if each["name"] == "v1")
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rayClusterSpec"]["properties"]
    template = spec["headGroupSpec"]["properties"]["template"]["properties"]
    fields = template["spec"]["properties"]
    assert set(template["metadata"]["properties"]) > METADATA_KEYS
    assert set(fields) - SPEC_KEYS == {"ephemeralContainers", "schedulingGroup"} and set(fields) > SPEC_KEYS
    assert set(fields["containers"]["items"]["properties"]) == CONTAINER_KEYS
