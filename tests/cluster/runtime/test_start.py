"""A Ray that does not come up, and what its start leaves as it was; its head, its token, and what its ranks see."""

import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from cluster.runtime import processes, ray_internals, start
from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import HEAD_RESOURCE
from cluster.runtime.start import (
    ALLOCATOR,
    WORKER_ENVIRONMENT,
    ClusterLost,
    cluster_watch,
    keep_token_private,
    ray_cluster,
    require_token,
    worker_environment,
)
from cluster.slots.worker_group import backend
from cluster.sweep.places import slot_bundle
from cse.cli import exit
from cse.cli.app import main
from cse_train.fields import ConfigError


@pytest.mark.usefixtures("without_ray")
def test_a_ray_that_does_not_come_up_is_tried_twice_and_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried, user, storage = [], tmp_path / "user", tmp_path / "results" / "deep"
    (user / "analysis").mkdir(parents=True)
    monkeypatch.chdir(user)

    def times_out(**settings: Any) -> None:
        tried.append((settings["address"], Path.cwd()))
        raise Exception("The current node timed out during startup.\nmore of it")

    def command() -> None:
        with ray_cluster(storage):
            pytest.fail("there is no cluster")

    monkeypatch.setattr("ray.init", times_out)
    assert exit.run_to_end(command) == exit.SOME_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: Ray did not start: load ")
    assert "The current node timed out during startup); " in line and "same command again" in line
    assert tried == [("local", storage)] * 2, "away from a folder that may hide our packages"
    assert Path.cwd() == user


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize("ours", [lambda number, frame: None, signal.SIG_DFL])
def test_a_sigterm_while_ray_starts_is_for_our_handler_where_there_is_one(
    ours: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def rays(number: int, frame: Any) -> None:
        """Ends the process at once."""

    monkeypatch.setattr("ray.init", lambda **settings: ray._private.utils.set_sigterm_handler(rays))
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with ray_cluster(tmp_path):
            assert signal.getsignal(signal.SIGTERM) is (rays if ours == signal.SIG_DFL else ours)
        signal.signal(signal.SIGTERM, ours)
        ray._private.utils.set_sigterm_handler(rays)
        assert signal.getsignal(signal.SIGTERM) is rays, "Ray's own way is back"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ranks_get_what_nccl_and_torchs_allocator_were_told_where_the_command_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {
        "NCCL_SOCKET_IFNAME": "eth0",
        "TORCH_NCCL_BLOCKING_WAIT": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "HF_HOME": "/models",
    }
    for name in [name for name in os.environ if name.endswith("ALLOC_CONF")]:
        monkeypatch.delenv(name)
    for name, value in (given | {"MY_NCCL_KEY": "x", "NCCL": "x", "PYTORCH_JIT": "0"}).items():
        monkeypatch.setenv(name, value)
    had = worker_environment()
    assert had.items() >= (given | WORKER_ENVIRONMENT).items()
    assert had["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert not {"MY_NCCL_KEY", "NCCL", "PYTORCH_JIT"} & set(had)
    monkeypatch.setattr("cluster.runtime.start.is_wsl", lambda: True)
    assert "PYTORCH_ALLOC_CONF" not in worker_environment(), "there the first allocation may fail"
    monkeypatch.setattr("cluster.runtime.start.is_wsl", lambda: False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    had = worker_environment()
    assert had["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:128" and "PYTORCH_ALLOC_CONF" not in had


def test_this_torch_reads_the_allocators_variable() -> None:
    """By the name that 2.11 and later have for every kind of card; a word that it does not know is refused."""
    code = "import torch; torch._C._accelerator_setAllocatorSettings({!r})"
    (setting,) = ALLOCATOR.values()
    assert subprocess.run([sys.executable, "-c", code.format(setting)], timeout=120).returncode == 0
    library = Path(torch.__path__[0], "lib", "libc10.so")
    assert all(name.encode() in library.read_bytes() for name in ALLOCATOR)


ALIVE = [{"Alive": True, "Resources": {HEAD_RESOURCE: 1.0}}]
Nodes = list[dict[str, Any]]
DEAD: Nodes = [{"Alive": False, "Resources": {}}, {"Alive": True, "Resources": {"CPU": 4.0}}]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Nodes]], None]:
    """Lets a watch that is fast ask this function for the cluster's nodes."""
    monkeypatch.setattr(start, "HEAD_POLL_SECONDS", 0.01)
    monkeypatch.setattr(start, "HEAD_GRACE_SECONDS", 0.2)
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    return lambda asked: monkeypatch.setattr("ray.nodes", asked)


def watched(answers: Iterator[Nodes], nodes: Callable[[Callable[[], Nodes]], None], wait_s: float) -> bool:
    """Whether a watch over these answers, a dead head after the last, ends the sweep within the time."""
    over = threading.Event()
    nodes(lambda: next(answers, DEAD))
    with cluster_watch(over):
        return over.wait(wait_s)


def test_without_a_head_for_the_grace_the_sweep_ends(nodes) -> None:
    with pytest.raises(ClusterLost, match="the same command continues"):
        watched(iter([ALIVE, ALIVE]), nodes, 10)


def test_a_head_that_comes_back_in_time_ends_nothing(nodes) -> None:
    answers = iter((DEAD, ALIVE) * 200)
    assert watched(answers, nodes, 0.5) is False


def test_a_ray_that_raises_is_a_lost_one_and_another_error_goes_first(nodes) -> None:
    over = threading.Event()

    def gone() -> Nodes:
        raise ConnectionError("no head")

    nodes(gone)

    def failing() -> None:
        with cluster_watch(over):
            over.wait(10)
            raise KeyError("the sweep's own")

    with pytest.raises(KeyError):
        failing()
    assert over.is_set()


def test_no_cluster_starts_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    require_token()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigError, match="no token: RAY_AUTH_MODE=disabled.*; unset RAY_AUTH_MODE"):
        require_token()


