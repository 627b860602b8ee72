"""What can be wrong with a cluster, told by `cse run --address`: one line with its fix, exit code 2. Ray never starts.

`ray.init` raises what Ray raises; nodes answer what `cluster.runtime.storage.look` finds on such a machine.
"""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.runtime import storage
from cluster.runtime.resources import Node
from cluster.runtime.storage import PROBE, look
from cse.cli.app import main
from tests.commands import problems

pytestmark = pytest.mark.usefixtures("without_ray")
SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.encoder: words-l1-h64, train.corpus: file, train.dev: "generated_dev:16"}
space:
  method.temperature: {grid: [0.05]}
"""
NODE = "worker (10.0.0.2)"


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    Path("text.txt").write_text("a sentence\nand another\n" * 40, encoding="utf8")
    return tmp_path


@pytest.fixture
def head() -> Iterator[str]:
    """An address at which something listens."""
    with contextlib.closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def refused(capsys: pytest.CaptureFixture[str], address: str, *options: str) -> str:
    """The only complaint of a `cse run` on that cluster, which must not begin."""
    lines = problems(capsys, "run", "mine.yaml", "--train-file", "text.txt", "--address", address, *options)
    (line,) = [line for line in lines if re.match("cse: (?!corpus )", line)]
    return line


def authentication() -> None:
    from ray.exceptions import AuthenticationError

    raise AuthenticationError("Forbidden: deadbeef")


def version() -> None:
    from ray._private.utils import check_version_info

    check_version_info({"ray_version": "2.50.0", "python_version": "3.12.1"}, "node 10.0.0.2")


def silence() -> None:
    raise ConnectionError("Failed to connect to Ray cluster at head:6379. Please check the token.")


@pytest.mark.parametrize(
    ("raising", "told", "advice"),
    [
        (authentication, "token refused: address=", "set RAY_AUTH_TOKEN to the cluster's"),
        (version, "different versions: ray=", "pip install ray==2.50.0"),
        (silence, "no answer: address=", "set RAY_AUTH_TOKEN to the cluster's"),
    ],
)
def test_a_cluster_that_lets_nobody_in(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    raising: Callable[[], None],
    told: str,
    advice: str,
) -> None:
    monkeypatch.setattr("ray.init", lambda **settings: raising())
    line = refused(capsys, head)
    assert line.startswith(f"cse: {told}") and advice in line and "deadbeef" not in line


def test_another_ray_behind_the_job_client_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray
    from ray import job_submission

    Path("cluster.yaml").write_text("version: 1\nname: a\nstorage: /a\nray_job: {address: 'http://head:8265'}\n")
    other = SimpleNamespace(_server_ray_version="2.50.0")
    monkeypatch.setattr(job_submission, "JobSubmissionClient", lambda address: other)
    assert main(["launch", "ray-job", "E7"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cse: Ray versions differ: here={ray.__version__} cluster=2.50.0; install ray==2.50.0")


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch, head: str) -> Callable[..., str]:
    """`joined(state)`: the address of a cluster whose second node is in that state; `nodes` are what Ray counts."""

    def cluster(state: Callable[..., Any] = look, nodes: tuple[Node, ...] = ()) -> str:
        roomy = (Node(cpus=4, gpus=0, memory_gb=16, name="head", head=True),)
        monkeypatch.setattr("cluster.sweep.run_sweep.ray_cluster", lambda *given, **settings: contextlib.nullcontext())
        for module in ("run_sweep", "places"):
            monkeypatch.setattr(f"cluster.sweep.{module}.cluster_nodes", lambda: nodes or roomy)
        monkeypatch.setattr(storage, "other_nodes", lambda: {"id": NODE})
        monkeypatch.setattr(storage, "run_on_nodes", lambda nodes, function, *given: {NODE: state(*given)})
        return head

    return cluster


def sees_another_folder(folder: str, token: str, inputs: list[str]) -> Any:
    return look(f"{folder}-of-its-own", token, inputs)


def has_no_data(folder: str, token: str, inputs: list[str]) -> Any:
    return look(folder, token, [f"{path}.absent" for path in inputs])


def has_no_code(folder: str, token: str, inputs: list[str]) -> str:
    return "ModuleNotFoundError: No module named 'cluster'"


@pytest.mark.parametrize(
    ("state", "told", "advice"),
    [
        (sees_another_folder, f"storage not shared: node={NODE} storage=", "mount one shared folder"),
        (has_no_data, f"node without data: node={NODE} path=", "copy or mount it there"),
        (has_no_code, f"node without our code: node={NODE} (ModuleNotFoundError", "install the same cse-search"),
    ],
)
def test_a_node_that_cannot_take_part_is_named(
    capsys: pytest.CaptureFixture[str], joined: Callable[..., str], state: Callable[..., Any], told: str, advice: str
) -> None:
    line = refused(capsys, joined(state))
    assert line.startswith(f"cse: {told}") and advice in line
    assert not list(Path("results").glob(f"{PROBE}*")), "the check leaves nothing"


def test_a_cluster_without_the_gpus_that_a_run_needs(
    capsys: pytest.CaptureFixture[str], joined: Callable[..., str]
) -> None:
    line = refused(capsys, joined(), "--gpus-per-worker", "0.5")
    assert line.startswith("cse: no GPU: gpus_per_worker=0.5; there: head 4 CPUs, 0 GPUs, ")
    assert "start Ray on a machine with GPUs" in line
