"""`cse launch kuberay` again: a kubectl on PATH that keeps objects in a folder and writes down how it was called."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cluster.launch.config import load, settings_of
from cluster.launch.job import LaunchJob
from cluster.launch.kubernetes import CONTAINER_KEYS, KUBE_KINDS, METADATA_KEYS, SPEC_KEYS, PodJson, merge_pod
from cluster.launch.targets import kuberay
from cse.cli.app import main
from tests.cluster.launch.test_launch import EXAMPLE, refused
from tests.cluster.launch.test_targets import EVERY_KEY
from tests.commands import printed

KUBECTL = f"""#!{sys.executable}
import json, pathlib, sys
import yaml
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(words[:3]) + "\\n")
objects = json.loads((folder / "objects.json").read_text())
if words[0] == "get" and words[1] in objects:
    there = objects[words[1]]
    if there is None:
        sys.exit(f"error: the server doesn't have a resource type \\"{{words[1]}}\\"")
    if there == "forbidden":
        sys.exit("Error from server (Forbidden)")
    found = there if words[2] == "--namespace" else {{name: modes for name, modes in there.items() if name == words[2]}}
    for name, modes in found.items():
        print(modes if words[-1].startswith("jsonpath") else f"{{words[1]}}/{{name}}")
elif words[0] == "get":
    kept = folder / f"{{words[2]}}.json"
    print(kept.read_text() if kept.exists() else "", end="")
elif words[0] == "delete":
    (folder / f"{{words[2]}}.json").unlink()
else:
    made = yaml.safe_load(sys.stdin)
    kept = folder / f"{{made['metadata']['name']}}.json"
    if words[0] == "create" and kept.exists():
        sys.exit("Error from server (AlreadyExists)")
    kept.write_text(json.dumps(made))
    print(made["metadata"]["name"], words[0])
"""
OBJECTS: dict[str, dict[str, str] | str | None] = {
    "persistentvolumeclaims": {"cse-shared": '["ReadWriteMany"]', "old": '["ReadWriteOnce"]'},
    "localqueues.kueue.x-k8s.io": {"nlp": "", "vision": ""},
    "workloadpriorityclasses.kueue.x-k8s.io": {"low": ""},
    "priorityclasses.scheduling.k8s.io": {"batch": ""},
    "serviceaccounts": {"default": "", "trainer": ""},
    "secrets": {"ledger-password": "", "wandb": ""},
}
"""What the namespace of the fake has: kind -> name -> how a claim may be mounted."""
LAUNCH = ("launch", "kuberay", "E7", "--profile", "small", "--seeds", "2")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fake kubectl, which is also where the user stands."""
    (tmp_path / "kubectl").write_text(KUBECTL, encoding="utf8")
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "cluster.yaml").write_text(EXAMPLE.read_text(encoding="utf8"), encoding="utf8")
    (tmp_path / "objects.json").write_text(json.dumps(OBJECTS), encoding="utf8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOGNAME", "anna")
    return tmp_path