def test_a_token_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    keep_token_private(tmp_path)
    token = tmp_path / ".ray" / "auth_token"
    made = token.read_text(encoding="utf8")
    assert len(made) == 64 and token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    keep_token_private(tmp_path)
    assert token.read_text(encoding="utf8") == made and token.stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_hold_the_token_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of HOME: root may write into every folder."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.write_text("", encoding="utf8")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(ConfigError, match=f"no home: HOME={home} cannot hold Ray's token.*set HOME to a folder"):
        keep_token_private()


def test_a_sweep_without_a_token_is_refused_before_ray_starts(
    without_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    space = "version: 1\nid: T\nmethod: simcse\nseeds: 1\nspace: {train.dropout: {grid: [0.1]}}\n"
    Path("mine.yaml").write_text(space, encoding="utf8")
    pairs = ("train.corpus=file", "train.dev=generated_dev:16", "train.encoder=words-l1-h64")
    settings = [part for pair in pairs for part in ("--set", pair)]
    assert main(["run", "mine.yaml", "--train-file", "text.txt", *settings]) == 2
    assert "cse: no token: RAY_AUTH_MODE=disabled" in capsys.readouterr().err


@pytest.mark.slow
def test_other_machines_reach_no_port_of_it(ray_cluster: None) -> None:
    session = ray_internals.session_folder()
    assert session is not None
    sockets = {
        (process.pid, socket.laddr.ip)
        for process in processes._list_processes(session)
        for socket in process.net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    }
    assert len({pid for pid, _ in sockets}) >= 4, "head, raylet, dashboard and driver"
    addresses = [ipaddress.ip_address(address) for _, address in sockets]
    assert all((getattr(address, "ipv4_mapped", None) or address).is_loopback for address in addresses)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/jobs/", "/api/version", "/api/cluster_status", "/nodes?view=summary"])
def test_a_call_without_the_token_or_with_a_wrong_one_is_refused(ray_cluster: None, path: str) -> None:
    url = f"http://{ray_internals.dashboard()}{path}"
    for headers in ({}, {"Authorization": f"Bearer {'0' * 64}"}):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20)
        assert refused.value.code in (401, 403)


@pytest.mark.slow
def test_a_job_without_the_token_is_refused(ray_cluster: None) -> None:
    url = f"http://{ray_internals.dashboard()}/api/jobs/"
    body = json.dumps({"entrypoint": "touch ran"}).encode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=20)
    assert refused.value.code in (401, 403)


@pytest.mark.slow
def test_slots_sit_on_the_head_and_take_no_cpu(ray_cluster: None) -> None:
    bundle = slot_bundle(SweepOptions(storage=Path("x")), 1)
    assert bundle == {HEAD_RESOURCE: 0.001, "trial_slot": 1, "memory": int(0.6 * 2**30)}


@pytest.mark.slow
def test_a_rank_without_a_card_sees_none(ray_cluster: None) -> None:
    """Ray 2.60 leaves CUDA_VISIBLE_DEVICES alone for zero GPUs; a rank would then train on one not given to it."""
    import ray

    @ray.remote(num_cpus=0)
    def visible() -> str | None:
        import os

        return os.environ.get("CUDA_VISIBLE_DEVICES")

    assert ray.get(visible.remote(), timeout=120) == ""


def test_ranks_with_cards_talk_through_nccl_and_gloo_together() -> None:
    from ray.train.torch.config import _is_backend_nccl

    assert backend(0) == "gloo"
    assert backend(0.5) == "cpu:gloo,cuda:nccl" and _is_backend_nccl(backend(0.5))
