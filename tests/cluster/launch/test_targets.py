"""Every rendered file against the validator of what reads it."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cluster.launch.config import ClusterConfig, load, settings_of
from cluster.launch.job import RESOURCES, LaunchJob, ray_version
from cluster.launch.targets import kuberay, ray_job, slurm
from cluster.monitor import grafana
from cluster.monitor.metrics import METRICS, RAY_GPU_MEMORY
from cluster.runtime.code_version import OUR_PACKAGES, package_folder

REPO = Path(__file__).resolve().parents[3]
DEPLOY = REPO / "cluster" / "launch"
COMMAND = ("run", "E7", "--set", "train.corpus=a b")


@pytest.fixture(scope="module")
def config() -> ClusterConfig:
    return load(DEPLOY / "cluster.yaml")


def closed(schema: Any) -> Any:
    """The schema with fields that it does not name forbidden, as a server with strict validation has it."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    return found


CRDS = sorted(Path(os.environ.get("KUBERAY_CRDS", "/nowhere")).glob("*.yaml"))
"""RayJob definitions of further releases of KubeRay, where a folder of them is given."""


@pytest.fixture(scope="module", params=["", *CRDS], ids=lambda path: Path(path).stem or "shared")
def rayjob(data_dir: Path, request: pytest.FixtureRequest) -> jsonschema.Draft202012Validator:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with Path(request.param or data_dir / "kuberay_rayjob_crd.yaml").open(encoding="utf8") as stream:
        crd = yaml.load(stream, loader)
    (version,) = (one for one in crd["spec"]["versions"] if one["name"] == "v1")
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def test_the_rayjob_fits_the_custom_resource(config: ClusterConfig, rayjob: jsonschema.Draft202012Validator) -> None:
    made = yaml.safe_load(kuberay.render(LaunchJob(config, COMMAND), settings_of("kuberay", config)))
    rayjob.validate(made)
    assert made["spec"]["rayClusterSpec"]["rayVersion"] == ray_version()
    assert made["spec"]["entrypoint"].endswith("run E7 --set 'train.corpus=a b' --address auto")
    made["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["contaners"] = []
    assert not rayjob.is_valid(made)


EVERY_KEY: Any = {
    "image": "cse",
    "claim": "shared",
    "ledger_secret": "ledger",
    "secrets": {"WANDB_API_KEY": "wandb/key"},
    "image_pull_secrets": ["registry"],
    "service_account": "trainer",
    "priority_class": "batch",
    "queue": "nlp",
    "queue_priority": "low",
    "suspend": True,
    "redis": {"address": "redis:6379", "secret": "redis"},
    "head": {"cpus": 4, "memory_gb": 12, "node_selector": {"pool": "cpu"}, "pod": {"spec": {"hostNetwork": True}}},
    "workers": {
        "node_selector": {"pool": "gpu"},
        "tolerations": [{"key": "team", "value": "nlp", "effect": "NoSchedule"}],
        "shm_gb": 4,
        "ephemeral_gb": 50,
        "pod": {"spec": {"containers": [{"name": "ray-worker", "imagePullPolicy": "Always"}]}},
    },
}


def test_every_key_of_kuberay_stands_in_the_manifest(
    config: ClusterConfig, rayjob: jsonschema.Draft202012Validator
) -> None:
    settings = kuberay.Settings.model_validate(EVERY_KEY)
    made = yaml.safe_load(kuberay.render(LaunchJob(config, COMMAND), settings))
    rayjob.validate(made)
    assert set(kuberay.Settings.model_fields) - set(EVERY_KEY) == {"mount", "secret", "namespace"}
    labels, spec = made["metadata"]["labels"], made["spec"]["rayClusterSpec"]
    assert labels["kueue.x-k8s.io/queue-name"] == "nlp" and labels["kueue.x-k8s.io/priority-class"] == "low"
    assert made["spec"]["suspend"] is True
    secret = {"secretKeyRef": {"name": "redis", "key": "password"}}
    ft = {"redisAddress": "redis:6379", "redisPassword": {"valueFrom": secret}}
    assert spec["gcsFaultToleranceOptions"] == ft
    head, worker = (group["template"]["spec"] for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]))
    for pod in (head, worker):
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["serviceAccountName"] == "trainer" and pod["priorityClassName"] == "batch"
        named = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in pod["containers"][0]["env"]}
        assert named == {
            "PGPASSWORD": {"name": "ledger", "key": "password"},
            "WANDB_API_KEY": {"name": "wandb", "key": "key"},
        }
    assert head["nodeSelector"] == {"pool": "cpu"} and head["hostNetwork"] is True
    assert head["containers"][0]["resources"]["limits"] == {"cpu": "4", "memory": "12Gi"}
    assert worker["nodeSelector"] == {"pool": "gpu"} and [each["key"] for each in worker["tolerations"]] == [
        "nvidia.com/gpu",
        "team",
    ]
    (container,) = worker["containers"]
    assert container["imagePullPolicy"] == "Always" and container["image"] == "cse"
    assert container["resources"]["requests"]["ephemeral-storage"] == "50Gi"
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}} in worker["volumes"]


def test_a_cluster_without_a_sweep_is_a_raycluster(
    config: ClusterConfig, rayjob: jsonschema.Draft202012Validator
) -> None:
    made = yaml.safe_load(kuberay.render(LaunchJob(config), settings_of("kuberay", config)))
    assert made["kind"] == "RayCluster"
    rayjob.validate({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {"rayClusterSpec": made["spec"]}})