def launched(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    return printed(capsys, *LAUNCH, *more)


def calls(server: Path) -> list[str]:
    """The verbs for jobs and clusters since the last look."""
    words = [line.split() for line in (server / "calls").read_text().splitlines()]
    (server / "calls").unlink()
    return [verb for verb, kind, *_ in words if kind not in OBJECTS]


def stand(server: Path, status: str) -> Path:
    """The one object's path, after KubeRay set its status."""
    (kept,) = server.glob("cse-e7-*.json")
    made = json.loads(kept.read_text()) | {"status": {"jobDeploymentStatus": status}}
    kept.write_text(json.dumps(made), encoding="utf8")
    return kept


def test_the_first_launch_makes_a_rayjob_of_its_own_name(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = launched(capsys)
    assert calls(server) == ["get", "create"]
    made = json.loads(stand(server, "Running").read_text())
    name = made["metadata"]["name"]
    assert name.startswith("cse-e7-") and len(name) == len("cse-e7-3f2a")
    assert made["metadata"]["annotations"] == {"cse-search/owner": "anna"}
    assert f"kubectl logs --follow job/{name} --namespace default" in said
    launched(capsys, "--max-retries", "2")
    assert len(list(server.glob("cse-e7-*.json"))) == 2, "another option is another job"


@pytest.mark.parametrize("status", ["", "Running", "Initializing", "Suspended", "Retrying"])
def test_one_that_runs_is_reported(server: Path, capsys: pytest.CaptureFixture[str], status: str) -> None:
    launched(capsys)
    before = stand(server, status).read_text()
    calls(server)
    assert f"is there already: {status or 'New'}; nothing was changed" in launched(capsys)
    assert calls(server) == ["get"] and stand(server, status).read_text() == before


@pytest.mark.parametrize("status", ["Complete", "Failed", "ValidationFailed"])
def test_one_that_ended_is_replaced(server: Path, capsys: pytest.CaptureFixture[str], status: str) -> None:
    launched(capsys)
    kept = stand(server, status)
    calls(server)
    assert f"the one before ended: {status}" in launched(capsys)
    assert calls(server) == ["get", "delete", "create"] and "status" not in json.loads(kept.read_text())


@pytest.mark.parametrize("status", ["Running", "Complete"])
def test_another_user_s_is_never_touched(
    server: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    launched(capsys)
    before = stand(server, status).read_text()
    monkeypatch.setenv("LOGNAME", "ben")
    calls(server)
    (line,) = refused(capsys, *LAUNCH[1:])
    assert line.startswith("cse: another user's rayjob: name=cse-e7-") and "of anna; give a name" in line
    assert calls(server) == ["get"] and stand(server, status).read_text() == before
    assert "bens create" in launched(capsys, "--name", "bens")


def test_a_cluster_that_stays_is_changed_by_its_owner_alone(
    server: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["launch", "kuberay"]) == 0 and main(["launch", "kuberay"]) == 0
    assert calls(server) == ["get", "create", "get", "apply"]
    monkeypatch.setenv("LOGNAME", "ben")
    (line,) = refused(capsys, "kuberay")
    assert line.startswith("cse: another user's raycluster: name=cse of anna")


@pytest.mark.parametrize(
    ("key", "old", "new", "kind", "there"),
    [
        ("queue", "null ", "nlq ", "queue", " in namespace default; there are: nlp, vision"),
        ("queue_priority", "null", "hi", "queue priority", "; there are: low"),
        ("priority_class", "null", "hi", "priority class", "; there are: batch"),
        ("service_account", "null", "me", "service account", " in namespace default; there are: default, trainer"),
        ("claim", "cse-shared", "shared", "claim", " in namespace default; there are: cse-shared, old"),
    ],
)
def test_what_the_namespace_lacks_is_named_with_what_it_has(
    server: Path, capsys: pytest.CaptureFixture[str], key: str, old: str, new: str, kind: str, there: str
) -> None:
    line = refused_with(f"{key}: {old}", f"{key}: {new}", capsys)
    assert line == f"cse: no such {kind}: kuberay.{key}={new.strip()}{there}"
    assert calls(server) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "secrets: {}",
            "secrets: {KEY: wandv/key}",
            "no such secret: kuberay.secrets.KEY=wandv in namespace default; ",
        ),
        ("claim: cse-shared", "claim: old", 'a claim of one node: kuberay.claim=old is ["ReadWriteOnce"]; pods on '),
    ],
)
def test_an_absent_secret_and_a_claim_of_one_node_are_named(
    server: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str
) -> None:
    line = refused_with(old, new, capsys)
    assert line.startswith(f"cse: {told}")
    assert line.endswith(("there are: ledger-password, wandb", "several nodes share it: make one with ReadWriteMany"))
    assert calls(server) == []


