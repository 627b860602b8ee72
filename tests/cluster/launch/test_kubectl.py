"""`cse launch kuberay` again: a kubectl on PATH that keeps objects in a folder and writes down how it was called."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from cluster.launch.targets import kuberay
from cse.cli.app import main
from tests.cluster.launch.test_launch import EXAMPLE, refused

KUBECTL = f"""#!{sys.executable}
import json, pathlib, sys
import yaml
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(words[:3]) + "\\n")
if words[1].startswith("localqueues"):
    print((folder / "queues").read_text())
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
LAUNCH = ("launch", "kuberay", "E7", "--profile", "small", "--seeds", "2")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fake kubectl, which is also where the user stands."""
    (tmp_path / "kubectl").write_text(KUBECTL, encoding="utf8")
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "cluster.yaml").write_text(EXAMPLE.read_text(encoding="utf8"), encoding="utf8")
    (tmp_path / "queues").write_text(json.dumps({"items": [{"metadata": {"name": "nlp"}}]}), encoding="utf8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOGNAME", "anna")
    return tmp_path


def launched(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main([*LAUNCH, *more]) == 0
    return capsys.readouterr().out


def calls(server: Path) -> list[str]:
    """The verbs since the last look."""
    lines = (server / "calls").read_text().splitlines()
    (server / "calls").unlink()
    return [line.split()[0] for line in lines]


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


def test_a_queue_that_is_not_there_is_named_with_those_that_are(
    server: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLE.read_text(encoding="utf8")
    Path("cluster.yaml").write_text(text.replace("queue: null  ", "queue: nlq"), encoding="utf8")
    (line,) = refused(capsys, *LAUNCH[1:])
    assert line == "cse: no such queue: kuberay.queue=nlq in namespace default; its queues: nlp"
    assert calls(server) == ["get"]
    Path("cluster.yaml").write_text(text.replace("queue: null  ", "queue: nlp"), encoding="utf8")
    assert "create" in launched(capsys)


def test_a_name_that_cannot_be_one_is_refused(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = refused(capsys, *LAUNCH[1:], "--name", "Mine_1")
    assert line.startswith("cse: wrong name: name=Mine_1; lower-case letters")


def test_a_dry_run_says_what_is_asked_of_the_cluster(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = launched(capsys, "--budget", "2 h, 50 runs", "--dry-run")
    first, rest = said.split("\n", 1)
    asked = "asks for 3 pods with 2 GPUs, 18 CPUs and 72 GB of memory; it ends after 120 min or 50 runs."
    assert first.startswith("# cse-e7-") and first.endswith(asked) and yaml.safe_load(rest)["kind"] == "RayJob"
    assert not (server / "calls").exists() and kuberay.STAYS
