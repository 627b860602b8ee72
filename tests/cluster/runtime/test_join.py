"""A cluster that cannot be joined: told in one line, on the command line too."""

import contextlib
import socket
from pathlib import Path

import pytest

from cluster.runtime.join import check_address, connect, problem
from cse.cli.app import main
from cse_train.fields import ConfigError

pytestmark = pytest.mark.usefixtures("without_ray")
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.50.0
    Python: 3.12.1
This process on node 10.0.0.2 was started with:
    Ray: 2.60.0
    Python: 3.11.9
"""


class AuthenticationError(Exception):
    """Named as Ray's own."""


def told(address: str) -> str:
    with pytest.raises(ConfigError) as caught:
        check_address(address)
    (line,) = caught.value.problems
    return line


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("address", ["head", "ray://head:10001", "http://head:8265", ":6379", "head:port", "host:99 "])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert told(address).startswith(f"wrong address: address={address}; give HOST:PORT")


def test_an_address_where_nothing_listens_is_named_at_once(closed_port: int) -> None:
    assert told(f"127.0.0.1:{closed_port}").startswith(f"no Ray cluster: address=127.0.0.1:{closed_port} (")


def test_both_versions_are_named_with_what_to_install() -> None:
    line = problem("head:6379", RuntimeError(MISMATCH))
    assert line.startswith("different versions: ray=2.60.0 python=3.11.9 here, ray=2.50.0 python=3.12.1 at head:6379; ")
    assert "pip install ray==2.50.0" in line and "\n" not in line


def test_an_open_port_that_lets_nobody_in_points_at_the_token() -> None:
    line = problem("head:6379", ConnectionError("Failed to connect to Ray cluster at head:6379"))
    assert line.startswith("no answer: address=head:6379 is open, ") and "RAY_AUTH_TOKEN" in line


def test_the_message_is_read_as_this_ray_writes_it() -> None:
    from ray._private.utils import check_version_info

    with pytest.raises(RuntimeError) as caught:
        check_version_info({"ray_version": "1.0", "python_version": "3.8.1"}, "node 10.0.0.2")
    assert "ray=1.0 python=3.8.1 at head:6379" in problem("head:6379", caught.value)


def test_a_refused_token_is_named() -> None:
    assert problem("head:1", AuthenticationError("no")).startswith("token refused: address=head:1; set RAY_AUTH_TOKEN")


def test_what_ray_raises_becomes_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def fails(**settings: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\nmore")

    monkeypatch.setattr(ray, "init", fails)
    with pytest.raises(ConfigError, match=r"^no Ray cluster: address=auto: Could not find any .* instance\.; start"):
        connect("auto")


def test_a_run_at_a_wrong_address_ends_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "version: 1\nid: mine\ntitle: mine\nmethod: simcse\nseeds: 1\nevaluate: [generated_dev]\n"
    text += "profile: small\nspace:\n  train.learning_rate: {grid: [1e-4]}\n"
    Path("mine.yaml").write_text(text, encoding="utf8")
    generated = ("--set", "train.corpus=generated", "--set", "train.dev=generated_dev:16")
    assert main(["run", "mine.yaml", *generated, "--address", f"127.0.0.1:{closed_port}"]) == 2
    said = capsys.readouterr()
    assert said.err.strip().splitlines()[-1].startswith("cse: no Ray cluster: address=127.0.0.1:")
    assert "Traceback" not in said.err + said.out


@pytest.mark.parametrize(("listens", "asked"), [("127.0.0.1", False), ("127.0.0.2", True)])
def test_a_cluster_on_loopback_alone_is_joined_there(
    monkeypatch: pytest.MonkeyPatch, listens: str, asked: bool
) -> None:
    """Ray would put the machine's own address in the place of 127.0.0.1, and wait there for minutes."""
    import ray
    from ray._private import ray_constants

    seen: list[bool] = []
    monkeypatch.setattr(ray, "init", lambda **settings: seen.append(ray_constants.ENABLE_RAY_CLUSTER))
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    monkeypatch.setattr("cluster.runtime.ray_internals.own_address", lambda: "127.0.0.2")
    monkeypatch.setattr("cluster.runtime.join.check_address", lambda address: None)
    with socket.create_server((listens, 0)) as server:
        connect(f"127.0.0.1:{server.getsockname()[1]}")
    assert seen == [asked]