def test_kueue_would_take_the_rayjob(config: ClusterConfig) -> None:
    """What the webhook of Kueue 0.19 asks of a RayJob with a queue."""
    settings = settings_of("kuberay", config).model_copy(update={"queue": "nlp"})
    made = yaml.safe_load(kuberay.render(LaunchJob(config, COMMAND), settings))
    spec = made["spec"]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "nlp"
    assert spec["shutdownAfterJobFinishes"] is True and "clusterSelector" not in spec
    assert "enableInTreeAutoscaling" not in spec["rayClusterSpec"]
    assert "head" not in {group["groupName"] for group in spec["rayClusterSpec"]["workerGroupSpecs"]}


def test_pods_have_token_volume_slots_and_cards(config: ClusterConfig) -> None:
    settings = settings_of("kuberay", config)
    spec = kuberay.cluster_spec(LaunchJob(config), settings)
    assert spec["authOptions"] == {"mode": "token"}, "KubeRay 1.5 has no secretName"
    own = kuberay.cluster_spec(LaunchJob(config), settings.model_copy(update={"secret": "ray-token"}))
    assert own["authOptions"] == {"mode": "token", "secretName": "ray-token"}
    (group,) = spec["workerGroupSpecs"]
    for template in (spec["headGroupSpec"]["template"], group["template"]):
        (container,) = template["spec"]["containers"]
        assert [each["name"] for each in container["env"]] == ["PGPASSWORD"], "KubeRay adds the token"
        assert container["volumeMounts"] == [{"name": "shared", "mountPath": "/shared"}]
    assert group["groupName"] == "gpu" and group["replicas"] == 2
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert json.loads(group["rayStartParams"]["resources"].strip("'")) == {"trial_slot": 1024}


def test_rays_own_schema_takes_the_file_of_ray_up_that_the_docs_show() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    page = (REPO / "docs" / "cluster.md").read_text(encoding="utf8")
    (block,) = re.findall(r"```text\n(cluster_name: .*?)```", page, re.DOTALL)
    made = yaml.safe_load(block)
    prepared = prepare_config(made)
    validate_config(prepared)
    commands = made["head_start_ray_commands"][1:] + made["worker_start_ray_commands"][1:]
    assert all(
        f"--resources='{RESOURCES.replace(' ', '')}'" in one and "RAY_AUTH_MODE=token" in one for one in commands
    )
    with pytest.raises(Exception, match="unknwon"):
        validate_config(prepared | {"unknwon": 1})


def test_shellcheck_finds_nothing_in_the_batch_script(config: ClusterConfig, tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck: apt-get install shellcheck")
    script = tmp_path / "job.sbatch"
    script.write_text(slurm.render(LaunchJob(config, COMMAND), settings_of("slurm", config)), encoding="utf8")
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_a_batch_job_has_a_token_of_its_own_and_says_it_to_nobody(config: ClusterConfig) -> None:
    text = slurm.render(LaunchJob(config, COMMAND), settings_of("slurm", config))
    assert "/dev/urandom" in text and "RAY_AUTH_MODE=token" in text
    assert not re.search(r"(echo|printf).*RAY_AUTH_TOKEN", text)
    assert "#SBATCH --signal=B:USR1@120" in text and "trap clean_up EXIT" in text
    assert "'train.corpus=a b'" in text


def test_promtool_takes_the_scrape_file() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", "check", "config", str(REPO / "cluster" / "monitor" / "prometheus.yml")],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


def test_every_panel_asks_for_metrics_that_are_exported() -> None:
    known = {one.exported for one in METRICS} | set(RAY_GPU_MEMORY)
    asked = set()
    for panel in grafana.dashboard()["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"ray_\w+", target["expr"]))
            assert named and named <= known, target["expr"]
            asked |= named
    assert asked == known


def test_the_published_dashboard_is_the_generated_one() -> None:
    assert grafana.GRAFANA_FILE.read_text(encoding="utf8") == grafana.text(), "run python -m cluster.monitor.grafana"


def test_all_of_the_code_travels_to_a_ray_cluster(tmp_path: Path) -> None:
    """A folder of the packages that is called `results` stayed at home, and no job could start."""
    from ray._private.runtime_env.packaging import create_package

    with ray_job.code_folder() as code:
        sent = {path.relative_to(code) for path in code.rglob("*.*") if "__pycache__" not in path.parts}
        ours = {
            path.relative_to(package_folder(package).parent)
            for package in OUR_PACKAGES
            for path in package_folder(package).rglob("*.*")
            if "__pycache__" not in path.parts and not path.name.startswith(".")
        }
        assert sent == ours and Path("cse/cli/results/best.py") in sent
        # The archive is made by the function that Ray's job client calls.
        create_package(str(code), tmp_path / "code.zip", include_gitignore=True)
        with zipfile.ZipFile(tmp_path / "code.zip") as archive:
            assert {Path(name) for name in archive.namelist() if not name.endswith("/")} >= ours
        command = [sys.executable, "-m", "cse", "plan", "E7", "--profile", "tiny"]
        told = subprocess.run(
            command, cwd=code, env=os.environ | {"PYTHONPATH": str(code)}, capture_output=True, text=True
        )
    assert "8 cells" in told.stdout, told.stderr
