"""A patch of a pod: merged as kubectl merges it, and refused where it would leave no job."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster.launch.config import load, settings_of
from cluster.launch.job import LaunchJob
from cluster.launch.kubernetes import CONTAINER_KEYS, METADATA_KEYS, SPEC_KEYS, PodJson, merge_pod
from cluster.launch.targets import kuberay
from tests.cluster.launch.test_launch import EXAMPLE, refused

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


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "pod: {}",
            "pod: {spec: {containers: null}}",
            "a pod without what it needs: kuberay.workers.pod takes the con",
        ),
        ("pod: {}", "pod: {spec: null}", "wrong type: kuberay.workers.pod.spec=None is a NoneType; give a mapping"),
        (
            "pod: {}",
            "pod: {spec: {volumes: null}}",
            "a pod without what it needs: kuberay.workers.pod takes the volume",
        ),
        (
            "pod: {}",
            "pod: {spec: {containers: [{name: ray-worker, image: null}]}}",
            "a pod without what it needs: kuberay.workers.pod takes the container ray-worker away",
        ),
        (
            "pod: {}",
            "pod: {spec: {containers: [{name: ray-worker, $patch: delete}]}}",
            "a directive: kuberay.workers.pod.spec.containers: $patch",
        ),
        ("pod: {}", "pod: {spec: {containers: [{image: x}]}}", "no name: kuberay.workers.pod.spec.containers; each"),
        ("pod: {}", "pod: {spec: {containers: {name: x}}}", "wrong type: kuberay.workers.pod.spec.containers={'name'"),
        (
            "pod: {}",
            "pod: {spec: {nodeSelectr: {a: b}}}",
            "unknown key: kuberay.workers.pod.spec.nodeSelectr={'a': 'b'}",
        ),
        (
            "pod: {}",
            "pod: {spec: {containers: [{name: ray-worker, imagePullPolice: x}]}}",
            "unknown key: kuberay.workers.pod.spec.containers.ray-worker.imagePullPolice=x; did you mean im",
        ),
        ("pod: {}", "pod: {sepc: {}}", "unknown key: kuberay.workers.pod.sepc={}; did you mean spec?"),
        ("shm_gb: null", "smh_gb: 1", "cluster.yaml: unknown key: kuberay.workers.smh_gb=1; did you mean kuberay.work"),
        (
            "tolerations: []",
            "tolerations: [{kee: a}]",
            "cluster.yaml: unknown key: kuberay.workers.tolerations.0.kee=a;",
        ),
        ("queue: null", "queue: My_Queue", "cluster.yaml: no name of a queue: kuberay.queue=My_Queue; give lower-case"),
        ("secrets: {}", "secrets: {A: b}", "cluster.yaml: no secret: kuberay.secrets.A=b; write VARIABLE: SECRET/KEY"),
    ],
)
def test_a_pod_that_could_not_run_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = EXAMPLE.read_text(encoding="utf8")
    assert text.count(f" {old} ") == 1
    Path("cluster.yaml").write_text(text.replace(f" {old} ", f" {new} "), encoding="utf8")
    (line,) = refused(capsys, "kuberay", "E7", "--dry-run")
    assert line.startswith(f"cse: {told}")


def test_the_head_grows_with_its_slots() -> None:
    config = load(EXAMPLE)
    settings = settings_of("kuberay", config)
    sizes = []
    for nodes in (1, 8, 64):
        cluster = config.model_copy(update={"nodes": nodes, "gpus": 8})
        sizes.append((kuberay.head_cpus(cluster, settings), kuberay.head_gb(cluster, settings)))
    assert sizes == [(2, 9), (6, 57), (16, 64)]
