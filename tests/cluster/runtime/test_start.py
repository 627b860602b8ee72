"""A Ray that does not come up, and what its start leaves as it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.runtime.start import ALLOCATOR, WORKER_ENVIRONMENT, ray_cluster, worker_environment
from cse.cli import exit


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