def refused_with(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> str:
    text = EXAMPLE.read_text(encoding="utf8")
    assert text.count(f" {old}") == 1
    Path("cluster.yaml").write_text(text.replace(f" {old}", f" {new}"), encoding="utf8")
    (line,) = refused(capsys, *LAUNCH[1:])
    return line


def test_every_object_that_the_file_names_is_looked_up() -> None:
    made = kuberay.Settings.model_validate(EVERY_KEY)
    needed = {(each.kind, each.name) for each in kuberay._needed(made)}
    assert {kind for kind, _ in needed} == set(KUBE_KINDS)
    assert {name for kind, name in needed if kind == "secret"} == {"ledger", "wandb", "registry", "redis"}


@pytest.mark.parametrize("answer", ["forbidden", None])
def test_who_may_not_look_launches_and_who_has_no_kueue_is_told(
    server: Path, capsys: pytest.CaptureFixture[str], answer: str | None
) -> None:
    (server / "objects.json").write_text(json.dumps(dict.fromkeys(OBJECTS, answer)), encoding="utf8")
    Path("cluster.yaml").write_text(EXAMPLE.read_text().replace(" queue: null", " queue: nlp"), encoding="utf8")
    if answer == "forbidden":
        assert "create" in launched(capsys)
    else:
        (line,) = refused(capsys, *LAUNCH[1:])
        assert line == "cse: no Kueue: kuberay.queue=nlp; the cluster has none: leave it out"


def test_a_dry_run_says_what_is_asked_of_the_cluster(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = launched(capsys, "--budget", "2 h, 50 runs", "--dry-run")
    first, rest = said.split("\n", 1)
    asked = "asks for 3 pods with 2 GPUs, 18 CPUs and 72 GB of memory; it ends after 120 min or 50 runs."
    assert first.startswith("# cse-e7-") and first.endswith(asked) and yaml.safe_load(rest)["kind"] == "RayJob"
    assert not (server / "calls").exists() and kuberay.STAYS


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
    ("patch", "told"),
    [
        ("spec: {containers: null}", "a pod without what it needs: kuberay.workers.pod takes the container ray-worker"),
        ("spec: null", "wrong type: kuberay.workers.pod.spec=None is a NoneType; give a mapping"),
        ("spec: {volumes: null}", "a pod without what it needs: kuberay.workers.pod takes the volume shared away"),
        ("spec: {containers: [{name: ray-worker, image: null}]}", "a pod without what it needs: kuberay.workers.pod"),
        (
            "spec: {containers: [{name: ray-worker, $patch: delete}]}",
            "a directive: kuberay.workers.pod.spec.containers",
        ),
        ("spec: {containers: [{image: x}]}", "no name: kuberay.workers.pod.spec.containers; each"),
        ("spec: {containers: {name: x}}", "wrong type: kuberay.workers.pod.spec.containers={'name'"),
        ("spec: {nodeSelectr: {a: b}}", "unknown key: kuberay.workers.pod.spec.nodeSelectr={'a': 'b'}"),
        ("spec: {containers: [{name: ray-worker, imagePullPolice: x}]}", "unknown key: kuberay.workers.pod.spec.cont"),
        ("sepc: {}", "unknown key: kuberay.workers.pod.sepc={}; did you mean spec?"),
    ],
)
def test_a_pod_that_could_not_run_is_one_line(
    server: Path, capsys: pytest.CaptureFixture[str], patch: str, told: str
) -> None:
    assert refused_with("pod: {} ", f"pod: {{{patch}}} ", capsys).startswith(f"cse: {told}")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("shm_gb: null", "smh_gb: 1", "unknown key: kuberay.workers.smh_gb=1; did you mean kuberay.workers.shm_gb?"),
        ("tolerations: []", "tolerations: [{kee: a}]", "unknown key: kuberay.workers.tolerations.0.kee=a;"),
        ("queue: null", "queue: My_Queue", "no name of a queue: kuberay.queue=My_Queue; give lower-case"),
        ("secrets: {}", "secrets: {A: b}", "no secret: kuberay.secrets.A=b; write VARIABLE: SECRET/KEY"),
    ],
)
def test_a_wrong_key_of_kuberay_is_one_line(
    server: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str
) -> None:
    assert refused_with(f"{old} ", f"{new} ", capsys).startswith(f"cse: cluster.yaml: {told}")


def test_the_head_grows_with_its_slots() -> None:
    config = load(EXAMPLE)
    settings = settings_of("kuberay", config)
    sizes = []
    for nodes in (1, 8, 64):
        cluster = config.model_copy(update={"nodes": nodes, "gpus": 8})
        sizes.append((kuberay.head_cpus(cluster, settings), kuberay.head_gb(cluster, settings)))
    assert sizes == [(2, 9), (6, 57), (16, 64)]
